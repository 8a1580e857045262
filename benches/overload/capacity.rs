//! Sustainable load of each workload, and its goodput at a multiple of that load.
//!
//! A server on the same framework that sends the same bytes ready-made is the baseline of reads: at thousands of
//! connections every server loses goodput to cache misses, because the state of each connection has been evicted by
//! the time of its next request.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::accounts::fill;
use crate::http::{Connection, request};
use crate::offered::{LoadOutcome, offer};
use crate::ramp::{Load, RampStep, run_ramp};
use crate::ready_made::record;
use crate::service::{Service, TOKEN, block_on, cpu_time_of};
use crate::workload::Workload;
use crate::{Options, limits, median, quantile};

/// Lowest acceptable goodput at the multiple, as a share of the sustainable load; for reads, relative to that share of
/// the baseline.
const GOODPUT_AIM: f64 = 0.9;
/// Highest acceptable 99th percentile of the latency of refusals, in milliseconds.
const REFUSAL_AIM: f64 = 50.0;
/// Time within which the tasks of a round must end after its last request.
const DRAIN: Duration = Duration::from_mins(10);

/// One round of a workload.
struct CapacityRound {
    step: RampStep,
    outcome: LoadOutcome,
    /// Successes a second at the multiple; for submissions, completed jobs.
    goodput: f64,
    /// Number of cores that the service used at the multiple.
    service_cores: f64,
    /// Number of cores that the clients used at the multiple.
    client_cores: f64,
    /// Resident memory of the service before the ramp, in MiB.
    memory_before: f64,
    /// Peak of the resident memory at the multiple, in MiB.
    memory_peak: f64,
    /// Goodput of the baseline at the multiple, as a share of its own sustainable load.
    baseline: Option<f64>,
}

impl CapacityRound {
    /// Returns the goodput at the multiple, as a share of the sustainable load.
    fn share(&self) -> f64 {
        self.goodput / self.step.goodput
    }
}

/// Measures every selected workload, each with its own service.
pub fn run(options: &Options) {
    print_conditions(options);
    println!("where the clients use all of their cores and the service does not, the clients are the limit\n");
    println!(
        "| request | sustainable, a second | at connections | p50 · p99, ms | offered, a second | goodput, a second | \
         of sustainable | of the baseline's share | successes p50 · p99, ms | refused | refusals p99, ms | failed | \
         cores of service · clients | memory before · peak, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut failures = Vec::new();
    for workload in Workload::CAPACITY.into_iter().filter(|workload| options.selects(workload.name())) {
        let rounds = measure(options, workload);
        print_row(workload, &rounds, &mut failures);
    }
    println!("\naims missed: {}\n", if failures.is_empty() { "none".to_owned() } else { failures.join("; ") });
}

fn print_conditions(options: &Options) {
    println!(
        "{} rounds of {} s, {}x the sustainable load on {} connections of {} accounts and {} addresses, {} nodes; \
         settings of the service:",
        options.rounds,
        options.time.as_secs_f64(),
        options.factor,
        options.connections,
        options.accounts,
        options.addresses,
        options.nodes
    );
    for (name, value) in limits::lifted().iter().chain(&options.settings) {
        println!("  {name}={value}");
    }
    println!();
}

/// Measures all rounds of a workload on a new service.
fn measure(options: &Options, workload: Workload) -> Vec<CapacityRound> {
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let data_dir = directory.path().join("data");
    let accounts = fill(options, &data_dir, options.accounts);
    let service = options.start(&data_dir, &limits::lifted());
    let load = Load { address: service.address.clone(), accounts, nodes: options.nodes, sources: options.addresses };
    let mut request_number = 0;
    let baseline = workload.is_read().then(|| start_baseline(options, workload, &load));
    let rounds = (0..options.rounds).map(|_| {
        let baseline = baseline.as_ref().map(|baseline| baseline_share(options, workload, baseline));
        CapacityRound { baseline, ..round(options, workload, &service, &load, &mut request_number) }
    });
    let rounds = rounds.collect();
    service.stop();
    rounds
}

/// Server that sends the responses of the service ready-made, on the same core.
struct Baseline {
    load: Load,
    /// Stopped when dropped.
    _server: Service,
}

/// Starts the baseline and stores a response of the service for every request of the workload.
fn start_baseline(options: &Options, workload: Workload, load: &Load) -> Baseline {
    let server = options.start_ready_made();
    let token = &load.accounts[0].token;
    block_on(async {
        let mut service = Connection::open(&load.address).await;
        let mut baseline = Connection::open(&server.address).await;
        for path in workload.paths(load.nodes) {
            record(&mut service, &mut baseline, "GET", &path, token, "").await;
        }
    });
    Baseline { load: Load { address: server.address.clone(), ..load.clone() }, _server: server }
}

/// Measures the goodput of the baseline at the multiple, as a share of its sustainable load.
fn baseline_share(options: &Options, workload: Workload, baseline: &Baseline) -> f64 {
    let mut request_number = 0;
    let step = run_ramp(&baseline.load, workload, &options.steps, options.time, &mut request_number);
    let rate = step.goodput * options.factor;
    let outcome = offer(&baseline.load, workload, rate, options.connections, options.time, &mut request_number, || ());
    let goodput = outcome.good_count as f64 / outcome.seconds;
    eprintln!(
        "baseline of {}: {:.0} a second at {} connections, {goodput:.0} at {}",
        workload.name(),
        step.goodput,
        step.connections,
        options.connections
    );
    goodput / step.goodput
}

/// Runs one round, without the baseline: the ramp, then the multiple of its best load.
fn round(
    options: &Options,
    workload: Workload,
    service: &Service,
    load: &Load,
    request_number: &mut usize,
) -> CapacityRound {
    let memory_before = service.memory().current;
    let step = run_ramp(load, workload.completed(), &options.steps, options.time, request_number);
    drain(service);

    service.reset_memory_peak();
    let rate = step.goodput * options.factor;
    let mut completed = Vec::new();
    let counts_jobs = workload == Workload::Submission;
    // `offer` calls this at the beginning and at the end of the load.
    let take_sample = || completed.extend(counts_jobs.then(|| completed_jobs(service)));
    let cpu_times = || [service.cpu_time(), cpu_time_of(std::process::id())];

    let started = Instant::now();
    let cpu_before = cpu_times();
    let outcome = offer(load, workload, rate, options.connections, options.time, request_number, take_sample);
    let seconds = started.elapsed().as_secs_f64();
    let cpu_after = cpu_times();
    let [service_cores, client_cores]: [f64; 2] = std::array::from_fn(|at| (cpu_after[at] - cpu_before[at]) / seconds);
    let memory_peak = service.memory().peak;

    let goodput = if counts_jobs {
        let samples: Vec<_> =
            completed.into_iter().map(|sample| sample.join().expect("the service responds")).collect();
        let [(from, first), (to, last)] = samples[..] else { panic!("two samples are taken") };
        (last - first) / to.duration_since(from).as_secs_f64()
    } else {
        outcome.good_count as f64 / outcome.seconds
    };
    drain(service);
    CapacityRound { step, outcome, goodput, service_cores, client_cores, memory_before, memory_peak, baseline: None }
}

/// Starts a thread that reads how many tasks the service has completed since its start, and when. The load continues
/// meanwhile.
fn completed_jobs(service: &Service) -> JoinHandle<(Instant, f64)> {
    let address = service.address.clone();
    std::thread::spawn(move || {
        let text = block_on(async {
            let mut connection = Connection::open(&address).await;
            let response = connection.exchange(&request("GET", "/metrics", TOKEN, "")).await;
            assert_eq!(response.status, 200, "/metrics: {}", response.status_and_detail());
            String::from_utf8_lossy(response.body).into_owned()
        });
        let line = text.lines().find_map(|line| line.strip_prefix(r#"mediary_events_total{event="TaskCompleted"}"#));
        (Instant::now(), line.map_or(0.0, |value| value.trim().parse().expect("a number")))
    })
}

/// Waits until no task is unfinished.
fn drain(service: &Service) {
    let started = Instant::now();
    while unfinished_tasks(service) > 0 {
        assert!(started.elapsed() < DRAIN, "the tasks of a round do not end");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn unfinished_tasks(service: &Service) -> u64 {
    block_on(async {
        let mut connection = Connection::open(&service.address).await;
        let response = connection.exchange(&request("GET", "/admin/state", TOKEN, "")).await;
        let state: serde_json::Value = serde_json::from_slice(response.body).expect("JSON");
        state["queues"]["tasks"].as_u64().unwrap_or_else(|| panic!("{state}"))
    })
}

/// Prints the row of a workload and adds the aims that it missed to `failures`.
fn print_row(workload: Workload, rounds: &[CapacityRound], failures: &mut Vec<String>) {
    let middle = |value: &dyn Fn(&CapacityRound) -> f64| median(rounds.iter().map(value));
    let all_values = |values: &dyn Fn(&CapacityRound) -> &[f64]| {
        rounds.iter().flat_map(|round| values(round).to_vec()).collect::<Vec<_>>()
    };
    let latencies = all_values(&|round| &round.outcome.latencies);
    let refusals = all_values(&|round| &round.outcome.refusals);
    let share = middle(&CapacityRound::share);
    let relative = middle(&|round| round.share() / round.baseline.unwrap_or(1.0));
    let refusal_quantile = quantile(&refusals, 0.99);
    let failed_count: usize = rounds.iter().flat_map(|round| round.outcome.failures.values()).sum();

    println!(
        "| {} | {:.0} | {:.0} | {:.2} · {:.2} | {:.0} | {:.0} | {share:.2} | {} | {:.1} · {:.1} | {} | {} | {failed_count} | {:.2} · {:.2} | {:.0} · {:.0} |",
        workload.name(),
        middle(&|round| round.step.goodput),
        middle(&|round| round.step.connections as f64),
        middle(&|round| round.step.p50),
        middle(&|round| round.step.p99),
        middle(&|round| round.outcome.offered as f64 / round.outcome.seconds),
        middle(&|round| round.goodput),
        if workload.is_read() { format!("{relative:.2}") } else { "none".to_owned() },
        quantile(&latencies, 0.5),
        quantile(&latencies, 0.99),
        refusals.len(),
        if refusals.is_empty() { "none".to_owned() } else { format!("{refusal_quantile:.1}") },
        middle(&|round| round.service_cores),
        middle(&|round| round.client_cores),
        middle(&|round| round.memory_before),
        middle(&|round| round.memory_peak),
    );

    for round in rounds.iter().filter(|round| !round.outcome.failures.is_empty()) {
        eprintln!("{}: failed: {:?}", workload.name(), round.outcome.failures);
    }

    if relative < GOODPUT_AIM {
        failures
            .push(format!("goodput of {} is {relative:.2} of what is possible, not {GOODPUT_AIM}", workload.name()));
    }
    if refusal_quantile > REFUSAL_AIM {
        failures.push(format!("refusals of {} take {refusal_quantile:.1} ms, not {REFUSAL_AIM}", workload.name()));
    }
}
