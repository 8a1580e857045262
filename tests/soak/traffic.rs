//! State shared by the clients: the address of the service over its restarts, and everything it has acknowledged.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::load::AcknowledgedWrites;
use crate::support::client;
use crate::support::process::{Process, TOKEN};
use crate::{media, registry};

/// Timeout after which a request is repeated.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Accounts that submit tasks.
const ACCOUNTS: usize = 2;

/// Acknowledged task.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Number of the run that acknowledged it.
    pub segment: u64,
    pub id: String,
    /// Unique prompt, which identifies the job among the vendor's charges.
    pub prompt: String,
    pub is_video: bool,
}

/// Everything that the service has acknowledged.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Last acknowledged and last requested number in the changelog of each node.
    pub changelogs: BTreeMap<String, (u64, u64)>,
    pub tasks: Vec<Submitted>,
    /// Names of the access tokens issued with idempotency keys.
    pub tokens: BTreeSet<String>,
    /// Music tasks; `true` if the last line of the stream was `complete`.
    pub music: Vec<(String, bool)>,
}

/// The clients' shared state.
pub struct Traffic {
    /// Base URL of the service while it runs.
    base: watch::Sender<Option<String>>,
    /// Number of the current run.
    segment: Cell<u64>,
    stopping: Cell<bool>,
    client: Client,
    /// Tokens of the accounts that submit tasks.
    pub accounts: Vec<String>,
    /// URL that tasks report to.
    pub webhook: String,
    pub acknowledged: RefCell<Acknowledged>,
    /// Counters for the progress line, by name.
    counts: RefCell<BTreeMap<&'static str, u64>>,
    violations: RefCell<Vec<String>>,
}

/// Complete response; the body is `null` if it is not JSON.
pub struct Reply {
    pub status: u16,
    pub body: Value,
}

impl Traffic {
    /// Creates the accounts and the nodes to be changed.
    pub async fn new(service: &Process, webhook: String) -> Self {
        let mut traffic = Self {
            base: watch::Sender::new(Some(service.url(""))),
            segment: Cell::default(),
            stopping: Cell::default(),
            client: client(),
            accounts: Vec::new(),
            webhook,
            acknowledged: RefCell::default(),
            counts: RefCell::default(),
            violations: RefCell::default(),
        };
        for number in 0..ACCOUNTS {
            let name = format!("soak-{number}");
            let user = json!({"name": name, "email": format!("{name}@example.org")});
            let user = traffic.create("/admin/users", &user).await;
            let path = format!("/admin/users/{}/tokens", user["id"].as_str().expect("an id"));
            let token = traffic.create(&path, &json!({"name": "soak"})).await;
            traffic.accounts.push(token["token"].as_str().expect("a token").to_owned());
        }
        registry::create(&traffic).await;
        // The clients wait until the checks before the first run are done.
        traffic.set_service(None, 0);
        traffic
    }

    /// Starts all clients.
    pub fn spawn(self: &Rc<Self>) -> Vec<JoinHandle<()>> {
        registry::spawn(self).into_iter().chain(media::spawn(self)).collect()
    }

    /// Sets the address of the service for the clients, and the number of the run. With `None`, the clients wait.
    pub fn set_service(&self, base: Option<String>, segment: u64) {
        self.segment.set(segment);
        self.base.send_replace(base);
    }

    /// Makes every client end after its current request.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Returns `true` until [`stop`](Self::stop) is called.
    pub fn is_running(&self) -> bool {
        !self.stopping.get()
    }

    pub fn segment(&self) -> u64 {
        self.segment.get()
    }

    /// Increments a counter of the progress line.
    pub fn count(&self, what: &'static str) {
        *self.counts.borrow_mut().entry(what).or_default() += 1;
    }

    pub fn add_violation(&self, text: String) {
        self.violations.borrow_mut().push(text);
    }

    pub fn take_violations(&self) -> Vec<String> {
        self.violations.take()
    }

    /// Returns the number of acknowledged tasks.
    pub fn task_count(&self) -> usize {
        self.acknowledged.borrow().tasks.len()
    }

    /// Returns one line with all counters.
    pub fn progress(&self) -> String {
        let counts = self.counts.borrow();
        let counts: Vec<_> = counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        format!("{}; {} violations", counts.join(", "), self.violations.borrow().len())
    }

    /// Returns the acknowledged writes in the form of the crash test: all nodes, and the image tasks since the run
    /// `from_segment`.
    pub fn acknowledged_writes(&self, from_segment: u64) -> AcknowledgedWrites {
        let acknowledged = self.acknowledged.borrow();
        let tasks = acknowledged.tasks.iter().filter(|task| !task.is_video && task.segment >= from_segment);
        AcknowledgedWrites {
            changelogs: acknowledged.changelogs.iter().map(|(node, range)| ((0, node.clone()), *range)).collect(),
            tasks: tasks.map(|task| (task.segment, task.id.clone())).collect(),
        }
    }

    /// Repeats a request over all restarts until the service has executed it or rejected it for good. Returns the
    /// response.
    pub async fn send_until_answered(&self, request: impl Fn(&Client, &str) -> RequestBuilder) -> Reply {
        loop {
            let (client, base) = self.target().await;
            match read(request(&client, &base).timeout(TIMEOUT)).await {
                Ok(Reply { status: 429 | 503, .. }) => self.count("rejected for now"),
                // The service is still executing an earlier attempt, for which this client no longer waits.
                Ok(Reply { status: 409, body, .. }) if body["error"] == "idempotency_key_in_use" => {
                    self.count("rejected for now");
                }
                Ok(reply) => return reply,
                Err(_) => self.count("unanswered"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns the client and the base URL, once the service is running.
    pub async fn target(&self) -> (Client, String) {
        let mut bases = self.base.subscribe();
        let base = bases.wait_for(Option::is_some).await.expect("a sender").clone().expect("waited for");
        (self.client.clone(), base)
    }

    /// Creates a resource as the administrator, before the first kill, and returns it.
    pub async fn create(&self, path: &str, body: &Value) -> Value {
        let reply = self
            .send_until_answered(|client, base| client.post(format!("{base}{path}")).bearer_auth(TOKEN).json(body))
            .await;
        assert_eq!(reply.status, 201, "{path}: {}", reply.body);
        reply.body
    }
}

/// Reads a complete response. An interrupted response is an error.
async fn read(request: RequestBuilder) -> reqwest::Result<Reply> {
    let response = request.send().await?;
    let status = response.status().as_u16();
    let bytes = response.bytes().await?;
    Ok(Reply { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
}
