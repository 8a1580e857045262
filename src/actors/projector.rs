//! The projector: lets the read models follow the log, at once when it grows and from the beginning when asked.
//!
//! It runs on the writer's thread between the sync and the answers, so that nobody who was answered can read an older
//! state (ADR 3).

use crate::events::envelope::Commit;
use crate::events::log::{EventLog, LogFailure};
use crate::projections::ReadModels;
use crate::projections::read_models::Models;

/// How many events a rebuild reads at a time.
const REBUILD_CHUNK: usize = 4096;

/// Carries commits into the read models.
pub struct Projector {
    models: ReadModels,
}

impl Projector {
    /// A projector of these read models.
    #[must_use]
    pub fn new(models: ReadModels) -> Self {
        Self { models }
    }

    /// The read models, which show every commit that was projected.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.models
    }

    /// Folds commits that were just made durable, in their order.
    pub fn project<'c>(&self, commits: impl IntoIterator<Item = &'c Commit>) {
        self.models.apply(commits);
    }
}

/// Folds the whole log anew.
///
/// # Errors
/// When the log cannot be read.
pub fn rebuild(log: &dyn EventLog) -> Result<Models, LogFailure> {
    let mut models = Models::default();
    loop {
        let events = log.read_all(models.position, REBUILD_CHUNK)?;
        if events.is_empty() {
            return Ok(models);
        }
        for event in &events {
            models.apply(event);
        }
    }
}
