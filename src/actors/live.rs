//! Progress of running tasks, and the reasons why others are blocked.
//!
//! Progress changes too often for the log (DESIGN 3), so only the last report is kept, in memory. After a restart it is
//! unknown until the next attempt.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TaskId;
use crate::domain::task::Failure;
use crate::domain::value::Timestamp;
use crate::vendors::Progress;

/// Maximum number of tasks. The one that was reported least recently is evicted: ended tasks are no longer reported.
const KEPT_MAX: usize = 65_536;

/// Progress of a task at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The task is queued at this place, counted from 1.
    Waiting { place: u32 },
    /// The task is done to this many thousandths.
    Made { permille: u16 },
}

/// Reason why a task is blocked, shown to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hindrance {
    pub reason: Failure,
    /// `true` if the task counts as queued.
    pub queues: bool,
    /// Time at which the task was blocked first.
    pub at: Timestamp,
    /// Latest time of the next attempt.
    pub next_attempt_at: Timestamp,
}

impl Hindrance {
    /// All reason codes.
    pub const CODES: [&'static str; 11] = [
        "input_unavailable",
        "input_not_taken_in",
        "not_recorded",
        "vendor_unreachable",
        "vendor_busy",
        "vendor_unavailable",
        "vendor_unanswered",
        "vendor_paused",
        "result_unavailable",
        "result_unwritable",
        "result_invalid",
    ];
}

/// State of one task.
#[derive(Debug, Default)]
struct Kept {
    standing: Option<Standing>,
    hindrance: Option<Hindrance>,
    /// Position in the order of reports.
    turn: u64,
}

#[derive(Debug, Default)]
struct Known {
    tasks: HashMap<TaskId, Kept>,
    /// The same tasks, least recently reported first.
    turns: BTreeMap<u64, TaskId>,
    turn: u64,
}

impl Known {
    /// Returns the state of a task that is reported now.
    fn told(&mut self, task: TaskId) -> &mut Kept {
        self.turn += 1;
        if self.tasks.len() >= KEPT_MAX
            && !self.tasks.contains_key(&task)
            && let Some((_, oldest)) = self.turns.pop_first()
        {
            self.tasks.remove(&oldest);
        }
        let kept = self.tasks.entry(task).or_default();
        self.turns.remove(&kept.turn);
        self.turns.insert(self.turn, task);
        kept.turn = self.turn;
        kept
    }
}

/// Progress of unfinished tasks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<Known>>);

impl Live {
    /// Records the progress reported by a vendor. Progress never decreases, even if the vendor starts over.
    pub fn note(&self, task: TaskId, progress: &Progress) {
        let told = match progress {
            Progress::Queued { place: Some(place) } => Standing::Waiting { place: *place },
            Progress::Running { permille: Some(permille) } => Standing::Made { permille: *permille },
            _ => return,
        };

        let mut known = self.0.lock();
        let standing = &mut known.told(task).standing;

        *standing = Some(match (*standing, told) {
            (Some(Standing::Made { permille: before }), Standing::Made { permille }) => {
                Standing::Made { permille: permille.max(before) }
            }
            (Some(made @ Standing::Made { .. }), Standing::Waiting { .. }) => made,
            (None | Some(Standing::Waiting { .. }), told) => told,
        });
    }

    /// Marks the task as blocked.
    pub fn hinder(&self, task: TaskId, hindrance: Hindrance) {
        self.0.lock().told(task).hindrance = Some(hindrance);
    }

    /// Marks the task as unblocked.
    pub fn free(&self, task: TaskId) {
        if let Some(kept) = self.0.lock().tasks.get_mut(&task) {
            kept.hindrance = None;
        }
    }

    /// Returns the reason why a task is blocked, if it is.
    #[must_use]
    pub fn hindrance(&self, task: TaskId) -> Option<Hindrance> {
        self.0.lock().tasks.get(&task)?.hindrance.clone()
    }

    /// Returns how many thousandths of a task are done, if known.
    #[must_use]
    pub fn permille(&self, task: TaskId) -> Option<u16> {
        match self.standing(task) {
            Some(Standing::Made { permille }) => Some(permille),
            _ => None,
        }
    }

    /// Returns the task's place in the queue of its vendor, if known.
    #[must_use]
    pub fn place(&self, task: TaskId) -> Option<u32> {
        match self.standing(task) {
            Some(Standing::Waiting { place }) => Some(place),
            _ => None,
        }
    }

    fn standing(&self, task: TaskId) -> Option<Standing> {
        self.0.lock().tasks.get(&task)?.standing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn task(number: u128) -> TaskId {
        TaskId(Uuid::from_u128(number))
    }

    #[test]
    fn a_task_waits_and_then_only_goes_forward() {
        let live = Live::default();
        let waits = |place| live.note(task(1), &Progress::Queued { place });
        let made = |permille| live.note(task(1), &Progress::Running { permille });
        waits(None);
        assert_eq!((live.place(task(1)), live.permille(task(1))), (None, None));
        waits(Some(2));
        waits(Some(1));
        assert_eq!((live.place(task(1)), live.permille(task(1))), (Some(1), None));

        for (told, shown) in [(Some(10), 10), (Some(400), 400), (None, 400), (Some(20), 400)] {
            made(told);
            waits(Some(3));
            assert_eq!((live.place(task(1)), live.permille(task(1))), (None, Some(shown)));
        }

        assert_eq!(live.permille(task(2)), None);
    }

    #[test]
    fn what_hinders_a_task_is_known_until_it_goes_on_and_takes_nothing_of_its_progress() {
        let live = Live::default();
        let at = Timestamp::from_micros(1);
        let reason = Failure::new("vendor_busy", "no room");
        let hindrance = Hindrance { reason, queues: true, at, next_attempt_at: at };
        live.note(task(1), &Progress::Running { permille: Some(400) });
        live.hinder(task(1), hindrance.clone());
        assert_eq!((live.hindrance(task(1)), live.permille(task(1))), (Some(hindrance), Some(400)));
        live.free(task(1));
        live.free(task(2));
        assert_eq!((live.hindrance(task(1)), live.permille(task(1))), (None, Some(400)));
    }

    #[test]
    fn of_many_tasks_those_are_forgotten_of_which_nothing_was_told_for_longest() {
        // Given as many tasks as are kept, of which the first is reported once more
        let live = Live::default();
        let tell = |number: usize| live.note(task(number as u128), &Progress::Running { permille: Some(400) });
        (0..KEPT_MAX).for_each(tell);
        tell(0);
        // When one more task is reported
        tell(KEPT_MAX);
        // Then only the second one, reported least recently, is evicted
        let known = |number: usize| live.permille(task(number as u128)).is_some();
        let forgotten: Vec<_> = (0..=KEPT_MAX).filter(|number| !known(*number)).collect();
        assert_eq!(forgotten, [1]);
        assert_eq!(live.0.lock().turns.len(), KEPT_MAX);
    }
}
