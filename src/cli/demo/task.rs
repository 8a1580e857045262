//! Pictures made by the service: submitted, waited for.

use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::load::expect;
use super::picture;
use crate::outbound::api::Api;

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
/// How long to wait between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// How often to ask: two minutes.
const QUESTIONS: usize = 600;

/// Has the picture scaled up, and gives the URL of the result. A second run within a day gets the first one's task.
///
/// # Errors
/// When the service does not answer, refuses, fails, or is not done within two minutes.
pub(super) async fn upscale(api: &Api) -> anyhow::Result<String> {
    let picture = STANDARD.encode(picture::png()?);
    let body = json!({
        "image": picture, "scale_factor": "4x", "engine": "premium_sparkle", "optimized_for": "nature_n_landscapes"
    });
    made(api, UPSCALER, &body).await
}

/// Submits a job and gives the URL of its result.
///
/// # Errors
/// When the service does not answer, refuses, fails, or is not done within two minutes.
pub(super) async fn made(api: &Api, path: &str, body: &Value) -> anyhow::Result<String> {
    let submitted = api.create(path, body).await?;
    expect(&submitted, || "the picture was not taken".to_owned())?;
    let submitted = submitted.json();
    let submitted = submitted.get("data").unwrap_or(&submitted);
    let task = submitted["task_id"].as_str().context("the answer names no task")?;
    for _ in 0..QUESTIONS {
        let reply = api.get(&format!("/tasks/{task}")).await?;
        expect(&reply, || format!("task {task}"))?;
        if let Some(result) = outcome(&reply.json())? {
            return Ok(result);
        }
        tokio::time::sleep(PAUSE).await;
    }
    bail!("task {task} is not done after {:?}", PAUSE * 600)
}

/// Where the result is, once there is one.
fn outcome(task: &Value) -> anyhow::Result<Option<String>> {
    match task["state"].as_str() {
        Some("COMPLETED") => {
            let result = task["generated"][0].as_str().context("the task is done and has no result")?;
            Ok(Some(result.to_owned()))
        }
        Some("FAILED") => bail!("the task failed: {}", task["error"]),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_waited_for_until_it_ends() {
        assert_eq!(outcome(&json!({"state": "IN_PROGRESS"})).unwrap(), None);
        let done = json!({"state": "COMPLETED", "generated": ["u"]});
        assert_eq!(outcome(&done).unwrap().as_deref(), Some("u"));
        let failed = json!({"state": "FAILED", "error": {"code": "x", "message": "too dark"}});
        assert!(outcome(&failed).unwrap_err().to_string().contains("too dark"));
    }
}
