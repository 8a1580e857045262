//! Clients of the registry: writers that read their own writes, readers, and access tokens with idempotency keys.

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::task::{JoinHandle, spawn_local};

use crate::support::process::TOKEN;
use crate::traffic::Traffic;

/// Number of writers, each with its own publisher and nodes.
const WRITERS: usize = 4;
/// Number of nodes of each writer. The registry does not grow, so that memory is comparable.
const NODES: usize = 50;
/// Pause of a writer after each write.
const WRITE_INTERVAL: Duration = Duration::from_millis(20);
/// Every nth write is read back.
const READ_BACK: u64 = 5;
const READERS: usize = 4;
/// Pause of a reader after each request.
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// Pause after each token issued with an idempotency key.
const TOKEN_INTERVAL: Duration = Duration::from_secs(1);
/// Every nth request with an idempotency key is repeated after its response.
pub const REPEAT: u64 = 4;

/// Returns the id of a node.
fn node(writer: usize, number: usize) -> String {
    format!("soak-{writer}-{number}")
}

/// Returns the id of a writer's publisher.
fn publisher(writer: usize) -> String {
    format!("soak-publisher-{writer}")
}

/// Creates the publishers and nodes of all writers, each node with one version.
pub async fn create(traffic: &Traffic) {
    for writer in 0..WRITERS {
        traffic.create("/publishers", &json!({"id": publisher(writer)})).await;
        for number in 0..NODES {
            let version = json!({"version": "1.0.0", "changelog": "0"});
            let body = json!({"id": node(writer, number), "latest_version": version});
            traffic.create(&format!("/publishers/{}/nodes", publisher(writer)), &body).await;
            traffic.acknowledged.borrow_mut().changelogs.insert(node(writer, number), (0, 0));
        }
    }
}

/// Starts the clients.
pub fn spawn(traffic: &Rc<Traffic>) -> Vec<JoinHandle<()>> {
    let writers = (0..WRITERS).map(|writer| spawn_local(write(traffic.clone(), writer)));
    let readers = (0..READERS).map(|reader| spawn_local(read(traffic.clone(), reader)));
    let issuer = spawn_local(issue(traffic.clone()));
    writers.chain(readers).chain([issuer]).collect()
}

/// Runs one writer, which numbers its writes, repeats each until it is acknowledged, and reads some back.
async fn write(traffic: Rc<Traffic>, writer: usize) {
    for turn in 1_u64.. {
        if !traffic.is_running() {
            return;
        }
        let node = node(writer, usize::try_from(turn).expect("64 bits") % NODES);
        traffic.acknowledged.borrow_mut().changelogs.entry(node.clone()).and_modify(|(_, sent)| *sent = turn);
        let path = format!("/publishers/{}/nodes/{node}/versions/1.0.0", publisher(writer));
        let body = json!({"changelog": turn.to_string()});
        let put = traffic
            .send_until_answered(|client, base| client.put(format!("{base}{path}")).bearer_auth(TOKEN).json(&body))
            .await;
        if put.status == 200 {
            traffic.count("writes");
            traffic
                .acknowledged
                .borrow_mut()
                .changelogs
                .entry(node.clone())
                .and_modify(|(acknowledged, _)| *acknowledged = turn);
        } else {
            traffic.add_violation(format!("PUT {path}: {}: {}", put.status, put.body));
        }

        if turn.is_multiple_of(READ_BACK) {
            let path = format!("/nodes/{node}/versions/1.0.0");
            let read = traffic.send_until_answered(|client, base| client.get(format!("{base}{path}"))).await;
            let written = turn.to_string();
            if read.body["changelog"] != written.as_str() {
                traffic.add_violation(format!(
                    "{node} has changelog {} after {turn} was acknowledged",
                    read.body["changelog"]
                ));
            }
        }
        tokio::time::sleep(WRITE_INTERVAL).await;
    }
}

/// Runs one reader, which reads pages, nodes and searches in turn.
async fn read(traffic: Rc<Traffic>, reader: usize) {
    for turn in reader.. {
        if !traffic.is_running() {
            return;
        }
        let path = match turn % 3 {
            0 => format!("/nodes?limit=30&page={}&sort=updated_at;desc", 1 + turn % 7),
            1 => format!("/nodes/{}", node(turn % WRITERS, turn % NODES)),
            _ => "/nodes/search?search=soak&limit=10".to_owned(),
        };
        let reply = traffic.send_until_answered(|client, base| client.get(format!("{base}{path}"))).await;
        if reply.status == 200 {
            traffic.count("reads");
        } else {
            traffic.add_violation(format!("GET {path}: {}: {}", reply.status, reply.body));
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
}

/// Issues access tokens with idempotency keys, some requests twice. Tokens are random, so a second token for the same
/// key is detected.
async fn issue(traffic: Rc<Traffic>) {
    for turn in 0_u64.. {
        if !traffic.is_running() {
            return;
        }
        let name = format!("keyed-{turn}");
        let path = tokens_path();
        let body = json!({"name": name});
        let attempts = if turn.is_multiple_of(REPEAT) { 2 } else { 1 };
        let mut issued_token = None;
        for _ in 0..attempts {
            let reply = traffic
                .send_until_answered(|client, base| {
                    let request = client.post(format!("{base}{path}")).bearer_auth(TOKEN).json(&body);
                    request.header("idempotency-key", &name)
                })
                .await;
            let token = reply.body["token"].as_str().map(str::to_owned);
            if reply.status != 201 || token.is_none() {
                traffic.add_violation(format!("{name}: {}, error {}", reply.status, reply.body["error"]));
            } else if issued_token.is_some() && issued_token != token {
                traffic.add_violation(format!("{name}: a second response for the same key has another token"));
            }
            issued_token = token;
        }
        if issued_token.is_some() {
            traffic.count("keyed tokens");
            traffic.acknowledged.borrow_mut().tokens.insert(name);
        }
        tokio::time::sleep(TOKEN_INTERVAL).await;
    }
}

/// Returns the path on which the tokens with idempotency keys are issued and listed.
pub fn tokens_path() -> String {
    format!("/publishers/{}/tokens", publisher(0))
}
