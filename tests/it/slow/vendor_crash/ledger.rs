//! Checks after all crashes: every account balances, and every change of status was delivered.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::SETTLED_WITHIN;
use crate::support::client;
use crate::support::eventually::eventually_within;
use crate::support::process::{Process, TOKEN};
use crate::support::receiver::{ReceivedRequest, Receiver};

/// User who submits tasks, with an access token.
#[derive(Clone)]
pub struct LedgerCaller {
    pub id: String,
    pub token: String,
}

impl LedgerCaller {
    /// Creates a user with a token.
    pub async fn new(process: &Process, name: &str) -> Self {
        let post = async |path: &str, body: Value| -> Value {
            let request = client().post(process.url(path)).bearer_auth(TOKEN).json(&body);
            request.send().await.unwrap().json().await.unwrap()
        };
        let user = post("/admin/users", json!({"name": name, "email": format!("{name}@example.org")})).await;
        let id = user["id"].as_str().unwrap().to_owned();
        let token = post(&format!("/admin/users/{id}/tokens"), json!({"name": "crash"})).await;
        Self { id, token: token["token"].as_str().unwrap().to_owned() }
    }
}

/// Reads as the administrator.
pub async fn get(process: &Process, path: &str) -> Value {
    client().get(process.url(path)).bearer_auth(TOKEN).send().await.unwrap().json().await.unwrap()
}

/// Asserts that the account of a caller agrees with the outcome of its tasks: completed ones are charged, failed ones
/// refunded, and nothing is held. Returns the tasks that cost credits. `completed` has all tasks; `true` for completed
/// ones.
pub async fn audit(process: &Process, caller: &LedgerCaller, completed: &HashMap<String, bool>) -> Vec<String> {
    let mut charged = 0;
    let mut refunded = 0;
    let mut tasks = Vec::new();
    let mut cursor = String::new();
    let ledger = loop {
        let page = get(process, &format!("/users/credits?user={}&limit=100{cursor}", caller.id)).await;
        for entry in page["entries"].as_array().unwrap_or_else(|| panic!("{page}")) {
            let task = entry["task_id"].as_str().unwrap();
            let credits = entry["credits"].as_u64().unwrap();
            match (completed.get(task), entry["state"].as_str().unwrap()) {
                (Some(true), "charged") => charged += credits,
                (Some(false), "refunded") => refunded += credits,
                (is_completed, state) => panic!("{task} is completed: {is_completed:?}, and its credits are {state}"),
            }
            tasks.extend((credits > 0).then(|| task.to_owned()));
        }
        let Some(next) = page["next_cursor"].as_str() else { break page };
        cursor = format!("&cursor={next}");
    };

    let expected = json!([-i64::try_from(charged).unwrap(), 0, charged, refunded]);
    let actual = ["balance", "held", "charged", "refunded"].map(|name| ledger[name].clone());
    assert_eq!(json!(actual), expected, "the account of {}", caller.id);
    tasks
}

/// Waits until all webhooks are delivered. Asserts that every change of every task was delivered at least once, except
/// for the first status, which the response to the submission has.
pub async fn assert_all_reported(process: &Process, receiver: &Receiver, tasks: impl Iterator<Item = &String>) {
    let all_delivered = async || get(process, "/admin/state").await["queues"]["deliveries"] == 0;
    eventually_within(SETTLED_WITHIN, "all webhooks are delivered", all_delivered).await;
    let reported: HashSet<(String, String)> = receiver.received().iter().map(reported_change).collect();
    for task in tasks {
        let task_body = get(process, &format!("/tasks/{task}")).await;
        let changes = task_body["history"].as_array().unwrap_or_else(|| panic!("{task_body}"));
        for change in &changes[1..] {
            let state = change["state"].as_str().unwrap().to_owned();
            assert!(reported.contains(&(task.clone(), state)), "{change} of {task} was not reported");
        }
    }
}

/// Returns the task and the status of a callback; their names differ between pictures and videos.
fn reported_change(callback: &ReceivedRequest) -> (String, String) {
    let body = callback.json();
    let either = |names: [&str; 2]| names.iter().find_map(|name| body[*name].as_str().map(str::to_owned));
    let (task, state) = (either(["task_id", "id"]), either(["status", "state"]));
    task.zip(state).unwrap_or_else(|| panic!("{body}"))
}
