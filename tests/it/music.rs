//! Music gateway: form input, streamed lines, and the task of the stream.

use mediary::domain::ids::TaskId;
use reqwest::{Method, Response};
use serde_json::Value;

use crate::support::eventually::{eventually_on, within};
use crate::support::form::form;
use crate::support::{TestApp, TestUser};

mod early_end;
mod pool;
mod refusals;
mod repeated_requests;
mod stored;
mod stream;
mod vendor;
mod vendor_faults;

pub const GENERATE: &str = "/proxy/musicvendor/t2m/generate";

/// Client of a music stream, which reads it line by line.
pub struct MusicListener {
    response: Response,
    /// Bytes received after the last complete line.
    text: Vec<u8>,
    /// Id of the task of the stream.
    pub task: String,
}

impl MusicListener {
    /// Requests music, which must be accepted.
    pub async fn request(app: &TestApp, user: &TestUser, fields: &[(&str, &str)]) -> Self {
        let request = form(app.request(Method::POST, GENERATE).bearer_auth(&user.token), fields);
        Self::from_response(request.send().await.expect("a response"))
    }

    /// Reads a successful music response.
    pub fn from_response(response: Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        let task = response.headers()["x-task-id"].to_str().expect("an id").to_owned();
        Self { response, text: Vec::new(), task }
    }

    /// Returns the next non-empty line; `None` at the end.
    pub async fn line(&mut self) -> Option<Value> {
        within("a line or the end of the stream", self.read_line()).await
    }

    async fn read_line(&mut self) -> Option<Value> {
        loop {
            while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                if line.len() > 1 {
                    return Some(serde_json::from_slice(&line).expect("a JSON value per line"));
                }
            }
            let chunk = self.response.chunk().await;
            self.text.extend_from_slice(&chunk.ok()??);
        }
    }

    /// Returns all remaining lines.
    pub async fn collect(mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line);
        }
        lines
    }
}

/// Waits until a task has ended, and returns it as its owner sees it.
pub async fn wait_for_end(app: &TestApp, user: &TestUser, task: &str) -> Value {
    let (models, id) = (app.app.models(), TaskId::parse(task).expect("a task id"));
    let has_ended = async || models.task(id).await.expect("readable").expect("known").is_terminal();
    eventually_on(models.task_changes(), "the task ends", has_ended).await;
    app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json()
}

/// Returns the states of a task, in order.
pub fn states(task: &Value) -> Vec<&str> {
    task["history"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|change| change["state"].as_str().expect("a state"))
        .collect()
}
