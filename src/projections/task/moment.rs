//! A task as it was at one moment of its history.

use crate::domain::decider::Decider;
use crate::domain::task::{Task, TaskEvent, TaskRecord, TaskStatus};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

/// A task, and how it came to be as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskMoment {
    /// The last event of the task up to then.
    pub position: Position,
    pub record: TaskRecord,
    /// When it came to each of its states, the oldest first.
    pub states: Vec<(TaskStatus, Timestamp)>,
}

impl TaskMoment {
    /// The task at the end of its history; `None` when there is no task.
    #[must_use]
    pub fn last_of(history: &[RecordedEvent]) -> Option<Self> {
        let mut last = None;
        follow(history, |moment, _| last = Some(moment.clone()));
        last
    }

    /// The task after each event that changes what its owner is shown.
    #[must_use]
    pub fn all_of(history: &[RecordedEvent]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        follow(history, |moment, event| {
            let has_inputs = matches!(event, TaskEvent::InputsFetched { .. } | TaskEvent::FootageFetched { .. });
            let before = all.last().map(|before| before.record.status);
            if has_inputs || before != Some(moment.record.status) {
                all.push(moment.clone());
            }
        });
        all
    }
}

/// Folds a history, looking at the task after every event.
fn follow<'h>(history: &'h [RecordedEvent], mut look: impl FnMut(&TaskMoment, &'h TaskEvent)) {
    let (mut task, mut states) = (Task::default(), Vec::new());
    for recorded in history {
        let Some(event) = Task::narrow(&recorded.event) else { continue };
        Task::evolve(&mut task, event, recorded.at);
        let Task::Present(record) = &task else { continue };
        let reached = event.status_change(record.submission.work.gateway());
        // A job that a vendor took twice was in progress once.
        if let Some(reached) = reached.filter(|reached| states.last().is_none_or(|(last, _)| last < reached)) {
            states.push((reached, recorded.at));
        }
        look(&TaskMoment { position: recorded.position, record: (**record).clone(), states: states.clone() }, event);
    }
}
