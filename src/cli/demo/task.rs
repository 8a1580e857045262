//! Submits jobs and follows them to their end.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::load::ensure_success;
use crate::cli::task_events::{follow_task, is_failure};
use crate::outbound::api_client::{ApiClient, ServiceResponse};

/// Maximum duration of a job.
const JOB_TIMEOUT: Duration = Duration::from_mins(30);

/// Result of a job.
pub(super) struct DemoJobResult {
    pub(super) task: String,
    /// URLs of the results.
    pub(super) results: Vec<String>,
}

impl DemoJobResult {
    /// Returns the URL of the first result.
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
    let mut on_view = |view: &Value| on_progress(view["progress"].as_f64().unwrap_or_default());
    let ended = tokio::time::timeout(JOB_TIMEOUT, follow_task(api, &task, &mut on_view)).await;
    let ended = ended.with_context(|| format!("task {task} did not finish within {JOB_TIMEOUT:?}"))??;
    Ok(DemoJobResult { task, results: result_urls(&ended)? })
}

/// Returns the URLs of the results of a task that has ended.
///
/// # Errors
/// If the task failed.
fn result_urls(task: &Value) -> anyhow::Result<Vec<String>> {
    ensure!(!is_failure(task), "the task failed: {}", task["error"]);
    let results = task["generated"].as_array().into_iter().flatten();
    Ok(results.filter_map(|url| url.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_has_results_or_a_reason() {
        for state in ["COMPLETED", "success"] {
            let done = json!({"state": state, "progress": 1.0, "generated": ["u"]});
            assert_eq!(result_urls(&done).unwrap(), ["u"]);
        }
        for state in ["FAILED", "failed"] {
            let failed = json!({"state": state, "error": {"code": "x", "message": "too dark"}});
            assert!(result_urls(&failed).unwrap_err().to_string().contains("too dark"));
        }
    }
}
