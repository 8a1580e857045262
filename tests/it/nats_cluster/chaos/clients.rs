//! Clients that repeat every request with its key, on any node, until it is answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use reqwest::header::HeaderValue;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{CLIENTS, COMMAND_DEADLINE, ChaosWorld, SHARED, client_rng, json_of};
use crate::idempotency::KEY;
use crate::image::UPSCALER;
use crate::nats_cluster::NODES;
use crate::support::client;
use crate::support::picture::base64_png;
use crate::support::process::TOKEN;

const LOG_POSITION: &str = "x-log-position";
/// Time for an answer, after which it counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Status of a request that arrived while its node was paused, longer than a request head may take.
const PAUSED: u16 = 408;
/// Pause between two tasks of a submitter.
const TASK_INTERVAL: Duration = Duration::from_millis(400);

/// Acknowledged command: the type of its event, and a word that only this event contains.
pub struct Command {
    pub event: &'static str,
    pub marker: String,
}

/// Publisher whose name a single client counts up.
pub fn counter(client: usize) -> String {
    format!("counter-{client}")
}

pub fn shared_publisher(number: usize) -> String {
    format!("shared-{number}")
}

pub fn shared_node(number: usize) -> String {
    format!("shared-node-{number}")
}

/// Answer to a command.
struct Acknowledgement {
    body: Value,
    /// The node that answered, and its position then.
    node: usize,
    position: HeaderValue,
}

/// Request that is sent until it is answered.
struct KeyedRequest {
    method: Method,
    path: String,
    body: Value,
    key: String,
    token: String,
}

impl KeyedRequest {
    /// Sends the request until it is answered, first to this node, then to any.
    async fn acknowledged(
        &self,
        client: &Client,
        world: &ChaosWorld,
        mut node: usize,
        rng: &mut StdRng,
    ) -> Acknowledgement {
        let deadline = Instant::now() + COMMAND_DEADLINE;
        let mut last = String::new();
        while Instant::now() < deadline {
            match self.attempt(client, &world.url(node)).await {
                Ok((body, position)) => {
                    world.acknowledgements.lock().push((node, Instant::now()));
                    return Acknowledgement { body, node, position };
                }
                Err(result) => {
                    world.note_retry(&result);
                    last = result;
                }
            }
            tokio::time::sleep(Duration::from_millis(rng.gen_range(20..200))).await;
            node = rng.gen_range(0..NODES);
        }
        panic!("{} {} {}: not acknowledged within {COMMAND_DEADLINE:?}: {last}", self.method, self.path, self.body);
    }

    /// Sends the request once. Panics if the answer says that it will never succeed.
    async fn attempt(&self, client: &Client, base: &str) -> Result<(Value, HeaderValue), String> {
        let request = client.request(self.method.clone(), format!("{base}{}", self.path)).bearer_auth(&self.token);
        let request = request.header(KEY, &self.key).json(&self.body).timeout(ANSWER_TIMEOUT);
        let response = request.send().await.map_err(|error| reason_of(&error))?;
        let status = response.status().as_u16();
        let is_temporary = response.headers().contains_key("retry-after");
        let position = response.headers().get(LOG_POSITION).cloned();
        let body = json_of(response).await.ok_or("connection lost")?;
        match status {
            200 | 201 => Ok((body, position.expect("every response has a position"))),
            PAUSED => Err("408".to_owned()),
            409 | 429 | 503 | 507 if is_temporary => {
                Err(format!("{status} {}", body["error"].as_str().unwrap_or_default()))
            }
            _ => panic!("{} {} {}: {status}: {body}", self.method, self.path, self.body),
        }
    }
}

fn reason_of(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "timed out".to_owned()
    } else if error.is_connect() {
        "not connected".to_owned()
    } else {
        "connection lost".to_owned()
    }
}

/// Client that changes publishers and nodes, one command after the other.
pub struct ChaosClient {
    index: usize,
    client: Client,
    rng: StdRng,
    world: Arc<ChaosWorld>,
    commands: Vec<Command>,
    count: u64,
}

impl ChaosClient {
    pub fn new(index: usize, seed: u64, world: Arc<ChaosWorld>) -> Self {
        let rng = client_rng(seed, index);
        Self { index, client: client(), rng, world, commands: Vec::new(), count: 0 }
    }

    /// Sends commands until the faults are over; returns those that were acknowledged.
    pub async fn run(mut self) -> Vec<Command> {
        for number in 0.. {
            if self.world.is_over() {
                break;
            }
            self.step(number).await;
        }
        self.commands
    }

    async fn step(&mut self, number: usize) {
        let marker = format!("mk{}x{number}", self.index);
        let publisher = shared_publisher(self.rng.gen_range(0..SHARED));
        let (method, path, body, event) = match self.rng.gen_range(0..10) {
            0..4 => {
                self.count += 1;
                let name = format!("{} {marker}", self.count);
                (Method::PUT, format!("/publishers/{}", counter(self.index)), json!({"name": name}), "PublisherRevised")
            }
            4..6 => (Method::PUT, format!("/publishers/{publisher}"), json!({"name": marker}), "PublisherRevised"),
            6 => {
                let number = self.rng.gen_range(0..SHARED);
                let path = format!("/publishers/{}/nodes/{}", shared_publisher(number), shared_node(number));
                (Method::PUT, path, json!({"name": marker}), "NodeRevised")
            }
            7 => (Method::POST, "/publishers".to_owned(), json!({"id": marker}), "PublisherCreated"),
            _ => (Method::POST, format!("/publishers/{publisher}/nodes"), json!({"id": marker}), "NodeCreated"),
        };
        let is_counter = path.ends_with(&counter(self.index));
        let key = format!("chaos-{marker}");
        let request = KeyedRequest { method, path, body, key, token: TOKEN.to_owned() };
        let Acknowledgement { node, position, .. } =
            request.acknowledged(&self.client, &self.world, self.index % NODES, &mut self.rng).await;

        if is_counter {
            self.world.seen[node][self.index].fetch_max(self.count, Ordering::SeqCst);
            self.world.latest[self.index].fetch_max(self.count, Ordering::SeqCst);
        }
        let created = match event {
            "PublisherCreated" => format!("/publishers/{marker}"),
            "NodeCreated" => format!("/nodes/{marker}"),
            _ => return self.commands.push(Command { event, marker }),
        };
        self.check_present(node, &created, None).await;
        let other = self.rng.gen_range(0..NODES);
        self.check_present(other, &created, Some(position)).await;
        self.commands.push(Command { event, marker });
    }

    /// Checks that a node shows what was created, if it answers: the one that acknowledged it, or any that gets the
    /// position.
    async fn check_present(&self, node: usize, path: &str, position: Option<HeaderValue>) {
        let mut request = self.client.get(format!("{}{path}", self.world.url(node))).timeout(ANSWER_TIMEOUT);
        if let Some(position) = &position {
            request = request.header(LOG_POSITION, position);
        }
        let Ok(response) = request.send().await else { return };
        let status = response.status().as_u16();
        assert!(matches!(status, 200 | 503 | PAUSED), "{path}: {status} on node {node} at {position:?}");
        self.world.reads.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads the counters on a node and checks that none goes back, also over its restarts.
pub async fn read_counters(node: usize, world: Arc<ChaosWorld>) {
    let client = client();
    while !world.is_over() {
        for index in 0..CLIENTS {
            let at_least = world.seen[node][index].load(Ordering::SeqCst);
            let url = format!("{}/publishers/{}", world.url(node), counter(index));
            let Ok(response) = client.get(url).timeout(ANSWER_TIMEOUT).send().await else { continue };
            if matches!(response.status().as_u16(), 503 | PAUSED) {
                continue;
            }
            assert_eq!(response.status(), 200);
            let Some(publisher) = json_of(response).await else { continue };
            let value = value_of(&publisher);
            assert!(value >= at_least, "node {node} shows {publisher} after {at_least}");
            world.seen[node][index].fetch_max(value, Ordering::SeqCst);
            world.reads.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads the counters on any node, at the latest position, and checks that they are linearizable: each has one writer and only
/// grows, so a read must show at least what was acknowledged or read anywhere before it began.
pub async fn read_latest_counters(index: usize, seed: u64, world: Arc<ChaosWorld>) {
    let (client, mut rng) = (client(), client_rng(seed, 2 * CLIENTS + index));
    while !world.is_over() {
        let (node, index) = (rng.gen_range(0..NODES), rng.gen_range(0..CLIENTS));
        let at_least = world.latest[index].load(Ordering::SeqCst);
        let url = format!("{}/publishers/{}", world.url(node), counter(index));
        let request = client.get(url).header(LOG_POSITION, "latest").timeout(ANSWER_TIMEOUT);
        let response = request.send().await.ok().filter(|response| response.status() == 200);
        if let Some(publisher) = match response {
            Some(response) => json_of(response).await,
            None => None,
        } {
            let value = value_of(&publisher);
            assert!(value >= at_least, "node {node} shows {publisher} after {at_least}");
            world.latest[index].fetch_max(value, Ordering::SeqCst);
            world.latest_reads.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Value of a counter: the first word of the publisher's name.
fn value_of(publisher: &Value) -> u64 {
    let name = publisher["name"].as_str().unwrap_or_default();
    name.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Submits tasks until the faults are over; returns their ids.
pub async fn submit_tasks(index: usize, seed: u64, world: Arc<ChaosWorld>, webhook: String) -> Vec<String> {
    let (client, mut rng) = (client(), client_rng(seed, CLIENTS + index));
    let mut tasks = Vec::new();
    for number in 0.. {
        if world.is_over() {
            break;
        }
        let prompt = format!("task {index} {number}");
        let request = KeyedRequest {
            method: Method::POST,
            path: UPSCALER.to_owned(),
            body: json!({"image": base64_png(8, 8), "prompt": prompt, "webhook_url": webhook}),
            key: format!("chaos-task-{index}-{number}"),
            token: world.user_token.clone(),
        };
        let node = rng.gen_range(0..NODES);
        let task = request.acknowledged(&client, &world, node, &mut rng).await.body;
        tasks.push(task["data"]["task_id"].as_str().unwrap().to_owned());
        tokio::time::sleep(TASK_INTERVAL).await;
    }
    tasks
}
