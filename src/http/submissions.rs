//! How many tasks a caller may have unfinished, counted so that requests at the same time cannot pass it together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::{Code, Problem};
use crate::domain::ids::{TaskId, UserId};
use crate::projections::task::Tasks;

/// Submissions that are being checked: not in the read models yet, or only just.
#[derive(Clone, Default)]
pub struct Submissions {
    under_way: Arc<Mutex<HashMap<Option<UserId>, HashSet<TaskId>>>>,
}

/// A place among the caller's unfinished tasks; given back when it is dropped.
pub struct Reservation {
    submissions: Submissions,
    owner: Option<UserId>,
    task: TaskId,
}

impl Submissions {
    /// Takes a place for a task that is to be submitted. One that is there already, because its request comes again, is
    /// counted as it is.
    ///
    /// # Errors
    /// When the caller has `limit` unfinished tasks already.
    pub fn reserve(
        &self,
        owner: Option<UserId>,
        task: TaskId,
        limit: usize,
        tasks: &Tasks,
    ) -> Result<Reservation, Problem> {
        let mut under_way = self.under_way.lock();
        let waiting = under_way.entry(owner).or_default();
        // A task that the read models show already must not count twice; far from the limit it may.
        let shown = tasks.unfinished_of(owner);
        let not_shown = || waiting.iter().filter(|task| tasks.get(**task).is_none()).count();
        if shown + waiting.len() >= limit && tasks.get(task).is_none() && shown + not_shown() >= limit {
            if waiting.is_empty() {
                under_way.remove(&owner);
            }
            let whose = if owner.is_some() { "your tasks" } else { "the tasks of callers without a token" };
            let detail = format!("{limit} of {whose} are unfinished; submit more when some have ended");
            return Err(Problem::new(Code::TooManySubmissions, detail).retry_after(5));
        }
        waiting.insert(task);
        Ok(Reservation { submissions: self.clone(), owner, task })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut under_way = self.submissions.under_way.lock();
        if let Some(waiting) = under_way.get_mut(&self.owner) {
            waiting.remove(&self.task);
            if waiting.is_empty() {
                under_way.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_caller_has_a_number_of_places_and_gets_them_back() {
        let (submissions, tasks) = (Submissions::default(), Tasks::default());
        let reserve = |owner: u128, task: u128| {
            submissions.reserve(Some(UserId(Uuid::from_u128(owner))), TaskId(Uuid::from_u128(task)), 2, &tasks)
        };
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
}
