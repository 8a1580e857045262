//! Benchmark of clusters: nodes as shipped over three NATS servers, alternating with the same service without a
//! cluster. `benches/cluster/run` provides nats-server and runs it.
//!
//! Options: `--dir DIR` (for data, on the disk to be measured), `--connections 1,8,64`, `--seconds`, `--rounds`,
//! `--sync always,2m` (`sync_interval` of the servers), `--takeovers`.
//!
//! Nodes, servers and clients share the cores of one machine. CPU time per command shows what larger
//! machines can do.

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]
#![allow(clippy::doc_markdown, reason = "names of programs are not code")]

#[path = "../shared/data_dir.rs"]
mod data_dir;
#[path = "../../tests/it/support/eventually.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod eventually;
#[path = "../shared/http.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod http;
#[path = "../../tests/it/support/nats_servers.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod nats_servers;
mod nodes;
#[path = "../../tests/it/support/server_process.rs"]
mod server_process;
#[path = "../shared/service.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod service;
mod takeover;

use std::time::Duration;

use http::{LoadResult, load_of_all, request};
use nodes::{BenchCluster, change, fill};
use service::Service;

/// Number of registry nodes whose versions the clients change.
pub const REGISTRY_NODES: usize = 512;
const DEFAULT_CONNECTIONS: [usize; 3] = [1, 8, 64];
/// Number of nodes of the cluster.
const MEMBERS: usize = 3;

struct Options {
    dir: std::path::PathBuf,
    connections: Vec<usize>,
    time: Duration,
    rounds: usize,
    /// Values of `sync_interval` that are measured.
    sync: Vec<String>,
    takeovers: usize,
}

impl Options {
    fn from_arguments(arguments: &[String]) -> Self {
        let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
        let number = |name: &str| value(name).map(|text| text.parse().expect("a whole number"));
        let list = |name: &str| value(name).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
        let connections = list("--connections").map(|list| list.iter().map(|n| n.parse().expect("a number")).collect());
        Self {
            dir: data_dir::data_dir(value("--dir").map(String::as_str)),
            connections: connections.unwrap_or(DEFAULT_CONNECTIONS.to_vec()),
            time: Duration::from_secs_f64(value("--seconds").map_or(2.0, |text| text.parse().expect("seconds"))),
            rounds: number("--rounds").unwrap_or(5),
            sync: list("--sync").unwrap_or(vec!["always".to_owned(), "2m".to_owned()]),
            takeovers: number("--takeovers").unwrap_or(3),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os("MEDIARY_TEST_NATS_SERVER").is_none() {
        // `cargo bench` without a name runs every benchmark.
        println!("needs NATS servers: start it by benches/cluster/run");
        return;
    }
    let options = Options::from_arguments(&arguments);
    for sync in &options.sync {
        measure(&options, sync);
    }
}

/// Measures a cluster of one node and then of three, beside a service without a cluster.
fn measure(options: &Options, sync: &str) {
    let dir = tempfile::tempdir_in(&options.dir).expect("a directory on the disk to be measured");
    let alone = Service::start(&dir.path().join("alone"), 0);
    fill(&alone.address);
    let mut cluster = BenchCluster::init(dir.path(), sync);

    println!("\n`sync_interval: {sync}`, {} rounds of {:?} in turn, medians\n", options.rounds, options.time);
    println!(
        "| | clients | without a cluster, /s | cluster, /s | ratio | p50, ms | p99, ms | µs alone | µs nodes | µs NATS |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for members in [1, MEMBERS] {
        cluster.start_up_to(members);
        for &connections in &options.connections {
            print_row(&format!("changes, {members} nodes"), options, &alone, &cluster, connections, change);
        }
        let read = |client: usize, turn: u64| {
            let page = 1 + (turn.wrapping_mul(7919) + client as u64 * 31) % 50;
            request("GET", &format!("/nodes?limit=10&page={page}"), "", "")
        };
        print_row(&format!("reads, {members} nodes"), options, &alone, &cluster, 64, read);
    }
    alone.stop();

    let (events, time) = cluster.join_another();
    println!(
        "\nA joining node applied {events} events in {:.2} s, beside its start: {:.0} a second.",
        time.as_secs_f64(),
        events as f64 / time.as_secs_f64()
    );
    takeover::measure(&mut cluster, options.takeovers);
}

/// Rates and CPU times of one round.
struct Round {
    alone: LoadResult,
    cluster: LoadResult,
    /// CPU time per request in microseconds: of the service without a cluster, of all nodes, of all NATS servers.
    cpu_micros: [f64; 3],
}

/// Measures one kind of request and prints its row; `next(client, turn)` returns the next request of a client.
fn print_row(
    name: &str,
    options: &Options,
    alone: &Service,
    cluster: &BenchCluster,
    connections: usize,
    next: impl Fn(usize, u64) -> Vec<u8> + Clone + 'static,
) {
    let rounds: Vec<_> = (0..options.rounds)
        .map(|_| {
            let cpu_times = || [alone.cpu_time(), cluster.node_cpu_time(), cluster.server_cpu_time()];
            let before = cpu_times();
            let alone_result = load_of_all(&[&alone.address], connections, options.time, next.clone());
            let cluster_result = load_of_all(&cluster.addresses(), connections, options.time, next.clone());
            let after = cpu_times();
            let rates = [alone_result.rate, cluster_result.rate, cluster_result.rate];
            let per_request =
                |index: usize| (after[index] - before[index]) * 1e6 / (rates[index] * options.time.as_secs_f64());
            Round { alone: alone_result, cluster: cluster_result, cpu_micros: [0, 1, 2].map(per_request) }
        })
        .collect();
    let middle = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value));
    println!(
        "| {name} | {connections} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} |",
        middle(&|round| round.alone.rate),
        middle(&|round| round.cluster.rate),
        middle(&|round| round.cluster.rate / round.alone.rate),
        middle(&|round| round.cluster.p50 / 1000.0),
        middle(&|round| round.cluster.p99 / 1000.0),
        middle(&|round| round.cpu_micros[0]),
        middle(&|round| round.cpu_micros[1]),
        middle(&|round| round.cpu_micros[2]),
    );
}

/// Returns the median; panics without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
