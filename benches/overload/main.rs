//! Overload benchmark: goodput far beyond capacity, and fairness beside a hostile caller.
//!
//! - `capacity`: finds the sustainable load of each kind of request by a closed-loop ramp, then offers ten times that
//!   load; reports goodput, refusals and memory
//! - `fairness`: compares the latencies of well-behaved callers without and with one hostile caller, for each kind of
//!   attack
//! - `all`: both
//!
//! The service runs on the first core, all clients on the others. The hostile caller is a separate process with the
//! lowest priority, so that it takes no CPU time from the measured clients.
//!
//! Options:
//!
//! - `--seconds N` duration of one measurement, `--rounds N`, `--only TEXT` (only kinds whose name contains it)
//! - `--factor N` multiple of the sustainable load, `--connections N` that carry it, `--steps 1,16,64` connections of
//!   the ramp
//! - `--nodes N` in the registry, `--accounts N` well-behaved callers, `--addresses N` source addresses of `capacity`
//! - `--reads N`, `--writes N`, `--submissions N` requests a second of each well-behaved caller
//! - `--dir DIR` on the disk to be measured, `--workers N` HTTP threads, `--shared-cores` (the service uses all cores)
//! - `--set NAME=VALUE` a setting of the service by its environment variable, any number of them

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

#[path = "../shared/data_dir.rs"]
mod data_dir;

mod accounts;
mod capacity;
mod fairness;
mod hostile;
#[path = "../shared/http.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod http;
mod limits;
mod offered;
#[path = "../gateway/picture.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod picture;
mod ramp;
#[path = "../shared/ready_made.rs"]
mod ready_made;
#[path = "../shared/service.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod service;
mod workload;
#[path = "../../tests/it/support/zip.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod zip;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use data_dir::data_dir;
use service::{Service, on_separate_cores};

/// Command line options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parent of the data directories, which are temporary.
    pub dir: PathBuf,
    /// Duration of one measurement.
    pub time: Duration,
    pub rounds: usize,
    /// Part of the name of a workload or of an attack; empty selects all.
    pub only: String,
    /// Offered load as a multiple of the sustainable load.
    pub factor: f64,
    /// Connections that carry the offered load.
    pub connections: usize,
    /// Connections of each step of the ramp.
    pub steps: Vec<usize>,
    pub nodes: usize,
    pub accounts: usize,
    /// Source addresses over which the connections of `capacity` are spread.
    pub addresses: usize,
    /// Requests a second of a well-behaved caller: reads, writes, submissions. `None` derives them from the default
    /// limits.
    pub rates: [Option<f64>; 3],
    /// HTTP threads of the service; 0 means one per core.
    pub workers: usize,
    /// `true` if the service may use all cores.
    pub shared_cores: bool,
    /// Further settings of the service.
    pub settings: Vec<(String, String)>,
}

impl Options {
    fn from_arguments(arguments: &[String]) -> Self {
        let values = |name: &'static str| {
            let positions = arguments.iter().enumerate().filter(move |(_, argument)| *argument == name);
            positions.filter_map(|(at, _)| arguments.get(at + 1))
        };
        let text = |name| values(name).next();
        let number_of =
            |name, default| text(name).map_or(default, |text| text.parse::<usize>().expect("a whole number"));
        let decimal = |name| text(name).map(|text| text.parse::<f64>().expect("a number"));
        let settings = values("--set").map(|text| text.split_once('=').expect("NAME=VALUE"));

        Self {
            dir: data_dir(text("--dir").map(String::as_str)),
            time: Duration::from_secs_f64(decimal("--seconds").unwrap_or(10.0)),
            rounds: number_of("--rounds", 3),
            only: text("--only").cloned().unwrap_or_default(),
            factor: decimal("--factor").unwrap_or(10.0),
            connections: number_of("--connections", 2000),
            steps: text("--steps").map_or(vec![1, 8, 32, 128, 512], |list| {
                list.split(',').map(|step| step.parse().expect("a whole number")).collect()
            }),
            nodes: number_of("--nodes", 2000),
            accounts: number_of("--accounts", 4),
            addresses: number_of("--addresses", 64),
            rates: ["--reads", "--writes", "--submissions"].map(decimal),
            workers: number_of("--workers", 0),
            shared_cores: arguments.iter().any(|argument| argument == "--shared-cores"),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// Starts the service on a data directory, on the first core unless it may use all. `--set` overrides `settings`.
    #[must_use]
    pub fn start(&self, data_dir: &Path, settings: &[(String, String)]) -> Service {
        let settings = [settings, &self.settings].concat();
        let start = || Service::start_with(data_dir, self.workers, None, &settings);
        if self.shared_cores { start() } else { on_separate_cores(start) }
    }

    /// Starts the server of ready-made responses, on the same core as the service.
    #[must_use]
    pub fn start_ready_made(&self) -> Service {
        let start = || Service::start_ready_made(1);
        if self.shared_cores { start() } else { on_separate_cores(start) }
    }

    /// Returns `true` if the kind with this name was selected.
    #[must_use]
    pub fn selects(&self, name: &str) -> bool {
        name.contains(&self.only)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::from_arguments(&arguments);
    raise_open_files();
    match arguments.first().map(String::as_str) {
        Some("capacity") => capacity::run(&options),
        Some("fairness") => fairness::run(&options),
        Some("all") => {
            capacity::run(&options);
            fairness::run(&options);
        }
        Some("hostile") => hostile::run(&arguments[1..]),
        Some("ready-made") => ready_made::serve(1),
        // `cargo bench` without a name runs every benchmark with `--bench`.
        _ => println!("capacity, fairness or all: cargo bench --bench overload -- all"),
    }
}

/// Raises the limit of open files to the hard limit. Child processes inherit it.
fn raise_open_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("a process may raise its soft limit");
}

/// Returns the value below which a `fraction` (0 to 1) of the values lies; NaN if `values` is empty.
#[must_use]
pub fn quantile(values: &[f64], fraction: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index below the length")]
    let at = (fraction * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Returns the median; NaN for no values.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(&values.into_iter().collect::<Vec<_>>(), 0.5)
}

/// Converts a duration to milliseconds.
#[must_use]
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
