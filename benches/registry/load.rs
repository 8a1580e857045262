//! Full registry: time to fill it, size on disk and in memory, duration of a start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::catalogue::Catalogue;
use crate::http::{request, send_all};
use crate::service::{MemoryUsage, Service, TOKEN, block_on};
use crate::{Options, median};

/// Number of clients that fill the registry.
const CONNECTIONS: usize = 256;
/// Number of measured starts, with a warm and with a cold page cache each.
const STARTS: usize = 3;

/// Fills the registry unless an earlier run did, and prints its size and the duration of starts.
pub fn run(options: &Options) {
    let (data_dir, filled) = fill(options);
    let size = options.size;
    println!("{} nodes of {} publishers, {} versions each\n", size.nodes, size.publishers, size.versions);
    println!("| measured | |\n|---|---|");
    if let Some(FillResult { requests, time, retries, memory }) = filled {
        let rate = requests as f64 / time.as_secs_f64();
        println!(
            "| commands over HTTP, {CONNECTIONS} connections | {requests} in {:.1} s, {rate:.0} a second |",
            time.as_secs_f64()
        );
        println!("| requests repeated after 429 or 503 | {retries} |");
        println!("| resident memory after filling, peak | {:.0} MiB, {:.0} MiB |", memory.current, memory.peak);
    }

    let journal = disk_usage(&data_dir.join("log").join("journal"));
    let total_bytes = disk_usage(&data_dir);
    println!("| journal · whole data directory | {} MiB · {} MiB |", journal >> 20, total_bytes >> 20);

    let workers = options.workers.unwrap_or(0);
    let warm: Vec<_> = (0..STARTS).map(|_| start(&data_dir, workers)).collect();
    print_starts("start to ready, warm", &warm);
    let cold: Vec<_> = (0..STARTS).map_while(|_| drop_page_cache().then(|| start(&data_dir, workers))).collect();
    if cold.is_empty() {
        println!("| start to ready, page cache dropped | not measured: it cannot be dropped here |");
    } else {
        print_starts("start to ready, page cache dropped", &cold);
    }

    println!(
        "| resident memory of a fresh process, peak | {:.0} MiB, {:.0} MiB |",
        median(warm.iter().map(|start| start.memory.current)),
        median(warm.iter().map(|start| start.memory.peak))
    );
    println!("| stop | {:.2} s |", median(warm.iter().map(|start| start.stop_duration.as_secs_f64())));
}

/// Results of filling the registry.
struct FillResult {
    requests: usize,
    time: Duration,
    /// Number of requests repeated after a 429 or 503.
    retries: u64,
    memory: MemoryUsage,
}

/// Results of one start and stop.
struct StartMeasurement {
    /// Time until the service was ready.
    ready: Duration,
    memory: MemoryUsage,
    stop_duration: Duration,
}

/// Fills the data directory of the selected size unless an earlier run did. Returns its path, and the results if it
/// was filled now.
fn fill(options: &Options) -> (PathBuf, Option<FillResult>) {
    let size = options.size;
    let name = format!("registry-{}-{}-{}", size.publishers, size.nodes, size.versions);
    let data_dir = options.dir.join(name);
    let marker = data_dir.join("filled");
    if options.is_fresh && data_dir.exists() {
        std::fs::remove_dir_all(&data_dir).expect("the old data can be removed");
    }
    if marker.exists() {
        return (data_dir, None);
    }
    assert!(!data_dir.exists(), "{} was left half filled: use --fresh", data_dir.display());
    let catalogue = Catalogue::new(size);
    let service = Service::start(&data_dir, options.workers.unwrap_or(0));
    let started = Instant::now();
    let retries = block_on(send_catalogue(&service, &catalogue));
    let (time, memory) = (started.elapsed(), service.memory());
    service.stop();
    std::fs::write(marker, "").expect("a file");
    let requests = size.publishers + size.nodes * size.versions;
    (data_dir, Some(FillResult { requests, time, retries, memory }))
}

/// Returns the data directory of the selected size, which is filled first if necessary.
pub fn ensure_filled(options: &Options) -> PathBuf {
    fill(options).0
}

/// Creates all publishers, nodes and versions, and returns the number of retries.
async fn send_catalogue(service: &Service, catalogue: &Catalogue) -> u64 {
    let size = catalogue.size;
    let share = |client: usize, total: usize| (client..total).step_by(CONNECTIONS);
    let publishers = (0..CONNECTIONS).map(|client| {
        share(client, size.publishers).map(|index| {
            let id = Catalogue::publisher(index);
            let body = serde_json::json!({"id": id, "name": format!("Publisher {index}")}).to_string();
            request("POST", "/publishers", TOKEN, &body)
        })
    });
    let retries = send_all(&service.address, publishers.collect()).await;
    let nodes = (0..CONNECTIONS).map(|client| {
        let catalogue = catalogue.clone();
        share(client, size.nodes).flat_map(move |index| requests_of_node(&catalogue, index))
    });
    retries + send_all(&service.address, nodes.collect()).await
}

/// Returns the requests that create a node and publish its versions.
fn requests_of_node(catalogue: &Catalogue, index: usize) -> Vec<Vec<u8>> {
    let path = format!("/publishers/{}/nodes", catalogue.owner(index));
    let versions = format!("{path}/{}/versions", Catalogue::node(index));
    let create = request("POST", &path, TOKEN, &catalogue.node_body(index));
    let publish = |version| request("POST", &versions, TOKEN, &catalogue.version_body(index, version));
    std::iter::once(create).chain((1..catalogue.size.versions).map(publish)).collect()
}

/// Starts the service, measures it and stops it.
fn start(data_dir: &Path, workers: usize) -> StartMeasurement {
    let service = Service::start(data_dir, workers);
    let (ready, memory) = (service.ready_after, service.memory());
    StartMeasurement { ready, memory, stop_duration: service.stop() }
}

/// Prints the median time until the service was ready.
fn print_starts(label: &str, starts: &[StartMeasurement]) {
    println!("| {label} | {:.2} s |", median(starts.iter().map(|start| start.ready.as_secs_f64())));
}

/// Drops the page cache; `false` if this is not permitted.
fn drop_page_cache() -> bool {
    drop(Command::new("sync").status());
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Returns the bytes on disk of everything below a directory.
fn disk_usage(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_usage(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}
