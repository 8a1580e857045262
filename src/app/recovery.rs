//! Opens the log and builds the read models: from a snapshot and the events after it, or from the whole log.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use crate::config::{Settings, SnapshotSettings};
use crate::disk_space::DiskSpace;
use crate::environment::Environment;
use crate::events::envelope::Commit;
use crate::events::journal::{Anchor, CommitDecoder};
use crate::events::log::EventLog;
use crate::events::open_error::OpenError;
use crate::events::sled_log::{SledLog, SledLogOptions};
use crate::events::stream::Position;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;
use crate::projections::snapshot::{OpenedSnapshot, snapshot_dir};
use crate::telemetry::metrics::Metrics;

/// Maximum number of commits waiting to be applied.
const COMMIT_QUEUE_LENGTH: usize = 4096;

/// A log with its read models.
pub struct OpenedLog {
    pub log: Arc<SledLog>,
    pub models: Models,
    /// Findings and repairs of the start, one sentence each.
    pub reports: Vec<String>,
    /// Position of the snapshot used; 0 without one.
    pub snapshot_position: Position,
}

/// Returns the options of the log of a data directory.
#[must_use]
pub fn log_options(data_dir: &Path, settings: &Settings) -> SledLogOptions {
    let mut options = SledLogOptions::new(data_dir.join("log"));
    options.journal.segment_bytes = settings.journal.segment_bytes;
    options.space = DiskSpace::new(data_dir, settings.storage.reserve);
    options
}

/// Returns the options with syncs measured.
pub(super) fn with_sync_metrics(mut options: SledLogOptions, metrics: &Metrics) -> SledLogOptions {
    let sync = options.journal.sync;
    let metrics = metrics.clone();
    options.journal.sync = Arc::new(move |file| {
        let started = Instant::now();
        let result = sync(file);
        metrics.observe_sync(started.elapsed());
        result
    });
    options
}

/// Use of snapshots.
#[derive(Debug, Clone)]
pub struct SnapshotPolicy {
    pub directory: PathBuf,
    /// Minimum size of the journal before the snapshot, in bytes; a shorter one is read and checked completely.
    pub whole_below: u64,
}

impl SnapshotPolicy {
    /// Returns the use according to the settings; `None` if snapshots are disabled.
    pub(super) fn from_settings(data_dir: &Path, settings: &Settings) -> Option<Self> {
        let SnapshotSettings { every_events, whole_below } = settings.snapshots;
        (every_events > 0).then(|| Self { directory: snapshot_dir(data_dir), whole_below })
    }

    /// Checks that the log reaches the position of the snapshot, which is only taken of durable events.
    ///
    /// # Errors
    /// Returns [`OpenError::Lost`] if it does not, and an error if the journal cannot be read.
    pub fn check_log_covers_snapshot(&self, log: &SledLog) -> Result<(), OpenError> {
        let Ok(Some(found)) = OpenedSnapshot::open(&self.directory) else { return Ok(()) };
        let head = log.head();
        let snapshot_position = found.anchor.position;
        let is_this_log = log.anchor(head)?.is_some_and(|end| end.log == found.anchor.log);
        if is_this_log && snapshot_position > head {
            return Err(OpenError::Lost { snapshot: found.path().to_owned(), snapshot_position, head });
        }
        Ok(())
    }

    /// Returns the snapshot to start from. A short log is read and checked completely instead.
    fn find_usable(&self, options: &SledLogOptions) -> Result<Option<OpenedSnapshot>, String> {
        let Some(found) = OpenedSnapshot::open(&self.directory).map_err(|unusable| unusable.to_string())? else {
            return Ok(None);
        };
        let with_path = |reason| format!("{}: {reason}", found.path().display());
        let bytes_before = found.anchor.check::<CommitDecoder>(&options.journal).map_err(with_path)?;
        Ok((bytes_before >= self.whole_below).then_some(found))
    }
}

/// Opens the log and builds the read models: from a usable snapshot and the events after it, or from the whole log.
///
/// # Errors
/// Same as [`SledLog::open`].
pub fn open_models(
    options: &SledLogOptions,
    snapshots: Option<&SnapshotPolicy>,
    environment: &Environment,
    links: &Links,
) -> Result<OpenedLog, OpenError> {
    let unused_reason = match snapshots.map_or(Ok(None), |snapshots| snapshots.find_usable(options)) {
        Ok(None) => None,
        Ok(Some(found)) => {
            let anchor = found.anchor;
            match open_with(options, Some(&anchor), environment, || found.load(links.clone()))? {
                Ok(opened) => return Ok(opened),
                Err(unusable) => Some(unusable.to_string()),
            }
        }
        Err(reason) => Some(reason),
    };

    // Everything is read, and damage in the log is repaired.
    let Ok(mut opened) = open_with::<Infallible>(options, None, environment, || Ok(Models::new(links.clone())))?;
    if let Some(snapshots) = snapshots.filter(|_| unused_reason.is_some()) {
        snapshots.check_log_covers_snapshot(&opened.log)?;
    }

    let report = unused_reason.map(|reason| format!("ignored a snapshot of the read models: {reason}"));
    opened.reports.extend(report);
    Ok(opened)
}

/// Opens the log while loading the models of the anchor, then applies the events after it. The inner error is that of
/// `load`.
fn open_with<E>(
    options: &SledLogOptions,
    anchor: Option<&Anchor>,
    environment: &Environment,
    load: impl FnOnce() -> Result<Models, E>,
) -> Result<Result<OpenedLog, E>, OpenError> {
    let (opened, loaded) = thread::scope(|scope| {
        let (commit_sender, commit_receiver) = sync_channel::<Commit>(COMMIT_QUEUE_LENGTH);
        let open_thread = scope.spawn(move || {
            SledLog::open_from(options, environment, anchor, move |commit| {
                // Without loaded models, the receiver is gone.
                drop(commit_sender.send(commit.clone()));
            })
        });

        let mut loaded = load();
        if let Ok(models) = &mut loaded {
            for commit in &commit_receiver {
                commit.iter().for_each(|event| models.apply(event));
            }
        }
        drop(commit_receiver);

        (open_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), loaded)
    });

    let (log, report) = opened?;
    if let Some(models) = loaded.as_ref().ok().filter(|_| anchor.is_some()) {
        log.set_stream_counts(models.streams.clone());
    }

    let snapshot_position = anchor.map_or(Position(0), |anchor| anchor.position);
    Ok(loaded.map(|models| OpenedLog { log: Arc::new(log), models, reports: report.messages(), snapshot_position }))
}
