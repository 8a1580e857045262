//! Credit accounts under random submissions, failures, cancellations, stops and crashes, compared with the client's
//! knowledge. Two callers have accounts; the third is anonymous and may not use a remote vendor.
//!
//! `ACCOUNT_ROUNDS=200 cargo test --test it vendor::crash::accounts` sets the number of restarts.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Response;
use serde_json::{Value, json};

use super::books::{Caller, audit, get};
use super::{End, service};
use crate::support::client;
use crate::support::process::Process;
use crate::support::vendor_sim::{Mode, VendorSim};
use crate::vendor::sim;
use crate::video::credits::conduct;
use crate::video::{START_END, of_prompt};

/// Behaviour of the vendor by prompt; most jobs succeed or fail, some run until they are cancelled.
const PROMPTS: [&str; 6] = ["done", "done", "refused", "failed", "lasting", "lasting"];
/// Number of requests between two restarts.
const ASKED: usize = 16;

/// Knowledge of the client.
#[derive(Default)]
struct Known {
    /// Task → its caller, and its cost.
    tasks: HashMap<String, (usize, u64)>,
    /// Submissions of each caller without a response: they may have arrived.
    unanswered: [usize; 2],
}

impl Known {
    /// Total cost of a caller's tasks.
    fn credits_of(&self, caller: usize) -> u64 {
        self.tasks.values().filter(|(owner, _)| *owner == caller).map(|(_, credits)| credits).sum()
    }
}

fn job(chance: &mut StdRng) -> Value {
    let mut job = of_prompt(PROMPTS[chance.gen_range(0..PROMPTS.len())]);
    job["duration"] = json!(chance.gen_range(1..=3));
    job
}

async fn post(process: &Process, caller: Option<&Caller>, path: &str, body: &Value) -> reqwest::Result<Response> {
    let request = client().post(process.url(path)).json(body);
    if let Some(caller) = caller { request.bearer_auth(&caller.token) } else { request }.send().await
}

async fn submit(process: &Process, callers: &[Caller; 2], known: &mut Known, chance: &mut StdRng) {
    let who = chance.gen_range(0..3);
    let answer = post(process, callers.get(who), START_END, &job(chance)).await.unwrap();
    if who == 2 {
        assert_eq!(answer.status(), 401, "nobody has videos made by a vendor that is paid");
        return;
    }
    assert_eq!(answer.status(), 200);
    let task: Value = answer.json().await.unwrap();
    let credits = task["credits"].as_u64().unwrap();
    known.tasks.insert(task["task_id"].as_str().unwrap().to_owned(), (who, credits));
}

/// Cancels a task; for another caller's task, the response is 404.
async fn cancel(process: &Process, callers: &[Caller; 2], known: &Known, chance: &mut StdRng) {
    let mut tasks: Vec<_> = known.tasks.iter().collect();
    tasks.sort();
    if tasks.is_empty() {
        return;
    }
    let (task, (owner, _)) = tasks[chance.gen_range(0..tasks.len())];
    let who = chance.gen_range(0..3);
    let path = format!("/proxy/videovendor/tasks/{task}/cancel");
    let status = post(process, callers.get(who), &path, &json!({})).await.unwrap().status();
    assert_eq!(status, if who == *owner { 200 } else { 404 }, "caller {who} cancels a task of {owner}");
}

/// Checks an account at any time: the sum of held, charged and released credits is the cost of the tasks; only
/// submissions without a response may add to it.
async fn look(process: &Process, callers: &[Caller; 2], known: &mut Known) {
    for (who, caller) in callers.iter().enumerate() {
        let (mut cursor, mut ledger) = (String::new(), Value::Null);
        let mut new = 0;
        while ledger.is_null() || ledger["next_cursor"].is_string() {
            ledger = get(process, &format!("/users/credits?user={}&limit=100{cursor}", caller.id)).await;
            for entry in ledger["entries"].as_array().unwrap_or_else(|| panic!("{ledger}")) {
                let (task, credits) =
                    (entry["task_id"].as_str().unwrap().to_owned(), entry["credits"].as_u64().unwrap());
                let before = known.tasks.insert(task, (who, credits));
                assert!(before.is_none_or(|before| before == (who, credits)), "{entry}: {before:?}");
                new += usize::from(before.is_none());
            }
            cursor = ledger["next_cursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
        }
        assert!(new <= known.unanswered[who], "{new} tasks of caller {who} that nobody submitted");
        known.unanswered[who] = 0;
        let [held, charged, refunded] = ["held", "charged", "refunded"].map(|name| ledger[name].as_u64().unwrap());
        assert_eq!(held + charged + refunded, known.credits_of(who), "{ledger}");
        assert_eq!(ledger["balance"], -i64::try_from(held + charged).unwrap());
    }
}

/// Stops the service, kills it, or kills it during a submission.
async fn end(process: Process, callers: &[Caller; 2], known: &mut Known, chance: &mut StdRng) {
    match chance.gen_range(0..3) {
        0 => assert!(process.terminate().0.success()),
        1 => process.kill(),
        _ => {
            let who = chance.gen_range(0..2);
            let request = client().post(process.url(START_END)).bearer_auth(&callers[who].token).json(&job(chance));
            let sending = actix_web::rt::spawn(request.send());
            tokio::time::sleep(Duration::from_micros(chance.gen_range(0..8000))).await;
            process.kill();
            let _ = sending.await.unwrap();
            // The response is not read: the submission may have arrived in either case.
            known.unanswered[who] += 1;
        }
    }
}

/// Cancels all running tasks, and waits until every account is settled.
async fn settle(process: &Process, callers: &[Caller; 2], known: &Known) -> (usize, usize) {
    for (task, (owner, _)) in &known.tasks {
        if get(process, &format!("/tasks/{task}")).await["state"] != "success" {
            let path = format!("/proxy/videovendor/tasks/{task}/cancel");
            post(process, Some(&callers[*owner]), &path, &json!({})).await.unwrap();
        }
    }
    while get(process, "/admin/state").await["queues"]["tasks"] != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut completed = HashMap::new();
    for task in known.tasks.keys() {
        let state = get(process, &format!("/tasks/{task}")).await["state"].clone();
        assert!(state == "success" || state == "failed", "{task} is {state}");
        completed.insert(task.clone(), state == "success");
    }
    let mut audited = 0;
    for caller in callers {
        audited += audit(process, caller, &completed).await.len();
    }
    assert_eq!(audited, known.tasks.len(), "every task is in one account");
    (known.tasks.len(), completed.values().filter(|completed| **completed).count())
}

#[actix_web::test]
async fn every_account_balances_over_submissions_failures_cancels_and_crashes() {
    let rounds: usize = std::env::var("ACCOUNT_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let data = tempfile::tempdir().unwrap();
    let vendor = VendorSim::behaving(sim(Mode::HonoursKeys, Duration::from_millis(10)), conduct).await;
    let start = |directory: &Path| {
        let mut command = service(directory, &vendor.base(), Mode::HonoursKeys, End::Nowhere, 0);
        Process::try_start(&mut command).unwrap_or_else(|errors| panic!("it did not start: {errors}"))
    };
    let process = start(data.path());
    let callers = [Caller::new(&process, "alice").await, Caller::new(&process, "bob").await];
    assert!(process.terminate().0.success());
    let (mut known, mut chance) = (Known::default(), StdRng::seed_from_u64(0xC4ED_1755));
    for _ in 0..rounds {
        let process = start(data.path());
        look(&process, &callers, &mut known).await;
        for _ in 0..ASKED {
            match chance.gen_range(0..8) {
                0..5 => submit(&process, &callers, &mut known, &mut chance).await,
                5 | 6 => cancel(&process, &callers, &known, &mut chance).await,
                _ => look(&process, &callers, &mut known).await,
            }
        }
        end(process, &callers, &mut known, &mut chance).await;
    }
    let process = start(data.path());
    look(&process, &callers, &mut known).await;
    let (tasks, completed) = settle(&process, &callers, &known).await;
    assert!(process.terminate().0.success());
    assert!(completed > 0 && completed < tasks, "the test shows nothing: {completed} of {tasks}");
    println!("{rounds} lives of the service, {tasks} tasks, of which {completed} were charged");
}
