//! Benchmarks of the registry, over HTTP against the service as shipped.
//!
//! - `cargo bench --bench registry -- load`: fills a data directory with 100,000 nodes; size on disk, memory, start-up
//! - `cargo bench --bench registry -- lists`: pages, filters and searches against ready-made bytes
//! - `cargo bench --bench registry -- writes`: durable changes against ready-made bytes and PostgreSQL
//!
//! Options: `--dir DIR` (for data, on the disk to be measured; the default is in the target directory), `--nodes`,
//! `--publishers`, `--versions`, `--connections 1,8,64`, `--seconds`, `--rounds`, `--urls`, `--workers`, `--fresh`,
//! `--only TEXT` (only lists whose name contains it), `--writes N` (changes a second beside lists).

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]
#![allow(clippy::doc_markdown, reason = "names of databases are not code")]

#[path = "../shared/data_dir.rs"]
mod data_dir;

mod catalogue;
#[path = "../shared/http.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod http;
mod lists;
mod load;
mod postgres;
#[path = "../shared/ready_made.rs"]
mod ready_made;
#[path = "../shared/service.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod service;
mod writes;

use std::path::PathBuf;
use std::time::Duration;

use catalogue::Size;
use data_dir::data_dir;

/// Command line options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Parent of the data directories, which are kept.
    pub dir: PathBuf,
    pub size: Size,
    /// Concurrent clients; every benchmark has its own default.
    pub connections: Option<Vec<usize>>,
    /// Duration of one round.
    pub time: Duration,
    pub rounds: usize,
    /// Distinct requests of one kind.
    pub urls: usize,
    /// HTTP threads of the service.
    pub workers: Option<usize>,
    /// Part of the name of a list; only matching lists are measured.
    pub only: String,
    /// Changes a second during lists that are measured under writes.
    pub writes: usize,
    /// `true` to fill an existing directory again.
    pub is_fresh: bool,
}

impl Options {
    fn from_arguments(arguments: &[String]) -> Self {
        let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
        let number_of = |name: &str| value(name).map(|text| text.parse::<usize>().expect("a whole number"));
        let connections = value("--connections");
        let seconds = value("--seconds").map_or(2.0, |text| text.parse().expect("a number of seconds"));
        Self {
            dir: data_dir(value("--dir").map(String::as_str)),
            size: Size {
                publishers: number_of("--publishers").unwrap_or(1000),
                nodes: number_of("--nodes").unwrap_or(100_000),
                versions: number_of("--versions").unwrap_or(5),
            },
            connections: connections.map(|list| list.split(',').map(|n| n.parse().expect("a whole number")).collect()),
            time: Duration::from_secs_f64(seconds),
            rounds: number_of("--rounds").unwrap_or(5),
            urls: number_of("--urls").unwrap_or(2000),
            workers: number_of("--workers"),
            writes: number_of("--writes").unwrap_or(100),
            only: value("--only").cloned().unwrap_or_default(),
            is_fresh: arguments.iter().any(|argument| argument == "--fresh"),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::from_arguments(&arguments);
    match arguments.first().map(String::as_str) {
        Some("load") => load::run(&options),
        Some("lists") => lists::run(&options),
        Some("writes") => writes::run(&options),
        Some("ready-made") => ready_made::serve(options.workers.unwrap_or(1)),
        // `cargo bench` without a name runs every benchmark with `--bench`.
        _ => println!("load, lists or writes: cargo bench --bench registry -- load"),
    }
}

/// Returns the median; panics without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
