//! How many tasks a caller may have unfinished, and may submit and spend on a day, counted so that requests at the same time
//! cannot pass it together. What counts are the tasks of the log: a restart changes nothing of it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::daily_quotas::{last_midnight, seconds_until_midnight};
use super::error::{Code, Problem};
use super::gate::Admitted;
use super::sign_in::Former;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::value::Timestamp;
use crate::domain::video::Credits;
use crate::projections::task::Tasks;

/// What the quotas are called to callers.
const TASKS_A_DAY: &str = "tasks-a-day";
const CREDITS_A_DAY: &str = "credits-a-day";

/// What one caller may have and do; 0 a day: as much as anybody likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quotas {
    /// Tasks that may be unfinished at a time.
    pub unfinished: usize,
    /// Tasks of a day.
    pub tasks_a_day: u64,
    /// Tasks of a day of all anonymous callers together.
    pub anonymous_tasks_a_day: u64,
    /// Credits of the tasks of a day, but for those that were given back.
    pub credits_a_day: u64,
}

impl Quotas {
    /// Returns the quotas of an owner of tasks, in which `tasks_a_day` is the one that applies.
    fn of(self, owner: Option<UserId>) -> Self {
        let tasks_a_day = if owner.is_some() { self.tasks_a_day } else { self.anonymous_tasks_a_day };
        Self { tasks_a_day, ..self }
    }
}

/// What each of a caller's submissions that are being checked costs; 0 until that is known.
type Coming = HashMap<TaskId, Credits>;

/// Whose tasks are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    owner: Option<UserId>,
    /// Accounts of the same person that were erased: or whoever erases theirs would have the whole day again.
    former: Vec<UserId>,
}

impl Counted {
    fn all(&self) -> impl Iterator<Item = Option<UserId>> {
        std::iter::once(self.owner).chain(self.former.iter().copied().map(Some))
    }

    fn unfinished(&self, tasks: &Tasks) -> usize {
        self.all().map(|owner| tasks.unfinished_of(owner)).sum()
    }

    /// What is being checked and not shown by the read models: that would count twice.
    fn coming<'a>(&'a self, under_way: &'a UnderWay, tasks: &'a Tasks) -> impl Iterator<Item = Credits> + 'a {
        let coming = self.all().filter_map(|owner| under_way.get(&owner)).flatten();
        coming.filter(|(task, _)| tasks.get(**task).is_none()).map(|(_, credits)| *credits)
    }
}

/// Those that are being checked, by whose they are.
type UnderWay = HashMap<Option<UserId>, Coming>;

/// Submissions that are being checked: not in the read models yet, or only just.
#[derive(Clone, Default)]
pub struct Submissions {
    under_way: Arc<Mutex<UnderWay>>,
}

/// A place among the caller's unfinished tasks; given back when it is dropped.
pub struct Reservation {
    submissions: Submissions,
    quotas: Quotas,
    counted: Counted,
    task: TaskId,
}

impl Admitted {
    /// Checks that a task could be submitted now, before its body is read.
    ///
    /// # Errors
    /// 429 if the caller has as many as it may have.
    pub fn check_room(&self, owner: Option<UserId>, task: TaskId) -> Result<(), Problem> {
        let services = self.services();
        let quotas = services.options.quotas.of(owner);
        let counted = Counted { owner, former: Former::of(&self.request) };
        let now = services.surroundings.now();
        let checked = self.shared().submissions.reserve(counted, task, quotas, now, &services.models.read().tasks);
        if checked.is_err() {
            // The refusal tells what is left, as that of the reservation does.
            return self.reserve(owner, task).map(drop);
        }
        Ok(())
    }

    /// Takes a place for a task that is to be submitted, and has the answer tell how many more the day has.
    ///
    /// # Errors
    /// When the caller has as many as it may have.
    pub fn reserve(&self, owner: Option<UserId>, task: TaskId) -> Result<Reservation, Problem> {
        let services = self.services();
        let quotas = services.options.quotas.of(owner);
        let now = services.surroundings.now();
        let counted = Counted { owner, former: Former::of(&self.request) };
        let place =
            self.shared().submissions.reserve(counted.clone(), task, quotas, now, &services.models.read().tasks);
        if quotas.tasks_a_day > 0 {
            let used = self.shared().submissions.tasks_today(&counted, now, &services.models.read().tasks);
            self.tell_quota(TASKS_A_DAY, quotas.tasks_a_day, used, now);
        }
        place
    }

    /// Adds what a task costs to the credits of its caller's day, and has the answer tell how many more it has.
    ///
    /// # Errors
    /// When the caller has not as many left.
    pub fn charge(&self, place: &Reservation, credits: Credits) -> Result<(), Problem> {
        let services = self.services();
        let most = services.options.quotas.credits_a_day;
        if most == 0 {
            return Ok(());
        }
        let now = services.surroundings.now();
        let charged = place.charge(credits, now, &services.models.read().tasks);
        let used = place.submissions.credits_today(&place.counted, now, &services.models.read().tasks);
        self.tell_quota(CREDITS_A_DAY, most, used, now);
        charged
    }
}

impl Submissions {
    /// Takes a place for a task that is to be submitted. One that is there already, because its request comes again, is
    /// counted as it is.
    fn reserve(
        &self,
        counted: Counted,
        task: TaskId,
        quotas: Quotas,
        now: Timestamp,
        tasks: &Tasks,
    ) -> Result<Reservation, Problem> {
        let mut under_way = self.under_way.lock();
        let shown = counted.unfinished(tasks);
        // What each of them is like is asked only near the limit.
        let waiting: usize = counted.all().filter_map(|owner| under_way.get(&owner)).map(HashMap::len).sum();
        let is_full = || {
            shown + waiting >= quotas.unfinished
                && shown + counted.coming(&under_way, tasks).count() >= quotas.unfinished
        };
        let refusal = if tasks.get(task).is_some() {
            None
        } else if is_full() {
            Some(too_many_unfinished(&counted, quotas.unfinished))
        } else if quotas.tasks_a_day > 0 && tasks_today(&counted, &under_way, now, tasks) >= quotas.tasks_a_day {
            Some(used_up(&counted, &format!("{} tasks", quotas.tasks_a_day), now))
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        under_way.entry(counted.owner).or_default().entry(task).or_default();
        Ok(Reservation { submissions: self.clone(), quotas, counted, task })
    }

    /// Returns the number of tasks that a caller has submitted on the day of `now`, with those that are being checked.
    fn tasks_today(&self, counted: &Counted, now: Timestamp, tasks: &Tasks) -> u64 {
        tasks_today(counted, &self.under_way.lock(), now, tasks)
    }

    /// Returns the credits that a caller has spent on the day of `now`, with those of tasks that are being checked.
    fn credits_today(&self, counted: &Counted, now: Timestamp, tasks: &Tasks) -> u64 {
        credits_today(counted, &self.under_way.lock(), now, tasks)
    }
}

impl Reservation {
    fn charge(&self, credits: Credits, now: Timestamp, tasks: &Tasks) -> Result<(), Problem> {
        let mut under_way = self.submissions.under_way.lock();
        let spent = credits_today(&self.counted, &under_way, now, tasks);
        let is_counted = tasks.get(self.task).is_some();
        if !is_counted && spent.saturating_add(u64::from(credits)) > self.quotas.credits_a_day {
            let what = format!("{} credits, of which this would take {credits}", self.quotas.credits_a_day);
            return Err(used_up(&self.counted, &what, now));
        }
        let waiting = under_way.get_mut(&self.counted.owner);
        if let Some(coming) = waiting.and_then(|waiting| waiting.get_mut(&self.task)) {
            *coming = credits;
        }
        Ok(())
    }
}

fn tasks_today(counted: &Counted, under_way: &UnderWay, now: Timestamp, tasks: &Tasks) -> u64 {
    let midnight = last_midnight(now);
    let recorded: u64 = counted.all().map(|owner| tasks.index.count_since(owner, midnight)).sum();
    recorded + counted.coming(under_way, tasks).count() as u64
}

fn credits_today(counted: &Counted, under_way: &UnderWay, now: Timestamp, tasks: &Tasks) -> u64 {
    let midnight = last_midnight(now);
    let recorded = counted.all().map(|owner| tasks.index.spent_since(owner, midnight));
    let coming = counted.coming(under_way, tasks).map(u64::from);
    recorded.chain(coming).fold(0, u64::saturating_add)
}

fn whose(counted: &Counted) -> &'static str {
    match counted {
        Counted { owner: None, .. } => "the tasks of callers without a token",
        Counted { former, .. } if former.is_empty() => "your tasks",
        Counted { .. } => "your tasks, with those of accounts that you erased,",
    }
}

fn too_many_unfinished(counted: &Counted, limit: usize) -> Problem {
    let detail = format!("{limit} of {} are unfinished; submit more when some have ended", whose(counted));
    Problem::new(Code::TooManySubmissions, detail).retry_after(5)
}

fn used_up(counted: &Counted, what: &str, now: Timestamp) -> Problem {
    let detail = format!("{} may have {what} a day; the next day begins at midnight, UTC", whose(counted));
    Problem::new(Code::QuotaExceeded, detail).retry_after(seconds_until_midnight(now))
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut under_way = self.submissions.under_way.lock();
        if let Some(waiting) = under_way.get_mut(&self.counted.owner) {
            waiting.remove(&self.task);
            if waiting.is_empty() {
                under_way.remove(&self.counted.owner);
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

    fn counted(number: u128) -> Counted {
        Counted { owner: Some(user(number)), former: Vec::new() }
    }

    fn task(number: u128) -> TaskId {
        TaskId(Uuid::from_u128(number))
    }

    #[test]
    fn a_caller_has_a_number_of_places_and_gets_them_back() {
        let (submissions, tasks) = (Submissions::default(), Tasks::default());
        let quotas = Quotas { unfinished: 2, ..Quotas::default() };
        let reserve = |owner, number| submissions.reserve(counted(owner), task(number), quotas, NOON, &tasks);
        let first = reserve(1, 1).ok();
        let second = reserve(1, 2).ok();
        assert!(first.is_some() && second.is_some());
        assert_eq!(reserve(1, 3).err().map(|problem| problem.code()), Some(Code::TooManySubmissions));
        assert!(reserve(2, 4).is_ok());
        drop(first);
        assert!(reserve(1, 5).is_ok());
        drop(second);
        assert!(submissions.under_way.lock().is_empty());
    }

    #[test]
    fn tasks_and_credits_of_a_day_are_counted_while_they_are_being_checked() {
        let (submissions, tasks) = (Submissions::default(), Tasks::default());
        let quotas = Quotas { unfinished: 10, tasks_a_day: 2, credits_a_day: 100, ..Quotas::default() };
        let reserve = |number| submissions.reserve(counted(1), task(number), quotas, NOON, &tasks);
        let code = |refused: Option<Problem>| refused.map(|problem| problem.code());
        let (first, second) = (reserve(1).ok().unwrap(), reserve(2).ok().unwrap());
        assert_eq!(code(reserve(3).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(first.charge(60, NOON, &tasks).err()), None);
        assert_eq!(code(second.charge(41, NOON, &tasks).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(second.charge(40, NOON, &tasks).err()), None);
        let today = || {
            let tasks_today = submissions.tasks_today(&counted(1), NOON, &tasks);
            (tasks_today, submissions.credits_today(&counted(1), NOON, &tasks))
        };
        assert_eq!(today(), (2, 100));
        drop(first);
        assert_eq!(today(), (1, 40));
    }

    #[test]
    fn what_an_erased_account_has_under_way_counts_for_the_next_one() {
        let (submissions, tasks) = (Submissions::default(), Tasks::default());
        let quotas = Quotas { unfinished: 2, ..Quotas::default() };
        // Given an account that was erased with one submission still being checked
        let _first = submissions.reserve(counted(1), task(1), quotas, NOON, &tasks).ok().unwrap();
        // When the same person comes with another account
        let next = Counted { owner: Some(user(2)), former: vec![user(1)] };
        let _second = submissions.reserve(next.clone(), task(2), quotas, NOON, &tasks).ok().unwrap();
        let refusal = submissions.reserve(next, task(3), quotas, NOON, &tasks).err().unwrap();
        // Then both count, and the refusal says whose they are
        assert_eq!(refusal.code(), Code::TooManySubmissions);
        assert!(refusal.to_string().contains("accounts that you erased"), "{refusal}");
    }

    #[test]
    fn a_refusal_says_when_the_day_ends() {
        let response = used_up(&Counted { owner: None, former: Vec::new() }, "1 tasks", NOON).respond("/");
        assert_eq!(response.headers().get("retry-after").unwrap(), "43201");
    }
}
