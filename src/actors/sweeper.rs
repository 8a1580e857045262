//! The sweeper: removes files of media tasks that ended long enough ago (contract 5: `media.retention`).
//!
//! What is to go follows from the log alone: every file that no task names which is unfinished or ended within the retention.
//! So a sweep that a crash cuts short is done again, a file that two tasks share stays as long as the younger one needs it, and
//! files that no task ever named go too. Nothing is recorded: that the time is over, everybody can tell.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::reactor::{Hands, Next, Reactor};
use crate::clock::Surroundings;
use crate::domain::value::Timestamp;
use crate::media::store::Store;
use crate::projections::ReadModels;
use crate::projections::task::index::mark_of;

/// The longest and the shortest time between two sweeps; in between, a tenth of the retention.
const PAUSES: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// The reactor that removes files.
#[derive(Clone)]
pub struct Sweeper {
    store: Store,
    models: ReadModels,
    surroundings: Surroundings,
    retention: Duration,
    /// Not before this time is swept again.
    due_at: Arc<Mutex<Timestamp>>,
}

impl Sweeper {
    /// A sweeper of a store; files are kept for `retention` after the end of the last task that names them.
    #[must_use]
    pub fn new(store: Store, models: ReadModels, surroundings: Surroundings, retention: Duration) -> Self {
        let due_at = Arc::new(Mutex::new(surroundings.now().after(PAUSES.0)));
        Self { store, models, surroundings, retention, due_at }
    }

    /// Blocks on the disk.
    fn sweep(&self) {
        let retention = i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX);
        let since = Timestamp::from_micros(self.surroundings.now().micros().saturating_sub(retention));
        // Looked through without keeping writers waiting.
        let index = self.models.read().tasks.index.captured();
        let needed = index.marks_since(since);
        match self.store.sweep(&|digest| needed.contains(&mark_of(digest))) {
            Ok(swept) if swept.files == 0 => {}
            Ok(swept) => tracing::info!(swept.files, swept.bytes, "files of tasks that ended long ago were removed"),
            Err(error) => tracing::warn!(%error, "files of tasks that ended long ago cannot be removed"),
        }
    }
}

impl Reactor for Sweeper {
    type Key = ();
    type Work = ();
    const NAME: &'static str = "sweeper";

    fn due(&self, hands: &mut Hands<()>) -> Vec<((), ())> {
        let is_due = self.surroundings.now() >= *self.due_at.lock();
        if is_due && hands.take(&(), Self::NAME) { vec![((), ())] } else { Vec::new() }
    }

    async fn act(&self, (): ()) -> Next {
        let sweeper = self.clone();
        if tokio::task::spawn_blocking(move || sweeper.sweep()).await.is_err() {
            tracing::error!("a sweep of files died");
        }
        let pause = (self.retention / 10).clamp(PAUSES.0, PAUSES.1);
        *self.due_at.lock() = self.surroundings.now().after(pause);
        Next::WhenDue
    }

    /// Nobody waits for a sweep: the reactor's own timer is enough.
    async fn changed(&mut self) -> bool {
        std::future::pending().await
    }
}
