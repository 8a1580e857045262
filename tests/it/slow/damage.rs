//! Damaged log files: a start either serves the complete log or names the damaged file.
//!
//! The suite runs a sample of the cases on a small log; `DAMAGE_CASES=full cargo test --test it damage` runs 1,000
//! flipped bits, 200 truncations, 100 zeroed pages and 100 swapped, stale, missing or duplicated files, over 10,000
//! events.

mod harm;
mod history;
mod snapshot;

use std::collections::BTreeMap;
use std::panic;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use harm::{Harm, HarmPlan};
use history::LogHistory;
pub use history::files;
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
/// Deadline of a start, for a busy machine.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// All content of a log.
#[derive(PartialEq)]
pub struct ServedContents {
    pub events: Vec<RecordedEvent>,
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

    /// Reads everything from the log, and closes it.
    fn from_log(log: &SledLog, models: Models) -> Self {
        let events = log.read_all(Position(0), usize::MAX).expect("an opened log is readable");
        let read_stream = |stream| log.read_stream(&stream, Version(0)).expect("an opened log is readable");
        let streams = history::streams(&events).into_iter().map(read_stream).collect();
        assert_eq!(log.head(), Position(events.len() as u64));
        log.close().expect("an opened log closes");
        Self { events, streams, models }
    }
}

/// Outcome of one case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Same content, nothing to report.
    Unharmed,
    /// Same content, and the start reports the repair.
    Repaired,
    /// No start, with the reason.
    Refused(String),
    /// Failure of the service.
    Broken(String),
}

#[test]
fn damage_is_repaired_or_reported_and_never_served() {
    // Given a log
    let full = std::env::var("DAMAGE_CASES").is_ok_and(|cases| cases == "full");
    let plan = if full {
        HarmPlan { events: 10_000, flips: 1000, cuts: 200, zeroed: 100, misplaced: 100 }
    } else {
        HarmPlan { events: 1_500, flips: 12, cuts: 4, zeroed: 4, misplaced: 20 }
    };
    let history = LogHistory::generate(plan.events);
    let cases = harm::draw(plan, &history, &mut StdRng::seed_from_u64(SEED));
    assert_eq!(count_findings(history.today()), 0, "the verification finds damage in an undamaged log");

    // When a copy of it is damaged and opened
    let outcomes = run_cases(&history, &cases);

    // Then it has the same content, or the error names the file
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (harm, outcome) in &outcomes {
        let outcome = match outcome {
            Outcome::Unharmed => "no effect",
            Outcome::Repaired => "repaired and reported",
            Outcome::Refused(_) => "named, no start",
            Outcome::Broken(_) => "BROKEN",
        };
        *counts.entry((harm.kind(), outcome)).or_default() += 1;
    }
    for ((harm, outcome), count) in &counts {
        println!("{harm}: {count} {outcome}");
    }
    let failures: Vec<_> = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Broken(_))).collect();
    assert!(failures.is_empty(), "{} cases of {}: {failures:#?}", failures.len(), outcomes.len());
    assert!(counts.keys().any(|(_, outcome)| *outcome == "named, no start"), "no start was refused: {counts:?}");
    assert!(counts.keys().any(|(_, outcome)| *outcome == "repaired and reported"), "nothing was repaired: {counts:?}");
}

/// Runs the cases on two threads.
fn run_cases(history: &LogHistory, cases: &[Harm]) -> Vec<(Harm, Outcome)> {
    let (remaining, outcomes) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(harm) = remaining.lock().next() else { return };
                    let results = start_both_ways(history, harm).into_iter().map(|outcome| (harm.clone(), outcome));
                    outcomes.lock().extend(results);
                }
            });
        }
    });
    outcomes.into_inner()
}

/// Starts once with a full replay, and once from the snapshot.
fn start_both_ways(history: &LogHistory, harm: &Harm) -> Vec<Outcome> {
    let harmed = || {
        let directory = tempfile::tempdir().unwrap();
        history::copy(history.today(), directory.path());
        harm.inflict(directory.path(), history.yesterday());
        directory
    };
    let from_snapshot = snapshot::outcome(history, harm, harmed().path());
    vec![outcome_of_replay(history, harm, harmed().path()), from_snapshot]
}

fn outcome_of_replay(history: &LogHistory, harm: &Harm, directory: &Path) -> Outcome {
    let Ok(finding_count) = panic::catch_unwind(|| count_findings(directory)) else {
        return Outcome::Broken("the verification panics".to_owned());
    };
    let outcome = outcome_of_start(history, harm, directory);
    let must_be_found = match &outcome {
        // The verification reads only the journal, and this refusal is about data that only sled has.
        Outcome::Refused(reason) => !reason.contains("the index holds"),
        Outcome::Repaired => harm.file().is_some_and(|file| file.starts_with("journal")),
        Outcome::Unharmed | Outcome::Broken(_) => false,
    };
    if must_be_found && finding_count == 0 {
        return Outcome::Broken(format!("the verification finds nothing, and the start: {outcome:?}"));
    }
    outcome
}

/// Runs a read-only verification, and returns the number of its findings.
fn count_findings(directory: &Path) -> usize {
    let verification =
        LogVerification { directory, in_use: false, since: None, on_record: &mut |_| {}, progress: &mut |_| {} };
    verification.run().map_or(1, |report| report.journal.findings.len() + report.journal.notes.len())
}

fn outcome_of_start(history: &LogHistory, harm: &Harm, directory: &Path) -> Outcome {
    match start(directory, history) {
        Outcome::Refused(reason) => judge_refusal(harm, directory, reason),
        // A repaired log needs no repair at the next start.
        Outcome::Repaired if start(directory, history) != Outcome::Unharmed => {
            Outcome::Broken("it was repaired, but the next start found more".to_owned())
        }
        outcome => outcome,
    }
}

/// Opens the log in a thread, to detect a panic or a hang.
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

/// Runs the closure in a thread, with a deadline.
fn run_with_deadline<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + panic::UnwindSafe + 'static,
) -> Result<T, Outcome> {
    let (sender, outcome) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(panic::catch_unwind(task));
    });
    match outcome.recv_timeout(START_DEADLINE) {
        Err(_) => Err(Outcome::Broken("it hangs".to_owned())),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Outcome::Broken(format!("it panics: {text}")))
        }
        Ok(Ok(value)) => Ok(value),
    }
}

fn judge_contents(contents: &ServedContents, reports: &[String], history: &LogHistory) -> Outcome {
    if *contents == history.contents {
        return if reports.is_empty() { Outcome::Unharmed } else { Outcome::Repaired };
    }
    let (found, expected) = (contents.events.len(), history.contents.events.len());
    Outcome::Broken(format!("it serves other data: {found} events instead of {expected}, {reports:?}"))
}

/// Checks that a refusal names the file, the offset in it where there is one, and the command to run.
fn judge_refusal(harm: &Harm, directory: &Path, reason: String) -> Outcome {
    let names = |file: &Path| reason.contains(file.file_name().unwrap().to_str().unwrap());
    let has_location = !reason.contains(".seg ") || (reason.contains(" at offset ") && reason.contains(" position "));
    let names_file = match harm {
        // The gap is detected where the journal continues, or at its end.
        Harm::Missing(_) | Harm::Stale(_) | Harm::Cut { .. } => true,
        _ => harm.file().is_none_or(names),
    };
    let complaint = if !reason.contains(directory.to_str().unwrap()) {
        "no file is named"
    } else if !names_file {
        "another file is named"
    } else if !has_location {
        "offset and position are not named"
    } else if !reason.contains("mediary ") {
        "no command is named"
    } else if harm.file().is_some_and(|file| file.starts_with("sled") || file.starts_with("snapshots")) {
        "sled is a copy, and a snapshot a cache: they must never stop the start"
    } else {
        return Outcome::Refused(reason);
    };
    Outcome::Broken(format!("{complaint}: {reason}"))
}
