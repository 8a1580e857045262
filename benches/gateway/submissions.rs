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

/// Measures reads and submissions in turns.
pub fn run(options: &Options) {
    let rate = options.rate_or(RATE);
    let count = rate as usize * usize::try_from(options.time.as_secs()).expect("a few seconds");
    let mut outside = OutsideProcess::start(options.job_duration, false);
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let service = start(options, &outside, false, directory.path());

    let read_requests = || vec![request("GET", "/users", TOKEN, ""); count];
    let (mut reads, mut submissions, mut cpu_percent) = (PacedResults::default(), PacedResults::default(), [0.0; 2]);
    let (mut submitted, mut delivered, mut longest_wait) = (0, 0, 0.0_f64);

    // The first second of each does not count: connections and threads are new.
    drop(block_on(send_at(&service.address, rate, read_requests())));
    for _ in 0..options.rounds {
        let before = service.cpu_seconds();
        reads.add(block_on(send_at(&service.address, rate, read_requests())));
        cpu_percent[0] += service.cpu_seconds() - before;

        let requests: Vec<_> =
            (submitted..submitted + count).map(|index| submission(index, &outside.receiver)).collect();
        let before = service.cpu_seconds();
        let round = block_on(send_at(&service.address, rate, requests));
        cpu_percent[1] += service.cpu_seconds() - before;
        submitted += count;
        delivered += count - round.rejected.values().sum::<usize>();
        submissions.add(round);

        let started = std::time::Instant::now();
        assert!(outside.wait_until_reached("callbacks", delivered), "not all callbacks arrived");
        longest_wait = longest_wait.max(started.elapsed().as_secs_f64());
    }

    let seconds = (options.rounds as u64 * options.time.as_secs()) as f64;
    println!("{rate} requests a second, {} rounds of {count} each, in turns\n", options.rounds);
    println!("| at {rate} a second | p50 · p99 · maximum, ms | sent late by, ms | refused or failed | cores used |");
    println!("|---|---|---|---|---|");
    for (label, paced, percent) in
        [("GET /users", &reads, cpu_percent[0]), ("submission of a task", &submissions, cpu_percent[1])]
    {
        let (times, lateness, rejected) = (
            quantile_cell(&paced.times),
            quantile_cell(&paced.lateness_millis),
            paced.rejected.values().sum::<usize>(),
        );
        println!("| {label} | {times} | {lateness} | {rejected} | {:.2} |", percent / seconds);
    }

    let [base, submission_quantiles] = [&reads, &submissions].map(|paced| PacedResults::quantiles(&paced.times));
    println!("| added | {:.2} · {:.2} | | | |", submission_quantiles[0] - base[0], submission_quantiles[1] - base[1]);
    println!(
        "\nafter a round the last callback arrived within {longest_wait:.1} s; at most {:.0} MiB",
        service.memory().peak
    );

    for (label, count) in &submissions.rejected {
        println!("{count} times: {label}");
    }
    service.stop();
}
