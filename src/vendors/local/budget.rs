//! Memory budget of a built-in engine: the maximum that its running jobs need together, shared by accounts. The engine
//! chooses the unit.

use crate::domain::ids::UserId;
use crate::fairness::{FairPermit, FairSemaphore};

/// Account of a job; all anonymous callers are one.
type JobOwner = Option<UserId>;

/// Budget in which one account holds at most half. Jobs that need more than half count as half, and run one at a time:
/// the jobs that run together need at most the largest one and half of the budget.
pub(super) struct EngineBudget {
    shares: FairSemaphore<JobOwner>,
    heavy: FairSemaphore<JobOwner>,
}

/// Share of a running job, which is released when it is dropped.
pub(super) struct EngineShare {
    _permit: FairPermit<JobOwner>,
    _heavy_permit: Option<FairPermit<JobOwner>>,
}

impl EngineBudget {
    pub fn new(total: u64) -> Self {
        Self { shares: FairSemaphore::with_share(total, total.div_ceil(2)), heavy: FairSemaphore::new(1) }
    }

    /// Returns the available part of the budget.
    #[cfg(test)]
    pub fn available(&self) -> u64 {
        self.shares.available()
    }

    /// Waits for the turn of an account, and until there is enough for a job of this cost.
    pub async fn acquire(&self, owner: JobOwner, cost: u64) -> EngineShare {
        let share = self.shares.acquire(owner, cost).await;
        // The turn of the heavy jobs is taken last: a heavy job that waits behind the small ones of its account must
        // not delay the heavy jobs of others.
        let heavy = if cost > self.shares.share() { Some(self.heavy.acquire(owner, 1).await) } else { None };
        EngineShare { _permit: share, _heavy_permit: heavy }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_jobs_of_one_account_leave_room_for_those_of_another() {
        let [ada, bob] = [1, 2].map(|user| Some(UserId(Uuid::from_u128(user))));
        let budget = EngineBudget::new(100);
        let try_acquire = |owner, cost| budget.acquire(owner, cost).now_or_never();

        // Given an account with the largest job of all
        let largest = try_acquire(ada, 1000);
        assert!(largest.is_some());

        // Then it gets no second job, another account gets small jobs, and large jobs run one at a time
        assert!(try_acquire(ada, 1).is_none());
        let small = try_acquire(bob, 50);
        assert!(small.is_some());
        drop(small);
        assert!(try_acquire(bob, 51).is_none());
        drop(largest);
        assert!(try_acquire(bob, 51).is_some());
    }

    #[test]
    fn a_large_job_behind_small_ones_of_its_account_does_not_delay_that_of_another() {
        // Given an account with small jobs, and a large job that waits for them
        let [ada, bob] = [1, 2].map(|user| Some(UserId(Uuid::from_u128(user))));
        let budget = EngineBudget::new(100);
        let small = budget.acquire(ada, 50).now_or_never();
        assert!(small.is_some());
        let mut large = Box::pin(budget.acquire(ada, 1000));
        assert!((&mut large).now_or_never().is_none());

        // When another account has a large job, then that job runs at once, and the waiting job after it
        let other = budget.acquire(bob, 1000).now_or_never();
        assert!(other.is_some());
        drop(small);
        assert!((&mut large).now_or_never().is_none());
        drop(other);
        assert!(large.now_or_never().is_some());
    }
}
