//! Latencies of well-behaved callers, without and with one hostile caller.
//!
//! Every attack gets its own service, with the default limits, on a copy of the same data directory: effects of one
//! attack cannot disturb the next. The baseline is measured on the same service just before.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::accounts::{Account, fill};
use crate::hostile::{AttackKind, HostileProcess};
use crate::http::Connection;
use crate::limits::per_minute;
use crate::service::block_on;
use crate::workload::Workload;
use crate::{Options, milliseconds, quantile};

/// Requests of well-behaved callers, in the order of the columns.
const KINDS: [Workload; 4] = [Workload::Page, Workload::Write, Workload::Submission, Workload::Job];
/// Requests a second of one caller, unless a default limit is lower: reads, writes, submissions.
const RATES: [f64; 3] = [40.0, 10.0, 2.0];
/// Share of a default limit that a well-behaved caller uses.
const SHARE_OF_LIMIT: f64 = 0.5;
/// Timeout of a request. A slower response counts with this latency, and as failed.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Duration of the attack before it is measured.
const HEAD_START: Duration = Duration::from_secs(2);
/// Idle time after which a connection is not reused: the service may be about to close it.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Highest acceptable 99th percentile beside a hostile caller, as a multiple of the value without one.
const SLOWDOWN_AIM: f64 = 2.0;

/// Latencies of the callers by kind of request.
#[derive(Debug, Clone, Default)]
struct CallerMeasurements {
    /// Milliseconds from sending to the complete response, including a new connection if there was one. One list for
    /// each of [`KINDS`].
    latencies: [Vec<f64>; 4],
    /// Number of responses other than successes, and of requests without a response.
    failures: usize,
}

/// Result of an attack, all rounds together.
#[derive(Debug, Default)]
struct AttackComparison {
    baseline: CallerMeasurements,
    attacked: CallerMeasurements,
    /// Highest resident memory before an attack, in MiB.
    memory_before: f64,
    /// Highest resident memory during an attack, in MiB.
    memory_peak: f64,
    /// Responses to the hostile caller in the last round.
    report: String,
}

/// Requests a second of one caller: reads, writes, submissions.
type Rates = [f64; 3];

/// Measures every selected attack.
pub fn run(options: &Options) {
    let rates = rates(options);
    println!(
        "{} rounds of {} s, {} well-behaved callers with {} reads, {} writes and twice {} submissions a second each, \
         default limits of the service",
        options.rounds,
        options.time.as_secs_f64(),
        options.accounts,
        rates[0],
        rates[1],
        rates[2],
    );
    for (name, value) in &options.settings {
        println!("  {name}={value}");
    }
    println!();
    println!(
        "| one hostile caller | reads: p99 alone → beside it, ms | writes | submissions | jobs | failed alone · beside it | \
         memory before · peak, MiB | responses to the hostile caller |"
    );
    println!("|---|---|---|---|---|---|---|---|");

    let template = tempfile::tempdir_in(&options.dir).expect("a directory");
    let template = template.path().join("data");
    // The last account is the hostile caller's.
    let mut accounts = fill(options, &template, options.accounts + 1);
    let hostile = accounts.pop().expect("an account");

    let mut failures = Vec::new();
    for attack in AttackKind::ALL.into_iter().filter(|attack| options.selects(attack.name())) {
        let mut comparison = AttackComparison::default();
        for _ in 0..options.rounds {
            round(options, attack, &template, &accounts, &hostile, rates, &mut comparison);
        }
        print_row(attack, &comparison, &mut failures);
    }
    println!("\naims missed: {}\n", if failures.is_empty() { "none".to_owned() } else { failures.join("; ") });
}

/// Returns the rates of the command line, or rates derived from the default limits.
fn rates(options: &Options) -> Rates {
    let share = |kind: &str, rate: f64| per_minute(kind).map_or(rate, |limit| rate.min(limit / 60.0 * SHARE_OF_LIMIT));
    let defaults = [share("reads", RATES[0]), share("changes", RATES[1]), share("submissions", RATES[2]) / 2.0];
    std::array::from_fn(|kind| options.rates[kind].unwrap_or(defaults[kind]))
}

/// Runs one round of an attack on a new service and adds its results to `comparison`.
fn round(
    options: &Options,
    attack: AttackKind,
    template: &Path,
    accounts: &[Account],
    hostile: &Account,
    rates: Rates,
    comparison: &mut AttackComparison,
) {
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let data_dir = directory.path().join("data");
    copy(template, &data_dir);
    let service = options.start(&data_dir, &[]);
    let measure = |time: Duration, first: usize| measure(&service.address, accounts, options.nodes, rates, time, first);

    // The first seconds of a service do not count: caches and threads are new. Every measurement has its own range of
    // request numbers, so that no two writes or pictures are the same.
    let _ = measure(HEAD_START, 0);
    comparison.baseline.add(measure(options.time, 1_000_000));

    let before = service.memory().current;
    service.reset_memory_peak();
    let process = HostileProcess::start(attack, &service.address, hostile);
    std::thread::sleep(HEAD_START);
    comparison.attacked.add(measure(options.time, 2_000_000));
    let peak = service.memory().peak;
    comparison.report = process.stop();
    comparison.memory_before = comparison.memory_before.max(before);
    comparison.memory_peak = comparison.memory_peak.max(peak);
    // Killed: jobs of the attack may take minutes, and this directory is not used again.
    drop(service);
}

/// Copies the directory of a stopped service.
fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").args(["-a", "--sparse=always"]).args([from, to]).status();
    assert!(copied.expect("cp starts").success(), "the data directory cannot be copied");
}

/// Runs all callers at their rates for `time`. `first` is the number of the first request of each caller.
fn measure(
    address: &str,
    accounts: &[Account],
    nodes: usize,
    rates: Rates,
    time: Duration,
    first: usize,
) -> CallerMeasurements {
    let measurements = Rc::<RefCell<CallerMeasurements>>::default();
    block_on(async {
        let mut pacers = Vec::new();
        for (index, account) in accounts.iter().enumerate() {
            let source = Ipv4Addr::new(127, 0, 0, 10 + u8::try_from(index).expect("few accounts"));
            let caller = Caller { address: address.to_owned(), source, account: account.clone(), nodes };
            for (kind, workload) in KINDS.into_iter().enumerate() {
                let caller = Rc::new(caller.clone());
                let measurements = measurements.clone();
                // Accounts and kinds are staggered, to avoid sending all in the same millisecond.
                let offset = (index * KINDS.len() + kind) as f64 / (accounts.len() * KINDS.len()) as f64;
                // Pictures of different accounts differ.
                let first = first + index * 100_000;
                // Jobs have the rate of submissions.
                let schedule = Schedule { rate: rates[kind.min(2)], offset, time, first };
                pacers.push(tokio::task::spawn_local(send_at_rate(caller, workload, kind, schedule, measurements)));
            }
        }
        for pacer in pacers {
            pacer.await.expect("a caller does not panic");
        }
    });
    measurements.take()
}

/// Schedule of one caller's requests of one kind.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    /// Requests a second.
    rate: f64,
    /// Share of the interval between two requests that passes before the first request.
    offset: f64,
    time: Duration,
    /// Number of the first request.
    first: usize,
}

/// Well-behaved caller.
#[derive(Clone)]
struct Caller {
    address: String,
    source: Ipv4Addr,
    account: Account,
    nodes: usize,
}

/// Idle connections, the most recently used last.
type Idle = Rc<RefCell<Vec<(Connection, Instant)>>>;

/// Sends the requests of one kind on schedule, regardless of earlier responses, and waits for all responses.
async fn send_at_rate(
    caller: Rc<Caller>,
    workload: Workload,
    kind: usize,
    schedule: Schedule,
    measurements: Rc<RefCell<CallerMeasurements>>,
) {
    let (started, idle) = (tokio::time::Instant::now(), Idle::default());
    let mut requests = Vec::new();
    for iteration in 0_u32.. {
        let at = Duration::from_secs_f64((f64::from(iteration) + schedule.offset) / schedule.rate);
        if at >= schedule.time {
            break;
        }
        let request = workload.request(&caller.account, caller.nodes, schedule.first + iteration as usize);
        tokio::time::sleep_until(started + at).await;
        let caller = caller.clone();
        let idle = idle.clone();
        let measurements = measurements.clone();
        requests.push(tokio::task::spawn_local(async move {
            let sent_at = Instant::now();
            let status = tokio::time::timeout(TIMEOUT, caller.send(&request, &idle)).await;
            let succeeded = matches!(status, Ok(Ok(200..300)));
            let mut measurements = measurements.borrow_mut();
            measurements.latencies[kind].push(milliseconds(sent_at.elapsed()));
            measurements.failures += usize::from(!succeeded);
        }));
    }
    for request in requests {
        request.await.expect("a request does not panic");
    }
}

impl Caller {
    /// Sends a request on an idle connection or a new one.
    async fn send(&self, request: &[u8], idle: &Idle) -> std::io::Result<u16> {
        let last = idle.borrow_mut().pop();
        let mut connection = match last {
            Some((connection, last_used)) if last_used.elapsed() < IDLE_MAX => connection,
            _ => Connection::connect(&self.address, Some(self.source)).await?,
        };
        let response = connection.try_exchange(request).await?;
        let (status, closes) = (response.status, response.closes());
        if !closes {
            idle.borrow_mut().push((connection, Instant::now()));
        }
        Ok(status)
    }
}

impl CallerMeasurements {
    fn add(&mut self, other: Self) {
        for (latencies, other_latencies) in self.latencies.iter_mut().zip(other.latencies) {
            latencies.extend(other_latencies);
        }
        self.failures += other.failures;
    }
}

/// Prints the row of an attack and adds the aims that it missed to `failures`.
fn print_row(attack: AttackKind, comparison: &AttackComparison, failures: &mut Vec<String>) {
    let AttackComparison { baseline: alone, attacked, memory_before, memory_peak, report } = comparison;
    let cells: Vec<String> = KINDS
        .into_iter()
        .enumerate()
        .map(|(kind, workload)| {
            let [baseline_quantile, attacked] =
                [alone, attacked].map(|measurements| quantile(&measurements.latencies[kind], 0.99));
            let ratio = attacked / baseline_quantile;
            if ratio > SLOWDOWN_AIM && attack.is_judged() {
                failures.push(format!("{} beside {}: {ratio:.1} times", workload.name(), attack.name()));
            }
            format!("{baseline_quantile:.1} → {attacked:.1} ({ratio:.2})")
        })
        .collect();

    if attacked.failures > 0 && attack.is_judged() {
        failures.push(format!("{} failed beside {}", attacked.failures, attack.name()));
    }

    println!(
        "| {} | {} | {} · {} | {memory_before:.0} · {memory_peak:.0} | {report} |",
        attack.name(),
        cells.join(" | "),
        alone.failures,
        attacked.failures,
    );
}
