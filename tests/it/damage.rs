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

use harm::{Harm, Plan};
use history::History;
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
/// Deadline of a start on a busy machine.
const HANG: Duration = Duration::from_mins(2);

/// All content of a log.
#[derive(PartialEq)]
pub struct Answers {
    pub events: Vec<RecordedEvent>,
    streams: Vec<Vec<RecordedEvent>>,
    folded: Models,
}

impl Answers {
    /// Opens the log and reads everything, or returns the error of opening it.
    fn of(directory: &Path) -> Result<(Self, OpenReport), String> {
        let mut folded = Models::default();
        let fold = |commit: &mediary::events::envelope::Commit| commit.iter().for_each(|event| folded.apply(event));
        let opened = SledLog::open(&history::options(directory), &Environment::system(), fold);
        let (log, report) = opened.map_err(|error| error.to_string())?;
        Ok((Self::told(&log, folded), report))
    }

    /// Reads everything from the log, and closes it.
    fn told(log: &SledLog, folded: Models) -> Self {
        let events = log.read_all(Position(0), usize::MAX).expect("what opened can be read");
        let read = |stream| log.read_stream(&stream, Version(0)).expect("what opened can be read");
        let streams = history::streams(&events).into_iter().map(read).collect();
        assert_eq!(log.head(), Position(events.len() as u64));
        log.close().expect("what opened can be closed");
        Self { events, streams, folded }
    }
}

/// Outcome of one case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Same content, nothing to report.
    Unharmed,
    /// Same content, and the start reports the repair.
    Mended,
    /// No start, with the reason.
    Refused(String),
    /// Failure of the service.
    Broken(String),
}

#[test]
fn damage_is_mended_or_named_and_never_served() {
    // Given a log
    let full = std::env::var("DAMAGE_CASES").is_ok_and(|cases| cases == "full");
    let plan = if full {
        Plan { events: 10_000, flips: 1000, cuts: 200, zeroed: 100, misplaced: 100 }
    } else {
        Plan { events: 1_500, flips: 12, cuts: 4, zeroed: 4, misplaced: 20 }
    };
    let history = History::make(plan.events);
    let cases = harm::draw(plan, &history, &mut StdRng::seed_from_u64(SEED));
    assert_eq!(verified(history.today()), 0, "the verification finds something in a log that is whole");
    // When a copy of it is damaged and opened
    let outcomes = run(&history, &cases);
    // Then it has the same content, or the error names the file
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (harm, outcome) in &outcomes {
        let outcome = match outcome {
            Outcome::Unharmed => "no effect",
            Outcome::Mended => "mended and reported",
            Outcome::Refused(_) => "named, no start",
            Outcome::Broken(_) => "BROKEN",
        };
        *counts.entry((harm.kind(), outcome)).or_default() += 1;
    }
    for ((harm, outcome), count) in &counts {
        println!("{harm}: {count} {outcome}");
    }
    let broken: Vec<_> = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Broken(_))).collect();
    assert!(broken.is_empty(), "{} cases of {}: {broken:#?}", broken.len(), outcomes.len());
    assert!(counts.keys().any(|(_, outcome)| *outcome == "named, no start"), "nothing was found: {counts:?}");
    assert!(counts.keys().any(|(_, outcome)| *outcome == "mended and reported"), "nothing was mended: {counts:?}");
}

/// Runs the cases on two threads.
fn run(history: &History, cases: &[Harm]) -> Vec<(Harm, Outcome)> {
    let (waiting, outcomes) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(harm) = waiting.lock().next() else { return };
                    let suffered = suffer(history, harm).into_iter().map(|outcome| (harm.clone(), outcome));
                    outcomes.lock().extend(suffered);
                }
            });
        }
    });
    outcomes.into_inner()
}

/// Starts once with a full replay, and once from the snapshot.
fn suffer(history: &History, harm: &Harm) -> Vec<Outcome> {
    let harmed = || {
        let directory = tempfile::tempdir().unwrap();
        history::copy(history.today(), directory.path());
        harm.inflict(directory.path(), history.yesterday());
        directory
    };
    let from_snapshot = snapshot::outlive(history, harm, harmed().path());
    vec![outlive_whole(history, harm, harmed().path()), from_snapshot]
}

fn outlive_whole(history: &History, harm: &Harm, directory: &Path) -> Outcome {
    let Ok(told) = panic::catch_unwind(|| verified(directory)) else {
        return Outcome::Broken("the verification panics".to_owned());
    };
    let outcome = outlive(history, harm, directory);
    let expected = match &outcome {
        // Data that only sled holds is not in the journal's files.
        Outcome::Refused(reason) => !reason.contains("the index holds"),
        Outcome::Mended => harm.file().is_some_and(|file| file.starts_with("journal")),
        Outcome::Unharmed | Outcome::Broken(_) => false,
    };
    if expected && told == 0 {
        return Outcome::Broken(format!("the verification finds nothing, and the start: {outcome:?}"));
    }
    outcome
}

/// Number of findings of a read-only verification.
fn verified(directory: &Path) -> usize {
    let verification =
        LogVerification { directory, in_use: false, since: None, each: &mut |_| {}, progress: &mut |_| {} };
    verification.run().map_or(1, |report| report.journal.findings.len() + report.journal.notes.len())
}

fn outlive(history: &History, harm: &Harm, directory: &Path) -> Outcome {
    match start(directory, history) {
        Outcome::Refused(reason) => judge_refusal(harm, directory, reason),
        // A repaired log needs no repair at the next start.
        Outcome::Mended if start(directory, history) != Outcome::Unharmed => {
            Outcome::Broken("it was mended, and the next start found more".to_owned())
        }
        outcome => outcome,
    }
}

/// Opens the log in a thread, to detect a panic or a hang.
fn start(directory: &Path, history: &History) -> Outcome {
    let path = directory.to_owned();
    let started = watched(move || Answers::of(&path).map(|(answers, report)| (answers, report.messages())));
    match started {
        Err(broken) => broken,
        Ok(Err(reason)) => Outcome::Refused(reason),
        Ok(Ok((answers, reports))) => judge_answers(&answers, &reports, history),
    }
}

/// Runs the closure in a thread, with a deadline.
fn watched<T: Send + 'static>(work: impl FnOnce() -> T + Send + panic::UnwindSafe + 'static) -> Result<T, Outcome> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let _ = tell.send(panic::catch_unwind(work));
    });
    match told.recv_timeout(HANG) {
        Err(_) => Err(Outcome::Broken("it hangs".to_owned())),
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Outcome::Broken(format!("it panics: {text}")))
        }
        Ok(Ok(done)) => Ok(done),
    }
}

fn judge_answers(answers: &Answers, reports: &[String], history: &History) -> Outcome {
    if *answers == history.answers {
        return if reports.is_empty() { Outcome::Unharmed } else { Outcome::Mended };
    }
    let (found, expected) = (answers.events.len(), history.answers.events.len());
    Outcome::Broken(format!("it serves other answers: {found} events instead of {expected}, {reports:?}"))
}

/// Checks that a refusal names the file, the offset in it where there is one, and the command to run.
fn judge_refusal(harm: &Harm, directory: &Path, reason: String) -> Outcome {
    let names = |file: &Path| reason.contains(file.file_name().unwrap().to_str().unwrap());
    let place = !reason.contains(".seg ") || (reason.contains(" at offset ") && reason.contains(" position "));
    let wanted = match harm {
        // The gap is detected where the journal continues, or at its end.
        Harm::Missing(_) | Harm::Stale(_) | Harm::Cut { .. } => true,
        _ => harm.file().is_none_or(names),
    };
    let complaint = if !reason.contains(directory.to_str().unwrap()) {
        "no file is named"
    } else if !wanted {
        "another file is named"
    } else if !place {
        "the place is not named"
    } else if !reason.contains("mediary ") {
        "no command is named"
    } else if harm.file().is_some_and(|file| file.starts_with("sled") || file.starts_with("snapshots")) {
        "sled is a copy, and a snapshot a cache: they must never stop the start"
    } else {
        return Outcome::Refused(reason);
    };
    Outcome::Broken(format!("{complaint}: {reason}"))
}
