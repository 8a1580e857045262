//! Replay: how fast read models come back from the log, and how soon a service with a long log is ready.
//!
//! `cargo bench --bench replay -- --dir <a directory on the disk> [--events 1000000] [--rounds 3]`
//!
//! The log is made once and kept in the directory. Every figure is taken in a process of its own.

#![allow(clippy::cast_precision_loss, reason = "figures of a few digits")]

mod history;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use mediary::clock::Surroundings;
use mediary::events::codec;
use mediary::events::journal::{Journal, JournalOptions};
use mediary::events::log::EventLog;
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::Position;
use mediary::projections::read_models::Models;

use history::History;

/// Commits that are appended together.
const GROUP: usize = 512;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    let events = value("--events").map_or(1_000_000, |text| text.parse().expect("a number"));
    let directory = PathBuf::from(value("--dir").expect("--dir <a directory on the disk>"));
    let log = directory.join(format!("replay-{events}"));
    match value("--part").map(String::as_str) {
        Some("read") => read(&log),
        Some("rebuild") => rebuild(&log),
        Some("open") => open(&log),
        _ => make(&log, events),
    }
}

fn options(directory: &Path) -> SledLogOptions {
    let mut options = SledLogOptions::new(directory.join("log"));
    options.journal.sync = Arc::new(|_| Ok(()));
    options
}

fn make(directory: &Path, events: u64) {
    let (log, _) = SledLog::open(&options(directory), &Surroundings::real(), |_| {}).expect("a log");
    let started = Instant::now();
    let mut history = History::new();
    while log.head().0 < events {
        let group = history.by_ref().take(GROUP).collect();
        for outcome in log.append(group).expect("an append") {
            outcome.expect("the version that was expected");
        }
    }
    println!("{} events made in {:.1?}", log.head(), started.elapsed());
    log.close().expect("a log that closes");
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("log/journal")).expect("a journal");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
    paths.sort();
    paths
}

/// Reads the bytes and decodes every commit; checks nothing.
fn read(directory: &Path) {
    let started = Instant::now();
    let (mut events, mut bytes) = (0, 0);
    let mut segment = Vec::new();
    for path in segments(directory) {
        use std::io::Read;
        segment.clear();
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut segment)).expect("a segment");
        let mut at = 512;
        while let Some(length) = segment.get(at..at + 4) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            if length == 0 {
                break;
            }
            events += codec::decode(&segment[at + 56..at + 56 + length]).expect("a commit").len();
            bytes += length;
            at += 56 + length;
        }
    }
    report("read and decode", events as u64, started, bytes);
}

fn rebuild(directory: &Path) {
    let started = Instant::now();
    let mut models = Models::default();
    let options = options(directory).journal;
    let opened = Journal::open(JournalOptions { ..options }, &Surroundings::real(), Position(0), |record| {
        for event in record.commit.iter() {
            models.apply(event);
        }
    });
    opened.expect("a journal");
    println!("folded after {:.2?}", started.elapsed());
    models.nodes.warm_up();
    report("rebuild", models.position.0, started, 0);
}

fn open(directory: &Path) {
    let started = Instant::now();
    let mut models = Models::default();
    let opened = SledLog::open(&options(directory), &Surroundings::real(), |commit| {
        for event in commit.iter() {
            models.apply(event);
        }
    });
    let (log, report_) = opened.expect("a log");
    println!("opened after {:.2?}", started.elapsed());
    models.nodes.warm_up();
    report("open", models.position.0, started, 0);
    println!("{:?}", report_.sentences());
    log.close().expect("a log that closes");
}

fn report(what: &str, events: u64, started: Instant, bytes: usize) {
    let seconds = started.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory: Vec<&str> = status.lines().filter(|l| l.starts_with("VmHWM") || l.starts_with("VmRSS")).collect();
    println!(
        "{what}: {events} events, {:.0} MB in {seconds:.2} s: {:.0} a second; {memory:?}",
        bytes as f64 / 1e6,
        events as f64 / seconds
    );
}
