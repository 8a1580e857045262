//! Quotas of media tasks: unfinished tasks at a time, tasks a day and credits a day. Reservations keep concurrent
//! requests from exceeding them together. The counts come from the tasks in the log, so a restart does not reset them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::{TaskId, UserId};
use crate::domain::value::Timestamp;
use crate::domain::video::Credits;
use crate::http::api::sign_in::FormerAccounts;
use crate::http::limits::daily_quotas::{last_midnight, seconds_until_midnight};
use crate::http::pipeline::RequestContext;
use crate::http::response::error::{Code, Problem};
use crate::pluralize::pluralize;
use crate::projections::task::Tasks;

/// Names of the quotas in responses.
const TASKS_A_DAY: &str = "tasks-a-day";
const CREDITS_A_DAY: &str = "credits-a-day";

/// Quotas of one caller; 0 a day is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskQuotas {
    /// Maximum number of unfinished tasks.
    pub unfinished: usize,
    /// Maximum number of tasks a day.
    pub tasks_a_day: u64,
    /// Maximum number of tasks a day of all anonymous callers together.
    pub anonymous_tasks_a_day: u64,
    /// Maximum credits a day; refunds do not count.
    pub credits_a_day: u64,
}

impl TaskQuotas {
    /// Returns the quotas of an owner, with the applicable limit in `tasks_a_day`.
    fn for_owner(self, owner: Option<UserId>) -> Self {
        let tasks_a_day = if owner.is_some() { self.tasks_a_day } else { self.anonymous_tasks_a_day };
        Self { tasks_a_day, ..self }
    }
}

/// Credits of each submission of a caller that is being validated; 0 until the price is known.
type PendingCredits = HashMap<TaskId, Credits>;

/// Accounts whose tasks are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QuotaAccounts {
    owner: Option<UserId>,
    /// Erased accounts of the same person; otherwise erasing an account would reset its quota.
    former: Vec<UserId>,
}

impl QuotaAccounts {
    fn owners(&self) -> impl Iterator<Item = Option<UserId>> {
        std::iter::once(self.owner).chain(self.former.iter().copied().map(Some))
    }

    fn unfinished(&self, tasks: &Tasks) -> usize {
        self.owners().map(|owner| tasks.unfinished_count_of(owner)).sum()
    }

    /// Returns the credits of submissions being validated, without those already in the read models.
    fn pending_credits<'a>(
        &'a self,
        pending: &'a PendingByOwner,
        tasks: &'a Tasks,
    ) -> impl Iterator<Item = Credits> + 'a {
        let entries = self.owners().filter_map(|owner| pending.get(&owner)).flatten();
        entries.filter(|(task, _)| tasks.get(**task).is_none()).map(|(_, credits)| *credits)
    }
}

/// Submissions being validated, by owner.
type PendingByOwner = HashMap<Option<UserId>, PendingCredits>;

/// Submissions being validated: not yet in the read models, or only just.
#[derive(Clone, Default)]
pub struct PendingSubmissions {
    by_owner: Arc<Mutex<PendingByOwner>>,
}

/// Place reserved among the caller's unfinished tasks; released on drop.
pub struct TaskReservation {
    submissions: PendingSubmissions,
    quotas: TaskQuotas,
    accounts: QuotaAccounts,
    task: TaskId,
}

impl RequestContext {
    /// Checks before the body is read that a task could be submitted.
    ///
    /// # Errors
    /// 429 if a quota of the caller is used up.
    pub fn check_task_quota(&self, owner: Option<UserId>, task: TaskId) -> Result<(), Problem> {
        let services = self.services();
        let quotas = services.options.quotas.for_owner(owner);
        let accounts = QuotaAccounts { owner, former: FormerAccounts::from_request(&self.request) };
        let now = services.environment.now();

        let reservation =
            self.shared().pending_submissions.reserve(accounts, task, quotas, now, &services.models.read().tasks);
        if reservation.is_err() {
            // Check again with `reserve_task`, which also sets the quota headers of the response.
            return self.reserve_task(owner, task).map(drop);
        }
        Ok(())
    }

    /// Reserves quota for a new task and sets the daily quota headers of the response.
    ///
    /// # Errors
    /// 429 if a quota of the caller is used up.
    pub fn reserve_task(&self, owner: Option<UserId>, task: TaskId) -> Result<TaskReservation, Problem> {
        let services = self.services();
        let quotas = services.options.quotas.for_owner(owner);
        let now = services.environment.now();
        let accounts = QuotaAccounts { owner, former: FormerAccounts::from_request(&self.request) };

        let reservation = self.shared().pending_submissions.reserve(
            accounts.clone(),
            task,
            quotas,
            now,
            &services.models.read().tasks,
        );

        if quotas.tasks_a_day > 0 {
            let used = self.shared().pending_submissions.tasks_today(&accounts, now, &services.models.read().tasks);
            self.report_quota(TASKS_A_DAY, quotas.tasks_a_day, used, now);
        }
        reservation
    }

    /// Charges the price of a task to the caller's daily quota and sets the credit quota headers of the response.
    ///
    /// # Errors
    /// 429 if the caller has too few credits left.
    pub fn charge_credits(&self, reservation: &TaskReservation, credits: Credits) -> Result<(), Problem> {
        let services = self.services();
        let limit = services.options.quotas.credits_a_day;
        if limit == 0 {
            return Ok(());
        }

        let now = services.environment.now();
        let result = reservation.charge(credits, now, &services.models.read().tasks);
        let used = reservation.submissions.credits_today(&reservation.accounts, now, &services.models.read().tasks);
        self.report_quota(CREDITS_A_DAY, limit, used, now);
        result
    }
}

impl PendingSubmissions {
    /// Reserves quota for a new task. A task that exists already, because its request was repeated, is always admitted.
    fn reserve(
        &self,
        accounts: QuotaAccounts,
        task: TaskId,
        quotas: TaskQuotas,
        now: Timestamp,
        tasks: &Tasks,
    ) -> Result<TaskReservation, Problem> {
        let mut pending = self.by_owner.lock();
        let recorded = accounts.unfinished(tasks);

        // The exact count is needed only near the limit.
        let pending_count: usize = accounts.owners().filter_map(|owner| pending.get(&owner)).map(HashMap::len).sum();
        let is_full = || {
            recorded + pending_count >= quotas.unfinished
                && recorded + accounts.pending_credits(&pending, tasks).count() >= quotas.unfinished
        };

        let rejection = if tasks.get(task).is_some() {
            None
        } else if is_full() {
            Some(too_many_unfinished(&accounts, quotas.unfinished))
        } else if quotas.tasks_a_day > 0 && tasks_today(&accounts, &pending, now, tasks) >= quotas.tasks_a_day {
            Some(daily_quota_exceeded(&accounts, &pluralize(quotas.tasks_a_day, "task"), now))
        } else {
            None
        };

        if let Some(rejection) = rejection {
            return Err(rejection);
        }

        pending.entry(accounts.owner).or_default().entry(task).or_default();
        Ok(TaskReservation { submissions: self.clone(), quotas, accounts, task })
    }

    /// Returns the number of tasks of a caller on the day of `now`, with those being validated.
    fn tasks_today(&self, accounts: &QuotaAccounts, now: Timestamp, tasks: &Tasks) -> u64 {
        tasks_today(accounts, &self.by_owner.lock(), now, tasks)
    }

    /// Returns the credits spent by a caller on the day of `now`, with those being validated.
    fn credits_today(&self, accounts: &QuotaAccounts, now: Timestamp, tasks: &Tasks) -> u64 {
        credits_today(accounts, &self.by_owner.lock(), now, tasks)
    }
}

impl TaskReservation {
    fn charge(&self, credits: Credits, now: Timestamp, tasks: &Tasks) -> Result<(), Problem> {
        let mut pending = self.submissions.by_owner.lock();

        let spent = credits_today(&self.accounts, &pending, now, tasks);
        let is_counted = tasks.get(self.task).is_some();
        if !is_counted && spent.saturating_add(u64::from(credits)) > self.quotas.credits_a_day {
            let amount = format!("{} credits (this task costs {credits})", self.quotas.credits_a_day);
            return Err(daily_quota_exceeded(&self.accounts, &amount, now));
        }

        let owner_pending = pending.get_mut(&self.accounts.owner);
        if let Some(reserved_credits) = owner_pending.and_then(|owner_pending| owner_pending.get_mut(&self.task)) {
            *reserved_credits = credits;
        }
        Ok(())
    }
}

fn tasks_today(accounts: &QuotaAccounts, pending: &PendingByOwner, now: Timestamp, tasks: &Tasks) -> u64 {
    let midnight = last_midnight(now);
    let recorded: u64 = accounts.owners().map(|owner| tasks.index.count_since(owner, midnight)).sum();
    recorded + accounts.pending_credits(pending, tasks).count() as u64
}

fn credits_today(accounts: &QuotaAccounts, pending: &PendingByOwner, now: Timestamp, tasks: &Tasks) -> u64 {
    let midnight = last_midnight(now);
    let recorded = accounts.owners().map(|owner| tasks.index.spent_since(owner, midnight));
    let pending_credits = accounts.pending_credits(pending, tasks).map(u64::from);
    recorded.chain(pending_credits).fold(0, u64::saturating_add)
}

fn quota_subject(accounts: &QuotaAccounts) -> &'static str {
    match accounts {
        QuotaAccounts { owner: None, .. } => "callers without a token together",
        QuotaAccounts { former, .. } if former.is_empty() => "this account",
        QuotaAccounts { .. } => "this account and its erased predecessors together",
    }
}

fn too_many_unfinished(accounts: &QuotaAccounts, limit: usize) -> Problem {
    let detail = format!("at most {limit} unfinished tasks for {}; wait for one to end", quota_subject(accounts));
    Problem::new(Code::TooManySubmissions, detail).retry_after(5)
}

fn daily_quota_exceeded(accounts: &QuotaAccounts, amount: &str, now: Timestamp) -> Problem {
    let detail = format!("daily quota for {} exceeded: {amount}; resets at midnight UTC", quota_subject(accounts));
    Problem::new(Code::QuotaExceeded, detail).retry_after(seconds_until_midnight(now))
}

impl Drop for TaskReservation {
    fn drop(&mut self) {
        let mut pending = self.submissions.by_owner.lock();
        if let Some(owner_pending) = pending.get_mut(&self.accounts.owner) {
            owner_pending.remove(&self.task);
            if owner_pending.is_empty() {
                pending.remove(&self.accounts.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::DAY_MICROS;
    use uuid::Uuid;

    const NOON: Timestamp = Timestamp::from_micros(DAY_MICROS / 2);

    fn user(number: u128) -> UserId {
        UserId(Uuid::from_u128(number))
    }

    fn accounts(number: u128) -> QuotaAccounts {
        QuotaAccounts { owner: Some(user(number)), former: Vec::new() }
    }

    fn task(number: u128) -> TaskId {
        TaskId(Uuid::from_u128(number))
    }

    #[test]
    fn unfinished_tasks_are_limited_per_caller_and_released() {
        let submissions = PendingSubmissions::default();
        let tasks = Tasks::default();
        let quotas = TaskQuotas { unfinished: 2, ..TaskQuotas::default() };
        let reserve = |owner, number| submissions.reserve(accounts(owner), task(number), quotas, NOON, &tasks);

        // Given a caller with two reservations
        let first = reserve(1, 1).ok();
        let second = reserve(1, 2).ok();
        assert!(first.is_some() && second.is_some());

        // Then a third one is refused, but not that of another caller
        assert_eq!(reserve(1, 3).err().map(|problem| problem.code()), Some(Code::TooManySubmissions));
        assert!(reserve(2, 4).is_ok());

        // When one is released, then there is room for another
        drop(first);
        assert!(reserve(1, 5).is_ok());
        drop(second);
        assert!(submissions.by_owner.lock().is_empty());
    }

    #[test]
    fn pending_submissions_count_towards_the_daily_quotas() {
        let submissions = PendingSubmissions::default();
        let tasks = Tasks::default();
        let quotas = TaskQuotas { unfinished: 10, tasks_a_day: 2, credits_a_day: 100, ..TaskQuotas::default() };
        let reserve = |number| submissions.reserve(accounts(1), task(number), quotas, NOON, &tasks);
        let code = |problem: Option<Problem>| problem.map(|problem| problem.code());

        // Given two pending submissions, as many as the caller may submit in a day
        let first = reserve(1).ok().unwrap();
        let second = reserve(2).ok().unwrap();

        // Then no third submission is admitted, and the prices of both must fit into 100 credits
        assert_eq!(code(reserve(3).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(first.charge(60, NOON, &tasks).err()), None);
        assert_eq!(code(second.charge(41, NOON, &tasks).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(second.charge(40, NOON, &tasks).err()), None);

        let today = || {
            let tasks_today = submissions.tasks_today(&accounts(1), NOON, &tasks);
            (tasks_today, submissions.credits_today(&accounts(1), NOON, &tasks))
        };
        assert_eq!(today(), (2, 100));

        // When one fails, then neither its task nor its credits count
        drop(first);
        assert_eq!(today(), (1, 40));
    }

    #[test]
    fn pending_submissions_of_an_erased_account_count_for_the_next_one() {
        let submissions = PendingSubmissions::default();
        let tasks = Tasks::default();
        let quotas = TaskQuotas { unfinished: 2, ..TaskQuotas::default() };

        // Given an erased account with one submission still being validated
        let _first = submissions.reserve(accounts(1), task(1), quotas, NOON, &tasks).ok().unwrap();

        // When the same person submits with another account
        let next = QuotaAccounts { owner: Some(user(2)), former: vec![user(1)] };
        let _second = submissions.reserve(next.clone(), task(2), quotas, NOON, &tasks).ok().unwrap();
        let refusal = submissions.reserve(next, task(3), quotas, NOON, &tasks).err().unwrap();

        // Then both count, and the refusal names both accounts
        assert_eq!(refusal.code(), Code::TooManySubmissions);
        assert!(refusal.to_string().contains("its erased predecessors"), "{refusal}");
    }

    #[test]
    fn a_rejection_states_the_time_until_midnight() {
        let response =
            daily_quota_exceeded(&QuotaAccounts { owner: None, former: Vec::new() }, "1 task", NOON).to_response("/");
        assert_eq!(response.headers().get("retry-after").unwrap(), "43201");
    }
}
