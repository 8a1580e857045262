//! Credit accounts under random submissions, failures, cancellations, stops and crashes, compared with the responses
//! that the client got and with the events. Two callers have accounts, and the first of them a budget. A third caller
//! is anonymous and may not use a remote vendor.
//!
//! `ACCOUNT_ROUNDS=200 cargo test --test it vendor_crash::accounts` sets the number of restarts.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Response;
use serde_json::{Value, json};

use super::ledger::{LedgerCaller, audit, get};
use super::{CrashPoint, SETTLED_WITHIN, service};
use crate::support::client;
use crate::support::eventually::eventually_within;
use crate::support::process::{Process, TOKEN};
use crate::support::vendor_sim::{SimMode, VendorSim};
use crate::vendor::sim;
use crate::video::credits::behavior;
use crate::video::{START_END, of_prompt};

/// Behaviour of the vendor by prompt; most jobs succeed or fail, some run until they are cancelled.
const PROMPTS: [&str; 6] = ["done", "done", "refused", "failed", "lasting", "lasting"];
/// Number of requests between two restarts.
const REQUESTS: usize = 16;
/// Budget of the first caller, in credits: for about ten jobs.
const BUDGET: u64 = 160;
/// Index of the anonymous caller, who follows the two callers with accounts.
const ANONYMOUS: usize = 2;

/// Tasks and submissions, as the client knows them from responses.
#[derive(Default)]
struct KnownTasks {
    /// Index of the caller and cost in credits, by task.
    tasks: HashMap<String, (usize, u64)>,
    /// Number of submissions of each caller that were cut off by a kill: they may have arrived.
    unanswered: [usize; 2],
    /// Number of submissions rejected because of the budget.
    rejected: usize,
}

impl KnownTasks {
    /// Returns the total cost of a caller's tasks, in credits.
    fn credits_of(&self, caller: usize) -> u64 {
        self.tasks.values().filter(|(owner, _)| *owner == caller).map(|(_, credits)| credits).sum()
    }
}

fn random_job(rng: &mut StdRng) -> Value {
    let mut job = of_prompt(PROMPTS[rng.gen_range(0..PROMPTS.len())]);
    job["duration"] = json!(rng.gen_range(1..=3));
    job
}

/// Posts a JSON body; anonymously without a caller.
async fn post(process: &Process, caller: Option<&LedgerCaller>, path: &str, body: &Value) -> reqwest::Result<Response> {
    let request = client().post(process.url(path)).json(body);
    if let Some(caller) = caller { request.bearer_auth(&caller.token) } else { request }.send().await
}

/// Submits a random job as a random caller and records the task; checks rejections because of the budget.
async fn submit(process: &Process, callers: &[LedgerCaller; 2], known_tasks: &mut KnownTasks, rng: &mut StdRng) {
    let caller_index = rng.gen_range(0..=ANONYMOUS);
    let response = post(process, callers.get(caller_index), START_END, &random_job(rng)).await.unwrap();
    if caller_index == ANONYMOUS {
        assert_eq!(response.status(), 401, "anonymous callers may not use a paid vendor");
        return;
    }
    if caller_index == 0 && response.status() == 402 {
        let problem: Value = response.json().await.unwrap();
        let [spent, held] = ["spent", "held"].map(|name| problem[name].as_u64().unwrap());
        assert!(spent + held <= BUDGET && problem["limit"] == BUDGET, "{problem}");
        known_tasks.rejected += 1;
        return;
    }
    assert_eq!(response.status(), 200);
    let task: Value = response.json().await.unwrap();
    let credits = task["credits"].as_u64().unwrap();
    known_tasks.tasks.insert(task["task_id"].as_str().unwrap().to_owned(), (caller_index, credits));
}

/// Cancels a random task as a random caller; for another caller's task, the response is 404.
async fn cancel(process: &Process, callers: &[LedgerCaller; 2], known_tasks: &KnownTasks, rng: &mut StdRng) {
    let mut tasks: Vec<_> = known_tasks.tasks.iter().collect();
    tasks.sort();
    if tasks.is_empty() {
        return;
    }
    let (task, (owner, _)) = tasks[rng.gen_range(0..tasks.len())];
    let caller_index = rng.gen_range(0..=ANONYMOUS);
    let path = format!("/proxy/videovendor/tasks/{task}/cancel");
    let status = post(process, callers.get(caller_index), &path, &json!({})).await.unwrap().status();
    assert_eq!(
        status,
        if caller_index == *owner { 200 } else { 404 },
        "caller {caller_index} cancels a task of {owner}"
    );
}

/// Checks all accounts while tasks run: held, charged and refunded credits add up to the cost of the known tasks. Tasks
/// that the client does not know are recorded, but there may be only as many as it has unanswered submissions.
async fn check_ledgers(process: &Process, callers: &[LedgerCaller; 2], known_tasks: &mut KnownTasks) {
    for (caller_index, caller) in callers.iter().enumerate() {
        let mut cursor = String::new();
        let mut ledger = Value::Null;
        let mut new_tasks = 0;
        while ledger.is_null() || ledger["next_cursor"].is_string() {
            ledger = get(process, &format!("/users/credits?user={}&limit=100{cursor}", caller.id)).await;
            for entry in ledger["entries"].as_array().unwrap_or_else(|| panic!("{ledger}")) {
                let (task, credits) =
                    (entry["task_id"].as_str().unwrap().to_owned(), entry["credits"].as_u64().unwrap());
                let before = known_tasks.tasks.insert(task, (caller_index, credits));
                assert!(before.is_none_or(|before| before == (caller_index, credits)), "{entry}: {before:?}");
                new_tasks += usize::from(before.is_none());
            }
            cursor = ledger["next_cursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
        }

        assert!(
            new_tasks <= known_tasks.unanswered[caller_index],
            "caller {caller_index} has {new_tasks} new tasks, more than it has unanswered submissions"
        );
        known_tasks.unanswered[caller_index] = 0;

        let [held_credits, charged, refunded] =
            ["held", "charged", "refunded"].map(|name| ledger[name].as_u64().unwrap());
        assert_eq!(held_credits + charged + refunded, known_tasks.credits_of(caller_index), "{ledger}");
        assert_eq!(ledger["balance"], -i64::try_from(held_credits + charged).unwrap());

        // Tasks may end between both reads, so only the sum is compared.
        let usage = get(process, &format!("/usage?user={}&from=2026-01-01&group_by=job", caller.id)).await;
        let sums = ["held", "charged", "refunded"].map(|name| usage["total"][name].as_u64().unwrap());
        assert_eq!(sums.iter().sum::<u64>(), known_tasks.credits_of(caller_index), "{usage}");
    }

    let budget = get(process, &format!("/admin/budgets/user/{}", callers[0].id)).await;
    let [spent, held] = ["spent", "held"].map(|name| budget[name].as_u64().unwrap());
    assert!(spent + held <= BUDGET, "{budget}");
}

/// Stops the service, kills it, or kills it during a submission.
async fn stop_or_kill(process: Process, callers: &[LedgerCaller; 2], known_tasks: &mut KnownTasks, rng: &mut StdRng) {
    match rng.gen_range(0..3) {
        0 => assert!(process.terminate().0.success()),
        1 => process.kill(),
        _ => {
            let caller_index = rng.gen_range(0..2);
            let request =
                client().post(process.url(START_END)).bearer_auth(&callers[caller_index].token).json(&random_job(rng));
            let sending = actix_web::rt::spawn(request.send());
            tokio::time::sleep(Duration::from_micros(rng.gen_range(0..8000))).await;
            process.kill();
            let _ = sending.await.unwrap();
            // The response is not read: the submission may have arrived in either case.
            known_tasks.unanswered[caller_index] += 1;
        }
    }
}

/// Cancels all running tasks, waits until all have ended, and checks that every account and the budget are settled.
/// Returns the number of completed tasks.
async fn settle(process: &Process, callers: &[LedgerCaller; 2], known_tasks: &KnownTasks) -> usize {
    for (task, (owner, _)) in &known_tasks.tasks {
        if get(process, &format!("/tasks/{task}")).await["state"] != "success" {
            let path = format!("/proxy/videovendor/tasks/{task}/cancel");
            post(process, Some(&callers[*owner]), &path, &json!({})).await.unwrap();
        }
    }

    let all_ended = async || get(process, "/admin/state").await["queues"]["tasks"] == 0;
    eventually_within(SETTLED_WITHIN, "all tasks end", all_ended).await;
    let mut completed = HashMap::new();
    for task in known_tasks.tasks.keys() {
        let state = get(process, &format!("/tasks/{task}")).await["state"].clone();
        assert!(state == "success" || state == "failed", "{task} is {state}");
        completed.insert(task.clone(), state == "success");
    }

    let mut audited = 0;
    for caller in callers {
        audited += audit(process, caller, &completed).await.len();
    }
    assert_eq!(audited, known_tasks.tasks.len(), "tasks in the accounts, and known tasks");

    let budget = get(process, &format!("/admin/budgets/user/{}", callers[0].id)).await;
    let ledger = get(process, &format!("/users/credits?user={}", callers[0].id)).await;
    assert_eq!(
        (&budget["spent"], &budget["held"]),
        (&ledger["charged"], &json!(0)),
        "the budget differs from the account"
    );
    completed.values().filter(|completed| **completed).count()
}

/// Returns the totals that `mediary audit amounts` recomputes from the events.
fn recomputed_totals(data_dir: &Path) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    let output = command.args(["audit", "amounts", "--json", "--data-dir"]).arg(data_dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().expect("a total")).unwrap();
    usage_totals(&last["total"])
}

/// Returns the totals of a usage report, in a fixed order.
fn usage_totals(report: &Value) -> Vec<Value> {
    ["submissions", "held", "charged", "refunded", "cost"].map(|name| report[name].clone()).to_vec()
}

#[actix_web::test]
async fn credits_balance_over_submissions_failures_cancellations_and_crashes() {
    let rounds: usize = std::env::var("ACCOUNT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let data = tempfile::tempdir().unwrap();
    let vendor = VendorSim::with_behavior(sim(SimMode::HonoursKeys, Duration::from_millis(10)), behavior).await;
    let start = |directory: &Path| {
        let mut command = service(directory, &[vendor.base()], SimMode::HonoursKeys, CrashPoint::Nowhere, 0);
        Process::try_start(&mut command).unwrap_or_else(|errors| panic!("it did not start: {errors}"))
    };

    // Given two callers, the first with a budget
    let process = start(data.path());
    let callers = [LedgerCaller::new(&process, "alice").await, LedgerCaller::new(&process, "bob").await];
    let path = process.url(&format!("/admin/budgets/user/{}", callers[0].id));
    let body = json!({"credits": BUDGET, "period": "total"});
    let response = client().put(path).bearer_auth(TOKEN).json(&body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(process.terminate().0.success());

    // When the service is stopped or killed again and again while they submit and cancel, then all accounts add up
    let mut known_tasks = KnownTasks::default();
    let mut rng = StdRng::seed_from_u64(0xC4ED_1755);
    for _ in 0..rounds {
        let process = start(data.path());
        check_ledgers(&process, &callers, &mut known_tasks).await;
        for _ in 0..REQUESTS {
            match rng.gen_range(0..8) {
                0..5 => submit(&process, &callers, &mut known_tasks, &mut rng).await,
                5 | 6 => cancel(&process, &callers, &known_tasks, &mut rng).await,
                _ => check_ledgers(&process, &callers, &mut known_tasks).await,
            }
        }
        stop_or_kill(process, &callers, &mut known_tasks, &mut rng).await;
    }

    // And in the end, the accounts, the usage report and the totals recomputed from the events agree
    let process = start(data.path());
    check_ledgers(&process, &callers, &mut known_tasks).await;
    let completed = settle(&process, &callers, &known_tasks).await;
    let tasks = known_tasks.tasks.len();
    let usage = get(&process, "/usage?from=2026-01-01").await["total"].clone();
    assert!(process.terminate().0.success());
    assert_eq!(recomputed_totals(data.path()), usage_totals(&usage));
    assert!(completed > 0 && completed < tasks, "{completed} of {tasks} tasks completed: the test needs both outcomes");
    assert!(rounds < 5 || known_tasks.rejected > 0, "no submission exceeded the budget");
    println!("{rounds} restarts, {tasks} tasks, of which {completed} were charged; {} rejected", known_tasks.rejected);
}
