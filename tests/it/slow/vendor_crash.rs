//! kill -9 at every step of a vendor job: no double charges, and no accepted task is lost.
//!
//! The service that kills itself is the child program of the tests, as in `fail_points.rs`. The simulated vendor, with
//! its record of charges, and the receiver of callbacks run on. Two callers submit pictures and videos.
//!
//! In each of the vendor's three modes, the suite kills the service at each named point, then at random points.
//! `VENDOR_NAMED=100 VENDOR_CRASHES=1000 cargo test --test it vendor_crash` kills it 100 times at each named point, and
//! 1000 times at random points.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mediary::environment::{CommitStep, FailPoint, VendorStep};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::image::UPSCALER;
use crate::support::client;
use crate::support::eventually::eventually_within;
use crate::support::process::{Process, faulty_service};
use crate::support::receiver::Receiver;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimRequest, SimRequestKind, VendorSim};
use crate::vendor::{remote_by_file, remote_by_variables, sim, upscale};
use crate::video::{START_END, of_prompt};

mod accounts;
mod ledger;

use ledger::{LedgerCaller, assert_all_reported, audit, get};

/// Tasks submitted in a round: a picture and two videos.
const TASKS: usize = 3;
/// Deadline for reaching the crash point of a round; after it the test kills the service.
const REACHED_WITHIN: Duration = Duration::from_secs(20);
/// Deadline for the tasks and webhooks that all rounds left unfinished.
const SETTLED_WITHIN: Duration = Duration::from_mins(5);
/// Steps of a commit after which the service may be killed too.
const COMMIT_STEPS: [CommitStep; 7] = [
    CommitStep::Staged,
    CommitStep::Written,
    CommitStep::Synced,
    CommitStep::Published,
    CommitStep::Projected,
    CommitStep::MediaFileWritten,
    CommitStep::MediaDirSynced,
];

/// Point at which the service is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CrashPoint {
    /// Within the service.
    InService(FailPoint),
    /// While the vendor processes a request: the vendor charges accepted work, and the response is lost.
    AtVendor(SimRequestKind),
    /// The service is not killed.
    Nowhere,
}

/// Returns the points that every task passes.
fn named_points() -> Vec<CrashPoint> {
    let vendor_points = VendorStep::ALL.map(|step| CrashPoint::InService(FailPoint::Vendor(step)));
    let requests = [SimRequestKind::Submission, SimRequestKind::Poll, SimRequestKind::Result].map(CrashPoint::AtVendor);
    vendor_points.into_iter().chain(requests).collect()
}

/// Returns a command that starts a service with these vendors. If the crash point is within the service, the service
/// kills itself when it reaches the point for the `pass`th time.
fn service(directory: &Path, vendors: &[String], mode: SimMode, crash_point: CrashPoint, pass: u64) -> Command {
    let mut command = faulty_service(directory);
    match vendors {
        [vendor] => remote_by_variables(&mut command, vendor, mode),
        several => remote_by_file(&mut command, directory.parent().expect("a parent directory"), several, mode),
    }
    if let CrashPoint::InService(point) = crash_point {
        command.env("FAULT_KILL_AT", format!("{point:?}")).env("FAULT_KILL_PASS", pass.to_string());
    }
    command
}

/// Order to the vendor to kill a process: the kind of request, the process, and the number of such requests left, of
/// which the last one kills. `None` if no kill is pending.
type CrashOrder = Arc<Mutex<Option<(SimRequestKind, Pid, u64)>>>;

/// Returns the behaviour of a vendor that kills the service as ordered, and then hangs up.
fn killing_behavior(order: &CrashOrder) -> impl Fn(&SimRequest) -> SimBehavior + Send + Sync + 'static {
    let order = order.clone();
    move |request| {
        let mut order = order.lock();
        match order.as_mut() {
            Some((kind, pid, left)) if *kind == request.kind => {
                *left -= 1;
                if *left > 0 {
                    return SimBehavior::Normal;
                }
                let _ = kill_process(*pid, Signal::KILL);
                *order = None;
                SimBehavior::HangUp
            }
            _ => SimBehavior::Normal,
        }
    }
}

/// Participants that survive the crashes.
struct OutsideWorld {
    vendors: Vec<VendorSim>,
    mode: SimMode,
    order: CrashOrder,
    receiver: Receiver,
    callers: [LedgerCaller; 2],
}

impl OutsideWorld {
    /// Returns the base URL of each vendor.
    fn bases(&self) -> Vec<String> {
        self.vendors.iter().map(VendorSim::base).collect()
    }
}

/// Submits the tasks of a round; ignores submissions that fail because the service was killed.
async fn submit(base: String, webhook_url: String, callers: [LedgerCaller; 2]) {
    let with_webhook = |mut body: Value, field: &str| {
        body[field] = json!(webhook_url);
        body
    };
    let [first, second] = &callers;
    let picture = (UPSCALER, with_webhook(upscale("crash"), "webhook_url"));
    let videos = ["crash-1", "crash-2"].map(|prompt| (START_END, with_webhook(of_prompt(prompt), "callback_url")));
    let [first_video, second_video] = videos;
    for (caller, (path, body)) in [(first, first_video), (first, picture), (second, second_video)] {
        let request = client().post(format!("{base}{path}")).bearer_auth(&caller.token).json(&body);
        if let Ok(response) = request.send().await {
            assert!(response.status().is_success(), "{}", response.status());
        }
    }
}

/// Starts the service, submits tasks, and waits until the service is killed at the crash point; after a deadline, kills
/// it anyway. Returns `true` if the crash point was reached.
async fn run_round(directory: &Path, outside: &OutsideWorld, crash_point: CrashPoint, pass: u64) -> bool {
    let OutsideWorld { mode, order, receiver, callers, .. } = outside;
    let mut command = service(directory, &outside.bases(), *mode, crash_point, pass);
    // Work left by earlier rounds may reach the point before the service is ready.
    let process = match Process::try_start(&mut command) {
        Ok(process) => process,
        Err(errors) => {
            assert!(errors.contains("signal: 9"), "the service did not start: {errors}");
            return true;
        }
    };
    if let CrashPoint::AtVendor(kind) = crash_point {
        *order.lock() = Some((kind, process.pid(), pass));
    }

    let submitting = submit(process.url(""), receiver.url("/hook"), callers.clone());
    let (pid, submitting) = (process.pid(), actix_web::rt::spawn(submitting));

    let exit = tokio::task::spawn_blocking(move || process.wait_for_exit());
    let mut exit = std::pin::pin!(exit);
    let is_reached = tokio::time::timeout(REACHED_WITHIN, &mut exit).await.is_ok();
    if !is_reached {
        let _ = kill_process(pid, Signal::KILL);
        exit.await.unwrap();
    }

    *order.lock() = None;
    submitting.await.unwrap();
    is_reached
}

/// Returns the outcome of every task by id: `TaskSubmitted`, `TaskCompleted` (for videos too), or the data of
/// `TaskFailed`. Asserts that no task ended twice.
async fn task_outcomes(process: &Process) -> HashMap<String, String> {
    let mut outcomes: HashMap<String, String> = HashMap::new();
    for kind in ["TaskSubmitted", "TaskCompleted", "VideoCompleted", "TaskFailed"] {
        let mut after = 0;
        loop {
            let page = get(process, &format!("/admin/events?type={kind}&after={after}&limit=1000")).await;
            let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
            for event in &events {
                let task = event["stream"].as_str().unwrap().trim_start_matches("task/").to_owned();
                let outcome = match kind {
                    "TaskFailed" => event["data"].to_string(),
                    "VideoCompleted" => "TaskCompleted".to_owned(),
                    kind => kind.to_owned(),
                };
                let before = outcomes.insert(task, outcome);
                assert!(
                    kind == "TaskSubmitted" || before.as_deref() == Some("TaskSubmitted"),
                    "{event} ends its task twice"
                );
            }
            let Some(last) = events.last() else { break };
            after = last["position"].as_u64().unwrap();
        }
    }
    outcomes
}

/// Waits until all tasks have ended, and compares the vendors' charges, the callers' accounts and the callbacks.
/// Returns a summary.
async fn settle(directory: &Path, outside: &OutsideWorld) -> String {
    let OutsideWorld { vendors, mode, receiver, callers, .. } = outside;
    let process = Process::try_start(&mut service(directory, &outside.bases(), *mode, CrashPoint::Nowhere, 0)).unwrap();
    let all_ended = async || get(&process, "/admin/state").await["queues"]["tasks"] == 0;
    eventually_within(SETTLED_WITHIN, "all tasks end", all_ended).await;

    let outcomes = task_outcomes(&process).await;
    assert_all_reported(&process, receiver, outcomes.keys()).await;

    let completed = outcomes.iter().map(|(task, outcome)| (task.clone(), outcome == "TaskCompleted")).collect();
    // Only videos cost credits.
    let mut billed_tasks = Vec::new();
    let mut videos = 0;
    for caller in callers {
        let tasks = audit(&process, caller, &completed).await;
        videos += tasks.len();
        billed_tasks.extend(tasks);
    }
    billed_tasks.sort();
    billed_tasks.dedup();
    assert_eq!(billed_tasks.len(), videos, "a video is in both accounts");
    assert!(videos * 3 > outcomes.len(), "too few of the {} tasks are videos: {videos}", outcomes.len());
    assert!(process.terminate().0.success());

    let mut charge_counts: HashMap<String, usize> = HashMap::new();
    for charge in vendors.iter().flat_map(VendorSim::charges) {
        *charge_counts.entry(charge.key).or_default() += 1;
    }

    let mut unknown = Vec::new();
    for (task, outcome) in &outcomes {
        let charges = charge_counts.get(task).copied().unwrap_or(0);
        match outcome.as_str() {
            "TaskCompleted" => assert_eq!(charges, 1, "charges for {task}, which is completed"),
            failure => {
                // The outcome of a submission may remain unknown only if the vendor offers no recovery.
                assert!(*mode == SimMode::Neither && failure.contains("outcome_unknown"), "{task} ended by {failure}");
                assert!(charges <= 1, "{task} was charged {charges} times");
                unknown.push((task, charges));
            }
        }
    }
    assert!(!outcomes.is_empty(), "no task was submitted");
    assert!(charge_counts.keys().all(|task| outcomes.contains_key(task)), "a charge is for no submitted task");

    format!(
        "{mode:?}: {} tasks, {videos} of them videos, {} charges, {} of unknown outcome (charged: {})",
        outcomes.len(),
        charge_counts.values().sum::<usize>(),
        unknown.len(),
        unknown.iter().filter(|(_, charges)| *charges > 0).count()
    )
}

/// Starts the vendors and the receiver, and creates the callers. Of several vendors, all but the last reject every
/// second submission as busy, so that the service falls back to the next one.
async fn start_outside_world(directory: &Path, mode: SimMode, vendor_count: usize) -> OutsideWorld {
    let order = CrashOrder::default();
    let mut vendors = Vec::new();
    for number in 1..=vendor_count {
        let (killing, submissions) = (killing_behavior(&order), AtomicUsize::new(0));
        let behavior = move |request: &SimRequest| {
            let is_busy = number < vendor_count
                && request.kind == SimRequestKind::Submission
                && submissions.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
            if is_busy { SimBehavior::Reject("429 Too Many Requests", "{}".to_owned()) } else { killing(request) }
        };
        vendors.push(VendorSim::with_behavior(sim(mode, Duration::from_millis(20)), behavior).await);
    }
    let bases: Vec<_> = vendors.iter().map(VendorSim::base).collect();
    let process = Process::try_start(&mut service(directory, &bases, mode, CrashPoint::Nowhere, 0)).unwrap();
    let callers = [LedgerCaller::new(&process, "alice").await, LedgerCaller::new(&process, "bob").await];
    assert!(process.terminate().0.success());
    OutsideWorld { vendors, mode, order, receiver: Receiver::start().await, callers }
}

/// Kills the service at every named point and at random points. Asserts afterwards that every completed task was
/// charged exactly once, and every other task at most once.
async fn assert_charged_once_over_crashes(mode: SimMode, vendor_count: usize) {
    let env_number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let kills_per_point = env_number("VENDOR_NAMED").unwrap_or(1);
    let random_kills = env_number("VENDOR_CRASHES").unwrap_or(3);
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let outside = start_outside_world(&data, mode, vendor_count).await;

    let mut rng = StdRng::seed_from_u64(0x0C4A_26ED);
    for point in (0..kills_per_point).flat_map(|_| named_points()) {
        let is_reached = run_round(&data, &outside, point, rng.gen_range(1..=2)).await;
        assert!(is_reached, "{point:?} was not reached");
    }

    let commit_points = COMMIT_STEPS.map(|step| CrashPoint::InService(FailPoint::After(step)));
    let all_points: Vec<_> = named_points().into_iter().chain(commit_points).collect();
    let mut reached_count = 0;
    for _ in 0..random_kills {
        let point = all_points[rng.gen_range(0..all_points.len())];
        let is_commit_step = matches!(point, CrashPoint::InService(FailPoint::After(_)));
        let pass = rng.gen_range(1..=if is_commit_step { 20 } else { TASKS as u64 });
        reached_count += u64::from(run_round(&data, &outside, point, pass).await);
    }

    let settled = settle(&data, &outside).await;
    let named_rounds = kills_per_point * named_points().len() as u64;
    println!("{named_rounds} kills at named points, {reached_count} of {random_kills} at random points; {settled}");
}

#[actix_web::test]
async fn no_job_is_charged_twice_with_recovery_by_key() {
    assert_charged_once_over_crashes(SimMode::HonoursKeys, 1).await;
}

#[actix_web::test]
async fn no_job_is_charged_twice_with_recovery_by_search() {
    assert_charged_once_over_crashes(SimMode::Searchable, 1).await;
}

#[actix_web::test]
async fn no_job_is_charged_twice_without_recovery() {
    assert_charged_once_over_crashes(SimMode::Neither, 1).await;
}

#[actix_web::test]
async fn no_job_is_charged_twice_among_several_vendors() {
    for mode in [SimMode::HonoursKeys, SimMode::Neither] {
        assert_charged_once_over_crashes(mode, 3).await;
    }
}
