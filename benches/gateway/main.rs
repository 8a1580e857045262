//! Image gateway under load, with a simulated vendor: `benches/gateway/run`.
//!
//! - `in-flight`: many concurrent tasks at the vendor; CPU use and memory of the service while it polls, and
//!   the time from the end of a job until its callback arrives, without and with webhooks of the vendor
//! - `submissions`: submissions at a constant rate, alternating with a cheap read at the same rate
//! - `pool`: tasks over three vendors, first all healthy, then one of them failing half of the time
//!
//! Three processes: the service as shipped; `outside`, with the vendors and the receiver of callbacks; this one, with
//! the load. CPU time and memory are therefore measured for the service alone.
//!
//! Options: `--tasks N`, `--rate N` (requests a second), `--seconds N` (of each measurement), `--rounds N`, `--work MS`
//! (duration of a vendor job, except in `in-flight`), `--dir DIR` (on the disk to be measured), `--set NAME=VALUE` (a
//! setting of the service by its environment variable; any number).

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

#[path = "../shared/data_dir.rs"]
mod data_dir;

#[path = "../shared/http.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod http;
mod in_flight;
mod outside;
mod pace;
mod picture;
mod pool;
#[path = "../../tests/it/support/receiver.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod receiver;
#[path = "../shared/service.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod service;
mod submissions;
#[path = "../../tests/it/support/vendor_sim.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod vendor_sim;

use std::path::PathBuf;
use std::time::Duration;

use data_dir::data_dir;
use outside::VendorGroup;

/// Command line options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parent of the data directories, which are temporary.
    pub dir: PathBuf,
    /// Number of tasks in `in-flight` and `pool`.
    pub tasks: usize,
    /// Requests a second; 0 for the default of the measurement.
    pub rate: u32,
    /// Duration of one measurement.
    pub time: Duration,
    pub rounds: usize,
    /// Duration of a vendor job in `submissions` and `pool`.
    pub job_duration: Duration,
    /// Further settings of the service.
    pub settings: Vec<(String, String)>,
}

impl Options {
    fn from_arguments(arguments: &[String]) -> Self {
        // Returns the argument after each occurrence of `name`.
        let values = |name: &'static str| {
            let positions = arguments.iter().enumerate().filter(move |(_, argument)| *argument == name);
            positions.filter_map(|(at, _)| arguments.get(at + 1))
        };
        let number_of =
            |name, default| values(name).next().map_or(default, |text| text.parse::<usize>().expect("a whole number"));
        let settings = values("--set").map(|text| text.split_once('=').expect("NAME=VALUE"));
        Self {
            dir: data_dir(values("--dir").next().map(String::as_str)),
            tasks: number_of("--tasks", 10_000),
            rate: u32::try_from(number_of("--rate", 0)).expect("a rate of 32 bits"),
            time: Duration::from_secs(number_of("--seconds", 20) as u64),
            rounds: number_of("--rounds", 3),
            job_duration: Duration::from_millis(number_of("--work", 1000) as u64),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// Returns the rate from the command line, or `default`.
    #[must_use]
    pub const fn rate_or(&self, default: u32) -> u32 {
        if self.rate == 0 { default } else { self.rate }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::from_arguments(&arguments);
    match arguments.first().map(String::as_str) {
        Some("in-flight") => in_flight::run(&options),
        Some("submissions") => submissions::run(&options),
        Some("pool") => pool::run(&options),
        Some("outside") => {
            let with_webhooks = arguments.iter().any(|argument| argument == "--webhooks");
            outside::serve(options.job_duration, with_webhooks, VendorGroup::from_arguments(&arguments));
        }
        // `cargo bench` without `--bench gateway` runs every benchmark, so this is not an error.
        _ => println!("in-flight, submissions or pool: cargo bench --bench gateway -- in-flight"),
    }
}

/// Returns the value below which the given `fraction` of the sorted values lies.
#[must_use]
pub fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the list")]
    let rank = (fraction * sorted.len() as f64) as usize;
    sorted.get(rank.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
