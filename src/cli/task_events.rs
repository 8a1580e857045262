//! Follows the event stream of a task to its end.

use std::time::Duration;

use serde_json::Value;

use crate::outbound::api_client::{ApiClient, ServiceResponse};
use crate::outbound::client::CallFailure;

/// Maximum number of consecutive attempts to open the stream without receiving an event.
const CONNECTION_ATTEMPTS: usize = 20;
/// Pause before each attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Statuses of a service that is busy or starting.
const BUSY: [u16; 2] = [429, 503];

/// Reason why the end of a task is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum FollowError {
    #[error("the service responded to the request for the task with status {}", .0.status)]
    Refused(ServiceResponse),
    #[error(transparent)]
    Unreachable(CallFailure),
    #[error("the event stream of the task keeps breaking")]
    Broken,
    #[error("an event of the task is not JSON")]
    NotJson,
}

/// Follows a task to its end, calling `on_view` with the JSON of the task after each change, and returns the last JSON.
/// Resumes broken streams.
///
/// # Errors
/// If the service refuses, or stops responding.
pub(super) async fn follow_task(
    api: &ApiClient,
    task: &str,
    on_view: &mut impl FnMut(&Value),
) -> Result<Value, FollowError> {
    let mut last_seen = String::new();
    let mut attempts = 0;
    let mut failure = FollowError::Broken;

    while attempts < CONNECTION_ATTEMPTS {
        attempts += 1;
        match api.follow(&format!("/tasks/{task}/events"), &last_seen).await {
            Ok(Ok(mut feed)) => {
                while let Ok(Some(event)) = feed.next().await {
                    if event.kind == "failed" {
                        break;
                    }
                    attempts = 0;
                    let view: Value = serde_json::from_str(&event.data).map_err(|_| FollowError::NotJson)?;
                    on_view(&view);
                    if has_ended(&view) {
                        return Ok(view);
                    }
                }
                feed.last_id().clone_into(&mut last_seen);
            }
            // The task ended while the stream was broken: read its events again from the first one.
            Ok(Err(reply)) if reply.status == 204 => last_seen.clear(),
            Ok(Err(reply)) if BUSY.contains(&reply.status) => failure = FollowError::Refused(reply),
            Ok(Err(reply)) => return Err(FollowError::Refused(reply)),
            Err(unreachable) => failure = FollowError::Unreachable(unreachable),
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }

    Err(failure)
}

/// Returns `true` if the task has ended.
fn has_ended(task: &Value) -> bool {
    is_success(task) || is_failure(task)
}

/// Returns `true` if the task has its results.
pub(super) fn is_success(task: &Value) -> bool {
    matches!(task["state"].as_str(), Some("COMPLETED" | "success"))
}

/// Returns `true` if the task has failed.
pub(super) fn is_failure(task: &Value) -> bool {
    matches!(task["state"].as_str(), Some("FAILED" | "failed"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn final_states_of_images_and_videos_are_recognized() {
        for (state, expected) in [
            ("COMPLETED", (true, false)),
            ("success", (true, false)),
            ("FAILED", (false, true)),
            ("failed", (false, true)),
            ("IN_PROGRESS", (false, false)),
            ("queueing", (false, false)),
        ] {
            let task = json!({"state": state});
            assert_eq!((is_success(&task), is_failure(&task)), expected, "{state}");
            assert_eq!(has_ended(&task), expected.0 || expected.1, "{state}");
        }
    }
}
