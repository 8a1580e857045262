//! Replay: time to rebuild the read models from the log, and time until a service with a long log is ready.
//!
//! `cargo bench --bench replay -- [--dir <a directory on the disk>] [--events 1000000] [--rounds 3]`
//!
//! The log is created once and kept in the directory, with a snapshot of the read models 10,000 events before its end.
//! Every value is measured in its own process; prints the medians as a table.

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

#[path = "../shared/data_dir.rs"]
mod data_dir;

mod history;
mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use mediary::environment::Environment;
use mediary::events::codec;
use mediary::events::journal::{Journal, JournalEnvironment};
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::Position;
use mediary::projections::read_models::Models;

use data_dir::data_dir;
use history::History;
use service::ReplayService;

/// Allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Commits per append.
const GROUP: usize = 512;
/// Bytes of the header of a journal segment.
const SEGMENT_HEADER: usize = 512;
/// Bytes of a journal record before its payload: length, checksum, positions and chain hash.
const RECORD_HEAD: usize = 56;
/// Events after the snapshot.
const TAIL: u64 = 10_000;

/// Resources used by one process.
#[derive(Clone, Copy)]
struct ReplayMeasurement {
    seconds: f64,
    /// CPU time of all threads, in seconds.
    cpu_seconds: f64,
    /// Resident memory at the end, in MiB.
    memory: f64,
    /// Peak of the resident memory, in MiB.
    memory_peak: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let number_of = |name: &str, default: u64| value(name).map_or(default, |text| text.parse().expect("a number"));
    let events = number_of("--events", 1_000_000);
    let directory = data_dir(value("--dir").map(String::as_str));
    let data = directory.join(format!("replay-{events}"));
    match value("--part").map(String::as_str) {
        Some("read") => read_log(&data),
        Some("rebuild") => rebuild(&data),
        Some(other) => panic!("unknown part {other}: it must be read or rebuild"),
        None => print_table(&data, events, usize::try_from(number_of("--rounds", 3)).expect("few rounds")),
    }
}

/// Generates the log unless an earlier run did, runs every part, and prints the medians.
fn print_table(data: &Path, events: u64, rounds: usize) {
    if !data.join("made").exists() {
        generate(data, events);
    }
    let snapshot = data.join("snapshots/models");
    let stored_snapshot = data.join("kept-snapshot");
    println!("| operation | seconds | CPU s | events/s | VmRSS MiB | VmHWM MiB |\n|---|---|---|---|---|---|");

    let read_seconds = print_row("read + decode", events, rounds, || run_part(data, events, "read"));
    let rebuild_seconds = print_row("rebuild of all read models", events, rounds, || run_part(data, events, "rebuild"));

    let start = |with_snapshot: bool| {
        if with_snapshot {
            fs::create_dir_all(data.join("snapshots")).expect("a directory");
            fs::copy(&stored_snapshot, &snapshot).expect("a snapshot");
        }
        let service = ReplayService::start(data, if with_snapshot { 100_000 } else { 0 });
        let service_measurement = service.measurement();
        service.stop();
        service_measurement
    };

    print_row("start to ready, the whole log", events, rounds, || start(false));
    print_row(&format!("start to ready, snapshot + {TAIL} events"), events, rounds, || start(true));

    let megabytes = fs::metadata(&stored_snapshot).expect("a snapshot").len() as f64 / 1e6;
    println!(
        "\nThe rebuild is {:.2} times as fast as read + decode. The snapshot has {megabytes:.0} MB.",
        read_seconds / rebuild_seconds
    );
}

/// Prints the round with the median duration and returns its seconds.
fn print_row(label: &str, events: u64, rounds: usize, mut run: impl FnMut() -> ReplayMeasurement) -> f64 {
    let mut measurements: Vec<ReplayMeasurement> = (0..rounds).map(|_| run()).collect();
    measurements.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let ReplayMeasurement { seconds, cpu_seconds, memory, memory_peak } = &measurements[measurements.len() / 2];
    let rate = events as f64 / seconds;
    println!("| {label} | {seconds:.2} | {cpu_seconds:.2} | {rate:.0} | {memory:.0} | {memory_peak:.0} |");
    *seconds
}

/// Runs a part in its own process and returns its measurement.
fn run_part(data: &Path, events: u64, name: &str) -> ReplayMeasurement {
    let program = std::env::current_exe().expect("the path of this program");
    let directory = data.parent().expect("a directory above");
    let mut command = Command::new(program);
    command.args(["--part", name, "--events", &events.to_string(), "--dir"]).arg(directory);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = stdout.split_whitespace().map(|text| text.parse().expect("a number")).collect();
    let [seconds, cpu_seconds, memory, memory_peak] = numbers[..] else { panic!("not four numbers: {stdout}") };
    ReplayMeasurement { seconds, cpu_seconds, memory, memory_peak }
}

/// Prints the resources used by this process.
fn print_measurement(started: Instant) {
    let ReplayMeasurement { seconds, cpu_seconds, memory, memory_peak } =
        service::measure(std::process::id(), started.elapsed());
    println!("{seconds} {cpu_seconds} {memory} {memory_peak}");
}

fn options(data: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(data.join("log"));
    // Generating the log does not wait for the disk.
    options.journal.sync = Arc::new(|_| Ok(()));
    options
}

/// Creates the log, with a snapshot before its end.
fn generate(data: &Path, events: u64) {
    let started = Instant::now();
    let mut history = History::new();
    append(data, &mut history, events - TAIL);
    ReplayService::start(data, 100_000).stop();
    fs::copy(data.join("snapshots/models"), data.join("kept-snapshot")).expect("a snapshot was taken at the stop");
    append(data, &mut history, events);
    fs::write(data.join("made"), "").expect("a file");
    eprintln!("{events} events were generated in {:.1?}", started.elapsed());
}

/// Appends until the log has `events` events and no unfinished operation that a service would resume.
fn append(data: &Path, history: &mut History, events: u64) {
    let (log, _) = SledLog::open(&options(data), &Environment::system(), |_| {}).expect("a log");
    while log.head().0 < events || history.has_unfinished_operation() {
        let remaining = usize::try_from(events.saturating_sub(log.head().0)).expect("few events").clamp(1, GROUP);
        let group = history.by_ref().take(remaining).collect();
        for outcome in log.append(group).expect("an append") {
            outcome.expect("no other writer changed the stream");
        }
    }
    log.close().expect("the log closes");
}

/// Reads the bytes of the journal and decodes every commit, without checks.
fn read_log(data: &Path) {
    let started = Instant::now();
    let mut events = 0;
    for path in segments(data) {
        let segment = fs::read(path).expect("a segment");
        let mut at = SEGMENT_HEADER;
        while let Some(length) = segment.get(at..at + 4) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            if length == 0 {
                break;
            }
            events += codec::decode(&segment[at + RECORD_HEAD..at + RECORD_HEAD + length]).expect("a commit").len();
            at += RECORD_HEAD + length;
        }
    }
    assert!(events > 0, "the journal is empty");
    print_measurement(started);
}

/// Returns the paths of the journal's segments, in order.
fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("log/journal")).expect("a journal");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
    paths.sort();
    paths
}

/// Reads and checks the whole journal, applies it to the read models, and builds the indexes of lists.
fn rebuild(data: &Path) {
    let started = Instant::now();
    let mut models = Models::default();
    let options = options(data);
    let environment = JournalEnvironment::new(&Environment::system(), &options.space);
    let opened = Journal::open(options.journal, environment, Position(0), |record| {
        for event in record.commit.iter() {
            models.apply(event);
        }
    });
    opened.expect("a journal");
    models.nodes.warm_up();
    print_measurement(started);
    // Freeing the memory is not part of the measurement.
    std::mem::forget(models);
}
