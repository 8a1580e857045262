//! Takes snapshots of the read models: after a number of events, and on a clean stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::StartError;
use super::recovery::log_options;
use crate::config::{Settings, SnapshotSettings};
use crate::data_dir::DataDir;
use crate::disk_space::DataDirPart;
use crate::environment::{Environment, FailPoints};
use crate::events::journal::{CommitDecoder, JournalOptions};
use crate::events::log::EventLog;
use crate::events::sled_log::SledLog;
use crate::events::stream::Position;
use crate::priority::{BackgroundWork, lower_priority};
use crate::projections::ReadModels;
use crate::projections::snapshot::{remove_draft, save, snapshot_dir, snapshot_path};

/// Interval at which the position is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of new events from which a clean stop writes a snapshot.
const EVENTS_BEFORE_STOP: u64 = 5_000;

/// Thread that takes snapshots.
pub(super) struct SnapshotThread {
    taker: Arc<SnapshotTaker>,
    thread: JoinHandle<()>,
}

/// Source and destination of snapshots.
struct SnapshotTaker {
    directory: PathBuf,
    journal: JournalOptions,
    settings: SnapshotSettings,
    log: Arc<SledLog>,
    models: ReadModels,
    /// Position of the last snapshot.
    last_position: Mutex<Position>,
    fail_points: FailPoints,
    stop_requested: Mutex<bool>,
    stop_signal: Condvar,
}

impl SnapshotThread {
    /// Starts the thread; the last snapshot was taken at `last_position`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        data: &DataDir,
        settings: &Settings,
        log: &Arc<SledLog>,
        models: &ReadModels,
        last_position: Position,
        environment: &Environment,
    ) -> Result<Self, StartError> {
        let directory = snapshot_dir(data.root());
        if let Err(error) = remove_draft(&directory) {
            tracing::warn!(%error, "unfinished snapshot not removed");
        }

        let taker = Arc::new(SnapshotTaker {
            directory,
            journal: log_options(data.root(), settings).journal,
            settings: settings.snapshots.clone(),
            log: Arc::clone(log),
            models: models.clone(),
            last_position: Mutex::new(last_position),
            fail_points: environment.fail_points(),
            stop_requested: Mutex::new(false),
            stop_signal: Condvar::new(),
        });

        let worker = Arc::clone(&taker);
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(|error| StartError::part("the snapshot thread", &error))?;
        Ok(Self { taker, thread })
    }

    /// Takes a final snapshot if enough events have come. Blocks; must be called after the last append.
    pub fn stop(self) {
        *self.taker.stop_requested.lock() = true;
        self.taker.stop_signal.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("snapshot thread panicked");
        }
        if self.taker.settings.every_events > 0 {
            self.taker.take_if_due(EVENTS_BEFORE_STOP.min(self.taker.settings.every_events));
        }
    }
}

impl SnapshotTaker {
    fn run(&self) {
        lower_priority(BackgroundWork::Snapshots);
        let mut stop_requested = self.stop_requested.lock();
        while !*stop_requested {
            self.stop_signal.wait_for(&mut stop_requested, CHECK_INTERVAL);
            if !*stop_requested && self.settings.every_events > 0 {
                parking_lot::MutexGuard::unlocked(&mut stop_requested, || self.take_if_due(self.settings.every_events));
            }
        }
    }

    fn take_if_due(&self, events: u64) {
        let new_events = self.log.head().0.saturating_sub(self.last_position.lock().0);
        if new_events < events || self.log.state().is_err() {
            return;
        }
        if let Err(reason) = self.take() {
            tracing::warn!(reason, "snapshot failed, the next start takes longer");
        }
    }

    fn take(&self) -> Result<(), String> {
        let started = Instant::now();
        let models = self.models.read().snapshot_copy();
        let held = started.elapsed();
        *self.last_position.lock() = models.position;

        let anchor = self.log.anchor(models.position).map_err(|error| error.to_string())?;
        let Some(anchor) = anchor else { return Err(format!("no commit ends at position {}", models.position)) };
        if anchor.check::<CommitDecoder>(&self.journal)? < self.settings.whole_below {
            return Ok(());
        }

        let previous_bytes = snapshot_path(&self.directory).metadata().map_or(0, |metadata| metadata.len());
        let available =
            self.log.space().check_available(DataDirPart::Directory, "a snapshot of the read models", previous_bytes);
        available.map_err(|disk_full| disk_full.to_string())?;

        let bytes = save(&models, &anchor, &self.directory, &self.fail_points).map_err(|error| error.to_string())?;
        let held = format!("{held:.1?}");
        let took = format!("{:.1?}", started.elapsed());
        tracing::info!(position = %anchor.position, bytes, held, took, "snapshot written");

        Ok(())
    }
}
