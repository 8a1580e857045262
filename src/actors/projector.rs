//! The projector: lets the read models follow the log, at once when it grows and from the beginning when asked.
//!
//! It runs on the writer's thread between the sync and the answers, so that nobody who was answered can read an older
//! state (ADR 3).

use crate::domain::decider::Decider;
use crate::domain::ids::TaskId;
use crate::domain::task::Task;
use crate::events::envelope::{Commit, RecordedEvent};
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
        let mut failures = Vec::new();
        let count = |commit: &&Commit| {
            for recorded in commit.iter() {
                self.metrics.recorded(recorded.event.name());
                failures.extend(failure_of(recorded));
            }
        };
        self.models.apply(commits.into_iter().inspect(count));
        self.count_failures(&failures);
    }

    /// Of what kind a task is only the read models know.
    fn count_failures(&self, failures: &[(TaskId, Option<&'static str>)]) {
        if failures.is_empty() {
            return;
        }
        let models = self.models.read();
        for (task, code) in failures {
            if let Some(entry) = models.tasks.get(*task) {
                self.metrics.failed(entry.record.submission.work.kind().as_str(), *code);
            }
        }
    }
}

/// Which task failed with an event, and by which of our codes.
fn failure_of(recorded: &RecordedEvent) -> Option<(TaskId, Option<&'static str>)> {
    let failure = Task::narrow(&recorded.event)?.failure()?;
    Some((TaskId::parse(recorded.stream.key()).ok()?, failure.known_code()))
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
