//! Budgets, with what their subjects hold and have spent in each period (contract 11).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::task::index::{EntryState, TaskIndex};
use crate::domain::budget::{BudgetEvent, BudgetLimit, BudgetSubject};
use crate::domain::task::{TaskRecord, TaskStatus};
use crate::domain::value::Timestamp;

/// Periods that a budget remembers: the current period, and the previous period in case the clock was set back.
const PERIODS_KEPT: usize = 2;

/// All budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budgets {
    by_subject: BTreeMap<BudgetSubject, BudgetAccount>,
}

/// A budget and its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAccount {
    pub limit: BudgetLimit,
    /// Use in each period, by the start of the period.
    used_by_period: BTreeMap<Timestamp, BudgetUse>,
}

/// Credits of the tasks that were submitted in one period. A refund gives them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetUse {
    /// Credits of unfinished tasks.
    pub held: u64,
    /// Credits of charged tasks.
    pub spent: u64,
}

/// Refusal of a submission that would exceed a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetExceeded {
    pub subject: BudgetSubject,
    pub limit: BudgetLimit,
    pub used: BudgetUse,
    /// Price of the submission.
    pub credits: u64,
    /// Start of the next period, if any.
    pub resets_at: Option<Timestamp>,
}

impl Budgets {
    /// Applies an event of the budget of `subject`. `tasks` holds the tasks submitted before.
    pub fn apply(&mut self, subject: BudgetSubject, event: &BudgetEvent, at: Timestamp, tasks: &TaskIndex) {
        match event {
            BudgetEvent::BudgetSet(limit) => match self.by_subject.get_mut(&subject) {
                // The use stays the same, so a new limit does not need to read the tasks.
                Some(account) if account.limit.period == limit.period => account.limit = *limit,
                _ => {
                    let account = BudgetAccount::new(*limit, &subject, at, tasks);
                    self.by_subject.insert(subject, account);
                }
            },
            BudgetEvent::BudgetRemoved => {
                self.by_subject.remove(&subject);
            }
        }
    }

    /// Applies a change of a task; `before` is its status before, `None` for a submission.
    pub fn apply_task(&mut self, before: Option<TaskStatus>, task: &TaskRecord) {
        let credits = u64::from(task.submission.work.credits());
        if self.by_subject.is_empty() || credits == 0 || before == Some(task.status) {
            return;
        }

        for subject in task.submission.budget_subjects() {
            if let Some(account) = self.by_subject.get_mut(&subject) {
                account.apply(before, task, credits);
            }
        }
    }

    /// Returns the budget of a subject.
    #[must_use]
    pub fn get(&self, subject: &BudgetSubject) -> Option<&BudgetAccount> {
        self.by_subject.get(subject)
    }

    /// Returns all budgets, ordered by subject.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&BudgetSubject, &BudgetAccount)> {
        self.by_subject.iter()
    }

    /// Restores budgets from a snapshot.
    pub(super) fn restore(&mut self, budgets: Vec<(BudgetSubject, BudgetAccount)>) {
        self.by_subject.extend(budgets);
    }
}

impl BudgetAccount {
    /// Creates an account that counts what the subject used before the budget was set, in the periods that it keeps.
    fn new(limit: BudgetLimit, subject: &BudgetSubject, at: Timestamp, tasks: &TaskIndex) -> Self {
        let mut account = Self { limit, used_by_period: BTreeMap::new() };
        let start = limit.period.start(at);
        let previous_start = limit.period.start(Timestamp::from_micros(start.micros().saturating_sub(1)));

        for task in tasks.paid_by(subject).filter(|task| task.created_at >= previous_start) {
            account.used_mut(task.created_at).add(task.credit_state, task.credits.into());
        }
        account
    }

    fn apply(&mut self, before: Option<TaskStatus>, task: &TaskRecord, credits: u64) {
        let period = self.limit.period.start(task.created_at);
        // The tasks of forgotten periods no longer count.
        let used = match self.used_by_period.get_mut(&period) {
            Some(used) => used,
            None if before.is_none() => self.used_mut(task.created_at),
            None => return,
        };

        // A task has no events after its end, so the credits of an earlier state were held.
        if before.is_some() {
            used.subtract(EntryState::Held, credits);
        }
        used.add(EntryState::from_record(task), credits);
    }

    fn used_mut(&mut self, at: Timestamp) -> &mut BudgetUse {
        let period = self.limit.period.start(at);
        if !self.used_by_period.contains_key(&period) && self.used_by_period.len() == PERIODS_KEPT {
            self.used_by_period.pop_first();
        }
        self.used_by_period.entry(period).or_default()
    }

    /// Returns the use in the period that contains `at`.
    #[must_use]
    pub fn used(&self, at: Timestamp) -> BudgetUse {
        self.used_by_period.get(&self.limit.period.start(at)).copied().unwrap_or_default()
    }

    /// Returns the start of the period after `at`, if any.
    #[must_use]
    pub fn resets_at(&self, at: Timestamp) -> Option<Timestamp> {
        self.limit.period.end(at)
    }

    /// Checks that a submission fits; `pending` are the credits of submissions that will be applied before it.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if less is left.
    pub fn check(
        &self,
        subject: &BudgetSubject,
        credits: u64,
        pending: u64,
        at: Timestamp,
    ) -> Result<(), Box<BudgetExceeded>> {
        let BudgetUse { held, spent } = self.used(at);
        let used = BudgetUse { held: held.saturating_add(pending), spent };
        if used.total().saturating_add(credits) <= self.limit.credits {
            return Ok(());
        }
        let subject = subject.clone();
        Err(Box::new(BudgetExceeded { subject, limit: self.limit, used, credits, resets_at: self.resets_at(at) }))
    }
}

impl BudgetUse {
    /// Returns the credits that count towards the limit.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.held.saturating_add(self.spent)
    }

    fn credits_in(&mut self, state: EntryState) -> Option<&mut u64> {
        match state {
            EntryState::Held => Some(&mut self.held),
            EntryState::Charged => Some(&mut self.spent),
            EntryState::Refunded => None,
        }
    }

    fn add(&mut self, state: EntryState, credits: u64) {
        if let Some(sum) = self.credits_in(state) {
            *sum = sum.saturating_add(credits);
        }
    }

    fn subtract(&mut self, state: EntryState, credits: u64) {
        if let Some(sum) = self.credits_in(state) {
            *sum = sum.saturating_sub(credits);
        }
    }
}

#[cfg(test)]
mod tests;
