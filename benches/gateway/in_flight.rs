//! Many concurrent tasks at the vendor: cost of polling, and delay from the end of a job to its callback.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::Options;
use crate::outside::OutsideProcess;
use crate::pace::send_at;
use crate::picture::submission;
use crate::service::{Service, block_on};

/// Submissions a second, before the measurement.
const RATE: u32 = 500;
/// Pause between the last submission and the measurement, so that the work on submissions ends.
const SETTLING_TIME: Duration = Duration::from_secs(10);

/// Measures without vendor webhooks, then with them, and prints a table.
pub fn run(options: &Options) {
    println!("{} tasks at the vendor, submitted at {} a second\n", options.tasks, options.rate_or(RATE));
    println!("| measured | polling | with webhooks |\n|---|---|---|");
    let [without_webhooks, with_webhooks] = [false, true].map(|with_webhooks| measure(options, with_webhooks));
    for ((label, without), (_, with)) in without_webhooks.into_iter().zip(with_webhooks) {
        println!("| {label} | {without} | {with} |");
    }
}

/// Runs the measurement once. Returns the rows of the table: label and value.
fn measure(options: &Options, with_webhooks: bool) -> Vec<(&'static str, String)> {
    let rate = options.rate_or(RATE);
    let submitting = Duration::from_secs(options.tasks as u64 / u64::from(rate));
    // No job may end before the measurements do.
    let job_duration = 2 * submitting + 2 * SETTLING_TIME + options.time;
    let mut outside = OutsideProcess::start(job_duration, with_webhooks);
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let service = start(options, &outside, with_webhooks, directory.path());
    let idle_memory = service.memory().current;

    let requests = (0..options.tasks).map(|index| submission(index, &outside.receiver)).collect();
    let results = block_on(send_at(&service.address, rate, requests));
    assert!(results.rejected.is_empty(), "submissions were rejected: {:?}", results.rejected);
    assert!(outside.wait_for_count("jobs", options.tasks), "not all tasks reached the vendor");
    std::thread::sleep(SETTLING_TIME);

    let started = Instant::now();
    let service_before = service.cpu_time();
    let polls_before = outside.count("polls");
    let outside_before = outside.cpu_time();
    std::thread::sleep(options.time);

    let seconds = started.elapsed().as_secs_f64();
    let service_percent = (service.cpu_time() - service_before) / seconds * 100.0;
    let polls_per_second = (outside.count("polls") - polls_before) as f64 / seconds;
    let outside_percent = (outside.cpu_time() - outside_before) / seconds * 100.0;
    let in_flight = service.memory();
    let running = outside.count("running");

    assert!(outside.wait_for_count("callbacks", options.tasks), "not all callbacks arrived");
    let delays = outside.send_query("delays");
    let delay = |name: &str| delays[name].as_f64().unwrap_or(f64::NAN) / 1000.0;
    let final_peak = service.memory().peak;
    service.stop();

    let resident = format!("{idle_memory:.0} · {:.0} · {:.0} · {final_peak:.0}", in_flight.current, in_flight.peak);
    let delayed = format!("{:.3} · {:.3} · {:.3}", delay("p50"), delay("p99"), delay("max"));
    vec![
        ("tasks in flight when it was measured", running.to_string()),
        ("polls of the vendor a second", format!("{polls_per_second:.0}")),
        ("CPU use of the service, % of one core", format!("{service_percent:.1}")),
        ("CPU use of vendor and receiver, % of one core", format!("{outside_percent:.1}")),
        ("resident memory: at the start · in flight · peak until then · peak of all, MiB", resident),
        ("from the vendor's end to the callback: p50 · p99 · maximum, s", delayed),
    ]
}

/// Starts the service with the simulated vendor, and with a quota that the load does not reach.
pub fn start(options: &Options, outside: &OutsideProcess, with_webhooks: bool, data_dir: &std::path::Path) -> Service {
    let mut settings: Vec<(String, String)> = [
        ("MEDIARY_LIMITS__SUBMISSIONS_PER_CALLER", "1000000"),
        ("MEDIARY_VENDORS__IMAGE__URL", &outside.vendors[0]),
        ("MEDIARY_VENDORS__IMAGE__RECOVERY", "key"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    if with_webhooks {
        // The service requests webhooks only with a public URL: choose a free port for it.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        settings.push(("MEDIARY_PUBLIC_URL".to_owned(), format!("http://{address}")));
        drop(listener);
    }
    settings.extend(options.settings.iter().cloned());
    let public_url = settings.iter().find(|(name, _)| name == "MEDIARY_PUBLIC_URL").map(|(_, url)| url.clone());
    let listen = public_url.and_then(|url| url.strip_prefix("http://").map(str::to_owned));
    Service::start_with(data_dir, 0, listen.as_deref(), &settings)
}
