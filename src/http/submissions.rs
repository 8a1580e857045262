//! How many tasks a caller may have unfinished, and may submit and spend on a day, counted so that requests at the same time
//! cannot pass it together. What counts are the tasks of the log: a restart changes nothing of it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::{Code, Problem};
use super::gate::Admitted;
use super::limits::{Share, note};
use super::sign_in::Former;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::value::Timestamp;
use crate::domain::video::Credits;
use crate::projections::task::Tasks;
use crate::projections::task::index::Spent;

/// Microseconds of a day; days begin at midnight, UTC.
const DAY: i64 = 86_400_000_000;

/// What the quotas are called to callers.
const TASKS_A_DAY: &str = "tasks-a-day";
const CREDITS_A_DAY: &str = "credits-a-day";

/// What one caller may have and do; 0 a day: as much as anybody likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Tasks that may be unfinished at a time.
    pub unfinished: usize,
    /// Tasks of a day.
    pub tasks_a_day: u64,
    /// Credits of the tasks of a day, but for those that were given back.
    pub credits_a_day: u64,
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
    /// Takes a place for a task that is to be submitted, and has the answer tell how many more the day has.
    ///
    /// # Errors
    /// When the caller has as many as it may have.
    pub fn reserve(&self, owner: Option<UserId>, task: TaskId) -> Result<Reservation, Problem> {
        let services = self.services();
        let (quotas, now) = (services.options.quotas, services.surroundings.now());
        let counted = Counted { owner, former: Former::of(&self.request) };
        let place =
            self.shared().submissions.reserve(counted.clone(), task, quotas, now, &services.models.read().tasks);
        if quotas.tasks_a_day > 0 {
            let spent = self.shared().submissions.spent(&counted, now, &services.models.read().tasks);
            self.tell_quota(TASKS_A_DAY, quotas.tasks_a_day, spent.tasks, now);
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
        let spent = place.submissions.spent(&place.counted, now, &services.models.read().tasks);
        self.tell_quota(CREDITS_A_DAY, most, spent.credits, now);
        charged
    }

    fn tell_quota(&self, policy: &'static str, most: u64, used: u64, now: Timestamp) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (most, left) = (whole(most), whole(most.saturating_sub(used)));
        note(&self.request, Share { policy, most, window: DAY / 1_000_000, left, again_in: until_midnight(now) });
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
        } else if quotas.tasks_a_day > 0 && of_the_day(&counted, &under_way, now, tasks).tasks >= quotas.tasks_a_day {
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

    /// What a caller has submitted and spent on the day of `now`, with what is being checked.
    fn spent(&self, counted: &Counted, now: Timestamp, tasks: &Tasks) -> Spent {
        let under_way = self.under_way.lock();
        of_the_day(counted, &under_way, now, tasks)
    }
}

impl Reservation {
    fn charge(&self, credits: Credits, now: Timestamp, tasks: &Tasks) -> Result<(), Problem> {
        let mut under_way = self.submissions.under_way.lock();
        let spent = of_the_day(&self.counted, &under_way, now, tasks).credits;
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

fn of_the_day(counted: &Counted, under_way: &UnderWay, now: Timestamp, tasks: &Tasks) -> Spent {
    let midnight = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(DAY));
    let (mut count, mut credits) = (0, 0_u64);
    for owner in counted.all() {
        let spent = tasks.index.spent_since(owner, midnight);
        (count, credits) = (count + spent.tasks, credits.saturating_add(spent.credits));
    }
    for coming in counted.coming(under_way, tasks) {
        (count, credits) = (count + 1, credits.saturating_add(u64::from(coming)));
    }
    Spent { tasks: count, credits }
}

fn until_midnight(now: Timestamp) -> i64 {
    DAY - now.micros().rem_euclid(DAY)
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
    let seconds = u32::try_from(until_midnight(now) / 1_000_000 + 1).unwrap_or(u32::MAX);
    Problem::new(Code::QuotaExceeded, detail).retry_after(seconds)
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
    use uuid::Uuid;

    const NOON: Timestamp = Timestamp::from_micros(DAY / 2);

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
        let quotas = Quotas { unfinished: 2, tasks_a_day: 0, credits_a_day: 0 };
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
        let quotas = Quotas { unfinished: 10, tasks_a_day: 2, credits_a_day: 100 };
        let reserve = |number| submissions.reserve(counted(1), task(number), quotas, NOON, &tasks);
        let code = |refused: Option<Problem>| refused.map(|problem| problem.code());
        let (first, second) = (reserve(1).ok().unwrap(), reserve(2).ok().unwrap());
        assert_eq!(code(reserve(3).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(first.charge(60, NOON, &tasks).err()), None);
        assert_eq!(code(second.charge(41, NOON, &tasks).err()), Some(Code::QuotaExceeded));
        assert_eq!(code(second.charge(40, NOON, &tasks).err()), None);
        assert_eq!(submissions.spent(&counted(1), NOON, &tasks), Spent { tasks: 2, credits: 100 });
        drop(first);
        assert_eq!(submissions.spent(&counted(1), NOON, &tasks), Spent { tasks: 1, credits: 40 });
    }

    #[test]
    fn what_an_erased_account_has_under_way_counts_for_the_next_one() {
        let (submissions, tasks) = (Submissions::default(), Tasks::default());
        let quotas = Quotas { unfinished: 2, tasks_a_day: 0, credits_a_day: 0 };
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
