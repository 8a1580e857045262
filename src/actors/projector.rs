//! The projector: applies commits to the read models, and rebuilds them from the log.
//!
//! It runs on the writer's thread between the sync and the replies, so a client never reads a state older than its own
//! command (ADR 3).

use crate::domain::ids::TaskId;
use crate::domain::task::TaskEvent;
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::log::{EventLog, LogFailure};
use crate::projections::ReadModels;
use crate::projections::read_models::Models;
use crate::telemetry::metrics::Metrics;

/// Number of events that a rebuild reads at a time.
const REBUILD_CHUNK: usize = 4096;

/// Applies commits to the read models and counts their events.
pub struct Projector {
    models: ReadModels,
    metrics: Metrics,
}

impl Projector {
    /// Returns a projector of these read models.
    #[must_use]
    pub fn new(models: ReadModels, metrics: Metrics) -> Self {
        Self { models, metrics }
    }

    /// Returns the read models, which contain every projected commit.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.models
    }

    /// Applies durable commits in their order.
    pub fn project<'c>(&self, commits: impl IntoIterator<Item = &'c Commit>) {
        let mut failures = Vec::new();
        let count_events = |commit: &&Commit| {
            for recorded in commit.iter() {
                self.metrics.count_event(recorded.event.name());
                failures.extend(failure_of(recorded));
            }
        };
        self.models.apply(commits.into_iter().inspect(count_events));
        self.count_failures(&failures);
    }

    /// Counts failed tasks by kind, which only the read models know.
    fn count_failures(&self, failures: &[(TaskId, Option<&'static str>)]) {
        if failures.is_empty() {
            return;
        }
        let models = self.models.read();
        for (task, code) in failures {
            if let Some(entry) = models.tasks.get(*task) {
                self.metrics.count_task_failure(entry.record.submission.work.kind().as_str(), *code);
            }
        }
    }
}

/// Returns the task that failed with this event, and the known error code.
fn failure_of(recorded: &RecordedEvent) -> Option<(TaskId, Option<&'static str>)> {
    let failure = recorded.event.downcast::<TaskEvent>()?.failure()?;
    Some((TaskId::parse(recorded.stream.key()).ok()?, failure.known_code()))
}

/// Rebuilds the read models from the whole log.
///
/// # Errors
/// If the log cannot be read.
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
