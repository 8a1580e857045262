//! Image gateway: accepted input, processing, and visibility.

use mediary::domain::ids::TaskId;
use serde_json::Value;

use crate::support::eventually::eventually_on;
use crate::support::{TestApp, TestUser};

mod access;
mod fetched;
mod forms;
mod inputs;
mod parameters;
mod poller;
mod refusals;
mod results;
mod tasks;

pub const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";
pub const PRECISION: &str = "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2";
pub const STYLE: &str = "/proxy/imagevendor/v1/ai/image-style-transfer";
pub const SKIN: &str = "/proxy/imagevendor/v1/ai/skin-enhancer";
pub const RELIGHT: &str = "/proxy/imagevendor/v1/ai/image-relight";

/// Submits a valid job and returns its id, whether or not the response is wrapped.
pub async fn submit(app: &TestApp, user: &TestUser, path: &str, body: Value) -> String {
    let response = app.post_as(&user.token, path, body).await.expect(200).json();
    let task = response.get("data").unwrap_or(&response);
    task["task_id"].as_str().expect("a task id").to_owned()
}

/// Waits until a task has ended and returns it as its owner reads it below this path.
pub async fn wait_for_end(app: &TestApp, user: &TestUser, path: &str, task: &str) -> Value {
    let (models, id) = (app.app.models(), TaskId::parse(task).expect("a task id"));
    let has_ended = async || models.task(id).await.expect("readable").expect("known").is_terminal();
    eventually_on(models.task_changes(), "the task ends", has_ended).await;
    app.get_as(&user.token, &format!("{path}/{task}")).await.expect(200).json()["data"].clone()
}

/// Returns the file of the only result of a successful task.
async fn result_of(app: &TestApp, finished: &Value) -> Vec<u8> {
    assert_eq!(finished["status"], "COMPLETED", "{finished}");
    let generated = finished["generated"].as_array().expect("a list");
    assert_eq!(generated.len(), 1, "{finished}");
    let url = generated[0].as_str().expect("a URL");
    let path = url.strip_prefix(&app.url("")).expect("a URL of this service");
    app.get(path).await.expect(200).body
}

/// Submits a valid upscale and returns the resulting file.
async fn upscaled(app: &TestApp, user: &TestUser, body: Value) -> Vec<u8> {
    let task = submit(app, user, UPSCALER, body).await;
    result_of(app, &wait_for_end(app, user, UPSCALER, &task).await).await
}

/// Returns the number of files in the input area of the media store.
pub fn stored_inputs(app: &TestApp) -> usize {
    let folders = std::fs::read_dir(app.dir.path().join("media/inputs")).expect("the area of inputs");
    folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).expect("a folder of inputs").count()).sum()
}
