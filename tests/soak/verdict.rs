//! Checks at the end. Every function returns its violations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::check::verify_log;
use crate::outside::Outside;
use crate::registry;
use crate::stats::{self, Segment};
use crate::support::client;
use crate::support::process::{Process, TOKEN, run};
use crate::support::receiver::ReceivedRequest;
use crate::traffic::{Submitted, Traffic};

/// Accepted number of open files beyond that of an earlier comparable run.
const FILES_MARGIN: usize = 16;
/// Memory allowance per task in KiB: the index, and the most recent tasks in full.
const TASK_KIB: f64 = 4.0;
/// Pause without traffic before the last sample: longer than the 75 s after which the service closes idle connections.
const QUIET_TIME: Duration = Duration::from_secs(90);

/// One client for all checks: thousands of tasks are read.
static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(client);

/// Reads a path as the administrator.
async fn get(service: &Process, path: &str) -> Value {
    let response = CLIENT.get(service.url(path)).bearer_auth(TOKEN).send().await.expect("a response");
    response.json().await.expect("JSON")
}

/// Waits until every task has ended and every webhook is delivered.
pub async fn wait_until_settled(service: &Process, deadline: Duration) -> Vec<String> {
    let started = Instant::now();
    loop {
        let queues = get(service, "/admin/state").await["queues"].clone();
        if queues["tasks"] == 0 && queues["deliveries"] == 0 {
            println!("settled after {:.0} s", started.elapsed().as_secs_f64());
            return Vec::new();
        }
        if started.elapsed() > deadline {
            return vec![format!("{} s after the traffic there is unfinished work: {queues}", deadline.as_secs())];
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Finds tasks, charges, webhooks and tokens that are lost, duplicated or out of order.
pub async fn find_duplicates(service: &Process, traffic: &Traffic, outside: &Outside) -> Vec<String> {
    let tasks = traffic.acknowledged.borrow().tasks.clone();
    let mut violations = check_charges(&tasks, outside);
    let webhooks = Webhooks::new(&outside.receiver.received(), &mut violations);
    let mut ends = BTreeMap::<String, usize>::new();
    for task in &tasks {
        let response = get(service, &format!("/tasks/{}", task.id)).await;
        let history: Vec<_> = response["history"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|change| change["state"].as_str())
            .collect();
        let end = history.last().copied().unwrap_or("nothing");
        let code = response["error"]["code"].as_str().unwrap_or_default();
        *ends.entry(format!("{end} {code}").trim().to_owned()).or_default() += 1;
        if !matches!(end, "COMPLETED" | "success") {
            violations.push(format!("{} ended as {end} {code}", task.prompt));
        }
        // The response to the submission has the first status, so no webhook reports it.
        let reported = webhooks.states_of(&task.id);
        if history.get(1..).unwrap_or_default() != reported {
            violations.push(format!("{}: its history is {history:?}, but webhooks reported {reported:?}", task.prompt));
        }
    }
    println!(
        "{} tasks: {ends:?}; {} webhooks, {} repeated deliveries",
        tasks.len(),
        webhooks.distinct,
        webhooks.repeated
    );
    violations.extend(check_tokens(service, traffic).await);
    violations.extend(check_music(service, traffic).await);
    violations
}

/// Requires exactly one charge at the vendor for each task, and none without a task; the prompt identifies a task.
fn check_charges(tasks: &[Submitted], outside: &Outside) -> Vec<String> {
    let mut charges = HashMap::<String, usize>::new();
    for charge in outside.vendor.charges() {
        *charges.entry(charge.prompt).or_default() += 1;
    }

    let mut violations = Vec::new();
    for task in tasks {
        let count = charges.get(&task.prompt).copied().unwrap_or(0);
        if count != 1 {
            violations.push(format!("{} was charged {count} times", task.prompt));
        }
    }
    let known: HashSet<_> = tasks.iter().map(|task| &task.prompt).collect();
    let unknown = charges.keys().filter(|prompt| !known.contains(prompt));
    violations.extend(unknown.map(|prompt| format!("{prompt} was charged, but not acknowledged")));
    violations
}

/// Received webhooks, each `webhook-id` counted once.
struct Webhooks {
    /// Reported states by task, in the order of first arrival.
    states: HashMap<String, Vec<String>>,
    /// Number of distinct webhooks.
    distinct: usize,
    /// Number of repeated deliveries.
    repeated: usize,
}

impl Webhooks {
    /// Evaluates the received webhooks. Adds a violation for a repeated webhook with another body.
    fn new(received: &[ReceivedRequest], violations: &mut Vec<String>) -> Self {
        let (mut bodies, mut states) = (HashMap::<&str, &[u8]>::new(), HashMap::<String, Vec<String>>::new());
        for webhook in received {
            let id = webhook.header("webhook-id");
            if let Some(before) = bodies.insert(id, &webhook.body) {
                if before != webhook.body {
                    violations.push(format!("webhook {id} came with two bodies"));
                }
                continue;
            }
            let body = webhook.json();
            let text =
                |names: [&str; 2]| names.iter().find_map(|name| body[*name].as_str()).unwrap_or_default().to_owned();
            states.entry(text(["task_id", "id"])).or_default().push(text(["status", "state"]));
        }
        let repeated = received.len() - bodies.len();
        Self { states, distinct: bodies.len(), repeated }
    }

    /// Returns the reported states of a task, in order.
    fn states_of(&self, task: &str) -> &[String] {
        self.states.get(task).map_or(&[], Vec::as_slice)
    }
}

/// Requires exactly one token for each idempotency key.
async fn check_tokens(service: &Process, traffic: &Traffic) -> Vec<String> {
    let listed = get(service, &registry::tokens_path()).await;
    let mut counts = HashMap::<&str, usize>::new();
    for token in listed.as_array().unwrap_or_else(|| panic!("{listed}")) {
        *counts.entry(token["name"].as_str().unwrap_or_default()).or_default() += 1;
    }

    let mut violations = Vec::new();
    for name in &traffic.acknowledged.borrow().tokens {
        let count = counts.get(name.as_str()).copied().unwrap_or(0);
        if count != 1 {
            violations.push(format!("token {name} exists {count} times"));
        }
    }
    violations
}

/// Requires that each music task ended as the last line of its stream said.
async fn check_music(service: &Process, traffic: &Traffic) -> Vec<String> {
    let streams = traffic.acknowledged.borrow().music.clone();
    let mut violations = Vec::new();
    for (task, completed) in streams {
        let state = get(service, &format!("/tasks/{task}")).await["state"].clone();
        if state != if completed { "success" } else { "failed" } {
            violations.push(format!("music {task} is {state}, its last line was `complete`: {completed}"));
        }
    }
    violations
}

/// Finds growth of memory and open files from the first to the last run of full length, and growth of open files from a
/// process before its traffic to the last process after its traffic.
pub async fn find_leaks(service: &Process, segments: &[Segment], memory_bound: f64) -> Vec<String> {
    let mut violations = Vec::new();
    // The first run is not comparable, because it begins with an empty directory.
    let comparable: Vec<_> = segments.iter().skip(1).filter(|segment| segment.is_full_length).collect();
    match comparable[..] {
        [first, .., last] => {
            let bound = memory_bound + (last.tasks - first.tasks) as f64 * TASK_KIB / 1024.0;
            let growth = last.memory_mib - first.memory_mib;
            println!(
                "memory {growth:+.1} MiB over {} comparable runs (at most {bound:.1}), open files {} → {}",
                comparable.len(),
                first.files,
                last.files
            );
            if growth > bound {
                violations.push(format!(
                    "memory has grown by {growth:.1} MiB between comparable runs; at most {bound:.1} are accepted"
                ));
            }
            if last.files > first.files + FILES_MARGIN {
                violations.push(format!("open files have grown from {} to {}", first.files, last.files));
            }
        }
        _ => {
            println!("memory between runs was NOT COMPARED: fewer than two runs after the first had their full length");
        }
    }

    tokio::time::sleep(QUIET_TIME).await;
    let quiet = stats::sample(service.pid());
    let fresh =
        segments.iter().map(|segment| segment.fresh).min_by_key(|fresh| fresh.files).expect("there was traffic");
    println!("without traffic: {:.0} MiB, {} open files (fresh {})", quiet.memory_mib, quiet.files, fresh.files);
    println!("open files: {:?}", stats::open_files(service.pid()));
    if quiet.files > fresh.files + FILES_MARGIN {
        violations.push(format!("{} files are open without traffic, {} were before it", quiet.files, fresh.files));
    }
    violations
}

/// Requires that the log passes `mediary audit verify`. Panics if it has gaps or duplicates, or if a replay builds
/// other read models than the start.
pub fn check_log(data: &Path) -> Vec<String> {
    let events = verify_log(data);
    let verified = run(data, &["audit", "verify"]);
    println!("{events} events; audit verify exits with {:?}", verified.code);
    if verified.code == Some(0) { Vec::new() } else { vec![format!("audit verify: {}{}", verified.out, verified.err)] }
}
