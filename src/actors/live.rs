//! How far tasks are that are being made, and what keeps those that cannot go on. This changes too often for the log (DESIGN 3), so
//! it is kept in memory alone, as it was told last: after a restart nothing is known until it is tried again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TaskId;
use crate::domain::task::Failure;
use crate::domain::value::Timestamp;
use crate::vendors::Progress;

/// Tasks of which something is kept. What was told longest ago goes first: of tasks that have ended nothing is told any more.
const KEPT_MAX: usize = 65_536;

/// What is known of a task at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits there, at this place, from 1.
    Waiting { place: u32 },
    /// So many thousandths of it are made.
    Made { permille: u16 },
}

/// What keeps a task from going on, for its owner to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hindrance {
    pub reason: Failure,
    /// Whether it still is one of those that wait for their turn.
    pub queues: bool,
    /// When it was met.
    pub at: Timestamp,
    /// When it is tried again, at the latest.
    pub next_attempt_at: Timestamp,
}

impl Hindrance {
    /// The codes of all reasons.
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

/// What is kept of a task.
#[derive(Debug, Default)]
struct Kept {
    standing: Option<Standing>,
    hindrance: Option<Hindrance>,
    /// Where it is in the order of telling.
    turn: u64,
}

#[derive(Debug, Default)]
struct Known {
    tasks: HashMap<TaskId, Kept>,
    /// The same tasks, what was told longest ago first.
    turns: BTreeMap<u64, TaskId>,
    turn: u64,
}

impl Known {
    /// What is kept of a task of which something is told now.
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

/// What is known of tasks that are not done yet. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<Known>>);

impl Live {
    /// What a vendor has told. What was made once does not become less, also where it is made anew.
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

    /// The task cannot go on for this.
    pub fn hinder(&self, task: TaskId, hindrance: Hindrance) {
        self.0.lock().told(task).hindrance = Some(hindrance);
    }

    /// The task has gone on.
    pub fn free(&self, task: TaskId) {
        if let Some(kept) = self.0.lock().tasks.get_mut(&task) {
            kept.hindrance = None;
        }
    }

    /// What keeps a task from going on, if anything does.
    #[must_use]
    pub fn hindrance(&self, task: TaskId) -> Option<Hindrance> {
        self.0.lock().tasks.get(&task)?.hindrance.clone()
    }

    /// How many thousandths of a task are made, if that is known.
    #[must_use]
    pub fn permille(&self, task: TaskId) -> Option<u16> {
        match self.standing(task) {
            Some(Standing::Made { permille }) => Some(permille),
            _ => None,
        }
    }

    /// At which place a task waits at its vendor, if that is known.
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
        let (live, at) = (Live::default(), Timestamp::from_micros(1));
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
        // Given as many as are kept, of which the first is told of once more
        let live = Live::default();
        let tell = |number: usize| live.note(task(number as u128), &Progress::Running { permille: Some(400) });
        (0..KEPT_MAX).for_each(tell);
        tell(0);
        // When one more comes
        tell(KEPT_MAX);
        // Then the second, which was told of longest ago, has left, and no other
        let known = |number: usize| live.permille(task(number as u128)).is_some();
        let forgotten: Vec<_> = (0..=KEPT_MAX).filter(|number| !known(*number)).collect();
        assert_eq!(forgotten, [1]);
        assert_eq!(live.0.lock().turns.len(), KEPT_MAX);
    }
}
