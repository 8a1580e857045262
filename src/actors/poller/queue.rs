//! Which tasks are worked on next: in the order of their ranks, while there are slots and hands. Most of a long queue rests, and
//! is passed by at the price of one look-up.

use std::collections::HashSet;

use super::options::PollerOptions;
use super::step::{SUBMIT_LANE, is_at_vendor, lane};
use crate::actors::reactor::Hands;
use crate::domain::ids::TaskId;
use crate::domain::value::Timestamp;
use crate::projections::task::{TaskEntry, Tasks};

/// What `hands` take of the tasks of a gateway.
pub(super) fn due(
    tasks: &Tasks,
    options: &PollerOptions,
    now: Timestamp,
    hands: &mut Hands<TaskId>,
) -> Vec<(TaskId, TaskEntry)> {
    let mut slots = Slots::left(tasks, options);
    // Off-peak tasks come last in the queue, but none waits there for ever.
    let has_waited = |id: &TaskId| tasks.get(*id).is_some_and(|entry| options.has_waited_off_peak(&entry.record, now));
    let first: Vec<TaskId> = tasks.off_peak(options.gateway).filter(has_waited).collect();
    let among_first: HashSet<TaskId> = first.iter().copied().collect();
    let others = tasks.queue(options.gateway).filter(|id| !among_first.contains(id));
    let mut due = Vec::new();
    for id in first.iter().copied().chain(others) {
        // One that waits for a slot keeps its place while it rests, so where slots are counted it is looked at.
        if slots.are_unbounded() && hands.are_off(&id) {
            continue;
        }
        let Some(entry) = tasks.get(id) else { continue };
        let lane = lane(&entry.record);
        let needs_slot = lane == SUBMIT_LANE && !is_at_vendor(&entry.record.stage);
        if (!needs_slot || slots.take()) && hands.take(&id, lane) {
            due.push((id, entry.clone()));
        }
    }
    due
}

/// How many more tasks the vendor may be given; `None`: that is not counted.
struct Slots(Option<usize>);

impl Slots {
    fn left(tasks: &Tasks, options: &PollerOptions) -> Self {
        let bound = Some(options.slots).filter(|slots| *slots < usize::MAX);
        Self(bound.map(|slots| {
            let unfinished = tasks.unfinished(options.gateway);
            slots.saturating_sub(unfinished.filter(|(_, entry)| is_at_vendor(&entry.record.stage)).count())
        }))
    }

    const fn are_unbounded(&self) -> bool {
        self.0.is_none()
    }

    fn take(&mut self) -> bool {
        let Some(left) = &mut self.0 else { return true };
        let is_free = *left > 0;
        *left = left.saturating_sub(1);
        is_free
    }
}
