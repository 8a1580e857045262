//! Request for a music job: the form of the seed's music interface. Pure.

use std::fmt::Write;

use crate::domain::music::{MusicSeconds, MusicWork};

/// Path below the vendor's base URL.
pub(super) const GENERATE_PATH: &str = "/proxy/musicvendor/t2m/generate";

/// Body of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MultipartBody {
    pub content_type: String,
    pub body: String,
}

/// Returns the form of a job. Its boundary is `mark`, extended until the prompt does not contain it.
pub(super) fn build_form(work: &MusicWork, mark: &str) -> MultipartBody {
    let mut boundary = mark.to_owned();

    while work.prompt.as_str().contains(&boundary) {
        boundary.push('-');
    }

    let duration = work.seconds.map(|seconds| MusicSeconds::get(seconds).to_string());
    let parts = [("prompt", Some(work.prompt.as_str())), ("duration", duration.as_deref())];
    let mut body = String::new();

    for (name, value) in parts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        // Writing to a string cannot fail.
        let _ = write!(body, "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }

    let _ = write!(body, "--{boundary}--\r\n");
    MultipartBody { content_type: format!("multipart/form-data; boundary={boundary}"), body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::music::MusicPrompt;
    use serde_json::{Value, json};

    /// The expected requests are recorded by hand from the seed's interface.
    #[test]
    fn every_request_is_as_recorded() {
        let recorded: Vec<Value> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/music-requests.json")).unwrap();
        let jobs = [("calm piano", Some(30)), ("a \"quoted\" line, in Größe: 大", None), ("a mark in it", Some(360))];
        let requests: Vec<_> = jobs
            .into_iter()
            .map(|(prompt, seconds)| {
                let prompt = MusicPrompt::from_recorded(prompt.to_owned());
                let seconds = seconds.map(|seconds| MusicSeconds::new(seconds).unwrap());
                let MultipartBody { content_type, body } = build_form(&MusicWork { prompt, seconds }, "mark");
                json!({"post": GENERATE_PATH, "content_type": content_type, "body": body})
            })
            .collect();

        assert_eq!(requests, recorded, "requested:\n{}", serde_json::to_string_pretty(&requests).unwrap());
    }
}
