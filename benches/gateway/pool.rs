//! Tasks over three vendors of the same priority: throughput, delay and memory, first with healthy vendors, and then
//! with one that fails half of the time. Also checks that no task is lost or paid for twice.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::Options;
use crate::outside::{OutsideProcess, VendorGroup, quantile_cell};
use crate::pace::send_at;
use crate::picture::submission;
use crate::service::{Service, block_on};

/// Submissions a second.
const RATE: u32 = 500;
const VENDORS: usize = 3;

/// Measures with healthy vendors, and with a failing one.
pub fn run(options: &Options) {
    let rate = options.rate_or(RATE);
    println!("{} tasks over {VENDORS} vendors, submitted at {rate} a second,", options.tasks);
    println!("jobs of {} ms\n", options.job_duration.as_millis());
    println!("| measured | all healthy | one fails half of the time |\n|---|---|---|");
    let [healthy, failing] = [false, true].map(|has_failing| measure(options, has_failing));
    for ((label, healthy), (_, failing)) in healthy.into_iter().zip(failing) {
        println!("| {label} | {healthy} | {failing} |");
    }
}

/// Runs the measurement once. Returns the rows of the table: label and value.
fn measure(options: &Options, has_failing: bool) -> Vec<(&'static str, String)> {
    let group = VendorGroup { count: VENDORS, has_failing };
    let with_webhooks = false;
    let mut outside = OutsideProcess::start_group(options.job_duration, with_webhooks, group);
    let directory = tempfile::tempdir_in(&options.dir).expect("a directory");
    let service = start(options, &outside, directory.path());

    let requests = (0..options.tasks).map(|index| submission(index, &outside.receiver)).collect();
    let (started, cpu_before) = (Instant::now(), service.cpu_time());
    let results = block_on(send_at(&service.address, options.rate_or(RATE), requests));
    assert!(results.rejected.is_empty(), "submissions were rejected: {:?}", results.rejected);
    assert!(outside.wait_for_count("callbacks", options.tasks), "tasks were lost");
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = service.cpu_time() - cpu_before;

    let charges = outside.send_query("charges");
    assert_eq!(charges["duplicates"], 0, "tasks were paid for twice: {charges}");
    let by_vendor: Vec<u64> =
        charges["by_vendor"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_u64).collect();
    assert_eq!(by_vendor.iter().sum::<u64>(), options.tasks as u64, "each task is one job of one vendor");

    let delays = outside.send_query("delays");
    let delay = |name: &str| delays[name].as_f64().unwrap_or(f64::NAN) / 1000.0;
    let memory = service.memory();
    service.stop();
    vec![
        ("from the first submission to the last callback, s", format!("{seconds:.1}")),
        ("tasks a second", format!("{:.0}", options.tasks as f64 / seconds)),
        ("response to a submission: p50 · p99 · maximum, ms", quantile_cell(&results.times)),
        (
            "from the vendor's end to the callback: p50 · p99 · maximum, s",
            format!("{:.3} · {:.3} · {:.3}", delay("p50"), delay("p99"), delay("max")),
        ),
        ("CPU time of the service, s", format!("{cpu_seconds:.1}")),
        ("resident memory at the end · peak, MiB", format!("{:.0} · {:.0}", memory.current, memory.peak)),
        ("jobs of each vendor", format!("{by_vendor:?}")),
        ("lost · paid twice", "0 · 0".to_owned()),
    ]
}

/// Starts the service with all vendors, and with a quota that the load does not reach.
fn start(options: &Options, outside: &OutsideProcess, directory: &Path) -> Service {
    let mut text = String::new();
    for (number, url) in outside.vendors.iter().enumerate() {
        let vendor = format!("[[vendors.image]]\nname = \"vendor-{number}\"\nurl = \"{url}\"\nrecovery = \"key\"");
        // Short pauses, so that the failing vendor is used again as soon as it works.
        let _ = writeln!(text, "{vendor}\nbreaker_pause = \"500ms\"\nbreaker_pause_max = \"1s\"");
    }
    let file = directory.join("mediary.toml");
    std::fs::write(&file, text).expect("a file");
    let mut settings = vec![("MEDIARY_LIMITS__SUBMISSIONS_PER_CALLER".to_owned(), "1000000".to_owned())];
    settings.extend(options.settings.iter().cloned());
    Service::start_configured(&directory.join("data"), 0, None, &settings, Some(&file))
}
