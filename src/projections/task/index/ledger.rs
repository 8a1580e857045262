//! What callers have spent: held at a submission, then charged or given back once, as the task ends (contract 7).
//!
//! There is no account of its own: every task is an entry, and what became of its credits follows from its status (ADR 15).

use super::{Listed, NOT_ENDED};
use crate::domain::ids::TaskId;
use crate::domain::task::{TaskKind, TaskStatus};
use crate::domain::value::{Timestamp, named_values};
use crate::domain::video::Credits;

/// The sums of a caller, in credits. What was held at all is `held + charged + refunded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Of tasks that have not ended.
    pub held: u64,
    /// Of tasks that were done.
    pub charged: u64,
    /// Of tasks that failed or were cancelled.
    pub refunded: u64,
}

named_values! {
    /// What became of the credits of a task.
    EntryState {
        Held = "held",
        Charged = "charged",
        Refunded = "refunded",
    }
}

/// The credits of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub task: TaskId,
    pub kind: TaskKind,
    pub credits: Credits,
    pub state: EntryState,
    pub held_at: Timestamp,
    /// When they were charged or given back.
    pub settled_at: Option<Timestamp>,
}

impl Listed {
    /// Returns the credits that the task holds or was charged; none if they were refunded.
    pub(super) fn spent(&self) -> u64 {
        if EntryState::of(self.status) == EntryState::Refunded { 0 } else { u64::from(self.credits) }
    }
}

impl EntryState {
    const fn of(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Created | TaskStatus::Queueing | TaskStatus::InProgress => Self::Held,
            TaskStatus::Completed => Self::Charged,
            TaskStatus::Failed => Self::Refunded,
        }
    }
}

impl Entry {
    /// The entry of a task that costs something.
    pub(super) fn of(task: &Listed) -> Option<Self> {
        let settled_at = (task.ended_at != NOT_ENDED).then_some(task.ended_at);
        (task.credits > 0).then(|| Self {
            task: task.id,
            kind: task.kind,
            credits: task.credits,
            state: EntryState::of(task.status),
            held_at: task.created_at,
            settled_at,
        })
    }
}

impl Ledger {
    pub(super) fn hold(&mut self, credits: Credits) {
        self.held += u64::from(credits);
    }

    /// A task that holds these credits has come to this status. A task ends once, so this happens once.
    pub(super) fn settle(&mut self, credits: Credits, status: TaskStatus) {
        let credits = u64::from(credits);
        let side = match EntryState::of(status) {
            EntryState::Held => return,
            EntryState::Charged => &mut self.charged,
            EntryState::Refunded => &mut self.refunded,
        };
        *side += credits;
        self.held = self.held.saturating_sub(credits);
    }
}

#[cfg(test)]
mod tests;
