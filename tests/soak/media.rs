//! Clients of the gateways: images and videos with idempotency keys, each with its own prompt, and streams of music.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_local};

use crate::load::UPSCALER;
use crate::registry::REPEAT;
use crate::support::form::form;
use crate::support::picture;
use crate::traffic::{Reply, Submitted, Traffic};

const START_END: &str = "/proxy/videovendor/start-end2video";
const GENERATE: &str = "/proxy/musicvendor/t2m/generate";
const IMAGE_INTERVAL: Duration = Duration::from_millis(500);
const VIDEO_INTERVAL: Duration = Duration::from_secs(1);
const MUSIC_INTERVAL: Duration = Duration::from_secs(2);
/// Pause after a stream that was rejected or interrupted.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Deadline of a stream.
const STREAM_DEADLINE: Duration = Duration::from_mins(1);

/// Starts the clients: each account submits images, the first one videos and music too.
pub fn spawn(traffic: &Rc<Traffic>) -> Vec<JoinHandle<()>> {
    let images = (0..traffic.accounts.len()).map(|account| spawn_local(submit(traffic.clone(), account, false)));
    let videos = spawn_local(submit(traffic.clone(), 0, true));
    let music = spawn_local(request_music(traffic.clone()));
    images.chain([videos, music]).collect()
}

/// Submits images or videos, each until it is acknowledged. Some submissions are repeated with the same idempotency
/// key, and must have the same task.
async fn submit(traffic: Rc<Traffic>, account: usize, is_video: bool) {
    let picture = picture::base64_png(24, 24);
    let interval = if is_video { VIDEO_INTERVAL } else { IMAGE_INTERVAL };
    for turn in 0_u64.. {
        if !traffic.is_running() {
            return;
        }
        let prompt = format!("{}-{account}-{turn}", if is_video { "video" } else { "image" });
        let (path, body) = if is_video {
            let body = json!({"prompt": format!("rain {prompt}"), "model": "vq2-turbo", "duration": 1, "callback_url": traffic.webhook});
            (START_END, body)
        } else {
            (UPSCALER, json!({"prompt": prompt, "image": picture, "webhook_url": traffic.webhook}))
        };

        let attempts = if turn.is_multiple_of(REPEAT) { 2 } else { 1 };
        let mut task: Option<String> = None;
        for _ in 0..attempts {
            let reply = send(&traffic, account, path, &prompt, &body).await;
            match (reply.status, task_of(&reply)) {
                (200, Some(id)) if task.as_ref().is_none_or(|task| *task == id) => task = Some(id),
                (status, id) => {
                    traffic.add_violation(format!("{prompt}: {status}, task {id:?} after {task:?}: {}", reply.body));
                }
            }
        }

        if let Some(id) = task {
            traffic.count(if is_video { "videos" } else { "images" });
            let submitted = Submitted { segment: traffic.segment(), id, prompt, is_video };
            traffic.acknowledged.borrow_mut().tasks.push(submitted);
        }
        tokio::time::sleep(interval).await;
    }
}

/// Sends a submission, with the prompt as idempotency key.
async fn send(traffic: &Traffic, account: usize, path: &str, prompt: &str, body: &Value) -> Reply {
    let token = &traffic.accounts[account];
    traffic
        .send_until_answered(|client, base| {
            let request = client.post(format!("{base}{path}")).bearer_auth(token).json(body);
            request.header("idempotency-key", prompt)
        })
        .await
}

/// Returns the task id in the response to a submission.
fn task_of(reply: &Reply) -> Option<String> {
    let body = reply.body.get("data").unwrap_or(&reply.body);
    body["task_id"].as_str().map(str::to_owned)
}

/// Requests music, one stream after another, and records the outcome of each complete stream.
async fn request_music(traffic: Rc<Traffic>) {
    while traffic.is_running() {
        match tokio::time::timeout(STREAM_DEADLINE, read_stream(&traffic)).await {
            Ok(Some((task, last_line))) => {
                let completed = last_line == "complete";
                traffic.count(if completed { "streams of music" } else { "failed streams of music" });
                traffic.acknowledged.borrow_mut().music.push((task, completed));
                tokio::time::sleep(MUSIC_INTERVAL).await;
            }
            Ok(None) => {
                traffic.count("streams rejected or cut off");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(_) => {
                traffic.add_violation(format!("a stream of music did not end within {} s", STREAM_DEADLINE.as_secs()));
            }
        }
    }
}

/// Requests music, and reads the stream to its end. Returns the task and the type of the last line, `complete` or
/// `error`; `None` if the request was rejected or the stream interrupted.
async fn read_stream(traffic: &Traffic) -> Option<(String, String)> {
    let (client, base) = traffic.target().await;
    let request = client.post(format!("{base}{GENERATE}")).bearer_auth(&traffic.accounts[0]);
    let response = form(request, &[("prompt", "calm piano"), ("duration", "2")]).send().await.ok()?;
    if response.status() != 200 {
        return None;
    }
    let task = response.headers().get("x-task-id")?.to_str().ok()?.to_owned();
    let text = response.text().await.ok()?;
    let last: Value = serde_json::from_str(text.lines().rfind(|line| !line.is_empty())?).ok()?;
    let kind = last["type"].as_str()?.to_owned();
    matches!(kind.as_str(), "complete" | "error").then_some((task, kind))
}
