//! Tasks: the unfinished ones for the poller, and recently finished ones for their owners.
//!
//! A finished task leaves memory after 10,000 later ones have finished; [`super::ReadModels::task`] then replays its
//! stream. The [`index`] keeps a small entry of every task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::task::{Gateway, Task, TaskEvent, TaskRecord, TaskStage, TaskWork};
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

pub mod index;
mod task_at;
mod view;

use index::TaskIndex;
pub use task_at::TaskAt;
pub use view::{
    CreationView, CreationsView, FailureView, ImageTaskView, VideoTaskState, cover_url, progress, result_urls,
};

/// Maximum number of finished tasks kept in memory.
const RECENT_MAX: usize = 10_000;

/// A task with the context of its next command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEntry {
    pub record: TaskRecord,
    /// Last event of the task, the cause of a reactor's next command.
    pub last_event: EventId,
}

/// Queue order of the tasks of a gateway; the lowest runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct TaskQueueRank {
    gateway: Gateway,
    /// Sorts off-peak tasks after all others.
    off_peak: bool,
    priority: Reverse<i32>,
    submitted: Position,
}

impl TaskQueueRank {
    fn new(work: &TaskWork, submitted: Position) -> Self {
        let off_peak = work.is_off_peak();
        let priority = Reverse(work.priority());
        Self { gateway: work.gateway(), off_peak, priority, submitted }
    }

    /// Returns the lowest rank of a gateway.
    const fn first(gateway: Gateway) -> Self {
        Self { gateway, off_peak: false, priority: Reverse(i32::MAX), submitted: Position(0) }
    }

    /// Returns the highest rank of a gateway.
    const fn last(gateway: Gateway) -> Self {
        Self { gateway, off_peak: true, priority: Reverse(i32::MIN), submitted: Position(u64::MAX) }
    }
}

/// Unfinished tasks of a vendor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VendorTaskCount {
    /// Tasks that the vendor has, or may have.
    pub tasks: usize,
    /// Number of these tasks that use a slot.
    pub in_slots: usize,
}

/// The tasks in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    by_id: HashMap<TaskId, TaskEntry>,
    /// Unfinished tasks in queue order.
    unfinished: BTreeMap<TaskQueueRank, TaskId>,
    ranks: HashMap<TaskId, TaskQueueRank>,
    /// Unfinished tasks per owner with at least one; anonymous callers share one count.
    unfinished_by_owner: HashMap<Option<UserId>, usize>,
    /// Finished tasks in memory, in the order of their ends.
    recent: VecDeque<TaskId>,
    /// Unfinished tasks that no vendor has accepted.
    waiting: BTreeSet<TaskQueueRank>,
    /// Index of all tasks; saved separately in snapshots.
    #[serde(skip)]
    pub index: TaskIndex,
}

impl Tasks {
    /// Applies an event of the task with this id.
    pub fn apply(&mut self, id: TaskId, event: &TaskEvent, recorded: &RecordedEvent) {
        let mut task = self.by_id.remove(&id).map_or_else(Task::default, |entry| Task::Present(Box::new(entry.record)));
        Task::evolve(&mut task, event, recorded.at);
        let Task::Present(record) = task else { return };

        if matches!(event, TaskEvent::TaskSubmitted(_)) {
            let rank = TaskQueueRank::new(&record.submission.work, recorded.position);
            self.unfinished.insert(rank, id);
            self.ranks.insert(id, rank);
            *self.unfinished_by_owner.entry(record.submission.owner).or_default() += 1;
        }

        if let Some(rank) = self.ranks.get(&id).copied() {
            self.index.apply(&record, event, rank.submitted);
            if matches!(record.stage, TaskStage::Waiting { .. } | TaskStage::Submitting { .. }) {
                self.waiting.insert(rank);
            } else {
                self.waiting.remove(&rank);
            }
        }

        if record.is_terminal() {
            self.retire(id, record.submission.owner);
        }
        self.by_id.insert(id, TaskEntry { record: *record, last_event: recorded.id });
    }

    /// Moves a task that has ended from the unfinished to the recent tasks. May drop the oldest recent task.
    fn retire(&mut self, id: TaskId, owner: Option<UserId>) {
        let Some(rank) = self.ranks.remove(&id) else { return };
        self.unfinished.remove(&rank);
        let remaining = self.unfinished_by_owner.remove(&owner).unwrap_or(0).saturating_sub(1);
        if remaining > 0 {
            self.unfinished_by_owner.insert(owner, remaining);
        }
        self.recent.push_back(id);
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Returns the task if it is in memory.
    #[must_use]
    pub fn get(&self, id: TaskId) -> Option<&TaskEntry> {
        self.by_id.get(&id)
    }

    /// Returns the last possible position of a waiting task in its gateway's queue, from 1. Accounts take turns, so the
    /// actual position may be better. `None` if a vendor has accepted the task or it has ended.
    #[must_use]
    pub fn queue_position(&self, id: TaskId) -> Option<usize> {
        let rank = self.ranks.get(&id).filter(|rank| self.waiting.contains(rank))?;
        let first_rank = TaskQueueRank { off_peak: rank.off_peak, ..TaskQueueRank::first(rank.gateway) };
        let last_rank = TaskQueueRank { off_peak: rank.off_peak, ..TaskQueueRank::last(rank.gateway) };
        // All regular tasks are ahead of an off-peak task.
        let regular_ahead = self.waiting.range(TaskQueueRank::first(rank.gateway)..first_rank).count();

        let owner_of = |rank: &TaskQueueRank| Some(self.get(*self.unfinished.get(rank)?)?.record.submission.owner);
        let own_account = owner_of(rank);
        let mut own_before = 0;
        let mut waiting_by_owner = HashMap::<_, usize>::new();
        for other_rank in self.waiting.range(first_rank..=last_rank) {
            let other_owner = owner_of(other_rank);
            if other_owner == own_account {
                own_before += usize::from(other_rank < rank);
            } else {
                *waiting_by_owner.entry(other_owner).or_default() += 1;
            }
        }

        // Before the turn of this task, each other account gets at most one turn more than this account.
        let others_ahead: usize = waiting_by_owner.values().map(|count| (*count).min(own_before + 1)).sum();
        Some(regular_ahead + others_ahead + own_before + 1)
    }

    /// Returns a copy for a snapshot, which shares large parts.
    #[must_use]
    pub fn snapshot_copy(&self) -> Self {
        Self {
            by_id: self.by_id.clone(),
            unfinished: self.unfinished.clone(),
            ranks: self.ranks.clone(),
            unfinished_by_owner: self.unfinished_by_owner.clone(),
            recent: self.recent.clone(),
            waiting: self.waiting.clone(),
            index: self.index.snapshot_copy(),
        }
    }

    /// Returns the number of unfinished tasks of an owner; anonymous callers share one count.
    #[must_use]
    pub fn unfinished_count_of(&self, owner: Option<UserId>) -> usize {
        self.unfinished_by_owner.get(&owner).copied().unwrap_or(0)
    }

    /// Returns the gateway of an unfinished task.
    #[must_use]
    pub fn gateway_of(&self, id: TaskId) -> Option<Gateway> {
        self.ranks.get(&id).map(|rank| rank.gateway)
    }

    /// Returns the number of unfinished tasks of all gateways.
    #[must_use]
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.len()
    }

    /// Returns the unfinished tasks of a gateway in queue order: off-peak tasks last, then by descending priority, then
    /// by submission.
    pub fn unfinished(&self, gateway: Gateway) -> impl Iterator<Item = (TaskId, &TaskEntry)> {
        self.queued_ids(gateway).filter_map(|id| Some((id, self.by_id.get(&id)?)))
    }

    /// Counts the unfinished tasks of a gateway by the name of the vendor that has, or may have, them. Tasks whose
    /// vendor is not recorded are not counted.
    #[must_use]
    pub fn count_by_vendor(&self, gateway: Gateway) -> HashMap<String, VendorTaskCount> {
        let mut counts = HashMap::<String, VendorTaskCount>::new();
        for (_, entry) in self.unfinished(gateway) {
            let recorded = entry.record.vendor.as_ref().and_then(|vendor| vendor.recorded.as_ref());
            let Some(recorded) = recorded else { continue };
            let count = match counts.get_mut(recorded.name.as_str()) {
                Some(count) => count,
                None => counts.entry(recorded.name.to_string()).or_default(),
            };
            count.tasks += 1;
            count.in_slots += usize::from(entry.record.stage.is_at_vendor());
        }
        counts
    }

    /// Returns the number of streams of the built-in music engine. Events do not name it, so `count_by_vendor` lacks
    /// it.
    #[must_use]
    pub fn built_in_stream_count(&self) -> usize {
        let streams = self.unfinished(Gateway::Music);
        streams.filter(|(_, entry)| matches!(entry.record.stage, TaskStage::Streaming)).count()
    }

    /// Returns the ids of [`Tasks::unfinished`].
    pub fn queued_ids(&self, gateway: Gateway) -> impl Iterator<Item = TaskId> {
        self.unfinished.range(TaskQueueRank::first(gateway)..=TaskQueueRank::last(gateway)).map(|(_, id)| *id)
    }

    /// Returns the ids of the off-peak tasks, which are last in the queue.
    pub fn off_peak_ids(&self, gateway: Gateway) -> impl Iterator<Item = TaskId> {
        let first_rank = TaskQueueRank { off_peak: true, ..TaskQueueRank::first(gateway) };
        self.unfinished.range(first_rank..=TaskQueueRank::last(gateway)).map(|(_, id)| *id)
    }
}
