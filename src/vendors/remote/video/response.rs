//! Meaning of the vendor's creations response for a task. Pure.

use serde_json::Value;

use super::super::response::{parse_failure, parse_job_response};
use crate::domain::task::{TaskFailure, VideoState};
use crate::vendors::VendorError;

/// Progress of a job as reported by the vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VideoJobStatus {
    Queued,
    /// Done to this many thousandths, if reported.
    Running {
        permille: Option<u16>,
    },
    Done(VideoResultUrls),
    Failed(TaskFailure),
    /// Unknown to the vendor.
    Lost,
}

/// Location of the video: the first one, because each job makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VideoResultUrls {
    pub id: Option<String>,
    pub url: String,
    pub cover_url: Option<String>,
    pub watermarked_url: Option<String>,
}

/// Returns the progress of the job with this id.
pub(super) fn parse_poll(status: u16, body: &[u8], id: &str) -> Result<VideoJobStatus, VendorError> {
    Ok(parse_job_response(status, body, |body| parse_progress(body, id))?.unwrap_or(VideoJobStatus::Lost))
}

/// Returns `None` if the response is about another job or has unexpected types.
fn parse_progress(body: &[u8], id: &str) -> Option<VideoJobStatus> {
    let task: Value = serde_json::from_slice(body).ok()?;
    if task.get("id").is_some_and(|echoed_id| echoed_id.as_str() != Some(id)) {
        return None;
    }
    let state = task.get("state")?.as_str()?;
    Some(match VideoState::parse(state) {
        Ok(VideoState::Success) => VideoJobStatus::Done(parse_result_urls(&task)?),
        Ok(VideoState::Failed) => VideoJobStatus::Failed(parse_failure(&failure_source(&task))),
        Ok(VideoState::Processing) => VideoJobStatus::Running { permille: parse_permille(&task) },
        // An unknown state means that the job has not ended.
        Ok(VideoState::Created | VideoState::Queueing) | Err(_) => VideoJobStatus::Queued,
    })
}

/// Returns the progress in thousandths; `None` unless it is a number from 0 to 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that is checked")]
fn parse_permille(task: &Value) -> Option<u16> {
    let fraction = task.get("progress")?.as_f64().filter(|fraction| (0.0..=1.0).contains(fraction))?;
    Some((fraction * 1000.0) as u16)
}

fn parse_result_urls(task: &Value) -> Option<VideoResultUrls> {
    let creation = task.get("creations")?.as_array()?.first()?;
    let text = |name: &str| creation.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(VideoResultUrls {
        id: text("id").filter(|id| id.chars().count() <= 200 && !id.chars().any(char::is_control)),
        url: text("url")?,
        cover_url: text("cover_url"),
        watermarked_url: text("watermarked_url"),
    })
}

/// Returns the message, or the code if there is none.
fn failure_source(task: &Value) -> Value {
    let has_message = task.get("message").and_then(Value::as_str).is_some_and(|message| !message.trim().is_empty());
    if has_message { task.clone() } else { serde_json::json!({"message": task.get("err_code")}) }
}

#[cfg(test)]
mod tests {
    use super::super::super::response::parse_submission;
    use super::*;

    /// A recorded response and its meaning.
    #[derive(serde::Deserialize)]
    struct RecordedVideoResponse {
        name: String,
        status: u16,
        body: Value,
        submitted: String,
        polled: String,
    }

    fn describe_meaning<T: std::fmt::Debug>(meaning: Result<T, VendorError>) -> String {
        meaning.map_or_else(|error| format!("{:?}: {error}", error.kind), |parsed| format!("{parsed:?}"))
    }

    #[test]
    fn every_recorded_response_has_the_recorded_meaning() {
        let recordings: Vec<RecordedVideoResponse> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/video-answers.json")).unwrap();
        assert!(recordings.len() >= 15);

        let mut differences = Vec::new();

        for RecordedVideoResponse { name, status, body, submitted, polled } in recordings {
            // Text represents bodies that are not JSON.
            let body = if let Value::String(text) = &body { text.clone() } else { body.to_string() };
            let body = body.as_bytes();
            let meanings =
                [describe_meaning(parse_submission(status, body)), describe_meaning(parse_poll(status, body, "3f2c"))];
            if meanings != [submitted, polled] {
                differences.push(format!("{name}: {meanings:#?}"));
            }
        }

        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    #[test]
    fn no_meaningless_response_ends_a_task() {
        for status in 100..=599 {
            for body in ["", "{", "null", "[]", "{}", "\"x\"", "{\"state\":null}", "{\"state\":\"success\"}", "<html>"]
            {
                let polled = parse_poll(status, body.as_bytes(), "3f2c");
                assert!(!matches!(polled, Ok(VideoJobStatus::Done(_) | VideoJobStatus::Failed(_))), "{status} {body}");
            }
        }
    }
}
