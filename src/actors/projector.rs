//! The projector: lets the read models follow the log, at once when it grows and from the beginning when asked.
//!
//! It runs on the writer's thread between the sync and the answers, so that nobody who was answered can read an older
//! state (ADR 3).

use crate::events::envelope::Commit;
use crate::events::log::{EventLog, LogFailure};
use crate::projections::ReadModels;
use crate::projections::read_models::Models;
use crate::telemetry::metrics::Metrics;

/// How many events a rebuild reads at a time.
const REBUILD_CHUNK: usize = 4096;

/// Carries commits into the read models, and counts their events.
pub struct Projector {
    models: ReadModels,
    metrics: Metrics,
}

impl Projector {
    /// A projector of these read models.
    #[must_use]
    pub fn new(models: ReadModels, metrics: Metrics) -> Self {
        Self { models, metrics }
    }

    /// The read models, which show every commit that was projected.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.models
    }

    /// Folds commits that were just made durable, in their order.
    pub fn project<'c>(&self, commits: impl IntoIterator<Item = &'c Commit>) {
        let count = |commit: &&Commit| commit.iter().for_each(|event| self.metrics.recorded(event.event.name()));
        self.models.apply(commits.into_iter().inspect(count));
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
