//! kill -9 at every step of a task's way through the vendor: no double charges, and no accepted task is lost.
//!
//! The service that kills itself is this test program, started as a child process, as in `fail_points.rs`. The vendor
//! and its ledger survive, and so does the receiver of callbacks. Two callers submit pictures and videos. The suite
//! kills the service at each named place in each of the vendor's three modes, then at random places: `VENDOR_NAMED=100
//! VENDOR_CRASHES=1000 cargo test --test it vendor::crash` sets the numbers for each named place and for random ones,
//! in each mode.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mediary::app::{App, StopSignals};
use mediary::config::{Secret, Settings};
use mediary::environment::{CommitStep, Environment, FailPoint, VendorStep};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::{Value, json};

use super::{remote, sim, upscale};
use crate::image::UPSCALER;
use crate::support::client;
use crate::support::process::{Process, TOKEN};
use crate::support::receiver::Receiver;
use crate::support::vendor_sim::{Asked, Conduct, Kind, Mode, VendorSim};
use crate::video::{START_END, of_prompt};

mod accounts;
mod books;

use books::{Caller, all_told, audit, get};

/// Variables with the directory, the vendor, its mode, the place and the pass at which the child process kills itself.
const ORDERS: [&str; 5] = ["VENDOR_DIRECTORY", "VENDOR_URL", "VENDOR_MODE", "VENDOR_PLACE", "VENDOR_PASS"];
const MODES: [Mode; 3] = [Mode::HonoursKeys, Mode::Searchable, Mode::Neither];
/// Tasks submitted in a round: a picture and two videos.
const TASKS: usize = 3;
/// Deadline for the place of a round; after it the test kills the service.
const REACHED_WITHIN: Duration = Duration::from_secs(20);
/// Steps of a commit after which the service may be killed too.
const STEPS: [CommitStep; 7] = [
    CommitStep::Staged,
    CommitStep::Written,
    CommitStep::Synced,
    CommitStep::Published,
    CommitStep::Projected,
    CommitStep::MediaFileWritten,
    CommitStep::MediaDirSynced,
];

/// Place of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Within the service.
    Within(FailPoint),
    /// While the vendor processes a request: the vendor charges accepted work, and the response is lost.
    Without(Kind),
    Nowhere,
}

/// Named places, in the order of a submission.
fn named() -> Vec<End> {
    let within = VendorStep::ALL.map(|step| End::Within(FailPoint::Vendor(step)));
    let without = [Kind::Submission, Kind::Poll, Kind::Result].map(End::Without);
    within.into_iter().chain(without).collect()
}

/// Child process that kills itself; does nothing without its variables.
#[actix_web::test]
async fn a_service_that_ends_itself_at_the_vendor() {
    let [Ok(directory), Ok(url), Ok(mode), Ok(place), Ok(pass)] = ORDERS.map(std::env::var) else { return };
    let pass: u64 = pass.parse().unwrap();
    let mode = *MODES.iter().find(|known| format!("{known:?}") == mode).unwrap();
    let passes = AtomicU64::new(0);
    let end = move |reached: FailPoint, _: &str| {
        if format!("{reached:?}") == place && passes.fetch_add(1, Ordering::SeqCst) + 1 == pass {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    };
    let mut settings = Settings { data_dir: directory.into(), workers: 1, ..Settings::default() };
    settings.listen.set_port(0);
    settings.journal.segment_bytes = 1 << 20;
    settings.admin_token = Some(Secret::new(TOKEN));
    remote(&mut settings, &url, mode);
    let app = App::start(settings, Environment::system().with_fail_point_handler(Arc::new(end))).await.unwrap();
    let signals = StopSignals::install();
    println!("it listens on http://{}\ncurl is what the reader waits for", app.address());
    app.run_until_stopped(signals).await.unwrap();
}

/// Command that starts this program as that child process.
fn service(directory: &Path, vendor: &str, mode: Mode, end: End, pass: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "vendor::crash::a_service_that_ends_itself_at_the_vendor", "--nocapture"]);
    let place = if let End::Within(place) = end { format!("{place:?}") } else { String::new() };
    let directory = directory.to_str().unwrap().to_owned();
    let values = [directory, vendor.to_owned(), format!("{mode:?}"), place, pass.to_string()];
    command.envs(ORDERS.into_iter().zip(values));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Process to be killed by the vendor, at which kind of request, and after how many of them.
type Order = Arc<Mutex<Option<(Kind, Pid, u64)>>>;

fn ending(order: &Order) -> impl Fn(&Asked) -> Conduct + Send + Sync + 'static {
    let order = order.clone();
    move |asked| {
        let mut order = order.lock();
        match order.as_mut() {
            Some((kind, pid, left)) if *kind == asked.kind => {
                *left -= 1;
                if *left > 0 {
                    return Conduct::Usual;
                }
                let _ = kill_process(*pid, Signal::KILL);
                *order = None;
                Conduct::HangUp
            }
            _ => Conduct::Usual,
        }
    }
}

/// Participants that survive the crashes.
struct Outside {
    vendor: VendorSim,
    mode: Mode,
    order: Order,
    receiver: Receiver,
    callers: [Caller; 2],
}

/// Submits the tasks of a round, as long as the service runs.
async fn submit(base: String, hook: String, callers: [Caller; 2]) {
    let with = |mut body: Value, field: &str| {
        body[field] = json!(hook);
        body
    };
    let [first, second] = &callers;
    let picture = (UPSCALER, with(upscale("crash"), "webhook_url"));
    let videos = ["crash-1", "crash-2"].map(|prompt| (START_END, with(of_prompt(prompt), "callback_url")));
    let [film, other] = videos;
    for (caller, (path, body)) in [(first, film), (first, picture), (second, other)] {
        let request = client().post(format!("{base}{path}")).bearer_auth(&caller.token).json(&body);
        if let Ok(answer) = request.send().await {
            assert!(answer.status().is_success(), "{}", answer.status());
        }
    }
}

/// Runs one round; returns `true` if the service was killed at the intended place.
async fn round(directory: &Path, outside: &Outside, (end, pass): (End, u64)) -> bool {
    let Outside { vendor, mode, order, receiver, callers } = outside;
    let mut command = service(directory, &vendor.base(), *mode, end, pass);
    let Ok(process) = Process::try_start(&mut command) else { return true };
    if let End::Without(kind) = end {
        *order.lock() = Some((kind, process.pid(), pass));
    }
    let submitting = submit(process.url(""), receiver.url("/hook"), callers.clone());
    let (pid, submitting) = (process.pid(), actix_web::rt::spawn(submitting));
    let ended = tokio::task::spawn_blocking(move || process.ended());
    let mut ended = std::pin::pin!(ended);
    let reached = tokio::time::timeout(REACHED_WITHIN, &mut ended).await.is_ok();
    if !reached {
        let _ = kill_process(pid, Signal::KILL);
        ended.await.unwrap();
    }
    *order.lock() = None;
    submitting.await.unwrap();
    reached
}

/// Outcome of every task: completed, or the error code.
async fn ends(process: &Process) -> HashMap<String, String> {
    let mut ends: HashMap<String, String> = HashMap::new();
    for kind in ["TaskSubmitted", "TaskCompleted", "VideoCompleted", "TaskFailed"] {
        let mut after = 0;
        loop {
            let page = get(process, &format!("/admin/events?type={kind}&after={after}&limit=1000")).await;
            let events = page["events"].as_array().unwrap_or_else(|| panic!("{page}")).clone();
            for event in &events {
                let task = event["stream"].as_str().unwrap().trim_start_matches("task/").to_owned();
                let told = match kind {
                    "TaskFailed" => event["data"].to_string(),
                    "VideoCompleted" => "TaskCompleted".to_owned(),
                    kind => kind.to_owned(),
                };
                let before = ends.insert(task, told);
                assert!(kind == "TaskSubmitted" || before.as_deref() == Some("TaskSubmitted"), "{event} ends it twice");
            }
            let Some(last) = events.last() else { break };
            after = last["position"].as_u64().unwrap();
        }
    }
    ends
}

/// Waits until all tasks have ended, and compares the vendor's ledger, the callers' accounts and the callbacks.
async fn settle(directory: &Path, outside: &Outside) -> String {
    let Outside { vendor, mode, receiver, callers, .. } = outside;
    let process = Process::try_start(&mut service(directory, &vendor.base(), *mode, End::Nowhere, 0)).unwrap();
    while get(&process, "/admin/state").await["queues"]["tasks"] != 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ends = ends(&process).await;
    all_told(&process, receiver, ends.keys()).await;
    let completed = ends.iter().map(|(task, end)| (task.clone(), end == "TaskCompleted")).collect();
    let (mut accounts, mut videos) = (Vec::new(), 0);
    for caller in callers {
        let tasks = audit(&process, caller, &completed).await;
        videos += tasks.len();
        accounts.extend(tasks);
    }
    accounts.sort();
    accounts.dedup();
    assert!(accounts.len() == videos && videos * 3 > ends.len(), "every video is in one account: {videos}");
    assert!(process.terminate().0.success());
    let mut paid: HashMap<String, usize> = HashMap::new();
    for charge in vendor.charges() {
        *paid.entry(charge.key).or_default() += 1;
    }
    let mut unknown = Vec::new();
    for (task, end) in &ends {
        let paid = paid.get(task).copied().unwrap_or(0);
        match end.as_str() {
            "TaskCompleted" => assert_eq!(paid, 1, "{task} is completed"),
            failed => {
                assert!(*mode == Mode::Neither && failed.contains("outcome_unknown"), "{task} ended by {failed}");
                assert!(paid <= 1, "{task} was paid for {paid} times");
                unknown.push((task, paid));
            }
        }
    }
    assert!(!ends.is_empty() && paid.keys().all(|task| ends.contains_key(task)), "only what was submitted is paid for");
    let unpaid = unknown.iter().filter(|(_, paid)| *paid == 0).count();
    format!(
        "{mode:?}: {} tasks, {videos} of them videos, {} charges, {} of unknown outcome (paid for: {})",
        ends.len(),
        paid.values().sum::<usize>(),
        unknown.len(),
        unknown.len() - unpaid
    )
}

/// Participants before the first crash.
async fn outside(directory: &Path, mode: Mode) -> Outside {
    let order = Order::default();
    let vendor = VendorSim::behaving(sim(mode, Duration::from_millis(20)), ending(&order)).await;
    let process = Process::try_start(&mut service(directory, &vendor.base(), mode, End::Nowhere, 0)).unwrap();
    let callers = [Caller::new(&process, "alice").await, Caller::new(&process, "bob").await];
    assert!(process.terminate().0.success());
    Outside { vendor, mode, order, receiver: Receiver::start().await, callers }
}

async fn crashes(mode: Mode) {
    let given = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (times, random) = (given("VENDOR_NAMED").unwrap_or(1), given("VENDOR_CRASHES").unwrap_or(3));
    let data = tempfile::tempdir().unwrap();
    let outside = outside(data.path(), mode).await;
    let mut chance = StdRng::seed_from_u64(0x0C4A_26ED);
    for end in (0..times).flat_map(|_| named()) {
        let reached = round(data.path(), &outside, (end, chance.gen_range(1..=2))).await;
        assert!(reached, "{end:?} was not reached");
    }
    let within = STEPS.map(|step| End::Within(FailPoint::After(step)));
    let everywhere: Vec<_> = named().into_iter().chain(within).collect();
    let mut reached = 0;
    for _ in 0..random {
        let end = everywhere[chance.gen_range(0..everywhere.len())];
        let pass =
            chance.gen_range(1..=if matches!(end, End::Within(FailPoint::After(_))) { 20 } else { TASKS as u64 });
        reached += u64::from(round(data.path(), &outside, (end, pass)).await);
    }
    let told = settle(data.path(), &outside).await;
    let named = times * named().len() as u64;
    println!("killed {named} times at named places, and {reached} times of {random} at random ones; {told}");
}

#[actix_web::test]
async fn nothing_is_paid_for_twice_where_the_vendor_honours_keys() {
    crashes(Mode::HonoursKeys).await;
}

#[actix_web::test]
async fn nothing_is_paid_for_twice_where_the_vendor_can_be_searched() {
    crashes(Mode::Searchable).await;
}

#[actix_web::test]
async fn nothing_is_paid_for_twice_where_nothing_can_be_found_out() {
    crashes(Mode::Neither).await;
}
