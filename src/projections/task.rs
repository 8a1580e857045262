//! Tasks: the unfinished ones for the poller, and the last finished ones for their owners.
//!
//! Whole tasks take memory by the work in flight: one that ended leaves after 10 000 others have ended, and is folded
//! from its stream when somebody asks for it later ([`super::ReadModels::task`]). Of every task a few words stay
//! ([`index`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::domain::decider::Decider;
use crate::domain::ids::{EventId, TaskId, UserId};
use crate::domain::task::{Gateway, Stage, Task, TaskEvent, TaskRecord, Work};
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

pub mod index;
mod moment;
mod view;

use index::Index;
pub use moment::TaskMoment;
pub use view::{CreationView, CreationsView, FailureView, ImageTaskView, VideoMoment, progress, urls};

/// How many ended tasks are kept in memory.
const RECENT_MAX: usize = 10_000;

/// A task with what its next command needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEntry {
    pub record: TaskRecord,
    /// The last event of the task: the cause of whatever a reactor does next.
    pub last_event: EventId,
}

/// A place among the tasks of a gateway that wait: the lowest is worked on first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Rank {
    gateway: Gateway,
    /// After all that are to be made now.
    off_peak: bool,
    priority: Reverse<i32>,
    submitted: Position,
}

impl Rank {
    fn of(work: &Work, submitted: Position) -> Self {
        let (off_peak, priority) = (work.is_off_peak(), Reverse(work.priority()));
        Self { gateway: work.gateway(), off_peak, priority, submitted }
    }

    /// The lowest of a gateway.
    const fn first(gateway: Gateway) -> Self {
        Self { gateway, off_peak: false, priority: Reverse(i32::MAX), submitted: Position(0) }
    }

    /// The highest of a gateway.
    const fn last(gateway: Gateway) -> Self {
        Self { gateway, off_peak: true, priority: Reverse(i32::MIN), submitted: Position(u64::MAX) }
    }
}

/// The tasks in memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tasks {
    by_id: HashMap<TaskId, TaskEntry>,
    /// Unfinished tasks, in the order in which they are worked on.
    unfinished: BTreeMap<Rank, TaskId>,
    ranks: HashMap<TaskId, Rank>,
    /// How many unfinished tasks an owner has; owners without any are left out. Anonymous callers are one.
    unfinished_of: HashMap<Option<UserId>, usize>,
    recent: VecDeque<TaskId>,
    /// Unfinished tasks that no vendor has taken.
    waiting: BTreeSet<Rank>,
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
            let rank = Rank::of(&record.submission.work, recorded.position);
            self.unfinished.insert(rank, id);
            self.ranks.insert(id, rank);
            *self.unfinished_of.entry(record.submission.owner).or_default() += 1;
        }
        if let Some(rank) = self.ranks.get(&id).copied() {
            self.index.apply(&record, event, rank.submitted);
            if matches!(record.stage, Stage::Waiting { .. } | Stage::Submitting { .. }) {
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

    fn retire(&mut self, id: TaskId, owner: Option<UserId>) {
        let Some(rank) = self.ranks.remove(&id) else { return };
        self.unfinished.remove(&rank);
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

    /// Returns the place of a task among those of its gateway that no vendor has taken, from 1: the last that it may have, as accounts
    /// take turns. `None` for a task that does not wait.
    #[must_use]
    pub fn queue_position(&self, id: TaskId) -> Option<usize> {
        let rank = self.ranks.get(&id).filter(|rank| self.waiting.contains(rank))?;
        let first = Rank { off_peak: rank.off_peak, ..Rank::first(rank.gateway) };
        let last = Rank { off_peak: rank.off_peak, ..Rank::last(rank.gateway) };
        let earlier = self.waiting.range(Rank::first(rank.gateway)..first).count();
        let owner = |rank: &Rank| Some(self.get(*self.unfinished.get(rank)?)?.record.submission.owner);

        let (own, mut before, mut others) = (owner(rank), 0, HashMap::<_, usize>::new());
        for waiting in self.waiting.range(first..=last) {
            let owner = owner(waiting);
            if owner == own {
                before += usize::from(waiting < rank);
            } else {
                *others.entry(owner).or_default() += 1;
            }
        }
        // Each of the others may have one turn more than this account had before.
        let ahead: usize = others.values().map(|waiting| (*waiting).min(before + 1)).sum();
        Some(earlier + ahead + before + 1)
    }

    /// The same tasks to be written down elsewhere: shares what is large.
    #[must_use]
    pub fn captured(&self) -> Self {
        Self {
            by_id: self.by_id.clone(),
            unfinished: self.unfinished.clone(),
            ranks: self.ranks.clone(),
            unfinished_of: self.unfinished_of.clone(),
            recent: self.recent.clone(),
            waiting: self.waiting.clone(),
            index: self.index.captured(),
        }
    }

    /// How many unfinished tasks this caller has; anonymous callers are one.
    #[must_use]
    pub fn unfinished_of(&self, owner: Option<UserId>) -> usize {
        self.unfinished_of.get(&owner).copied().unwrap_or(0)
    }

    /// Through which gateway an unfinished task came.
    #[must_use]
    pub fn gateway_of(&self, id: TaskId) -> Option<Gateway> {
        self.ranks.get(&id).map(|rank| rank.gateway)
    }

    /// How many tasks of all gateways are unfinished.
    #[must_use]
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.len()
    }

    /// Every unfinished task of a gateway, in the order in which they are worked on: what is to be made now before what has
    /// time, high priority before low, old before young.
    pub fn unfinished(&self, gateway: Gateway) -> impl Iterator<Item = (TaskId, &TaskEntry)> {
        self.queue(gateway).filter_map(|id| Some((id, self.by_id.get(&id)?)))
    }

    /// The ids of the same.
    pub fn queue(&self, gateway: Gateway) -> impl Iterator<Item = TaskId> {
        self.unfinished.range(Rank::first(gateway)..=Rank::last(gateway)).map(|(_, id)| *id)
    }

    /// Those of them that have time, which are the last.
    pub fn off_peak(&self, gateway: Gateway) -> impl Iterator<Item = TaskId> {
        let first = Rank { off_peak: true, ..Rank::first(gateway) };
        self.unfinished.range(first..=Rank::last(gateway)).map(|(_, id)| *id)
    }
}
