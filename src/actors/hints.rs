//! Hints of vendors that a task has moved: each only has the task asked after sooner. Nothing that comes with one is believed.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::ids::TaskId;
use crate::vendors::hint::HintKey;

/// Hints that wait for the pollers; more are dropped, and those tasks are asked after in their turn.
const WAITING_MAX: usize = 65_536;

/// Takes hints and hands them to the pollers. Cheap to clone.
#[derive(Clone)]
pub struct Hints {
    key: HintKey,
    waiting: Arc<Mutex<HashSet<TaskId>>>,
    come: Arc<Notify>,
}

impl Hints {
    /// Hints whose tickets are made with `key`.
    #[must_use]
    pub fn new(key: HintKey) -> Self {
        Self { key, waiting: Arc::default(), come: Arc::default() }
    }

    /// Takes the hint of whoever knows this ticket; false when no task has it.
    #[must_use]
    pub fn take(&self, ticket: &str) -> bool {
        let Some(task) = self.key.read(ticket) else { return false };
        let mut waiting = self.waiting.lock();
        if waiting.len() < WAITING_MAX {
            waiting.insert(task);
        }
        drop(waiting);
        // Whoever does not wait now looks soon without being woken.
        self.come.notify_waiters();
        true
    }

    /// Of the tasks that were hinted at since the last call those that are the caller's.
    pub(super) fn drain(&self, is_own: impl Fn(&TaskId) -> bool) -> Vec<TaskId> {
        self.waiting.lock().extract_if(|task| is_own(task)).collect()
    }

    /// Ends when there was a hint.
    pub(super) async fn come(&self) {
        self.come.notified().await;
    }
}
