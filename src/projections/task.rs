//! Tasks: the unfinished ones for the poller, and the last finished ones for their owners.
//!
//! Whole tasks take memory by the work in flight: one that ended leaves after 10 000 others have ended, and is folded
//! from its stream when somebody asks for it later ([`super::ReadModels::task`]). Of every task a few words stay
//! ([`index`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::image::Picture;
use crate::domain::task::{Failure, Stage, Task, TaskEvent, TaskRecord, TaskStatus};
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

pub mod index;
mod moment;

use index::Index;
pub use moment::TaskMoment;

/// How many ended tasks are kept in memory.
const RECENT_MAX: usize = 10_000;

/// A task with what its next command needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEntry {
    pub record: TaskRecord,
    /// The last event of the task: the cause of whatever a reactor does next.
    pub last_event: EventId,
}

/// The tasks in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    by_id: HashMap<TaskId, TaskEntry>,
    /// Unfinished tasks, oldest first.
    unfinished: BTreeMap<Position, TaskId>,
    submitted_at: HashMap<TaskId, Position>,
    /// How many unfinished tasks an owner has; owners without any are left out.
    unfinished_of: HashMap<UserId, usize>,
    recent: VecDeque<TaskId>,
    /// Unfinished tasks that no vendor has taken.
    waiting: BTreeSet<Position>,
    /// Every task. Kept apart in snapshots.
    #[serde(skip)]
    pub index: Index,
}

impl Tasks {
    /// Folds an event of the task with this id.
    pub fn apply(&mut self, id: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        let mut task = self.by_id.remove(&id).map_or_else(Task::default, |entry| Task::Present(Box::new(entry.record)));
        Task::evolve(&mut task, event, recorded.at);
        let Task::Present(record) = task else { return };
        if matches!(event, TaskEvent::TaskSubmitted(_)) {
            self.unfinished.insert(recorded.position, id);
            self.submitted_at.insert(id, recorded.position);
            *self.unfinished_of.entry(record.submission.owner).or_default() += 1;
        }
        if let Some(submitted) = self.submitted_at.get(&id).copied() {
            self.index.apply(&record, event, submitted);
            if matches!(record.stage, Stage::Waiting { .. } | Stage::Submitting { .. }) {
                self.waiting.insert(submitted);
            } else {
                self.waiting.remove(&submitted);
            }
        }
        if record.is_terminal() {
            self.retire(id, record.submission.owner);
        }
        self.by_id.insert(id, TaskEntry { record: *record, last_event: recorded.id });
    }

    fn retire(&mut self, id: TaskId, owner: UserId) {
        let Some(position) = self.submitted_at.remove(&id) else { return };
        self.unfinished.remove(&position);
        let left = self.unfinished_of.remove(&owner).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            self.unfinished_of.insert(owner, left);
        }
        self.recent.push_back(id);
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// The task, if it is still in memory.
    #[must_use]
    pub fn get(&self, id: TaskId) -> Option<&TaskEntry> {
        self.by_id.get(&id)
    }

    /// Which of the tasks that no vendor has taken this one is, in the order of their submission, from 1; `None` for a task
    /// that does not wait.
    #[must_use]
    pub fn queue_position(&self, id: TaskId) -> Option<usize> {
        let submitted = self.submitted_at.get(&id).filter(|submitted| self.waiting.contains(submitted))?;
        Some(self.waiting.range(..=*submitted).count())
    }

    /// The same tasks to be written down elsewhere: shares what is large.
    #[must_use]
    pub fn captured(&self) -> Self {
        Self {
            by_id: self.by_id.clone(),
            unfinished: self.unfinished.clone(),
            submitted_at: self.submitted_at.clone(),
            unfinished_of: self.unfinished_of.clone(),
            recent: self.recent.clone(),
            waiting: self.waiting.clone(),
            index: self.index.captured(),
        }
    }

    /// How many unfinished tasks this user has.
    #[must_use]
    pub fn unfinished_of(&self, owner: UserId) -> usize {
        self.unfinished_of.get(&owner).copied().unwrap_or(0)
    }

    /// Every unfinished task, oldest first.
    pub fn unfinished(&self) -> impl Iterator<Item = (TaskId, &TaskEntry)> {
        self.unfinished.values().filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }
}

/// An image task as it is shown to its owner and told to its webhook: the seed's `ImageTask`, and why it failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageTaskView {
    /// URLs of the results.
    pub generated: Vec<String>,
    pub status: &'static str,
    pub task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<FailureView>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

impl ImageTaskView {
    /// The task as it is now.
    #[must_use]
    pub fn of_record(record: &TaskRecord, public_url: &str) -> Self {
        let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };
        Self::new(record.submission.task, record.status, record.results(), failure, public_url)
    }

    /// A task by its parts; results are served below `public_url`, which has no trailing slash.
    #[must_use]
    pub fn new(
        task: TaskId,
        status: TaskStatus,
        results: &[Picture],
        failure: Option<&Failure>,
        public_url: &str,
    ) -> Self {
        Self {
            generated: results.iter().map(|picture| format!("{public_url}/media/{}", picture.file_name())).collect(),
            status: status.as_str(),
            task_id: task.to_string(),
            error: failure
                .map(|failure| FailureView { code: failure.code.to_string(), message: failure.message.to_string() }),
        }
    }
}
