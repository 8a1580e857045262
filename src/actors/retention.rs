//! The sweeper: removes files of media tasks that ended before the retention period (contract 5: `media.retention`).
//!
//! The log alone determines the files to remove: those that are not used by any task that is unfinished or ended within
//! the retention. A sweep interrupted by a crash is repeated, a shared file stays as long as the younger task needs it,
//! and unreferenced files are removed too. No event is recorded, because the end of the retention follows from the log.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::reactor::{Duty, Reactor, Reschedule, WorkerSlots};
use crate::cluster::work_share::WorkShare;
use crate::domain::value::{Digest, Timestamp};
use crate::environment::Environment;
use crate::media::store::MediaStore;
use crate::projections::ReadModels;
use crate::projections::task::index::mark_of;

/// Lower bound of the time between two sweeps, which is otherwise a tenth of the retention.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_mins(1);
/// Maximum time between two sweeps.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_hours(1);

/// Reactor that removes expired files.
#[derive(Clone)]
pub struct RetentionSweeper {
    store: MediaStore,
    models: ReadModels,
    environment: Environment,
    retention: Duration,
    /// Decides whether this node removes files from the bucket of its cluster.
    duty: Duty,
    /// Earliest time of the next sweep.
    due_at: Arc<Mutex<Timestamp>>,
}

impl RetentionSweeper {
    /// Returns a sweeper of a store. Files stay for `retention` after the end of the last task that uses them.
    #[must_use]
    pub fn new(
        store: MediaStore,
        models: ReadModels,
        environment: Environment,
        retention: Duration,
        duty: Duty,
    ) -> Self {
        let due_at = Arc::new(Mutex::new(environment.now().saturating_add(SWEEP_INTERVAL_MIN)));
        Self { store, models, environment, retention, duty, due_at }
    }

    /// Removes the expired files. Blocks on the disk.
    fn sweep(&self) {
        let retention = i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX);
        let cutoff = Timestamp::from_micros(self.environment.now().micros().saturating_sub(retention));
        // Works on a copy, so that writers do not wait.
        let index = self.models.read().tasks.index.snapshot_copy();
        let marks = index.marks_since(cutoff);
        let is_referenced = |digest: &Digest| marks.contains(&mark_of(digest));
        let is_owner = matches!(self.duty.share(), WorkShare::Everything);
        if is_owner && let Err(error) = self.store.sweep_bucket(&is_referenced) {
            tracing::warn!(%error, "expired task files not removed from the bucket");
        }
        match self.store.sweep(&is_referenced) {
            Ok(swept) if swept.files == 0 => {}
            Ok(swept) => tracing::info!(swept.files, swept.bytes, "expired task files removed"),
            Err(error) => tracing::warn!(%error, "expired task files not removed"),
        }
    }
}

impl Reactor for RetentionSweeper {
    type Key = ();
    type Work = ();
    const NAME: &'static str = "sweeper";

    fn due(&self, slots: &mut WorkerSlots<()>) -> Vec<((), ())> {
        let is_due = self.environment.now() >= *self.due_at.lock();
        if is_due && slots.try_reserve(&(), Self::NAME) { vec![((), ())] } else { Vec::new() }
    }

    async fn act(&self, (): ()) -> Reschedule {
        // Counted from the beginning of the sweep, so that a file that expires during it does not wait longer.
        let pause = (self.retention / 10).clamp(SWEEP_INTERVAL_MIN, SWEEP_INTERVAL_MAX);
        *self.due_at.lock() = self.environment.now().saturating_add(pause);

        let sweeper = self.clone();
        if tokio::task::spawn_blocking(move || sweeper.sweep()).await.is_err() {
            tracing::error!("file sweep panicked");
        }
        Reschedule::WhenDue
    }

    /// Sweeps are not urgent: the reactor's own timer is enough.
    async fn changed(&mut self) -> Vec<String> {
        std::future::pending().await
    }
}
