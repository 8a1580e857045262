//! Clients that repeat every request with its idempotency key, on any node, until it is acknowledged.

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
/// Timeout of a response, after which the response counts as lost.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Status of a request whose node was paused for longer than the head of a request may take.
const PAUSED: u16 = 408;
/// Pause between two tasks of a submitter.
const TASK_INTERVAL: Duration = Duration::from_millis(400);

/// Acknowledged command: the type of its event, and a word that only this event contains.
pub struct Command {
    pub event: &'static str,
    pub marker: String,
}

/// Returns the id of the publisher whose name a single client counts up.
pub fn counter(client: usize) -> String {
    format!("counter-{client}")
}

pub fn shared_publisher(number: usize) -> String {
    format!("shared-{number}")
}

pub fn shared_node(number: usize) -> String {
    format!("shared-node-{number}")
}

/// Successful response to a command.
struct Acknowledgement {
    body: Value,
    /// Node that sent the response.
    node: usize,
    /// Position of that node after the command.
    position: HeaderValue,
}

/// Request with an idempotency key.
struct KeyedRequest {
    method: Method,
    path: String,
    body: Value,
    key: String,
    token: String,
}

impl KeyedRequest {
    /// Sends the request until it is acknowledged, first to `node`, then to random nodes. Panics at the deadline.
    async fn send_until_acknowledged(
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

    /// Sends the request once; returns the reason of a failure that may be temporary. Panics if it is permanent.
    async fn attempt(&self, client: &Client, base: &str) -> Result<(Value, HeaderValue), String> {
        let request = client.request(self.method.clone(), format!("{base}{}", self.path)).bearer_auth(&self.token);
        let request = request.header(KEY, &self.key).json(&self.body).timeout(RESPONSE_TIMEOUT);
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
    /// Last value of this client's counter.
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

    /// Sends one random command and reads what it created on the same node and on another.
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
            request.send_until_acknowledged(&self.client, &self.world, self.index % NODES, &mut self.rng).await;

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
        let any_node = self.rng.gen_range(0..NODES);
        self.check_present(any_node, &created, Some(position)).await;
        self.commands.push(Command { event, marker });
    }

    /// Checks that a node shows a resource that was created, if the node responds. Any node except the one that
    /// acknowledged the command needs the position.
    async fn check_present(&self, node: usize, path: &str, position: Option<HeaderValue>) {
        let mut request = self.client.get(format!("{}{path}", self.world.url(node))).timeout(RESPONSE_TIMEOUT);
        if let Some(position) = &position {
            request = request.header(LOG_POSITION, position);
        }
        let Ok(response) = request.send().await else { return };
        let status = response.status().as_u16();
        assert!(matches!(status, 200 | 503 | PAUSED), "{path}: {status} on node {node} at {position:?}");
        self.world.reads.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads the counters on a node and checks that none goes back, even across its restarts.
pub async fn read_counters(node: usize, world: Arc<ChaosWorld>) {
    let client = client();
    while !world.is_over() {
        for index in 0..CLIENTS {
            let at_least = world.seen[node][index].load(Ordering::SeqCst);
            let url = format!("{}/publishers/{}", world.url(node), counter(index));
            let Ok(response) = client.get(url).timeout(RESPONSE_TIMEOUT).send().await else { continue };
            if matches!(response.status().as_u16(), 503 | PAUSED) {
                continue;
            }
            assert_eq!(response.status(), 200, "counter {index} on node {node}");
            let Some(publisher) = json_of(response).await else { continue };
            let value = value_of(&publisher);
            assert!(value >= at_least, "node {node} shows {publisher} after {at_least}");
            world.seen[node][index].fetch_max(value, Ordering::SeqCst);
            world.reads.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads the counters on random nodes, at the latest position, and checks that they are linearizable: each has one
/// writer and only grows, so a read must show at least what was acknowledged or read anywhere before it began.
pub async fn read_latest_counters(index: usize, seed: u64, world: Arc<ChaosWorld>) {
    let client = client();
    let mut rng = client_rng(seed, 2 * CLIENTS + index);
    while !world.is_over() {
        let (node, index) = (rng.gen_range(0..NODES), rng.gen_range(0..CLIENTS));
        let at_least = world.latest[index].load(Ordering::SeqCst);
        let url = format!("{}/publishers/{}", world.url(node), counter(index));
        let request = client.get(url).header(LOG_POSITION, "latest").timeout(RESPONSE_TIMEOUT);
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

/// Returns the value of a counter: the first word of the publisher's name.
fn value_of(publisher: &Value) -> u64 {
    let name = publisher["name"].as_str().unwrap_or_default();
    name.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// Submits tasks until the faults are over; returns their ids.
pub async fn submit_tasks(index: usize, seed: u64, world: Arc<ChaosWorld>, webhook: String) -> Vec<String> {
    let client = client();
    let mut rng = client_rng(seed, CLIENTS + index);
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
        let task = request.send_until_acknowledged(&client, &world, node, &mut rng).await.body;
        tasks.push(task["data"]["task_id"].as_str().unwrap().to_owned());
        tokio::time::sleep(TASK_INTERVAL).await;
    }
    tasks
}
