//! Takes snapshots of the read models: after a number of events, and on a clean stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::StartError;
use super::opening::log_options;
use crate::clock::{Mishaps, Surroundings};
use crate::config::{Settings, SnapshotSettings};
use crate::data_dir::DataDir;
use crate::events::journal::{CommitDecoder, JournalOptions};
use crate::events::log::EventLog;
use crate::events::sled_log::SledLog;
use crate::events::stream::Position;
use crate::priority::{Work, yield_to_answers};
use crate::projections::ReadModels;
use crate::projections::snapshot::{directory_in, file_in, remove_draft, save};
use crate::space::Part;

/// Interval at which the position is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Events since the last snapshot from which on a stop takes another one.
const AT_STOP: u64 = 5_000;

/// Thread that takes snapshots.
pub(super) struct Snapshots {
    taker: Arc<Taker>,
    thread: JoinHandle<()>,
}

/// Source and destination of snapshots.
struct Taker {
    directory: PathBuf,
    journal: JournalOptions,
    settings: SnapshotSettings,
    log: Arc<SledLog>,
    models: ReadModels,
    /// Position of the last snapshot.
    last: Mutex<Position>,
    mishaps: Mishaps,
    ending: Mutex<bool>,
    ended: Condvar,
}

impl Snapshots {
    /// Starts the thread; the last snapshot was taken at `last`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn of(
        data: &DataDir,
        settings: &Settings,
        log: &Arc<SledLog>,
        models: &ReadModels,
        last: Position,
        surroundings: &Surroundings,
    ) -> Result<Self, StartError> {
        let directory = directory_in(data.root());
        if let Err(error) = remove_draft(&directory) {
            tracing::warn!(%error, "what a crash left of a snapshot could not be removed");
        }

        let taker = Arc::new(Taker {
            directory,
            journal: log_options(data.root(), settings).journal,
            settings: settings.snapshots.clone(),
            log: Arc::clone(log),
            models: models.clone(),
            last: Mutex::new(last),
            mishaps: surroundings.mishaps(),
            ending: Mutex::new(false),
            ended: Condvar::new(),
        });

        let working = Arc::clone(&taker);
        let thread = thread::Builder::new().name("snapshots".to_owned()).spawn(move || working.work());
        let thread = thread.map_err(|error| StartError::part("the thread that takes snapshots", &error))?;
        Ok(Self { taker, thread })
    }

    /// Takes a final snapshot if enough events have come. Blocks; must be called after the last append.
    pub fn stop(self) {
        *self.taker.ending.lock() = true;
        self.taker.ended.notify_all();
        if self.thread.join().is_err() {
            tracing::error!("the thread that takes snapshots panicked");
        }
        if self.taker.settings.every_events > 0 {
            self.taker.take_after(AT_STOP.min(self.taker.settings.every_events));
        }
    }
}

impl Taker {
    fn work(&self) {
        yield_to_answers(Work::Snapshots);
        let mut ending = self.ending.lock();
        while !*ending {
            self.ended.wait_for(&mut ending, LOOK_EVERY);
            if !*ending && self.settings.every_events > 0 {
                parking_lot::MutexGuard::unlocked(&mut ending, || self.take_after(self.settings.every_events));
            }
        }
    }

    fn take_after(&self, events: u64) {
        let since = self.log.head().0.saturating_sub(self.last.lock().0);
        if since < events || self.log.state().is_err() {
            return;
        }
        if let Err(reason) = self.take() {
            tracing::warn!(reason, "no snapshot of the read models was taken: the next start takes longer");
        }
    }

    fn take(&self) -> Result<(), String> {
        let started = Instant::now();
        let models = self.models.read().captured();
        let held = started.elapsed();
        *self.last.lock() = models.position;

        let anchor = self.log.anchor(models.position).map_err(|error| error.to_string())?;
        let Some(anchor) = anchor else { return Err(format!("no commit ends at position {}", models.position)) };
        if anchor.check::<CommitDecoder>(&self.journal)? < self.settings.whole_below {
            return Ok(());
        }

        let before = file_in(&self.directory).metadata().map_or(0, |before| before.len());
        let room = self.log.space().check_for(Part::Directory, "a snapshot of the read models", before);
        room.map_err(|shortage| shortage.to_string())?;

        let bytes = save(&models, &anchor, &self.directory, &self.mishaps).map_err(|error| error.to_string())?;
        let held = format!("{held:.1?}");
        let took = format!("{:.1?}", started.elapsed());
        tracing::info!(position = %anchor.position, bytes, held, took, "a snapshot of the read models was taken");

        Ok(())
    }
}
