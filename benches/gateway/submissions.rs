//! Submissions at a constant rate, with forwarding to the vendor, polling and callbacks, alternating with a cheap read
//! of the same service at the same rate.

use crate::in_flight::start;
use crate::outside::{Outside, cell};
use crate::pace::{Paced, send_at};
use crate::picture::submission;
use crate::service::{TOKEN, block_on};
use crate::{Options, http::request};

/// Requests a second.
const RATE: u32 = 1000;

/// Measures both in turns.
pub fn run(options: &Options) {
    let rate = options.rate_or(RATE);
    let count = rate as usize * usize::try_from(options.time.as_secs()).expect("not so long");
    let mut outside = Outside::start(options.work, false);
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let service = start(options, &outside, false, directory.path());
    let read = || vec![request("GET", "/users", TOKEN, ""); count];
    let (mut reads, mut submissions, mut used) = (Paced::default(), Paced::default(), [0.0; 2]);
    let (mut sent, mut told, mut longest) = (0, 0, 0.0_f64);
    // The first second of each does not count: connections and threads are new.
    drop(block_on(send_at(&service.address, rate, read())));
    for _ in 0..options.rounds {
        let before = service.processor_time();
        reads.add(block_on(send_at(&service.address, rate, read())));
        used[0] += service.processor_time() - before;
        let requests: Vec<_> = (sent..sent + count).map(|number| submission(number, &outside.receiver)).collect();
        let before = service.processor_time();
        let round = block_on(send_at(&service.address, rate, requests));
        used[1] += service.processor_time() - before;
        sent += count;
        told += count - round.refused.values().sum::<usize>();
        submissions.add(round);
        let started = std::time::Instant::now();
        assert!(outside.reaches("told", told), "not all callbacks came");
        longest = longest.max(started.elapsed().as_secs_f64());
    }
    let seconds = (options.rounds as u64 * options.time.as_secs()) as f64;
    println!("{rate} requests a second, {} rounds of {count} each, in turns\n", options.rounds);
    println!(
        "| at {rate} a second | p50 · p99 · most, ms | went out late by, ms | not answered with success | cores used |"
    );
    println!("|---|---|---|---|---|");
    for (what, paced, used) in [("GET /users", &reads, used[0]), ("submission of a task", &submissions, used[1])] {
        let (times, late, refused) = (cell(&paced.times), cell(&paced.late), paced.refused.values().sum::<usize>());
        println!("| {what} | {times} | {late} | {refused} | {:.2} |", used / seconds);
    }
    let [base, ours] = [&reads, &submissions].map(|paced| Paced::quantiles(&paced.times));
    println!("| added | {:.2} · {:.2} | | | |", ours[0] - base[0], ours[1] - base[1]);
    println!("\nafter a round the last callback came within {longest:.1} s; at most {:.0} MiB", service.memory().1);
    for (what, count) in &submissions.refused {
        println!("{count} times: {what}");
    }
    service.stop();
}
