//! State of a task at a point of its history.

use crate::domain::decider::Decider;
use crate::domain::task::{Task, TaskEvent, TaskRecord, TaskStatus};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

/// A task with the history of its states.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskAt {
    /// Position of the task's last event.
    pub position: Position,
    pub record: TaskRecord,
    /// Time at which each state was reached, oldest first.
    pub states: Vec<(TaskStatus, Timestamp)>,
}

impl TaskAt {
    /// Returns the task at the end of its history; `None` if there is no task.
    #[must_use]
    pub fn latest_from(history: &[RecordedEvent]) -> Option<Self> {
        let mut last = None;
        replay_each(history, |state, _| last = Some(state.clone()));
        last
    }

    /// Returns the task after each event that changes what its owner sees.
    #[must_use]
    pub fn all_from(history: &[RecordedEvent]) -> Vec<Self> {
        let mut states: Vec<Self> = Vec::new();
        replay_each(history, |state, event| {
            let fetches_inputs = matches!(event, TaskEvent::InputsFetched { .. } | TaskEvent::FootageFetched { .. });
            let previous_status = states.last().map(|previous| previous.record.status);
            if fetches_inputs || previous_status != Some(state.record.status) {
                states.push(state.clone());
            }
        });
        states
    }
}

/// Folds a history and calls `visit` after every event.
fn replay_each<'h>(history: &'h [RecordedEvent], mut visit: impl FnMut(&TaskAt, &'h TaskEvent)) {
    let mut task = Task::default();
    let mut states = Vec::new();
    for recorded in history {
        let Some(event) = recorded.event.downcast::<TaskEvent>() else { continue };
        Task::evolve(&mut task, event, recorded.at);
        let Task::Present(record) = &task else { continue };

        let new_status = event.status_change(record.submission.work.gateway());
        // A job that a vendor accepted twice enters the state only once.
        if let Some(new_status) =
            new_status.filter(|new_status| states.last().is_none_or(|(last, _)| last < new_status))
        {
            states.push((new_status, recorded.at));
        }
        visit(&TaskAt { position: recorded.position, record: (**record).clone(), states: states.clone() }, event);
    }
}
