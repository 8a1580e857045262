//! Meaning of the vendor's creations response for a task. Pure.

use serde_json::Value;

use super::super::answer::{failure, told};
use crate::domain::task::{Failure, VideoState};
use crate::vendors::VendorError;

/// Progress of a job as reported by the vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Polled {
    Queued,
    /// Done to this many thousandths, if reported.
    Running {
        permille: Option<u16>,
    },
    Done(Made),
    Failed(Failure),
    /// Unknown to the vendor.
    Lost,
}

/// Location of the video: the first one, because each job makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub id: Option<String>,
    pub url: String,
    pub cover_url: Option<String>,
    pub watermarked_url: Option<String>,
}

/// Returns the progress of the job with this id.
pub(super) fn polled(status: u16, body: &[u8], id: &str) -> Result<Polled, VendorError> {
    Ok(told(status, body, |body| progress(body, id))?.unwrap_or(Polled::Lost))
}

/// Returns `None` if the response is about another job or has unexpected types.
fn progress(body: &[u8], id: &str) -> Option<Polled> {
    let task: Value = serde_json::from_slice(body).ok()?;
    if task.get("id").is_some_and(|told| told.as_str() != Some(id)) {
        return None;
    }
    let state = task.get("state")?.as_str()?;
    Some(match VideoState::parse(state) {
        Ok(VideoState::Success) => Polled::Done(made(&task)?),
        Ok(VideoState::Failed) => Polled::Failed(failure(&reason(&task))),
        Ok(VideoState::Processing) => Polled::Running { permille: share(&task) },
        // An unknown state means that the job has not ended.
        Ok(VideoState::Created | VideoState::Queueing) | Err(_) => Polled::Queued,
    })
}

/// Returns the progress in thousandths; `None` unless it is a number from 0 to 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that is checked")]
fn share(task: &Value) -> Option<u16> {
    let share = task.get("progress")?.as_f64().filter(|share| (0.0..=1.0).contains(share))?;
    Some((share * 1000.0) as u16)
}

fn made(task: &Value) -> Option<Made> {
    let creation = task.get("creations")?.as_array()?.first()?;
    let text = |name: &str| creation.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some(Made {
        id: text("id").filter(|id| id.chars().count() <= 200 && !id.chars().any(char::is_control)),
        url: text("url")?,
        cover_url: text("cover_url"),
        watermarked_url: text("watermarked_url"),
    })
}

/// Returns the message, or the code if there is none.
fn reason(task: &Value) -> Value {
    let has_message = task.get("message").and_then(Value::as_str).is_some_and(|message| !message.trim().is_empty());
    if has_message { task.clone() } else { serde_json::json!({"message": task.get("err_code")}) }
}

#[cfg(test)]
mod tests {
    use super::super::super::answer::submitted;
    use super::*;

    /// A recorded response and its meaning.
    #[derive(serde::Deserialize)]
    struct Recording {
        name: String,
        status: u16,
        body: Value,
        submitted: String,
        polled: String,
    }

    fn shown<T: std::fmt::Debug>(meaning: Result<T, VendorError>) -> String {
        meaning.map_or_else(|error| format!("{:?}: {error}", error.kind), |told| format!("{told:?}"))
    }

    #[test]
    fn every_recorded_answer_means_what_is_recorded() {
        let recordings: Vec<Recording> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/video-answers.json")).unwrap();
        assert!(recordings.len() >= 15);

        let mut differences = Vec::new();

        for Recording { name, status, body, submitted: as_submitted, polled: as_polled } in recordings {
            // Text represents bodies that are not JSON.
            let body = if let Value::String(text) = &body { text.clone() } else { body.to_string() };
            let body = body.as_bytes();
            let meant = [shown(submitted(status, body)), shown(polled(status, body, "3f2c"))];
            if meant != [as_submitted, as_polled] {
                differences.push(format!("{name}: {meant:#?}"));
            }
        }

        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    #[test]
    fn no_answer_whatever_ends_a_task_by_accident() {
        for status in 100..=599 {
            for body in ["", "{", "null", "[]", "{}", "\"x\"", "{\"state\":null}", "{\"state\":\"success\"}", "<html>"]
            {
                let polled = polled(status, body.as_bytes(), "3f2c");
                assert!(!matches!(polled, Ok(Polled::Done(_) | Polled::Failed(_))), "{status} {body}");
            }
        }
    }
}
