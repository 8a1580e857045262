//! How far tasks are that are being made. This changes too often for the log (DESIGN 3), so it is kept in memory alone, as the
//! vendors told it last: after a restart nothing is known until they are asked again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TaskId;
use crate::vendors::Progress;

/// Tasks of which something is kept; when there are more, all are asked after anew.
const KEPT_MAX: usize = 65_536;

/// What is known of a task at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits there, at this place, from 1.
    Waiting { place: u32 },
    /// So many thousandths of it are made.
    Made { permille: u16 },
}

/// What is known of tasks at their vendors. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<HashMap<TaskId, Standing>>>);

impl Live {
    /// What a vendor has told. What was made once does not become less, also where it is made anew.
    pub fn note(&self, task: TaskId, progress: &Progress) {
        let told = match progress {
            Progress::Queued { place: Some(place) } => Standing::Waiting { place: *place },
            Progress::Running { permille: Some(permille) } => Standing::Made { permille: *permille },
            _ => return,
        };
        let mut known = self.0.lock();
        // Tasks that have ended leave theirs behind, for they stay as far as they were: now and then all begin anew.
        if known.len() >= KEPT_MAX && !known.contains_key(&task) {
            known.clear();
        }
        let kept = known.entry(task).or_insert(told);
        *kept = match (*kept, told) {
            (Standing::Made { permille: before }, Standing::Made { permille }) => {
                Standing::Made { permille: permille.max(before) }
            }
            (made @ Standing::Made { .. }, Standing::Waiting { .. }) => made,
            (Standing::Waiting { .. }, told) => told,
        };
    }

    /// How many thousandths of a task are made, if that is known.
    #[must_use]
    pub fn permille(&self, task: TaskId) -> Option<u16> {
        match self.0.lock().get(&task) {
            Some(Standing::Made { permille }) => Some(*permille),
            _ => None,
        }
    }

    /// At which place a task waits at its vendor, if that is known.
    #[must_use]
    pub fn place(&self, task: TaskId) -> Option<u32> {
        match self.0.lock().get(&task) {
            Some(Standing::Waiting { place }) => Some(*place),
            _ => None,
        }
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
    fn of_many_tasks_a_bounded_number_is_kept() {
        let live = Live::default();
        for number in 0..=KEPT_MAX as u128 {
            live.note(task(number), &Progress::Running { permille: Some(1) });
        }
        assert_eq!(live.0.lock().len(), 1);
    }
}
