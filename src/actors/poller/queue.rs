//! Selection of the next tasks and of the vendors for them, as long as there are slots. Accounts take turns; the tasks
//! of one account are selected in the order of their ranks. Most tasks of a long queue are paused and cost one lookup
//! each.

use std::collections::HashSet;

use super::options::PollerOptions;
use super::pool::{FreeVendorSlots, TaskHolder, VendorChoice, VendorObstacle, VendorPool};
use super::step::{INPUT_LANE, NO_VENDOR_LANE, SUBMIT_LANE, lane_kind};
use crate::actors::reactor::WorkerSlots;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{TaskRecord, TaskStage};
use crate::domain::value::Timestamp;
use crate::fairness::RoundRobinOrder;
use crate::projections::task::{TaskEntry, Tasks};

/// Turns of the accounts for each kind of step.
pub(super) type TaskTurns = RoundRobinOrder<(&'static str, Option<UserId>)>;

/// A task whose next step is due.
pub struct DueTask {
    pub(super) id: TaskId,
    pub(super) entry: TaskEntry,
    /// The vendor of the step: the one that has, or may have, the task, or the one chosen for it.
    pub(super) choice: DueVendor,
}

/// The vendor of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DueVendor {
    /// This member of the pool.
    Member(usize),
    /// A vendor that is no longer configured.
    Removed,
    /// The step needs none.
    NotNeeded,
    /// No vendor may be called for the task yet.
    Blocked(VendorObstacle),
    /// No vendor serves the task.
    Unserved,
}

/// Selection of tasks among those of a gateway.
pub(super) struct TaskQueue<'a> {
    pub(super) tasks: &'a Tasks,
    pub(super) pool: &'a VendorPool,
    pub(super) options: &'a PollerOptions,
    pub(super) now: Timestamp,
}

impl TaskQueue<'_> {
    /// Returns the due tasks that `worker_slots` accept. `random` decides among vendors of the same priority.
    pub(super) fn due(
        &self,
        turns: &mut TaskTurns,
        worker_slots: &mut WorkerSlots<TaskId>,
        random: impl Fn() -> f64,
    ) -> Vec<DueTask> {
        let Self { tasks, options, now, .. } = *self;
        let mut vendor_slots = self.count_free_slots(worker_slots);

        // Off-peak tasks come last. Those that have waited for long come before the other tasks of their account, and
        // take turns with the tasks of other accounts.
        let off_peak: Vec<TaskId> = tasks.off_peak_ids(options.gateway).collect();
        let is_long_waiting =
            |id: &TaskId| tasks.get(*id).is_some_and(|entry| options.is_long_waiting_off_peak(&entry.record, now));
        let (long_waiting, remaining): (Vec<TaskId>, Vec<TaskId>) = off_peak.iter().partition(|id| is_long_waiting(id));
        let off_peak: HashSet<TaskId> = off_peak.into_iter().collect();
        let regular = tasks.queued_ids(options.gateway).filter(|id| !off_peak.contains(id));
        let prioritized = long_waiting.into_iter().chain(regular).collect();

        let mut due = Vec::new();
        for group in [prioritized, remaining] {
            // A paused task keeps its position in the queue for a slot, so paused tasks are skipped only if slots are
            // unlimited.
            let is_skipped = |id: &TaskId| {
                !worker_slots.share().contains(id.0.as_u128())
                    || worker_slots.is_in_progress(id)
                    || vendor_slots.is_unlimited() && worker_slots.is_paused(id)
            };
            let candidates = group.into_iter().filter(|id| !is_skipped(id)).filter_map(|id| {
                let entry = tasks.get(id).filter(|entry| !options.may_be_submitting_elsewhere(&entry.record, now))?;
                Some(((lane_kind(&entry.record), entry.record.submission.owner), (id, entry)))
            });

            for ((kind, account), (id, entry)) in turns.interleave(candidates) {
                let Some(choice) = self.choose(kind, id, entry, worker_slots, &mut vendor_slots, &random) else {
                    continue;
                };
                if self.try_reserve(worker_slots, id, kind, &choice) {
                    turns.record_served((kind, account));
                    due.push(DueTask { id, entry: entry.clone(), choice });
                }
            }
        }
        due
    }

    /// Returns the vendor of the next step of a task and takes a slot of that vendor if the step needs one. `None` if
    /// the task waits for a slot, or keeps one until its pause ends.
    fn choose(
        &self,
        kind: &'static str,
        id: TaskId,
        entry: &TaskEntry,
        worker_slots: &WorkerSlots<TaskId>,
        vendor_slots: &mut FreeVendorSlots,
        random: &impl Fn() -> f64,
    ) -> Option<DueVendor> {
        let record = &entry.record;
        let holder = match self.pool.holder_of(record) {
            TaskHolder::Removed(_) => return Some(DueVendor::Removed),
            TaskHolder::Member(member) if record.stage.is_at_vendor() => return Some(DueVendor::Member(member)),
            TaskHolder::Member(member) => Some(member),
            TaskHolder::None => None,
        };
        if kind != SUBMIT_LANE || self.has_expired(record) {
            return Some(DueVendor::NotNeeded);
        }

        let choice = if worker_slots.is_paused(&id) {
            VendorChoice::AwaitSlot
        } else {
            self.pool.choose(id, holder, vendor_slots, random)
        };
        match choice {
            VendorChoice::Member(member) => {
                vendor_slots.take(member);
                Some(DueVendor::Member(member))
            }
            VendorChoice::AwaitSlot => {
                if worker_slots.is_paused(&id) {
                    self.keep_slot(id, holder, vendor_slots);
                }
                None
            }
            VendorChoice::Blocked(obstacle) => {
                self.keep_slot(id, holder, vendor_slots);
                Some(DueVendor::Blocked(obstacle))
            }
            VendorChoice::Unserved => Some(DueVendor::Unserved),
        }
    }

    /// Keeps a slot for a task that cannot use it yet, so that no later task overtakes it.
    fn keep_slot(&self, id: TaskId, holder: Option<usize>, vendor_slots: &mut FreeVendorSlots) {
        if let Some(member) = self.pool.reserved_member(id, holder, vendor_slots) {
            vendor_slots.take_slot(member);
        }
    }

    fn has_expired(&self, record: &TaskRecord) -> bool {
        matches!(record.stage, TaskStage::Waiting { .. })
            && self.now.since(record.created_at) >= self.options.deadline_of(record)
    }

    /// Reserves a worker slot. Each vendor has lanes of its own, so that a slow one does not delay the others.
    fn try_reserve(
        &self,
        worker_slots: &mut WorkerSlots<TaskId>,
        id: TaskId,
        kind: &'static str,
        choice: &DueVendor,
    ) -> bool {
        match choice {
            DueVendor::Member(member) => {
                let member = &self.pool.members()[*member];
                let lane = if kind == SUBMIT_LANE { &member.submit_lane } else { &member.poll_lane };
                worker_slots.try_reserve_within(&id, lane, member.options.concurrency)
            }
            DueVendor::NotNeeded if kind == INPUT_LANE => worker_slots.try_reserve(&id, INPUT_LANE),
            DueVendor::NotNeeded | DueVendor::Removed | DueVendor::Blocked(_) | DueVendor::Unserved => {
                worker_slots.try_reserve(&id, NO_VENDOR_LANE)
            }
        }
    }

    /// Counts the free capacity of the vendors. A submission uses its slot from its selection on, not only once its
    /// start is recorded; otherwise the next account would get the same slot in between.
    fn count_free_slots(&self, worker_slots: &WorkerSlots<TaskId>) -> FreeVendorSlots {
        let members = self.pool.members();
        let slots = members.iter().map(|member| member.options.slots).collect();
        let submissions = members
            .iter()
            .map(|member| worker_slots.free_within(&member.submit_lane, member.options.concurrency))
            .collect();
        let mut free = FreeVendorSlots { slots, submissions };
        if free.is_unlimited() {
            return free;
        }

        for (id, entry) in self.tasks.unfinished(self.options.gateway) {
            if entry.record.stage.is_at_vendor() {
                if let TaskHolder::Member(member) = self.pool.holder_of(&entry.record) {
                    free.take_slot(member);
                }
            } else if let Some(lane) = worker_slots.lane_of(&id)
                && let Some(member) = members.iter().position(|member| member.submit_lane == lane)
            {
                free.take_slot(member);
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::actors::poller::pool::tests::{pool, pool_vendor};
    use crate::actors::reactor::ReactorOptions;
    use crate::domain::ids::EventId;
    use crate::domain::task::{Gateway, Submission, TaskEvent, TaskWork};
    use crate::domain::video::{GenerateJob, Seed, VideoJob, VideoWork};
    use crate::events::envelope::{Actor, RecordedEvent};
    use crate::events::stream::{Position, StreamId, Version};
    use crate::vendors::{VendorError, VendorErrorKind};

    const ALICE: u128 = 1;
    const BOB: u128 = 2;

    /// Submits a video task, number `task` in order of submission, that waits for a slot.
    fn submit(tasks: &mut Tasks, task: u64, owner: u128) {
        let job = VideoJob::StartEnd(GenerateJob::default());
        let seed = Seed::from_random(1);
        let work = VideoWork { job, images: Vec::new(), seed, payload: None, meta_data: None, credits: 0 };
        let id = TaskId(Uuid::from_u128(task.into()));
        let owner = Some(UserId(Uuid::from_u128(owner)));
        let event = TaskEvent::TaskSubmitted(Submission {
            task: id,
            owner,
            work: TaskWork::Video(work),
            webhook: None,
            payers: None,
        });
        let recorded = RecordedEvent {
            position: Position(task),
            stream: StreamId::from(&id),
            version: Version(1),
            id: EventId(Uuid::from_u128(task.into())),
            at: Timestamp::from_micros(0),
            actor: Actor::System,
            request: None,
            causation: None,
            event: event.clone().into(),
        };
        tasks.apply(id, &event, &recorded);
    }

    /// Selects tasks again and again before anything is recorded; returns the numbers of the tasks of each round with
    /// the vendors chosen for them.
    fn select(tasks: &Tasks, pool: &VendorPool, rounds: usize) -> Vec<Vec<(u128, usize)>> {
        let options = PollerOptions::new(Gateway::Video, Duration::from_hours(1));
        let mut worker_slots = WorkerSlots::new(ReactorOptions { concurrency: 10, lane: 10 });
        let mut turns = TaskTurns::default();
        let queue = TaskQueue { tasks, pool, options: &options, now: Timestamp::from_micros(0) };
        let mut round = || {
            let due = queue.due(&mut turns, &mut worker_slots, || 0.0).into_iter();
            due.map(|DueTask { id, choice, .. }| match choice {
                DueVendor::Member(member) => (id.0.as_u128(), member),
                other => panic!("{other:?}"),
            })
            .collect()
        };
        (0..rounds).map(|_| round()).collect()
    }

    #[test]
    fn a_slot_is_given_once_until_the_start_of_the_submission_is_recorded() {
        // Given two accounts with a task each, one vendor slot, and many worker slots
        let mut tasks = Tasks::default();
        submit(&mut tasks, 1, ALICE);
        submit(&mut tasks, 2, BOB);
        let pool = pool(vec![pool_vendor("a", 0, 1, Some(1))]);

        // When the queue is searched twice before anything is recorded
        let selected = select(&tasks, &pool, 2);

        // Then only the task that was selected first uses the slot, although it is the other account's turn
        assert_eq!(selected, [vec![(1, 0)], Vec::new()]);
    }

    #[test]
    fn tasks_share_the_slots_of_several_vendors() {
        let mut tasks = Tasks::default();
        (1..=5).for_each(|task| submit(&mut tasks, task, ALICE));
        let pool = pool(vec![pool_vendor("a", 0, 1, Some(1)), pool_vendor("b", 1, 1, Some(2))]);
        assert_eq!(select(&tasks, &pool, 2), [vec![(1, 0), (2, 1), (3, 1)], Vec::new()]);
    }

    #[test]
    fn tasks_go_to_the_next_vendor_while_all_submissions_of_the_first_are_in_progress() {
        // Given a vendor that is called for one task at a time, without a limit of slots, and another one
        let mut tasks = Tasks::default();
        (1..=3).for_each(|task| submit(&mut tasks, task, ALICE));
        let mut first = pool_vendor("a", 0, 1, None);
        first.options.concurrency = 1;
        let pool = pool(vec![first, pool_vendor("b", 1, 1, None)]);

        // Then the other one gets the tasks that the first one cannot be sent now, at once
        assert_eq!(select(&tasks, &pool, 2), [vec![(1, 0), (2, 1), (3, 1)], Vec::new()]);
    }

    #[test]
    fn a_blocked_task_keeps_its_slot() {
        // Given one slot, and two tasks of which the vendor refused the first
        let mut tasks = Tasks::default();
        submit(&mut tasks, 1, ALICE);
        submit(&mut tasks, 2, ALICE);
        let pool = pool(vec![pool_vendor("a", 0, 1, Some(1))]);
        let busy = VendorError::new(VendorErrorKind::Busy, "m");
        pool.members()[0].record_refusal(TaskId(Uuid::from_u128(1)), &busy);
        let options = PollerOptions::new(Gateway::Video, Duration::from_hours(1));
        let mut worker_slots = WorkerSlots::new(ReactorOptions { concurrency: 10, lane: 10 });
        let queue = TaskQueue { tasks: &tasks, pool: &pool, options: &options, now: Timestamp::from_micros(0) };

        // When the queue is searched
        let due = queue.due(&mut TaskTurns::default(), &mut worker_slots, || 0.0);

        // Then the first task shows why it waits, and the second does not overtake it
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].id.0.as_u128(), 1);
        assert!(matches!(due[0].choice, DueVendor::Blocked(_)));
    }
}
