//! Clients that write in a closed loop, and the writes that the service acknowledged.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::process::TOKEN;
use crate::support::{client, picture};

pub const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

/// Acknowledged writes; the service must never lose one.
#[derive(Default, Clone)]
pub struct AcknowledgedWrites {
    /// Changelog numbers of a version, by round and node: the last acknowledged one, and the last requested one. After
    /// a crash the version may have either, or one in between.
    pub changelogs: BTreeMap<(u64, String), (u64, u64)>,
    /// Round and id of each task.
    pub tasks: Vec<(u64, String)>,
}

impl AcknowledgedWrites {
    /// Returns the writes acknowledged in `round` and later ones.
    pub fn since(&self, round: u64) -> Self {
        let changelogs = self.changelogs.range((round, String::new())..);
        let tasks = self.tasks.iter().filter(|(task_round, _)| *task_round >= round);
        Self { changelogs: changelogs.map(|(k, v)| (k.clone(), *v)).collect(), tasks: tasks.cloned().collect() }
    }

    /// Returns the number of acknowledged nodes.
    pub fn node_count(&self) -> usize {
        self.changelogs.len()
    }
}

/// Writes in a closed loop and records every acknowledged write, until the service is killed. The first two writers
/// also submit a task each.
pub async fn write_until_killed(
    base: String,
    writer: usize,
    round: u64,
    acknowledged: &Mutex<AcknowledgedWrites>,
    webhook: &str,
) {
    let client = client();
    let publisher = format!("p{writer}");
    let body = json!({"id": publisher});
    if post(&client, &format!("{base}/publishers"), &body).await.is_none() {
        return;
    }

    if writer < 2 {
        let body = json!({"image": picture::base64_png(24, 24), "webhook_url": webhook});
        match post(&client, &format!("{base}{UPSCALER}"), &body).await {
            Some((200, task)) => {
                let task = task["data"]["task_id"].as_str().unwrap().to_owned();
                acknowledged.lock().tasks.push((round, task));
            }
            Some((status, task)) => panic!("{status}: {task}"),
            None => return,
        }
    }

    for index in 0.. {
        let node_key = (round, format!("n{writer}-{round}-{index}"));
        if write_node(&client, &format!("{base}/publishers/{publisher}/nodes"), &node_key, acknowledged).await.is_none()
        {
            return;
        }
    }
}

/// Creates a node with a version and changes it three times; returns early when the service is killed.
async fn write_node(
    client: &Client,
    nodes: &str,
    node_key: &(u64, String),
    acknowledged: &Mutex<AcknowledgedWrites>,
) -> Option<()> {
    let body = json!({"id": node_key.1, "latest_version": {"version": "1.0.0", "changelog": "0"}});
    let (status, body) = post(client, nodes, &body).await?;
    assert_eq!(status, 201, "{body}");

    acknowledged.lock().changelogs.insert(node_key.clone(), (0, 0));
    for changelog in 1..=3 {
        acknowledged.lock().changelogs.entry(node_key.clone()).and_modify(|(_, requested)| *requested = changelog);
        let url = format!("{nodes}/{}/versions/1.0.0", node_key.1);
        let body = json!({"changelog": changelog.to_string()});
        let (status, body) = send(client.put(url).bearer_auth(TOKEN).json(&body)).await?;
        assert_eq!(status, 200, "{body}");
        acknowledged
            .lock()
            .changelogs
            .entry(node_key.clone())
            .and_modify(|(acknowledged, _)| *acknowledged = changelog);
    }
    Some(())
}

/// Sends a request. Returns the status and the body; `None` if the service was killed.
async fn send(request: reqwest::RequestBuilder) -> Option<(u16, Value)> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.json().await.ok()?))
}

/// Posts a JSON body as the administrator. Returns the status and the body; `None` if the service was killed.
pub async fn post(client: &Client, url: &str, body: &Value) -> Option<(u16, Value)> {
    send(client.request(Method::POST, url).bearer_auth(TOKEN).json(body)).await
}
