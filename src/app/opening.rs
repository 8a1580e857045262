//! Opening the log and having it in read models: from a snapshot and what came after it, or from the whole log.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use super::StartError;
use crate::clock::Surroundings;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::events::envelope::Commit;
use crate::events::sled_log::{SledLog, SledLogOptions};
use crate::events::stream::Position;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;
use crate::projections::snapshot::{Found, directory_in};

/// Commits that may wait to be folded.
const WAITING: usize = 4096;

/// A log with its read models.
pub(super) struct OpenedLog {
    pub log: Arc<SledLog>,
    pub models: Models,
    /// What the start found and mended, a sentence each.
    pub reports: Vec<String>,
    /// Where the snapshot was taken that the start began with; 0 without one.
    pub snapshot: Position,
}

/// Where the log of a data directory is, and how it is kept.
#[must_use]
pub fn log_options(data_dir: &Path, settings: &Settings) -> SledLogOptions {
    let mut options = SledLogOptions::new(data_dir.join("log"));
    options.journal.segment_bytes = settings.journal.segment_bytes;
    options.journal.space = super::space(data_dir, settings);
    options.progress = Some(super::progress());
    options
}

/// Opens the log, and meanwhile loads the snapshot; then folds what came after it.
pub(super) fn open_log(
    data: &DataDir,
    settings: &Settings,
    surroundings: &Surroundings,
    links: &Links,
) -> Result<OpenedLog, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Log(error.to_string());
    let options = log_options(data.root(), settings);
    let (found, mut refusal) = match look(data, settings, &options) {
        Ok(found) => (found, None),
        Err(reason) => (None, Some(reason)),
    };
    let anchor = found.as_ref().map(|found| found.anchor);
    let (opened, loaded) = thread::scope(|scope| {
        let (commits, folding) = sync_channel::<Commit>(WAITING);
        let opening = scope.spawn(move || {
            // Nobody takes them when the snapshot turns out to be damaged.
            SledLog::open_from(&options, surroundings, anchor.as_ref(), move |commit| {
                drop(commits.send(commit.clone()));
            })
        });
        let mut loaded = found.map_or_else(|| Ok(Models::new(links.clone())), |found| found.load(links.clone()));
        if let Ok(models) = &mut loaded {
            for commit in &folding {
                fold(models, &commit);
            }
        }
        drop(folding);
        (opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), loaded)
    });
    let (log, report) = opened.map_err(|error| failed(&error))?;
    let snapshot = anchor.filter(|_| loaded.is_ok()).map_or(Position(0), |anchor| anchor.position);
    let models = match loaded {
        Ok(models) => models,
        Err(reason) => {
            refusal = Some(reason.to_string());
            fold_all(&log, links).map_err(|error| failed(&error))?
        }
    };
    let refused = refusal.map(|reason| format!("a snapshot of the read models was not used: {reason}"));
    let reports = report.sentences().into_iter().chain(refused).collect();
    Ok(OpenedLog { log: Arc::new(log), models, reports, snapshot })
}

/// The snapshot to begin with. A log that is read in no time is read and checked whole.
fn look(data: &DataDir, settings: &Settings, options: &SledLogOptions) -> Result<Option<Found>, String> {
    if settings.snapshots.every_events == 0 {
        return Ok(None);
    }
    let Some(found) = Found::look(&directory_in(data.root())).map_err(|unusable| unusable.to_string())? else {
        return Ok(None);
    };
    let named = |reason| format!("{}: {reason}", found.path().display());
    let before = found.anchor.check(&options.journal).map_err(named)?;
    Ok((before >= settings.snapshots.whole_below).then_some(found))
}

fn fold(models: &mut Models, commit: &Commit) {
    for event in commit.iter() {
        models.apply(event);
    }
}

fn fold_all(log: &SledLog, links: &Links) -> Result<Models, crate::events::journal::OpenError> {
    let mut models = Models::new(links.clone());
    let mut journal = log.read_journal(Position(0))?;
    while let Some(record) = journal.next_record()? {
        fold(&mut models, &record.commit);
    }
    Ok(models)
}
