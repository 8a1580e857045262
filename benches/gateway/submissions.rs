//! Submissions at a constant rate, with forwarding to the vendor, polling and callbacks, alternating with a cheap read
//! of the same service at the same rate.

use crate::in_flight::start;
use crate::outside::{OutsideProcess, quantile_cell};
use crate::pace::{PacedResults, send_at};
use crate::picture::submission;
use crate::service::{TOKEN, block_on};
use crate::{Options, http::request};

/// Requests a second.
const RATE: u32 = 1000;

/// Measures reads and submissions alternately.
pub fn run(options: &Options) {
    let rate = options.rate_or(RATE);
    let count = rate as usize * usize::try_from(options.time.as_secs()).expect("a few seconds");
    let with_webhooks = false;
    let mut outside = OutsideProcess::start(options.job_duration, with_webhooks);
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let service = start(options, &outside, with_webhooks, directory.path());

    let read_requests = || vec![request("GET", "/users", TOKEN, ""); count];
    let mut reads = PacedResults::default();
    let mut submissions = PacedResults::default();
    // CPU time of the service in seconds, over all rounds.
    let mut read_cpu = 0.0;
    let mut submission_cpu = 0.0;
    let mut submitted = 0;
    let mut accepted = 0;
    let mut longest_wait = 0.0_f64;

    // A first round of reads does not count, because connections and threads are new.
    drop(block_on(send_at(&service.address, rate, read_requests())));
    for _ in 0..options.rounds {
        let before = service.cpu_time();
        reads.add(block_on(send_at(&service.address, rate, read_requests())));
        read_cpu += service.cpu_time() - before;

        let requests: Vec<_> =
            (submitted..submitted + count).map(|index| submission(index, &outside.receiver)).collect();
        let before = service.cpu_time();
        let round = block_on(send_at(&service.address, rate, requests));
        submission_cpu += service.cpu_time() - before;
        submitted += count;
        accepted += count - round.rejected.values().sum::<usize>();
        submissions.add(round);

        let started = std::time::Instant::now();
        assert!(outside.wait_for_count("callbacks", accepted), "not all callbacks arrived");
        longest_wait = longest_wait.max(started.elapsed().as_secs_f64());
    }

    let seconds = (options.rounds as u64 * options.time.as_secs()) as f64;
    println!("{rate} requests a second, {} rounds of {count} each, in turn\n", options.rounds);
    println!("| at {rate} a second | p50 · p99 · maximum, ms | sent late by, ms | rejected or failed | cores used |");
    println!("|---|---|---|---|---|");
    for (label, results, cpu_seconds) in
        [("GET /users", &reads, read_cpu), ("submission of a task", &submissions, submission_cpu)]
    {
        let times = quantile_cell(&results.times);
        let lateness = quantile_cell(&results.lateness_millis);
        let rejected: usize = results.rejected.values().sum();
        println!("| {label} | {times} | {lateness} | {rejected} | {:.2} |", cpu_seconds / seconds);
    }

    let [read_p50, read_p99, _] = PacedResults::quantiles(&reads.times);
    let [submission_p50, submission_p99, _] = PacedResults::quantiles(&submissions.times);
    println!("| added | {:.2} · {:.2} | | | |", submission_p50 - read_p50, submission_p99 - read_p99);
    println!(
        "\nafter a round the last callback arrived within {longest_wait:.1} s; peak memory {:.0} MiB",
        service.memory().peak
    );

    for (label, count) in &submissions.rejected {
        println!("{count} times: {label}");
    }
    service.stop();
}
