//! Credits of callers: held at submission, then charged or refunded once when the task ends (contract 7).
//!
//! There is no separate account. Every task is an entry, and its status determines the state of its credits (ADR 15).

use super::{NOT_ENDED, TaskIndexEntry};
use crate::domain::ids::TaskId;
use crate::domain::task::{TaskKind, TaskRecord, TaskStatus};
use crate::domain::value::{Timestamp, named_values};
use crate::domain::video::Credits;

/// Totals of a caller, in credits. The total ever held is `held + charged + refunded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Credits of unfinished tasks.
    pub held: u64,
    /// Credits of completed tasks, and of streams that their client ended.
    pub charged: u64,
    /// Credits of other failed and cancelled tasks.
    pub refunded: u64,
}

named_values! {
    /// State of the credits of a task.
    EntryState {
        Held = "held",
        Charged = "charged",
        Refunded = "refunded",
    }
}

/// The credits of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    pub task: TaskId,
    pub kind: TaskKind,
    pub credits: Credits,
    pub state: EntryState,
    pub held_at: Timestamp,
    /// Time of the charge or refund.
    pub settled_at: Option<Timestamp>,
}

impl TaskIndexEntry {
    /// Returns the credits that the task holds or was charged; none if they were refunded.
    pub(super) fn spent(&self) -> u64 {
        if self.credit_state == EntryState::Refunded { 0 } else { u64::from(self.credits) }
    }
}

impl EntryState {
    /// Returns the state of the credits of a task.
    #[must_use]
    pub fn from_record(task: &TaskRecord) -> Self {
        match task.status {
            TaskStatus::Created | TaskStatus::Queueing | TaskStatus::InProgress => Self::Held,
            TaskStatus::Completed => Self::Charged,
            TaskStatus::Failed if task.is_charged_although_failed() => Self::Charged,
            TaskStatus::Failed => Self::Refunded,
        }
    }
}

impl LedgerEntry {
    /// Returns the entry of a task; `None` if it costs nothing.
    pub(super) fn from_task(task: &TaskIndexEntry) -> Option<Self> {
        let settled_at = (task.ended_at != NOT_ENDED).then_some(task.ended_at);
        (task.credits > 0).then_some(Self {
            task: task.id,
            kind: task.kind,
            credits: task.credits,
            state: task.credit_state,
            held_at: task.created_at,
            settled_at,
        })
    }
}

impl Ledger {
    /// Adds the credits of a submitted task.
    pub(super) fn hold(&mut self, credits: Credits) {
        self.held += u64::from(credits);
    }

    /// Moves the credits of a task to their new state. A task ends only once, so its credits move only once.
    pub(super) fn settle(&mut self, credits: Credits, state: EntryState) {
        let credits = u64::from(credits);
        let total = match state {
            EntryState::Held => return,
            EntryState::Charged => &mut self.charged,
            EntryState::Refunded => &mut self.refunded,
        };
        *total += credits;
        self.held = self.held.saturating_sub(credits);
    }
}

#[cfg(test)]
mod tests;
