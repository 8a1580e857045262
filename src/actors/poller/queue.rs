//! Selection of the next tasks. Accounts take turns; the tasks of one account come in the order of their ranks, while
//! there are slots. Most tasks of a long queue are paused and cost one lookup each.

use std::collections::HashSet;

use super::options::PollerOptions;
use super::step::{SUBMIT_LANE, is_at_vendor, lane};
use crate::actors::reactor::WorkerSlots;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::value::Timestamp;
use crate::fairness::RoundRobinOrder;
use crate::projections::task::{TaskEntry, Tasks};

/// Turns of the accounts in each lane.
pub(super) type TaskTurns = RoundRobinOrder<(&'static str, Option<UserId>)>;

/// Returns the due tasks of a gateway that `worker_slots` accept.
pub(super) fn due(
    tasks: &Tasks,
    options: &PollerOptions,
    now: Timestamp,
    turns: &mut TaskTurns,
    worker_slots: &mut WorkerSlots<TaskId>,
) -> Vec<(TaskId, TaskEntry)> {
    let mut vendor_slots = FreeVendorSlots::count_free(tasks, options, worker_slots);

    // Off-peak tasks come last. Those that have waited for long come before the other tasks of their account, and take
    // turns with the tasks of other accounts.
    let off_peak: Vec<TaskId> = tasks.off_peak_ids(options.gateway).collect();
    let has_waited = |id: &TaskId| tasks.get(*id).is_some_and(|entry| options.has_waited_off_peak(&entry.record, now));
    let (long_waiting, remaining): (Vec<TaskId>, Vec<TaskId>) = off_peak.iter().partition(|id| has_waited(id));
    let off_peak: HashSet<TaskId> = off_peak.into_iter().collect();
    let regular = tasks.queued_ids(options.gateway).filter(|id| !off_peak.contains(id));
    let prioritized = long_waiting.into_iter().chain(regular).collect();

    let mut due = Vec::new();
    for group in [prioritized, remaining] {
        // A paused task keeps its position in the queue for a slot, so paused tasks are skipped only if slots are
        // unlimited.
        let is_skipped =
            |id: &TaskId| worker_slots.is_in_progress(id) || vendor_slots.is_unlimited() && worker_slots.is_paused(id);
        let candidates = group.into_iter().filter(|id| !is_skipped(id)).filter_map(|id| {
            let entry = tasks.get(id)?;
            Some(((lane(&entry.record), entry.record.submission.owner), (id, entry)))
        });

        for ((lane, account), (id, entry)) in turns.interleave(candidates) {
            let needs_slot = lane == SUBMIT_LANE && !is_at_vendor(&entry.record.stage);
            if (!needs_slot || vendor_slots.try_take()) && worker_slots.try_reserve(&id, lane) {
                turns.record_served((lane, account));
                due.push((id, entry.clone()));
            }
        }
    }
    due
}

/// Free slots of the vendor; `None` if they are unlimited.
struct FreeVendorSlots(Option<usize>);

impl FreeVendorSlots {
    fn count_free(tasks: &Tasks, options: &PollerOptions, worker_slots: &WorkerSlots<TaskId>) -> Self {
        let limit = Some(options.slots).filter(|slots| *slots < usize::MAX);

        // A submission uses its slot from its selection on, not only once its start is recorded: in between, the next
        // account would get the same slot.
        let uses_slot = |id: TaskId, entry: &TaskEntry| {
            let is_being_submitted = lane(&entry.record) == SUBMIT_LANE && worker_slots.is_in_progress(&id);
            is_at_vendor(&entry.record.stage) || is_being_submitted
        };

        Self(limit.map(|slots| {
            let unfinished = tasks.unfinished(options.gateway);
            slots.saturating_sub(unfinished.filter(|(id, entry)| uses_slot(*id, entry)).count())
        }))
    }

    const fn is_unlimited(&self) -> bool {
        self.0.is_none()
    }

    fn try_take(&mut self) -> bool {
        let Some(remaining) = &mut self.0 else { return true };
        let has_slot = *remaining > 0;
        *remaining = remaining.saturating_sub(1);
        has_slot
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::actors::reactor::ReactorOptions;
    use crate::domain::ids::EventId;
    use crate::domain::task::{Gateway, Submission, TaskEvent, TaskWork};
    use crate::domain::video::{GenerateJob, Seed, VideoJob, VideoWork};
    use crate::events::envelope::{Actor, RecordedEvent};
    use crate::events::stream::{Position, StreamId, Version};

    const ALICE: u128 = 1;
    const BOB: u128 = 2;

    /// Submits a video task, number `task` in order of submission, that waits for a slot.
    fn submit(tasks: &mut Tasks, task: u64, owner: u128) {
        let job = VideoJob::StartEnd(GenerateJob::default());
        let seed = Seed::from_random(1);
        let work = VideoWork { job, images: Vec::new(), seed, payload: None, meta_data: None, credits: 0 };
        let id = TaskId(Uuid::from_u128(task.into()));
        let owner = Some(UserId(Uuid::from_u128(owner)));
        let event =
            TaskEvent::TaskSubmitted(Submission { task: id, owner, work: TaskWork::Video(work), webhook: None });
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

    #[test]
    fn a_slot_is_given_once_until_the_start_of_the_submission_is_recorded() {
        // Given two accounts with a task each, one vendor slot, and many worker slots
        let mut tasks = Tasks::default();
        submit(&mut tasks, 1, ALICE);
        submit(&mut tasks, 2, BOB);
        let options = PollerOptions { slots: 1, ..PollerOptions::built_in(Gateway::Video, Duration::from_hours(1)) };
        let mut worker_slots = WorkerSlots::new(ReactorOptions { concurrency: 10, lane: 10 });
        let mut turns = TaskTurns::default();
        let mut select = || {
            let due = due(&tasks, &options, Timestamp::from_micros(0), &mut turns, &mut worker_slots);
            due.into_iter().map(|(id, _)| id.0.as_u128()).collect::<Vec<_>>()
        };

        // When the queue is searched twice before anything is recorded
        let first = select();
        let second = select();

        // Then only the task that was selected first uses the slot, although it is the other account's turn
        assert_eq!((first, second), (vec![1], Vec::new()));
    }
}
