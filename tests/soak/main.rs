//! Soak test: mixed traffic against the program for an hour, kill -9 every five minutes, a vendor that fails half of
//! the time.
//!
//! `tests/soak/run [--minutes 60] [--kill-every 5m] [--dir DIR] [--memory-bound MIB]`
//!
//! Checks at the end for lost writes, duplicates and leaks:
//!
//! - every acknowledged write is readable, the log has neither gaps nor duplicates, `mediary audit verify` exits with 0
//! - the vendor charged each job once, each idempotency key has one effect, and webhooks arrive in order, each
//!   `webhook-id` with one body
//! - memory and open files of the process do not grow from run to run
//!
//! A run (`Segment`) lasts from a start of the program to its kill. Prints a line for each run and a verdict, and exits
//! with 1 on any violation.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]
#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

#[path = "../it/slow/crash/check.rs"]
#[allow(dead_code, reason = "shared with the crash test")]
mod check;
#[path = "../it/slow/crash/load.rs"]
#[allow(dead_code, reason = "shared with the crash test")]
mod load;
mod media;
mod outside;
mod registry;
mod stats;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests")]
mod support;
mod traffic;
mod verdict;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::{Duration, Instant};

use check::FollowedLog;
use load::AcknowledgedWrites;
use outside::Outside;
use stats::{Segment, watch};
use support::process::{Process, command};
use traffic::Traffic;

/// Number of earlier runs whose tasks are checked after a restart; the end checks all.
const RECENT_SEGMENTS: u64 = 2;
/// Base of the URLs in responses and webhooks, which no client follows.
const PUBLIC_URL: &str = "http://127.0.0.1:9";
/// Minimum length of a run.
const RUN_MIN: Duration = Duration::from_secs(2);
/// Deadline for unfinished tasks and undelivered webhooks once traffic has ended.
const SETTLE_DEADLINE: Duration = Duration::from_mins(20);

/// Command line options.
struct Options {
    /// Duration of the traffic.
    time: Duration,
    /// Length of a run.
    kill_every: Duration,
    /// Parent of the data directory, which is temporary.
    dir: PathBuf,
    /// Accepted growth of the resident memory between comparable runs, in MiB, beyond that of the data.
    memory_bound: f64,
}

impl Options {
    fn from_arguments(arguments: &[String]) -> Self {
        let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
        let minutes: f64 = value("--minutes").map_or(60.0, |text| text.parse().expect("a number of minutes"));
        Self {
            time: Duration::from_secs_f64(minutes * 60.0),
            kill_every: value("--kill-every").map_or(Duration::from_mins(5), |text| duration(text)),
            dir: value("--dir").map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from),
            memory_bound: value("--memory-bound").map_or(64.0, |text| text.parse().expect("a number of MiB")),
        }
    }
}

/// Parses `30s` or `5m`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().expect("a whole number");
    match unit {
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number * 60),
        _ => panic!("{text}: a duration such as 30s or 5m is expected"),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::from_arguments(&arguments);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let soak = || tokio::task::LocalSet::new().block_on(&runtime, soak(&options));
    let violations =
        catch_unwind(AssertUnwindSafe(soak)).unwrap_or_else(|_| vec!["a check panicked, see above".to_owned()]);
    for violation in violations.iter().take(50) {
        println!("violation: {violation}");
    }
    println!("verdict: {}", if violations.is_empty() { "passed" } else { "FAILED" });
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the traffic and all checks, and returns the violations.
async fn soak(options: &Options) -> Vec<String> {
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let data = directory.path().join("data");
    let outside = Outside::start().await;
    let first = start(&data, &outside).await;
    let traffic = Rc::new(Traffic::new(&first, outside.receiver.url("/hook")).await);
    println!(
        "{} min, kill -9 every {} s, data in {}",
        options.time.as_secs_f64() / 60.0,
        options.kill_every.as_secs(),
        data.display()
    );

    let end = Instant::now() + options.time;
    let clients = traffic.spawn();
    let mut segments = Vec::new();
    let mut followed_log = FollowedLog::default();
    // Service that is already running; `None` after a kill.
    let mut running = Some(first);
    let left = || end.saturating_duration_since(Instant::now());
    while left() > RUN_MIN || segments.is_empty() {
        let service = match running.take() {
            Some(service) => service,
            None => start(&data, &outside).await,
        };
        let number = segments.len() as u64;
        check_recent(&service, &traffic, &mut followed_log, number).await;
        let fresh = stats::sample(service.pid());

        traffic.set_service(Some(service.url("")), number);
        let time = options.kill_every.min(left());
        let samples = watch(service.pid(), time).await;
        segments.push(Segment::new(fresh, samples, traffic.task_count(), time >= options.kill_every));

        println!("run {number}: {}; {}", segments.last().expect("just added"), traffic.progress());
        if left() > RUN_MIN {
            traffic.set_service(None, number);
            service.kill();
        } else {
            running = Some(service);
        }
    }

    // The last run ends without a kill, and all work is completed.
    let service = match running {
        Some(service) => service,
        None => start(&data, &outside).await,
    };
    traffic.set_service(Some(service.url("")), segments.len() as u64);
    traffic.stop();
    for client in clients {
        client.await.expect("a client does not panic");
    }

    let mut violations = traffic.take_violations();
    violations.extend(verdict::wait_until_settled(&service, SETTLE_DEADLINE).await);
    check::verify(&service, &traffic.acknowledged_writes(0)).await;
    followed_log.follow(&service).await;
    violations.extend(verdict::find_duplicates(&service, &traffic, &outside).await);
    violations.extend(verdict::find_leaks(&service, &segments, options.memory_bound).await);
    let (status, errors) = service.terminate();
    if !status.success() {
        violations.push(format!("the service did not stop cleanly: {status}: {errors}"));
    }
    violations.extend(verdict::check_log(&data));
    violations
}

/// Checks the writes acknowledged before the restart: all nodes, recent tasks, new events.
async fn check_recent(service: &Process, traffic: &Traffic, followed_log: &mut FollowedLog, segment: u64) {
    let writes: AcknowledgedWrites = traffic.acknowledged_writes(segment.saturating_sub(RECENT_SEGMENTS));
    check::verify(service, &writes).await;
    followed_log.follow(service).await;
}

/// Starts the program on a thread, because vendor and receiver run on this one.
async fn start(data: &Path, outside: &Outside) -> Process {
    let mut program = program(data, outside);
    let started = tokio::task::spawn_blocking(move || Process::try_start(&mut program));
    started
        .await
        .expect("the task does not panic")
        .unwrap_or_else(|errors| panic!("the program did not start: {errors}"))
}

/// Returns the command of the program, with remote vendors, and with short pauses between attempts because the test
/// lasts only an hour.
fn program(data: &Path, outside: &Outside) -> Command {
    let mut program = command(data);
    program.env("MEDIARY_LOG__LEVEL", "warn").env("MEDIARY_EGRESS__PRIVATE", "allow");
    // Segments have their default size, unlike in the crash tests, because every segment is an open file.
    program.env_remove("MEDIARY_JOURNAL__SEGMENT_BYTES");
    // The port changes with every start. URLs in webhooks must not, or a repeated webhook would differ from the first
    // one.
    program.env("MEDIARY_PUBLIC_URL", PUBLIC_URL);
    for (medium, url) in
        [("IMAGE", outside.vendor.base()), ("VIDEO", outside.vendor.base()), ("MUSIC", outside.music.base())]
    {
        let mut set = |key: &str, value: &str| {
            program.env(format!("MEDIARY_VENDORS__{medium}__{key}"), value);
        };
        set("URL", &url);
        set("BREAKER_PAUSE", "1s");
        set("BREAKER_PAUSE_MAX", "5s");
        if medium != "MUSIC" {
            for (key, value) in [
                ("RECOVERY", "key"),
                ("POLL_MIN", "200ms"),
                ("POLL_MAX", "2s"),
                ("RETRY_MIN", "200ms"),
                ("RETRY_MAX", "2s"),
            ] {
                set(key, value);
            }
        }
    }
    // Small enough that snapshots are taken under load.
    program.env("MEDIARY_SNAPSHOTS__EVERY_EVENTS", "5000").env("MEDIARY_SNAPSHOTS__WHOLE_BELOW", "8MiB");
    program
}
