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
    let mut slots = FreeVendorSlots::count_free(tasks, options);
    // Off-peak tasks come last. Those that have waited for long come before the other tasks of their account, and take
    // turns with the tasks of other accounts.
    let off_peak: Vec<TaskId> = tasks.off_peak_ids(options.gateway).collect();
    let has_waited = |id: &TaskId| tasks.get(*id).is_some_and(|entry| options.has_waited_off_peak(&entry.record, now));
    let (aged, last): (Vec<TaskId>, Vec<TaskId>) = off_peak.iter().partition(|id| has_waited(id));
    let off_peak: HashSet<TaskId> = off_peak.into_iter().collect();
    let usual = tasks.queued_ids(options.gateway).filter(|id| !off_peak.contains(id));
    let first = aged.into_iter().chain(usual).collect();

    let mut due = Vec::new();
    for class in [first, last] {
        // A paused task keeps its place in the queue for a slot, so paused tasks are skipped only if slots are
        // unlimited.
        let candidates = class.into_iter().filter(|id| !(slots.is_unlimited() && worker_slots.is_busy_or_paused(id)));
        let candidates = candidates.filter_map(|id| {
            let entry = tasks.get(id)?;
            Some(((lane(&entry.record), entry.record.submission.owner), (id, entry)))
        });
        for ((lane, account), (id, entry)) in turns.interleave(candidates) {
            let needs_slot = lane == SUBMIT_LANE && !is_at_vendor(&entry.record.stage);
            if (!needs_slot || slots.try_take()) && worker_slots.try_reserve(&id, lane) {
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
    fn count_free(tasks: &Tasks, options: &PollerOptions) -> Self {
        let bound = Some(options.slots).filter(|slots| *slots < usize::MAX);
        Self(bound.map(|slots| {
            let unfinished = tasks.unfinished(options.gateway);
            slots.saturating_sub(unfinished.filter(|(_, entry)| is_at_vendor(&entry.record.stage)).count())
        }))
    }

    const fn is_unlimited(&self) -> bool {
        self.0.is_none()
    }

    fn try_take(&mut self) -> bool {
        let Some(left) = &mut self.0 else { return true };
        let is_free = *left > 0;
        *left = left.saturating_sub(1);
        is_free
    }
}
