//! Damaged log files: after a start, the service either serves the complete log or refuses to start and names the
//! damaged file.
//!
//! The suite runs a sample of the cases on a small log; `DAMAGE_CASES=full cargo test --test it damage` runs 1,000
//! flipped bits, 200 truncations, 100 zeroed pages and 100 swapped, stale, missing or duplicated files, over 10,000
//! events.

mod history;
mod kinds;
mod snapshot;

use std::collections::BTreeMap;
use std::panic;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use history::LogHistory;
pub use history::files;
use kinds::{Damage, DamagePlan};
use mediary::environment::Environment;
use mediary::events::envelope::RecordedEvent;
use mediary::events::log::EventLog;
use mediary::events::sled_log::{OpenReport, SledLog};
use mediary::events::stream::{Position, Version};
use mediary::events::verify::LogVerification;
use mediary::projections::read_models::Models;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

const SEED: u64 = 0xDA_3A6E;
/// Deadline of a start; long enough for a busy machine.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// Everything that the service serves from a log.
#[derive(PartialEq)]
pub struct ServedContents {
    pub events: Vec<RecordedEvent>,
    /// Events by stream, as read stream by stream.
    streams: Vec<Vec<RecordedEvent>>,
    models: Models,
}

impl ServedContents {
    /// Opens the log and reads everything, or returns the error of opening it.
    fn open(directory: &Path) -> Result<(Self, OpenReport), String> {
        let mut models = Models::default();
        let apply = |commit: &mediary::events::envelope::Commit| commit.iter().for_each(|event| models.apply(event));
        let opened = SledLog::open(&history::options(directory), &Environment::system(), apply);
        let (log, report) = opened.map_err(|error| error.to_string())?;
        Ok((Self::from_log(&log, models), report))
    }

    /// Reads everything from the log and closes it.
    fn from_log(log: &SledLog, models: Models) -> Self {
        let events = log.read_all(Position(0), usize::MAX).expect("an opened log is readable");
        let read_stream = |stream| log.read_stream(&stream, Version(0)).expect("an opened log is readable");
        let streams = history::streams(&events).into_iter().map(read_stream).collect();
        assert_eq!(log.head(), Position(events.len() as u64));
        log.close().expect("an opened log closes");
        Self { events, streams, models }
    }
}

/// Outcome of the start of one case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The log has the same content, and the start reports nothing.
    Unaffected,
    /// The log has the same content, and the start reports a repair.
    Repaired,
    /// The service refuses to start, with this error, which names the damage.
    Refused(String),
    /// Defect: a panic, a hang, other content, or an error that does not name the damage.
    Defect(String),
}

#[test]
fn damage_is_repaired_or_reported_and_never_served() {
    // Given a log
    let full = std::env::var("DAMAGE_CASES").is_ok_and(|cases| cases == "full");
    let plan = if full {
        DamagePlan { events: 10_000, flips: 1000, cuts: 200, zeroed: 100, misplaced: 100 }
    } else {
        DamagePlan { events: 1_500, flips: 12, cuts: 4, zeroed: 4, misplaced: 20 }
    };
    let history = LogHistory::generate(plan.events);
    let cases = kinds::draw_cases(plan, &history, &mut StdRng::seed_from_u64(SEED));
    assert_eq!(count_findings(history.current()), 0, "the verification finds damage in an undamaged log");

    // When copies of it are damaged and opened
    let outcomes = run_cases(&history, &cases);

    // Then each has the same content, or the error names the file
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (damage, outcome) in &outcomes {
        let outcome = match outcome {
            Outcome::Unaffected => "no effect",
            Outcome::Repaired => "repaired and reported",
            Outcome::Refused(_) => "start refused",
            Outcome::Defect(_) => "DEFECT",
        };
        *counts.entry((damage.kind(), outcome)).or_default() += 1;
    }
    for ((damage, outcome), count) in &counts {
        println!("{damage}: {count} {outcome}");
    }
    let defects: Vec<_> = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Defect(_))).collect();
    assert!(defects.is_empty(), "{} defects in {} starts: {defects:#?}", defects.len(), outcomes.len());

    // And both other outcomes occur, so that the harness is known to detect them
    assert!(counts.keys().any(|(_, outcome)| *outcome == "start refused"), "no start was refused: {counts:?}");
    assert!(counts.keys().any(|(_, outcome)| *outcome == "repaired and reported"), "nothing was repaired: {counts:?}");
}

/// Runs the cases on two threads.
fn run_cases(history: &LogHistory, cases: &[Damage]) -> Vec<(Damage, Outcome)> {
    let (remaining, outcomes) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(damage) = remaining.lock().next() else { return };
                    let results = start_both_ways(history, damage).into_iter().map(|outcome| (damage.clone(), outcome));
                    outcomes.lock().extend(results);
                }
            });
        }
    });
    outcomes.into_inner()
}

/// Damages two copies of the log. Starts one with a full replay, and the other from its snapshot.
fn start_both_ways(history: &LogHistory, damage: &Damage) -> Vec<Outcome> {
    let damaged_copy = || {
        let directory = tempfile::tempdir().unwrap();
        history::copy(history.current(), directory.path());
        damage.apply(directory.path(), history.older());
        directory
    };
    let from_snapshot = snapshot::outcome_of_snapshot_start(history, damage, damaged_copy().path());
    vec![outcome_of_replay(history, damage, damaged_copy().path()), from_snapshot]
}

/// Returns the outcome of a start that replays the whole log. It is a defect if the start notices damage to the journal
/// that the read-only verification does not find.
fn outcome_of_replay(history: &LogHistory, damage: &Damage, directory: &Path) -> Outcome {
    let Ok(finding_count) = panic::catch_unwind(|| count_findings(directory)) else {
        return Outcome::Defect("the verification panics".to_owned());
    };
    let outcome = outcome_of_start(history, damage, directory);
    let must_be_found = match &outcome {
        // The verification reads only the journal; this error is about entries that only sled has.
        Outcome::Refused(reason) => !reason.contains("the index holds"),
        Outcome::Repaired => damage.file().is_some_and(|file| file.starts_with("journal")),
        Outcome::Unaffected | Outcome::Defect(_) => false,
    };
    if must_be_found && finding_count == 0 {
        return Outcome::Defect(format!("the verification finds nothing, but the start: {outcome:?}"));
    }
    outcome
}

/// Runs a read-only verification and returns the number of its findings; a verification that fails counts as one.
fn count_findings(directory: &Path) -> usize {
    let verification =
        LogVerification { directory, in_use: false, since: None, on_record: &mut |_| {}, progress: &mut |_| {} };
    verification.run().map_or(1, |report| report.journal.findings.len() + report.journal.notes.len())
}

/// Starts with a full replay and, after a repair, again.
fn outcome_of_start(history: &LogHistory, damage: &Damage, directory: &Path) -> Outcome {
    match start(directory, history) {
        Outcome::Refused(reason) => judge_refusal(damage, directory, reason),
        // A repaired log needs no repair at the next start.
        Outcome::Repaired if start(directory, history) != Outcome::Unaffected => {
            Outcome::Defect("the log was repaired, but the next start was not clean".to_owned())
        }
        outcome => outcome,
    }
}

/// Opens the log with a full replay, in a thread, to detect a panic or a hang.
fn start(directory: &Path, history: &LogHistory) -> Outcome {
    let path = directory.to_owned();
    let started =
        run_with_deadline(move || ServedContents::open(&path).map(|(contents, report)| (contents, report.messages())));
    match started {
        Err(outcome) => outcome,
        Ok(Err(reason)) => Outcome::Refused(reason),
        Ok(Ok((contents, reports))) => judge_contents(&contents, &reports, history),
    }
}

/// Runs the closure in a thread. A panic, or a run beyond [`START_DEADLINE`], is a defect.
fn run_with_deadline<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + panic::UnwindSafe + 'static,
) -> Result<T, Outcome> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(panic::catch_unwind(task));
    });
    match receiver.recv_timeout(START_DEADLINE) {
        Err(_) => Err(Outcome::Defect("the start hangs".to_owned())),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Outcome::Defect(format!("the start panics: {text}")))
        }
        Ok(Ok(value)) => Ok(value),
    }
}

/// Compares the served content with that of the undamaged log.
fn judge_contents(contents: &ServedContents, reports: &[String], history: &LogHistory) -> Outcome {
    if *contents == history.contents {
        return if reports.is_empty() { Outcome::Unaffected } else { Outcome::Repaired };
    }
    let (served, expected) = (contents.events.len(), history.contents.events.len());
    Outcome::Defect(format!("it serves other content: {served} events, expected {expected}, {reports:?}"))
}

/// Checks that a refusal names the file, the offset in it where there is one, and the command to run.
fn judge_refusal(damage: &Damage, directory: &Path, reason: String) -> Outcome {
    let is_named = |file: &Path| reason.contains(file.file_name().unwrap().to_str().unwrap());
    let has_location = !reason.contains(".seg ") || (reason.contains(" at offset ") && reason.contains(" position "));
    let names_file = match damage {
        // The error names the file in which the gap is detected: the next one, or the last one.
        Damage::Missing(_) | Damage::Stale(_) | Damage::Cut { .. } => true,
        _ => damage.file().is_none_or(is_named),
    };
    let defect = if !reason.contains(directory.to_str().unwrap()) {
        "no file is named"
    } else if !names_file {
        "another file is named"
    } else if !has_location {
        "offset and position are not named"
    } else if !reason.contains("mediary ") {
        "no command is named"
    } else if damage.file().is_some_and(|file| file.starts_with("sled") || file.starts_with("snapshots")) {
        "sled and snapshots can be rebuilt: damage to them must never prevent the start"
    } else {
        return Outcome::Refused(reason);
    };
    Outcome::Defect(format!("{defect}: {reason}"))
}
