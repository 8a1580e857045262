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

async fn get(service: &Process, path: &str) -> Value {
    let reply = CLIENT.get(service.url(path)).bearer_auth(TOKEN).send().await.expect("a response");
    reply.json().await.expect("JSON")
}

/// Waits until every task has ended and every webhook is delivered.
pub async fn settled(service: &Process, within: Duration) -> Vec<String> {
    let started = Instant::now();
    loop {
        let queues = get(service, "/admin/state").await["queues"].clone();
        if queues["tasks"] == 0 && queues["deliveries"] == 0 {
            println!("settled after {:.0} s", started.elapsed().as_secs_f64());
            return Vec::new();
        }
        if started.elapsed() > within {
            return vec![format!("{} s after the traffic there is unfinished work: {queues}", within.as_secs())];
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Compares vendor, receiver and idempotency keys with the acknowledged writes.
pub async fn nothing_doubled(service: &Process, traffic: &Traffic, outside: &Outside) -> Vec<String> {
    let tasks = traffic.acknowledged.borrow().tasks.clone();
    let mut violations = charges(&tasks, outside);
    let webhooks = Webhooks::new(&outside.receiver.received(), &mut violations);
    let mut ends = BTreeMap::<String, usize>::new();
    for task in &tasks {
        let shown = get(service, &format!("/tasks/{}", task.id)).await;
        let history: Vec<_> =
            shown["history"].as_array().into_iter().flatten().filter_map(|at| at["state"].as_str()).collect();
        let end = history.last().copied().unwrap_or("nothing");
        let code = shown["error"]["code"].as_str().unwrap_or_default();
        *ends.entry(format!("{end} {code}").trim().to_owned()).or_default() += 1;
        if !matches!(end, "COMPLETED" | "success") {
            violations.push(format!("{} ended as {end} {code}", task.prompt));
        }
        // The first status is in the response to the submission.
        let reported = webhooks.of(&task.id);
        if history.get(1..).unwrap_or_default() != reported {
            violations.push(format!("{}: its history is {history:?}, webhooks had {reported:?}", task.prompt));
        }
    }
    println!(
        "{} tasks: {ends:?}; {} webhooks, {} of them more than once",
        tasks.len(),
        webhooks.ids,
        webhooks.repeated
    );
    violations.extend(tokens(service, traffic).await);
    violations.extend(music(service, traffic).await);
    violations
}

/// Requires one job at the vendor for each task, found by its prompt.
fn charges(tasks: &[Submitted], outside: &Outside) -> Vec<String> {
    let mut paid = HashMap::<String, usize>::new();
    for charge in outside.vendor.charges() {
        *paid.entry(charge.prompt).or_default() += 1;
    }
    let wrong = tasks.iter().filter(|task| paid.get(&task.prompt) != Some(&1));
    let mut violations: Vec<_> = wrong
        .map(|task| format!("{} is in the vendor's ledger {:?} times", task.prompt, paid.get(&task.prompt)))
        .collect();
    let known: HashSet<_> = tasks.iter().map(|task| &task.prompt).collect();
    violations.extend(
        paid.keys().filter(|prompt| !known.contains(prompt)).map(|prompt| format!("{prompt} was never submitted")),
    );
    violations
}

/// Webhooks by task, each `webhook-id` once, in the order of first arrival.
struct Webhooks {
    states: HashMap<String, Vec<String>>,
    ids: usize,
    repeated: usize,
}

impl Webhooks {
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
        Self { states, ids: bodies.len(), repeated }
    }

    fn of(&self, task: &str) -> &[String] {
        self.states.get(task).map_or(&[], Vec::as_slice)
    }
}

/// Requires exactly one token for each idempotency key.
async fn tokens(service: &Process, traffic: &Traffic) -> Vec<String> {
    let listed = get(service, &registry::tokens_path()).await;
    let mut found = HashMap::<&str, usize>::new();
    for token in listed.as_array().unwrap_or_else(|| panic!("{listed}")) {
        *found.entry(token["name"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let acknowledged = traffic.acknowledged.borrow();
    let wrong = acknowledged.tokens.iter().filter(|name| found.get(name.as_str()) != Some(&1));
    wrong.map(|name| format!("token {name} exists {:?} times", found.get(name.as_str()))).collect()
}

/// Requires that each music task ended as the last line of its stream said.
async fn music(service: &Process, traffic: &Traffic) -> Vec<String> {
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

/// Compares the first and the last run of full length, and the last process with processes before their traffic.
pub async fn nothing_leaked(service: &Process, segments: &[Segment], memory_bound: f64) -> Vec<String> {
    let mut violations = Vec::new();
    // The first run begins with an empty directory.
    let whole: Vec<_> = segments.iter().skip(1).filter(|segment| segment.is_whole).collect();
    match whole[..] {
        [first, .., last] => {
            let bound = memory_bound + (last.tasks - first.tasks) as f64 * TASK_KIB / 1024.0;
            let grown = last.memory_mib - first.memory_mib;
            println!(
                "memory {grown:+.1} MiB over {} comparable runs (at most {bound:.1}), open files {} → {}",
                whole.len(),
                first.files,
                last.files
            );
            if grown > bound {
                violations.push(format!(
                    "memory has grown by {grown:.1} MiB between comparable runs, by more than {bound:.1}"
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

/// Requires that the log has neither gaps nor duplicates, gives the same read models however it is read, and verifies.
pub fn log_is_clean(data: &Path) -> Vec<String> {
    let events = verify_log(data);
    let verified = run(data, &["audit", "verify"]);
    println!("{events} events; audit verify exits with {:?}", verified.code);
    if verified.code == Some(0) { Vec::new() } else { vec![format!("audit verify: {}{}", verified.out, verified.err)] }
}
