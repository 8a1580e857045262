//! The vendors of one gateway, and the choice among them (ADR 31). Pure except for the counters of refusals: callers
//! pass the free slots and a random number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select_all};
use parking_lot::Mutex;

use super::blocked::BlockedReason;
use super::options::PoolVendorOptions;
use super::step::{NO_VENDOR_LANE, POLL_LANE, SUBMIT_LANE};
use super::vendor_guard::{VendorDescription, VendorGuard};
use crate::domain::ids::TaskId;
use crate::domain::task::{Gateway, JobFilter, RecordedVendor, TaskRecord, TaskWork};
use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::vendors::{Vendor, VendorError, VendorErrorKind};

/// Maximum number of tasks whose refusals a vendor remembers, and of tasks that it is known not to serve.
const REMEMBERED_TASKS_MAX: usize = 65_536;

/// A vendor as configured.
#[derive(Clone)]
pub struct PoolVendor {
    pub vendor: Arc<dyn Vendor>,
    /// Recorded with each submission.
    pub identity: RecordedVendor,
    /// Jobs that the vendor takes.
    pub jobs: JobFilter,
    /// Vendors with the lowest number are called first.
    pub priority: i32,
    /// Share among vendors with the same priority.
    pub weight: u32,
    pub options: PoolVendorOptions,
}

impl PoolVendor {
    /// Returns a vendor that takes all jobs that it serves.
    #[must_use]
    pub fn new(vendor: Arc<dyn Vendor>, identity: RecordedVendor, options: PoolVendorOptions) -> Self {
        Self { vendor, identity, jobs: JobFilter::default(), priority: 0, weight: 1, options }
    }
}

/// Refusals of one task by one vendor that did not take it.
#[derive(Debug, Clone, Copy)]
struct TaskRefusal {
    count: u32,
    kind: VendorErrorKind,
    /// The vendor is not called for this task before this time.
    until: Timestamp,
}

/// A vendor of a pool, with its guard.
pub(super) struct PoolMember {
    pub(super) vendor: Arc<dyn Vendor>,
    pub(super) identity: RecordedVendor,
    jobs: JobFilter,
    priority: i32,
    weight: u32,
    pub(super) options: PoolVendorOptions,
    pub(super) guard: VendorGuard,
    environment: Environment,
    pub(super) submit_lane: String,
    pub(super) poll_lane: String,
    refusals: Mutex<HashMap<TaskId, TaskRefusal>>,
    /// Tasks that the vendor does not serve.
    unserved: Mutex<HashSet<TaskId>>,
}

impl PoolMember {
    fn new(gateway: Gateway, configured: PoolVendor, environment: &Environment) -> Self {
        let PoolVendor { vendor, identity, jobs, priority, weight, options } = configured;
        let description = VendorDescription {
            name: identity.name.as_str().into(),
            profile: identity.profile.as_str().into(),
            gateway,
            slots: options.slots,
        };
        let submit_lane = format!("{SUBMIT_LANE} to {}", identity.name);
        let poll_lane = format!("{POLL_LANE} of {}", identity.name);

        Self {
            guard: VendorGuard::new(description, options.breaker, options.retry, environment.clone()),
            vendor,
            identity,
            jobs,
            priority,
            weight,
            options,
            submit_lane,
            poll_lane,
            environment: environment.clone(),
            refusals: Mutex::default(),
            unserved: Mutex::default(),
        }
    }

    /// Returns `true` if the vendor takes and serves this job. Renders the request of the vendor, so it is not called
    /// while the read models are locked.
    pub(super) fn accepts(&self, work: &TaskWork) -> bool {
        self.jobs.takes(work) && self.vendor.serves(work)
    }

    /// Remembers that the vendor does not serve a task.
    pub(super) fn mark_unserved(&self, task: TaskId) {
        let mut unserved = self.unserved.lock();
        // Tasks that are forgotten here are checked again.
        if unserved.len() >= REMEMBERED_TASKS_MAX {
            unserved.clear();
        }
        unserved.insert(task);
    }

    /// Counts a submission that the vendor did not take, and excludes it for this task for the pause that is returned.
    pub(super) fn record_refusal(&self, task: TaskId, error: &VendorError) -> Duration {
        let now = self.environment.now();
        let mut refusals = self.refusals.lock();

        // Tasks that were cancelled while they waited leave their refusals behind.
        if refusals.len() >= REMEMBERED_TASKS_MAX {
            refusals.retain(|_, refusal| refusal.until > now);
            if refusals.len() >= REMEMBERED_TASKS_MAX {
                refusals.clear();
            }
        }

        let count = refusals.get(&task).map_or(1, |refusal| refusal.count.saturating_add(1));
        let delay = self.guard.retry_delay(error, count);
        refusals.insert(task, TaskRefusal { count, kind: error.kind, until: now.saturating_add(delay) });
        delay
    }

    /// Forgets the refusals of a task that a vendor took, or that has ended.
    fn forget(&self, task: TaskId) {
        self.refusals.lock().remove(&task);
        self.unserved.lock().remove(&task);
    }

    /// Ends the exclusions, because their reason may be gone; the counts remain.
    fn end_exclusions(&self) {
        let now = self.environment.now();
        for refusal in self.refusals.lock().values_mut() {
            refusal.until = now;
        }
    }

    fn is_unserved(&self, task: TaskId) -> bool {
        self.unserved.lock().contains(&task)
    }

    /// Returns the time for which the vendor may not be called for a task, with the reason; `None` if it may be called.
    fn find_obstacle(&self, task: TaskId) -> Option<VendorObstacle> {
        let refusal = self.refusals.lock().get(&task).copied();
        let remaining = refusal.map(|refusal| refusal.until.since(self.environment.now()));
        let excluded = refusal.zip(remaining).filter(|(_, remaining)| !remaining.is_zero());

        match (self.guard.time_until_admission(), excluded) {
            (Some(wait), None) => {
                Some(VendorObstacle { reason: BlockedReason::CircuitOpen, delay: self.guard.admission_delay(wait) })
            }
            (wait, Some((refusal, remaining))) => Some(VendorObstacle {
                reason: BlockedReason::VendorError(refusal.kind),
                delay: wait.map_or(remaining, |wait| remaining.max(wait)),
            }),
            (None, None) => None,
        }
    }

    /// Waits until the vendor has progressed or its circuit has closed, then ends the exclusions of tasks. Returns the
    /// lanes whose pauses end.
    async fn wait_for_change(&self) -> Vec<String> {
        let progressed = self.vendor.progress_notify();
        tokio::select! {
            () = progressed.notified() => {}
            () = self.guard.wait_until_closed() => {}
        }
        self.end_exclusions();
        vec![self.submit_lane.clone(), self.poll_lane.clone(), NO_VENDOR_LANE.to_owned()]
    }
}

/// Reason why a vendor may not be called for a task now, and the time for which it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VendorObstacle {
    pub(super) reason: BlockedReason,
    pub(super) delay: Duration,
}

/// The vendor that has, or may have, a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskHolder<'r> {
    /// No vendor can have it.
    None,
    /// This member of the pool.
    Member(usize),
    /// A vendor that is no longer configured.
    Removed(&'r RecordedVendor),
}

/// The choice for a task that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VendorChoice {
    /// This member of the pool gets the task.
    Member(usize),
    /// A vendor would take the task, but all its slots, or all its concurrent submissions, are in use.
    AwaitSlot,
    /// No vendor may be called for the task yet.
    Blocked(VendorObstacle),
    /// No vendor serves the task.
    Unserved,
}

/// Free capacity of each vendor for submissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FreeVendorSlots {
    /// Free slots; `None` if they are unlimited.
    pub(super) slots: Vec<Option<usize>>,
    /// Number of submissions that may be added to those in progress.
    pub(super) submissions: Vec<usize>,
}

impl FreeVendorSlots {
    /// Returns `true` if no vendor has a limit of slots.
    pub(super) fn is_unlimited(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    fn has_slot(&self, member: usize) -> bool {
        self.slots.get(member).is_some_and(|free| free.is_none_or(|free| free > 0))
    }

    /// Returns `true` if a member can be sent a task now.
    fn has_capacity(&self, member: usize) -> bool {
        self.has_slot(member) && self.submissions.get(member).is_some_and(|free| *free > 0)
    }

    fn has_any(&self) -> bool {
        (0..self.slots.len()).any(|member| self.has_capacity(member))
    }

    /// Takes a slot and a concurrent submission of a member.
    pub(super) fn take(&mut self, member: usize) {
        self.take_slot(member);
        if let Some(free) = self.submissions.get_mut(member) {
            *free = free.saturating_sub(1);
        }
    }

    /// Takes a slot of a member, for a task that is not being submitted.
    pub(super) fn take_slot(&mut self, member: usize) {
        if let Some(Some(free)) = self.slots.get_mut(member) {
            *free = free.saturating_sub(1);
        }
    }
}

/// Vendors of one gateway. Cheap to clone.
#[derive(Clone)]
pub(super) struct VendorPool(Arc<Vec<PoolMember>>);

impl VendorPool {
    pub(super) fn new(gateway: Gateway, vendors: Vec<PoolVendor>, environment: &Environment) -> Self {
        let members = vendors.into_iter().map(|vendor| PoolMember::new(gateway, vendor, environment));
        Self(Arc::new(members.collect()))
    }

    pub(super) fn members(&self) -> &[PoolMember] {
        &self.0
    }

    /// Forgets the refusals of a task that a vendor took, or that has ended.
    pub(super) fn forget(&self, task: TaskId) {
        self.0.iter().for_each(|member| member.forget(task));
    }

    /// Returns the vendor that has, or may have, a task. Tasks of logs without recorded vendors are at the first one.
    pub(super) fn holder_of<'r>(&self, record: &'r TaskRecord) -> TaskHolder<'r> {
        let Some(vendor) = &record.vendor else { return TaskHolder::None };
        let Some(recorded) = &vendor.recorded else { return TaskHolder::Member(0) };
        let member = self.0.iter().position(|member| member.identity.is_same_vendor(recorded));
        member.map_or(TaskHolder::Removed(recorded), TaskHolder::Member)
    }

    /// Chooses a vendor for a waiting task: of the vendors that have free capacity and may be called, the one with the
    /// lowest priority number. `random` decides among vendors of the same priority, by weight. If `holder` may have the
    /// task, only that vendor is considered.
    pub(super) fn choose(
        &self,
        task: TaskId,
        holder: Option<usize>,
        free: &FreeVendorSlots,
        random: impl FnOnce() -> f64,
    ) -> VendorChoice {
        // The cheapest check first: most tasks of a long queue wait for a slot.
        if !free.has_any() {
            return VendorChoice::AwaitSlot;
        }

        let candidates = self.candidates(task, holder);
        if candidates.is_empty() {
            return VendorChoice::Unserved;
        }

        let mut shortest_obstacle: Option<VendorObstacle> = None;
        let mut callable = Vec::new();
        for index in candidates {
            match self.0[index].find_obstacle(task) {
                None => callable.push(index),
                Some(obstacle) if shortest_obstacle.as_ref().is_none_or(|shortest| obstacle.delay < shortest.delay) => {
                    shortest_obstacle = Some(obstacle);
                }
                Some(_) => {}
            }
        }
        if let Some(obstacle) = shortest_obstacle.filter(|_| callable.is_empty()) {
            return VendorChoice::Blocked(obstacle);
        }

        callable.retain(|index| free.has_capacity(*index));
        let first_priority = callable.iter().map(|index| self.0[*index].priority).min();
        callable.retain(|index| Some(self.0[*index].priority) == first_priority);
        match callable[..] {
            [] => VendorChoice::AwaitSlot,
            [only] => VendorChoice::Member(only),
            _ => {
                let weights: Vec<u32> = callable.iter().map(|index| self.0[*index].weight).collect();
                VendorChoice::Member(callable[pick_by_weight(&weights, random())])
            }
        }
    }

    /// Returns the member whose slot a paused task keeps: the first one by priority with a free slot.
    pub(super) fn reserved_member(&self, task: TaskId, holder: Option<usize>, free: &FreeVendorSlots) -> Option<usize> {
        let with_slot = self.candidates(task, holder).into_iter().filter(|index| free.has_slot(*index));
        with_slot.min_by_key(|index| self.0[*index].priority)
    }

    /// Waits until a vendor has progressed or its circuit has closed, then ends its exclusions of tasks. Returns the
    /// lanes whose pauses end.
    pub(super) async fn wait_for_change(&self) -> Vec<String> {
        let changes: Vec<BoxFuture<'_, Vec<String>>> =
            self.0.iter().map(|member| member.wait_for_change().boxed()).collect();
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await.0
    }

    fn candidates(&self, task: TaskId, holder: Option<usize>) -> Vec<usize> {
        match holder {
            Some(holder) => vec![holder],
            None => (0..self.0.len()).filter(|index| !self.0[*index].is_unserved(task)).collect(),
        }
    }
}

/// Returns the index that `random`, from 0 to 1, selects among items with these weights; 0 for no items. A weight of 0
/// counts as 1.
pub(in crate::actors) fn pick_by_weight(weights: &[u32], random: f64) -> usize {
    let weight = |weight: &u32| f64::from((*weight).max(1));
    let mut target = random.clamp(0.0, 1.0) * weights.iter().map(weight).sum::<f64>();
    let picked = weights.iter().position(|item| {
        target -= weight(item);
        target < 0.0
    });
    picked.unwrap_or(weights.len().saturating_sub(1))
}

#[cfg(test)]
pub(super) mod tests {
    use futures_util::future::BoxFuture;
    use tokio::sync::Notify;
    use uuid::Uuid;

    use super::*;
    use crate::actors::poller::breaker::BreakerOptions;
    use crate::domain::task::{VendorPrice, VendorReference};
    use crate::domain::value::Text;
    use crate::vendors::{JobProgress, SubmissionCall, SubmissionRecovery, VendorJob};

    const TASK: TaskId = TaskId(Uuid::from_u128(7));

    /// Vendor that is never called.
    #[derive(Default)]
    struct UncalledVendor {
        progress: Arc<Notify>,
    }

    impl Vendor for UncalledVendor {
        fn name(&self) -> &'static str {
            "uncalled"
        }

        fn recovery(&self) -> SubmissionRecovery {
            SubmissionRecovery::Nothing
        }

        fn prepare(&self, _: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>> {
            std::future::pending().boxed()
        }

        fn poll(&self, _: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
            std::future::pending().boxed()
        }

        fn progress_notify(&self) -> Arc<Notify> {
            Arc::clone(&self.progress)
        }
    }

    /// Returns a vendor that is never called. Its circuit opens for a minute after one failure.
    pub fn pool_vendor(name: &str, priority: i32, weight: u32, slots: Option<usize>) -> PoolVendor {
        let identity = RecordedVendor {
            name: Text::from_recorded(name.to_owned()),
            profile: Text::from_recorded("mediary".to_owned()),
            profile_hash: None,
            price: VendorPrice::default(),
        };
        let pause = Duration::from_mins(1);
        let breaker = Some(BreakerOptions { failures: 1, pause, pause_max: pause });
        let options = PoolVendorOptions { slots, breaker, ..PoolVendorOptions::built_in() };
        PoolVendor { priority, weight, ..PoolVendor::new(Arc::new(UncalledVendor::default()), identity, options) }
    }

    pub fn pool(vendors: Vec<PoolVendor>) -> VendorPool {
        VendorPool::new(Gateway::Image, vendors, &Environment::system())
    }

    fn busy_for(seconds: u64) -> VendorError {
        VendorError {
            kind: VendorErrorKind::Busy,
            message: "m".to_owned(),
            retry_after: Some(Duration::from_secs(seconds)),
        }
    }

    /// Chooses a vendor for [`TASK`]; `free` has the free slots of each vendor, `None` for an unlimited one.
    fn choose(pool: &VendorPool, free: &[Option<usize>]) -> VendorChoice {
        pool.choose(TASK, None, &free_slots(free), || 0.0)
    }

    /// Returns free slots of vendors that can be sent many tasks at a time.
    fn free_slots(slots: &[Option<usize>]) -> FreeVendorSlots {
        FreeVendorSlots { slots: slots.to_vec(), submissions: vec![100; slots.len()] }
    }

    #[tokio::test]
    async fn progress_of_a_vendor_ends_the_pauses_of_tasks_that_no_vendor_may_be_called_for() {
        // Given a task that waits because its only vendor refused it
        let pool = pool(vec![pool_vendor("a", 0, 1, None)]);
        pool.members()[0].record_refusal(TASK, &busy_for(60));
        assert!(matches!(choose(&pool, &[None]), VendorChoice::Blocked(_)));

        // When the vendor has progressed
        pool.members()[0].vendor.progress_notify().notify_one();
        let resumed = pool.wait_for_change().await;

        // Then the pause of the task ends too, and the vendor may be called for it
        assert!(resumed.iter().any(|lane| lane == NO_VENDOR_LANE), "{resumed:?}");
        assert_eq!(choose(&pool, &[None]), VendorChoice::Member(0));
    }

    #[test]
    fn the_lowest_priority_with_a_free_slot_gets_the_task() {
        let pool = pool(vec![pool_vendor("second", 5, 1, None), pool_vendor("first", -1, 1, Some(1))]);
        assert_eq!(choose(&pool, &[None, Some(1)]), VendorChoice::Member(1));
        assert_eq!(choose(&pool, &[None, Some(0)]), VendorChoice::Member(0));
        assert_eq!(choose(&pool, &[Some(0), Some(0)]), VendorChoice::AwaitSlot);
    }

    #[test]
    fn vendors_of_one_priority_share_by_weight() {
        let vendors = vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 0, 3, None), pool_vendor("c", 1, 9, None)];
        let pool = pool(vendors);
        let free = free_slots(&[None; 3]);
        let chosen = |random| match pool.choose(TASK, None, &free, || random) {
            VendorChoice::Member(member) => member,
            other => panic!("{other:?}"),
        };
        assert_eq!([0.0, 0.24, 0.26, 0.99, 1.0].map(chosen), [0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_task_that_a_vendor_may_have_goes_to_no_other_one() {
        let pool = pool(vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 1, 1, None)]);
        let free = free_slots(&[None; 2]);
        let chosen = || pool.choose(TASK, Some(1), &free, || 0.0);
        assert_eq!(chosen(), VendorChoice::Member(1));
        pool.members()[1].record_refusal(TASK, &busy_for(60));
        assert!(matches!(chosen(), VendorChoice::Blocked(_)));
    }

    #[test]
    fn a_vendor_that_refused_a_task_is_excluded_for_this_task() {
        // Given two vendors, of which the first is busy for a minute, and the second for 50 minutes
        let pool = pool(vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 1, 1, None)]);
        pool.members()[0].record_refusal(TASK, &busy_for(60));
        assert_eq!(choose(&pool, &[None, None]), VendorChoice::Member(1));
        pool.members()[1].record_refusal(TASK, &busy_for(3_000));

        // Then the task waits for the first one, and says why
        let VendorChoice::Blocked(VendorObstacle { reason, delay: wait }) = choose(&pool, &[None, None]) else {
            panic!("both are excluded")
        };
        assert_eq!(reason, BlockedReason::VendorError(VendorErrorKind::Busy));
        assert!(wait <= Duration::from_secs(66) && wait > Duration::from_secs(50), "{wait:?}");

        // And another task is not affected
        let other = TaskId(Uuid::from_u128(8));
        let chosen = pool.choose(other, None, &free_slots(&[None; 2]), || 0.0);
        assert_eq!(chosen, VendorChoice::Member(0));

        // And an exclusion ends when its reason may be gone
        pool.members()[0].end_exclusions();
        assert_eq!(choose(&pool, &[None, None]), VendorChoice::Member(0));
    }

    #[test]
    fn an_open_circuit_is_passed_over_and_blocks_if_it_is_the_only_vendor() {
        let failure = VendorError::new(VendorErrorKind::Unreached, "m");
        let both = pool(vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 1, 1, None)]);
        both.members()[0].guard.record_failure(&failure);
        assert_eq!(choose(&both, &[None, None]), VendorChoice::Member(1));

        let alone = pool(vec![pool_vendor("a", 0, 1, None)]);
        alone.members()[0].guard.record_failure(&failure);
        let VendorChoice::Blocked(obstacle) = choose(&alone, &[None]) else { panic!("the circuit is open") };
        assert_eq!(obstacle.reason, BlockedReason::CircuitOpen);
    }

    #[test]
    fn a_task_that_no_vendor_serves_is_unserved() {
        let pool = pool(vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 1, 1, Some(1))]);
        pool.members()[0].mark_unserved(TASK);
        assert_eq!(choose(&pool, &[None, Some(1)]), VendorChoice::Member(1));
        assert_eq!(choose(&pool, &[None, Some(0)]), VendorChoice::AwaitSlot);
        pool.members()[1].mark_unserved(TASK);
        assert_eq!(choose(&pool, &[None, Some(1)]), VendorChoice::Unserved);
    }

    #[test]
    fn pauses_grow_with_the_refusals_of_one_vendor() {
        let pool = pool(vec![pool_vendor("a", 0, 1, None), pool_vendor("b", 0, 1, None)]);
        let failure = VendorError::new(VendorErrorKind::Unreached, "m");
        let delays: Vec<_> = (0..8).map(|_| pool.members()[0].record_refusal(TASK, &failure)).collect();
        assert!(delays[7] > delays[0] * 8, "{delays:?}");
        assert!(pool.members()[1].record_refusal(TASK, &failure) <= pool.members()[1].options.retry.min);
        pool.forget(TASK);
        assert!(pool.members()[0].record_refusal(TASK, &failure) <= pool.members()[0].options.retry.min);
    }
}
