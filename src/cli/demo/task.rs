//! Submits jobs and follows their event streams to the end.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::load::ensure_success;
use crate::outbound::api_client::{ApiClient, ServiceResponse};

/// Attempts to reopen a broken event stream.
const CONNECTION_ATTEMPTS: usize = 20;
/// Pause before each attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Maximum duration of a job.
const JOB_TIMEOUT: Duration = Duration::from_mins(30);

/// Result of a job.
pub(super) struct DemoJobResult {
    pub(super) task: String,
    /// URLs of the results.
    pub(super) results: Vec<String>,
}

impl DemoJobResult {
    /// Returns the first result.
    ///
    /// # Errors
    /// If there is no result.
    pub(super) fn into_first(self) -> anyhow::Result<String> {
        self.results.into_iter().next().context("the task has no result")
    }
}

/// Submits a job and follows it to its end, calling `on_progress` with the progress from 0 to 1. A second run within
/// a day returns the task of the first one, unless it failed.
///
/// # Errors
/// If the service does not respond, rejects or fails the job, or does not finish within half an hour.
pub(super) async fn run_job(
    api: &ApiClient,
    path: &str,
    body: &Value,
    on_progress: &mut impl FnMut(f64),
) -> anyhow::Result<DemoJobResult> {
    let submitted = api.create(path, body).await?;
    match wait_for_end(api, &submitted, on_progress).await {
        Err(_) if submitted.replayed => {
            wait_for_end(api, &api.create_without_key(path, body).await?, on_progress).await
        }
        result => result,
    }
}

async fn wait_for_end(
    api: &ApiClient,
    submitted: &ServiceResponse,
    on_progress: &mut impl FnMut(f64),
) -> anyhow::Result<DemoJobResult> {
    ensure_success(submitted, || "submission".to_owned())?;
    let submitted = submitted.json();
    let submitted = submitted.get("data").unwrap_or(&submitted);
    let task = submitted["task_id"].as_str().context("the response has no task id")?.to_owned();
    let results = tokio::time::timeout(JOB_TIMEOUT, follow_events(api, &task, on_progress)).await;
    let results = results.with_context(|| format!("task {task} did not finish within {JOB_TIMEOUT:?}"))??;
    Ok(DemoJobResult { task, results })
}

/// Reads the events of a task to the end, resuming broken streams.
async fn follow_events(api: &ApiClient, task: &str, on_progress: &mut impl FnMut(f64)) -> anyhow::Result<Vec<String>> {
    let mut last_seen = String::new();
    for _ in 0..CONNECTION_ATTEMPTS {
        match api.follow(&format!("/tasks/{task}/events"), &last_seen).await {
            Ok(Ok(mut feed)) => {
                while let Ok(Some(event)) = feed.next().await {
                    let view = serde_json::from_str(&event.data).context("an event of the task is not JSON")?;
                    if let Some(results) = results_if_ended(&view, on_progress)? {
                        return Ok(results);
                    }
                }
                feed.last_id().clone_into(&mut last_seen);
            }
            Ok(Err(reply)) => ensure_success(&reply, || format!("task {task}"))?,
            Err(failure) => tracing::debug!(%failure, "no events"),
        }
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
    bail!("the event stream of task {task} keeps breaking")
}

/// Returns the results once the task has ended.
fn results_if_ended(task: &Value, on_progress: &mut impl FnMut(f64)) -> anyhow::Result<Option<Vec<String>>> {
    on_progress(task["progress"].as_f64().unwrap_or_default());
    match task["state"].as_str() {
        Some("COMPLETED" | "success") => {
            let results = task["generated"].as_array().into_iter().flatten();
            Ok(Some(results.filter_map(|url| url.as_str().map(str::to_owned)).collect()))
        }
        Some("FAILED" | "failed") => bail!("the task failed: {}", task["error"]),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_task_is_followed_until_it_ends() {
        let mut seen = Vec::new();
        let mut outcome = |task: Value| {
            results_if_ended(&task, &mut |fraction| seen.push(fraction)).map_err(|failure| failure.to_string())
        };
        assert_eq!(outcome(json!({"state": "IN_PROGRESS", "progress": 0.5})), Ok(None));
        assert_eq!(outcome(json!({"state": "queueing", "progress": 0.1})), Ok(None));
        for state in ["COMPLETED", "success"] {
            let done = json!({"state": state, "progress": 1.0, "generated": ["u"]});
            assert_eq!(outcome(done), Ok(Some(vec!["u".to_owned()])));
        }
        for state in ["FAILED", "failed"] {
            let failed = json!({"state": state, "error": {"code": "x", "message": "too dark"}});
            assert!(outcome(failed).unwrap_err().contains("too dark"));
        }
        assert_eq!(seen, [0.5, 0.1, 1.0, 1.0, 0.0, 0.0]);
    }
}
