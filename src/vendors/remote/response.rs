//! Meaning of the vendor's responses for a task; `docs/vendors.md` has the table. Pure.
//!
//! A submission is accepted, refused, or its outcome is unknown (contract 5). A response that does not clearly mean one
//! of the first two means the third.

use serde_json::Value;

use crate::domain::task::TaskFailure;
use crate::vendors::{VendorError, VendorErrorKind};

/// Maximum length of a vendor's job id, in characters.
const ID_MAX: usize = 150;
/// Maximum number of results of one job.
const RESULTS_MAX: usize = 16;
/// Maximum length of a vendor's message that is passed on, in characters.
const MESSAGE_MAX: usize = 400;

/// Progress of a job as reported by the vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageJobStatus {
    Running,
    /// URLs of the results.
    Done(Vec<String>),
    Failed(TaskFailure),
    /// Unknown to the vendor.
    Lost,
}

/// Returns the vendor's id of an accepted job.
pub(super) fn parse_submission(status: u16, body: &[u8]) -> Result<String, VendorError> {
    match status {
        200..=299 => {
            let task = extract_task(body);
            let id = task.as_ref().and_then(extract_job_id);
            id.ok_or_else(|| {
                let description = describe_response(status, body);
                unknown_outcome(format!("the response to the submission has no task id ({description})"))
            })
        }
        _ => Err(submission_error(status, body)),
    }
}

/// Returns the error for a submission without a status of success.
pub(super) fn submission_error(status: u16, body: &[u8]) -> VendorError {
    let description = || describe_response(status, body);
    match status {
        408 | 425 | 429 | 503 => busy_error(&description()),
        _ if is_unserved(status) => unserved_error(&description()),
        // A vendor that supports keys may answer 409 while the first call with the key is in progress.
        409 | 500..=599 => unknown_outcome(format!("the vendor failed during the submission ({})", description())),
        _ => VendorError::new(VendorErrorKind::Refused, format!("the vendor rejected the job ({})", description())),
    }
}

/// Returns the progress of the job with this id.
pub(super) fn parse_poll(status: u16, body: &[u8], id: &str) -> Result<ImageJobStatus, VendorError> {
    Ok(parse_job_response(status, body, |body| parse_progress(body, id))?.unwrap_or(ImageJobStatus::Lost))
}

/// Returns the response about a job, parsed by `parse`; `None` if the vendor does not know the job.
pub(super) fn parse_job_response<T>(
    status: u16,
    body: &[u8],
    parse: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, VendorError> {
    match status {
        200..=299 => parse(body).map(Some).ok_or_else(|| {
            unknown_outcome(format!("the response about the task is unreadable ({})", describe_response(status, body)))
        }),
        404 | 410 => Ok(None),
        408 | 425 | 429 | 503 => Err(busy_error(&describe_response(status, body))),
        _ if is_unserved(status) => Err(unserved_error(&describe_response(status, body))),
        _ => Err(unknown_outcome(format!(
            "the vendor failed to report the status of the task ({})",
            describe_response(status, body)
        ))),
    }
}

/// Returns the id of the job that the vendor found by a key; `None` if it found none. Several jobs mean that the vendor
/// ignored the key.
pub(super) fn parse_search(status: u16, body: &[u8]) -> Result<Option<String>, VendorError> {
    let unreadable_error =
        || unknown_outcome(format!("the response to the search is unreadable ({})", describe_response(status, body)));

    match status {
        200..=299 => {
            let json: Value = serde_json::from_slice(body).map_err(|_| unreadable_error())?;
            let found = json.get("data").unwrap_or(&json);
            match found {
                Value::Null => Ok(None),
                Value::Array(tasks) if tasks.is_empty() => Ok(None),
                Value::Array(tasks) if tasks.len() > 1 => {
                    Err(unknown_outcome(format!("the vendor found {} tasks with one key", tasks.len())))
                }
                Value::Array(tasks) => tasks.iter().find_map(extract_job_id).map(Some).ok_or_else(unreadable_error),
                task => extract_job_id(task).map(Some).ok_or_else(unreadable_error),
            }
        }
        404 | 410 => Ok(None),
        408 | 425 | 429 | 503 => Err(busy_error(&describe_response(status, body))),
        _ if is_unserved(status) => Err(unserved_error(&describe_response(status, body))),
        _ => Err(unknown_outcome(format!("the vendor failed during the search ({})", describe_response(status, body)))),
    }
}

/// Returns `Ok` if the response about a job that does not exist shows a working vendor: the job is rejected, or the
/// response is JSON.
pub(super) fn parse_health_check(status: u16, body: &[u8]) -> Result<(), VendorError> {
    match status {
        400 | 404 | 410 | 422 => Ok(()),
        200..=299 if serde_json::from_slice::<Value>(body).is_ok() => Ok(()),
        408 | 425 | 429 | 503 => Err(busy_error(&describe_response(status, body))),
        _ if is_unserved(status) => Err(unserved_error(&describe_response(status, body))),
        _ => Err(unknown_outcome(format!("the vendor failed the health check ({})", describe_response(status, body)))),
    }
}

/// Returns `true` for wrong credentials, credit or address: nothing was started, and the task is not at fault.
fn is_unserved(status: u16) -> bool {
    matches!(status, 300..=399 | 401 | 402 | 403 | 404 | 405 | 407)
}

fn unserved_error(message: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Unserved, format!("the vendor rejects this service ({message})"))
}

fn busy_error(message: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Busy, format!("the vendor is at capacity ({message})"))
}

pub(super) fn unknown_outcome(message: String) -> VendorError {
    VendorError::new(VendorErrorKind::Unknown, message)
}

/// Returns the task in a response, unwrapped from `data` as most endpoints need (seed).
fn extract_task(body: &[u8]) -> Option<Value> {
    let mut json: Value = serde_json::from_slice(body).ok()?;
    let task = json.get_mut("data").map(Value::take).unwrap_or(json);
    task.is_object().then_some(task)
}

fn extract_job_id(task: &Value) -> Option<String> {
    let id = task.get("task_id")?.as_str()?;
    let is_usable = !matches!(id, "" | "." | "..") && id.chars().count() <= ID_MAX && !id.chars().any(char::is_control);
    is_usable.then(|| id.to_owned())
}

/// Returns `None` if the response is about another job or has unexpected types. An unknown status means that the job
/// has not ended.
fn parse_progress(body: &[u8], id: &str) -> Option<ImageJobStatus> {
    let task = extract_task(body)?;
    if task.get("task_id").is_some_and(|echoed_id| echoed_id.as_str() != Some(id)) {
        return None;
    }
    match task.get("status")?.as_str()? {
        "COMPLETED" => Some(ImageJobStatus::Done(parse_result_urls(&task)?)),
        "FAILED" => Some(ImageJobStatus::Failed(parse_failure(&task))),
        _ => Some(ImageJobStatus::Running),
    }
}

fn parse_result_urls(task: &Value) -> Option<Vec<String>> {
    let generated = task.get("generated")?.as_array()?;
    let urls: Option<Vec<_>> = generated.iter().map(|url| url.as_str().map(str::to_owned)).collect();
    urls.filter(|urls| (1..=RESULTS_MAX).contains(&urls.len()))
}

/// Returns the failure reported by the vendor.
pub(super) fn parse_failure(task: &Value) -> TaskFailure {
    let message = extract_message(task).unwrap_or_else(|| "no reason given".to_owned());
    TaskFailure::new("vendor_failed", &format!("the vendor failed: {message}"))
}

/// Describes a response: its status, and its message if there is one.
fn describe_response(status: u16, body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok().as_ref().and_then(extract_message);
    message.map_or_else(|| format!("status {status}"), |message| format!("status {status}: {message}"))
}

fn extract_message(value: &Value) -> Option<String> {
    let nested = value.get("error").filter(|error| error.is_object());
    let fields = ["message", "detail", "error", "title"];
    let text = nested.into_iter().chain([value]).find_map(|value| {
        fields.iter().find_map(|name| value.get(name)?.as_str()).filter(|text| !text.trim().is_empty())
    })?;
    Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorded response and its meaning.
    #[derive(serde::Deserialize)]
    struct RecordedImageResponse {
        name: String,
        status: u16,
        body: Value,
        submitted: String,
        polled: String,
        found: String,
    }

    fn describe_meaning<T: std::fmt::Debug>(meaning: Result<T, VendorError>) -> String {
        meaning.map_or_else(|error| format!("{:?}: {error}", error.kind), |parsed| format!("{parsed:?}"))
    }

    #[test]
    fn every_recorded_response_has_the_recorded_meaning() {
        let recordings: Vec<RecordedImageResponse> =
            serde_json::from_str(include_str!("../../../tests/golden/vendor/answers.json")).unwrap();
        assert!(recordings.len() > 20);

        let mut differences = Vec::new();

        for RecordedImageResponse { name, status, body, submitted, polled, found } in recordings {
            // Text represents bodies that are not JSON.
            let body = if let Value::String(text) = &body { text.clone() } else { body.to_string() };
            let body = body.as_bytes();
            let meanings = [
                describe_meaning(super::parse_submission(status, body)),
                describe_meaning(super::parse_poll(status, body, "3f2c")),
                describe_meaning(super::parse_search(status, body)),
            ];
            if meanings != [submitted, polled, found] {
                differences.push(format!("{name}: {meanings:#?}"));
            }
        }

        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }

    #[test]
    fn a_health_check_passes_on_json_and_on_rejections() {
        let is_healthy = |status, body: &str| parse_health_check(status, body.as_bytes()).is_ok();
        assert!(
            is_healthy(404, "<html>") && is_healthy(400, "") && is_healthy(200, r#"{"data": {"status": "FAILED"}}"#)
        );
        for (status, body) in
            [(200, "<html>"), (200, ""), (301, ""), (401, "{}"), (403, "{}"), (429, "{}"), (500, "{}")]
        {
            assert!(!is_healthy(status, body), "{status} {body}");
        }
    }

    #[test]
    fn no_meaningless_response_repeats_or_fails_a_task() {
        for status in 100..=599 {
            for body in ["", "{", "null", "[]", "{}", "\"x\"", "{\"data\":null}", "{\"data\":[1]}", "<html>"] {
                let body = body.as_bytes();
                if let Err(error) = parse_submission(status, body)
                    && (200..=299).contains(&status)
                {
                    assert_eq!(error.kind, VendorErrorKind::Unknown, "{status}");
                }
                let polled = parse_poll(status, body, "3f2c");
                assert!(!matches!(polled, Ok(ImageJobStatus::Done(_) | ImageJobStatus::Failed(_))), "{status}");
                assert!(!matches!(polled, Err(error) if error.kind == VendorErrorKind::Refused), "{status}");
            }
        }
    }
}
