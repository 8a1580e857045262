//! Every fault of a vendor, and its effect on the task: `docs/vendors.md` describes them.
//!
//! Each row is one job, which the simulator recognises by its prompt; the row determines the behaviour towards its
//! requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{remote, sim, upscale};
use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimRequest, SimRequestKind, VendorSim};

/// Fault, and the number of requests of its kind that it affects.
struct VendorFaultRow {
    name: &'static str,
    kind: SimRequestKind,
    times: u32,
    behavior: fn(&SimRequest) -> SimBehavior,
    outcome: FaultOutcome,
}

/// Outcome of the task.
#[derive(Clone, Copy)]
enum FaultOutcome {
    /// The task completes, with one charge.
    Done,
    /// Unknown whether the vendor accepted it: the task completes if the mode allows finding out, and otherwise fails
    /// with that reason. One charge.
    Unknown,
    /// The task fails with this code, after this many charges.
    Fails(&'static str, usize),
}

const ALWAYS: u32 = u32::MAX;
const HTML: &str = "<!doctype html><title>Welcome</title>";
const HUGE: &str = "200 OK\r\ncontent-length: 10485760";
const GATEWAY: &str = "502 Bad Gateway";

fn respond(head: &'static str, body: &str) -> SimBehavior {
    SimBehavior::Respond(head, body.to_owned())
}

fn refuse(head: &'static str) -> SimBehavior {
    SimBehavior::Reject(head, r#"{"message": "as the test wants"}"#.to_owned())
}

/// Returns a response about the job itself.
fn poll_reply(request: &SimRequest, task: &Value) -> SimBehavior {
    let mut task = task.clone();
    if task.get("task_id").is_none() {
        task["task_id"] = json!(request.id);
    }
    SimBehavior::Respond("200 OK", json!({"data": task}).to_string())
}

/// Returns a result at another URL.
fn reply_for_url(request: &SimRequest, url: &str) -> SimBehavior {
    poll_reply(request, &json!({"status": "COMPLETED", "generated": [url]}))
}

fn ten_megabytes() -> SimBehavior {
    SimBehavior::Raw(format!("HTTP/1.1 {HUGE}\r\n\r\n{}", "x".repeat(2 << 20)))
}

fn cut() -> SimBehavior {
    SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"data\": {\"task_id\": \"job".to_owned())
}

const fn row(
    name: &'static str,
    kind: SimRequestKind,
    times: u32,
    behavior: fn(&SimRequest) -> SimBehavior,
    outcome: FaultOutcome,
) -> VendorFaultRow {
    VendorFaultRow { name, kind, times, behavior, outcome }
}

#[rustfmt::skip]
fn submissions() -> Vec<VendorFaultRow> {
    use SimRequestKind::Submission as S;
    use FaultOutcome::{Done, Fails, Unknown};
    vec![
        row("submission: black hole", S, 1, |_| SimBehavior::Silence, Unknown),
        row("submission: a byte at a time", S, 1, |_| SimBehavior::Trickle(Duration::from_millis(100)), Unknown),
        row("submission: connection closed", S, 1, |_| SimBehavior::HangUp, Unknown),
        row("submission: cut in its JSON", S, 1, |_| cut(), Unknown),
        row("submission: HTML with 200", S, 1, |_| respond("200 OK", HTML), Unknown),
        row("submission: ten megabytes", S, 1, |_| ten_megabytes(), Unknown),
        row("submission: no HTTP", S, 1, |_| SimBehavior::Raw("SSH-2.0-nothing\r\n\r\n".to_owned()), Unknown),
        row("submission: wrong types", S, 1, |_| respond("200 OK", r#"{"data": {"task_id": 7}}"#), Unknown),
        row("submission: no task", S, 1, |_| respond("200 OK", "{}"), Unknown),
        row("submission: 409", S, 1, |_| respond("409 Conflict", "{}"), Unknown),
        row("submission: 500", S, 1, |_| respond("500 Internal Server Error", "{}"), Unknown),
        row("submission: 502", S, 1, |_| respond(GATEWAY, HTML), Unknown),
        row("submission: 504", S, 1, |_| respond("504 Gateway Timeout", ""), Unknown),
        row("submission: 400", S, 1, |_| refuse("400 Bad Request"), Fails("vendor_refused", 0)),
        row("submission: 413", S, 1, |_| refuse("413 Content Too Large"), Fails("vendor_refused", 0)),
        row("submission: 422", S, 1, |_| refuse("422 Unprocessable Content"), Fails("vendor_refused", 0)),
        row("submission: 401", S, 2, |_| refuse("401 Unauthorized"), Done),
        row("submission: 402", S, 2, |_| refuse("402 Payment Required"), Done),
        row("submission: 403", S, 2, |_| refuse("403 Forbidden"), Done),
        row("submission: 404", S, 2, |_| refuse("404 Not Found"), Done),
        row("submission: redirected", S, 2, |_| refuse("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/"), Done),
        row("submission: 408", S, 2, |_| refuse("408 Request Timeout"), Done),
        row("submission: 429", S, 2, |_| refuse("429 Too Many Requests"), Done),
        row("submission: 503", S, 2, |_| refuse("503 Service Unavailable"), Done),
    ]
}

#[rustfmt::skip]
fn polls() -> Vec<VendorFaultRow> {
    use SimRequestKind::Poll as P;
    use FaultOutcome::{Done, Fails};
    vec![
        row("poll: black hole", P, 1, |_| SimBehavior::Silence, Done),
        row("poll: a byte at a time", P, 1, |_| SimBehavior::Trickle(Duration::from_millis(100)), Done),
        row("poll: connection closed", P, 2, |_| SimBehavior::HangUp, Done),
        row("poll: cut in its JSON", P, 2, |_| cut(), Done),
        row("poll: HTML with 200", P, 2, |_| respond("200 OK", HTML), Done),
        row("poll: ten megabytes", P, 2, |_| ten_megabytes(), Done),
        row("poll: wrong types", P, 2, |asked| poll_reply(asked, &json!({"status": 5, "generated": "no list"})), Done),
        row("poll: done without results", P, 2, |asked| poll_reply(asked, &json!({"status": "COMPLETED", "generated": []})), Done),
        row("poll: results of wrong types", P, 2, |asked| poll_reply(asked, &json!({"status": "COMPLETED", "generated": [1]})), Done),
        row("poll: unknown state", P, 2, |asked| poll_reply(asked, &json!({"status": "PONDERING"})), Done),
        row("poll: about another task", P, 2, |asked| poll_reply(asked, &json!({"status": "FAILED", "task_id": "job-0"})), Done),
        row("poll: states out of order", P, 4, |asked| {
            let status = ["IN_PROGRESS", "CREATED", "IN_PROGRESS", "CREATED"][(asked.count as usize - 1) % 4];
            poll_reply(asked, &json!({"status": status}))
        }, Done),
        row("poll: 400", P, 2, |_| refuse("400 Bad Request"), Done),
        row("poll: 401", P, 2, |_| refuse("401 Unauthorized"), Done),
        row("poll: 403", P, 2, |_| refuse("403 Forbidden"), Done),
        row("poll: 404", P, 1, |_| refuse("404 Not Found"), Done),
        row("poll: 429", P, 2, |_| refuse("429 Too Many Requests\r\nretry-after: 0"), Done),
        row("poll: 500", P, 2, |_| refuse("500 Internal Server Error"), Done),
        row("poll: 502", P, 2, |_| refuse(GATEWAY), Done),
        row("poll: 503", P, 2, |_| refuse("503 Service Unavailable"), Done),
        row("poll: lost for good", P, ALWAYS, |_| refuse("404 Not Found"), Fails("vendor_lost", 1)),
        row("poll: failed", P, ALWAYS, |asked| {
            poll_reply(asked, &json!({"status": "FAILED", "error": {"code": "nsfw", "message": "not that"}}))
        }, Fails("vendor_failed", 1)),
    ]
}

#[rustfmt::skip]
fn results() -> Vec<VendorFaultRow> {
    use SimRequestKind::{Poll as P, Result as R};
    use FaultOutcome::{Done, Fails};
    let unavailable = Fails("result_unavailable", 1);
    vec![
        row("result: 404 at first", R, 2, |_| refuse("404 Not Found"), Done),
        row("result: 500 at first", R, 2, |_| refuse("500 Internal Server Error"), Done),
        row("result: cut at first", R, 2, |_| SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nPNG".to_owned()), Done),
        row("result: silent at first", R, 1, |_| SimBehavior::Silence, Done),
        row("result: 404", R, ALWAYS, |_| refuse("404 Not Found"), unavailable),
        row("result: no picture", R, ALWAYS, |_| respond("200 OK", HTML), Fails("result_invalid", 1)),
        row("result: too large", R, ALWAYS, |_| SimBehavior::Raw("HTTP/1.1 200 OK\r\ncontent-length: 60000000\r\n\r\n".to_owned()), unavailable),
        row("result: redirected to a private address", R, ALWAYS, |_| refuse("302 Found\r\nlocation: http://169.254.169.254/"), unavailable),
        row("result: at a forbidden address", P, ALWAYS, |asked| reply_for_url(asked, "http://169.254.169.254/x.png"), unavailable),
        row("result: of another scheme", P, ALWAYS, |asked| reply_for_url(asked, "file:///etc/passwd"), unavailable),
        row("result: no URL", P, ALWAYS, |asked| reply_for_url(asked, "picture.png"), unavailable),
    ]
}

/// Service with a vendor that behaves as these rows say.
struct FaultTable {
    vendor: VendorSim,
    app: TestApp,
    mode: SimMode,
}

/// Starts a vendor that behaves as these rows say, and a service that uses it. Also returns the expected outcomes.
async fn start_table(
    mode: SimMode,
    rows: Vec<VendorFaultRow>,
    deadline: Duration,
) -> (FaultTable, Vec<(&'static str, FaultOutcome)>) {
    let outcomes = rows.iter().map(|row| (row.name, row.outcome)).collect();
    let by_name: HashMap<_, _> = rows.into_iter().map(|row| (row.name.to_owned(), row)).collect();
    let behavior = move |request: &SimRequest| match by_name.get(&request.prompt) {
        Some(row) if row.kind == request.kind && request.count <= row.times => (row.behavior)(request),
        _ => SimBehavior::Normal,
    };
    let vendor = VendorSim::with_behavior(sim(mode, Duration::ZERO), behavior).await;
    let base = vendor.base();
    let change = |settings: &mut mediary::config::Settings| {
        remote(settings, &base, mode);
        settings.tasks.deadline = deadline;
        let vendor = &mut settings.image_vendors[0];
        // Timeouts of missing responses; long enough on a busy machine for a response that is sent at once.
        (vendor.submit_timeout, vendor.poll_timeout) = (Duration::from_secs(8), Duration::from_secs(8));
        vendor.result_timeout = Duration::from_secs(8);
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    (FaultTable { vendor, app, mode }, outcomes)
}

impl FaultTable {
    async fn assert_outcomes(self, outcomes: Vec<(&'static str, FaultOutcome)>) {
        let table = Arc::new(self);
        let user = Arc::new(table.app.user("u").await);
        let rows = outcomes.into_iter().map(|(name, outcome)| {
            let (table, user) = (table.clone(), user.clone());
            actix_web::rt::spawn(async move {
                let task = submit(&table.app, &user, UPSCALER, upscale(name)).await;
                let finished = wait_for_end(&table.app, &user, UPSCALER, &task).await;
                let task_body = table.app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
                table.check(name, outcome, &finished, &task_body)
            })
        });
        let rows: Vec<_> = rows.collect();
        let mut mismatches = Vec::new();
        for row in rows {
            mismatches.extend(row.await.unwrap().err());
        }
        assert!(mismatches.is_empty(), "with a vendor that is {:?}:\n{}", table.mode, mismatches.join("\n"));
        let Ok(table) = Arc::try_unwrap(table) else { panic!("a row has not ended") };
        table.app.stop().await;
    }

    fn check(&self, name: &str, outcome: FaultOutcome, finished: &Value, task_body: &Value) -> Result<(), String> {
        let paid = self.vendor.charges().into_iter().filter(|charge| charge.prompt == name).count();
        let expected = match outcome {
            FaultOutcome::Done => ("", 1),
            FaultOutcome::Unknown if self.mode != SimMode::Neither => ("", 1),
            FaultOutcome::Unknown => ("outcome_unknown", 1),
            FaultOutcome::Fails(code, paid) => (code, paid),
        };
        let code = finished["error"]["code"].as_str().unwrap_or("");
        let states: Vec<_> = task_body["history"].as_array().unwrap().iter().map(|change| &change["state"]).collect();
        let last = if expected.0.is_empty() { "COMPLETED" } else { "FAILED" };
        let is_within_states = states.len() <= 3 && states[0] == "CREATED" && states.last().unwrap() == &last;
        let middle = states.len() < 3 || states[1] == "IN_PROGRESS";
        if (code, paid) == expected && is_within_states && middle {
            return Ok(());
        }
        Err(format!("{name}: expected {expected:?}, is {:?} by {states:?}: {finished}", (code, paid)))
    }
}

#[actix_web::test]
async fn every_fault_has_its_outcome_with_recovery_by_key() {
    let rows = submissions().into_iter().chain(polls()).chain(results()).collect();
    let (table, outcomes) = start_table(SimMode::HonoursKeys, rows, Duration::from_hours(1)).await;
    table.assert_outcomes(outcomes).await;
}

#[actix_web::test]
async fn every_submission_fault_has_its_outcome_with_recovery_by_search() {
    let (table, outcomes) = start_table(SimMode::Searchable, submissions(), Duration::from_hours(1)).await;
    table.assert_outcomes(outcomes).await;
}

#[actix_web::test]
async fn every_fault_has_its_outcome_without_recovery() {
    let rows = submissions().into_iter().chain(polls()).collect();
    let (table, outcomes) = start_table(SimMode::Neither, rows, Duration::from_hours(1)).await;
    table.assert_outcomes(outcomes).await;
}

#[actix_web::test]
#[rustfmt::skip]
async fn persistent_faults_end_at_the_deadline() {
    use SimRequestKind::{Poll as P, Search, Submission as S};
    let deadline_outcome = |paid| FaultOutcome::Fails("deadline_exceeded", paid);
    let rows = vec![
        row("deadline: never served", S, ALWAYS, |_| refuse("401 Unauthorized"), deadline_outcome(0)),
        row("deadline: always busy", S, ALWAYS, |_| refuse("503 Service Unavailable"), deadline_outcome(0)),
        row("deadline: never done", P, ALWAYS, |asked| poll_reply(asked, &json!({"status": "IN_PROGRESS"})), deadline_outcome(1)),
        row("deadline: never readable", P, ALWAYS, |_| respond("200 OK", HTML), deadline_outcome(1)),
        row("deadline: an unknown state", P, ALWAYS, |asked| poll_reply(asked, &json!({"status": "PONDERING"})), deadline_outcome(1)),
        row("deadline: result unavailable", SimRequestKind::Result, ALWAYS, |_| refuse("500 Internal Server Error"), FaultOutcome::Fails("result_unavailable", 1)),
    ];
    let (fault_table, outcomes) = start_table(SimMode::HonoursKeys, rows, Duration::from_secs(12)).await;
    fault_table.assert_outcomes(outcomes).await;

    // A submission whose outcome is still unknown at the deadline fails as unknown, not as late. A search has no prompt,
    // so the row without a name is about all searches; it is not a job.
    let rows = vec![
        row("deadline: accepted without a response", S, ALWAYS, |_| respond("500 Internal Server Error", "{}"), FaultOutcome::Fails("outcome_unknown", 1)),
        row("", Search, ALWAYS, |_| refuse("500 Internal Server Error"), FaultOutcome::Fails("outcome_unknown", 0)),
    ];
    let (unknown, mut outcomes) = start_table(SimMode::Searchable, rows, Duration::from_secs(12)).await;
    outcomes.truncate(1);
    unknown.assert_outcomes(outcomes).await;
}
