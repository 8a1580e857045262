//! The projector: applies commits to the read models, and rebuilds them from the log.
//!
//! It runs on the writer's thread between the sync and the replies, so a client never reads a state older than its own
//! command (ADR 3).

use std::time::Duration;

use crate::domain::ids::TaskId;
use crate::domain::task::TaskEvent;
use crate::domain::value::Timestamp;
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
    /// Creates a projector that updates `models`.
    #[must_use]
    pub fn new(models: ReadModels, metrics: Metrics) -> Self {
        Self { models, metrics }
    }

    /// Returns the read models, which contain every projected commit.
    #[must_use]
    pub fn models(&self) -> &ReadModels {
        &self.models
    }

    /// Applies durable commits in their order and counts their events and the tasks that they end.
    pub fn project<'c>(&self, commits: impl IntoIterator<Item = &'c Commit>) {
        let mut ends = Vec::new();
        let count_events = |commit: &&Commit| {
            for recorded in commit.iter() {
                self.metrics.count_event(recorded.event.name());
                ends.extend(end_of_task(recorded));
            }
        };
        self.models.apply(commits.into_iter().inspect(count_events));
        self.count_ends(&ends);
    }

    /// Counts ended tasks by kind. The kind is taken from the read models, because the last event does not contain it.
    fn count_ends(&self, ends: &[(TaskId, TaskEnd)]) {
        if ends.is_empty() {
            return;
        }
        let models = self.models.read();
        for (task, end) in ends {
            let Some(entry) = models.tasks.get(*task) else { continue };
            let kind = entry.record.submission.work.kind().as_str();
            match end {
                TaskEnd::Failed(code) => self.metrics.count_task_failure(kind, *code),
                TaskEnd::Completed(at) => {
                    let micros = at.micros().saturating_sub(entry.record.created_at.micros());
                    // A clock that was set back may put the end before the submission.
                    let elapsed = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
                    self.metrics.observe_task(kind, elapsed);
                }
            }
        }
    }
}

/// End of a task.
enum TaskEnd {
    Completed(Timestamp),
    /// The error code, if it is a known one.
    Failed(Option<&'static str>),
}

/// Returns the task that ended with `recorded`; `None` for other events.
fn end_of_task(recorded: &RecordedEvent) -> Option<(TaskId, TaskEnd)> {
    let event = recorded.event.downcast::<TaskEvent>()?;
    let end = match event {
        TaskEvent::TaskCompleted { .. } | TaskEvent::VideoCompleted { .. } | TaskEvent::StreamCompleted { .. } => {
            TaskEnd::Completed(recorded.at)
        }
        _ => TaskEnd::Failed(event.failure()?.known_code()),
    };
    Some((TaskId::parse(recorded.stream.key()).ok()?, end))
}

/// Rebuilds the read models from the whole log. Blocks.
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
