//! The guard of a vendor: its circuit breaker, and the pauses of tasks that cannot proceed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::breaker::{Admission, Breaker, BreakerOptions, Circuit};
use super::pace::{Pauses, at_least};
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::vendors::{ErrorKind, VendorError};

/// Longest pause that a vendor may ask for.
const ASKED_PAUSE_MAX: Duration = Duration::from_hours(1);

/// Maximum number of tasks whose failures are counted.
const COUNTED_MAX: usize = 65_536;

/// Observable state of a vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorState {
    pub name: &'static str,
    breaker: Option<Arc<Mutex<Breaker>>>,
    surroundings: Surroundings,
}

impl VendorState {
    /// Returns the state of the circuit breaker; always closed if there is none.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.breaker.as_ref().map_or(Circuit::Closed, |breaker| breaker.lock().circuit(self.surroundings.now()))
    }
}

/// Guard of one vendor. Cheap to clone.
#[derive(Clone)]
pub(in crate::actors) struct Gate {
    state: VendorState,
    retry: Pauses,
    surroundings: Surroundings,
    /// Notified when the breaker closes, so that waiting tasks proceed.
    closed: Arc<Notify>,
    /// Consecutive failed polls per task.
    failures: Arc<Mutex<HashMap<TaskId, u32>>>,
}

impl Gate {
    /// Returns a guard. Without breaker options, every call is admitted.
    pub(in crate::actors) fn new(
        name: &'static str,
        breaker: Option<BreakerOptions>,
        retry: Pauses,
        surroundings: Surroundings,
    ) -> Self {
        let breaker = breaker.map(|options| Arc::new(Mutex::new(Breaker::new(options))));
        let state = VendorState { name, breaker, surroundings: surroundings.clone() };
        Self { state, retry, surroundings, closed: Arc::default(), failures: Arc::default() }
    }

    pub(in crate::actors) fn state(&self) -> VendorState {
        self.state.clone()
    }

    /// Decides whether the vendor may be called.
    pub(in crate::actors) fn admission(&self) -> Admission {
        let breaker = self.state.breaker.as_ref();
        breaker.map_or(Admission::Go, |breaker| breaker.lock().admit(self.surroundings.now()))
    }

    /// Ends a probe without an outcome.
    pub(in crate::actors) fn give_back(&self) {
        if let Some(breaker) = &self.state.breaker {
            breaker.lock().give_back(self.surroundings.now());
        }
    }

    /// Completes when the breaker closes.
    pub(in crate::actors) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Records a successful call.
    pub(in crate::actors) fn succeeded(&self) {
        if self.state.breaker.as_ref().is_some_and(|breaker| breaker.lock().succeeded()) {
            tracing::info!(vendor = self.state.name, "the vendor is back: the circuit is closed");
            self.closed.notify_one();
        }
    }

    /// Records a failed call. A refusal is a response of a working vendor and counts as a success. A busy vendor that
    /// names a pause is held for that time and has not failed.
    pub(in crate::actors) fn failed(&self, error: &VendorError) {
        if error.kind == ErrorKind::Refused {
            return self.succeeded();
        }

        let Some(breaker) = &self.state.breaker else { return };
        let now = self.surroundings.now();
        let mut breaker = breaker.lock();

        if let Some(pause) = error.retry_after {
            breaker.hold(now, pause.min(ASKED_PAUSE_MAX));
            if error.kind == ErrorKind::Busy {
                return;
            }
        }

        if breaker.failed(now) {
            let vendor = self.state.name;
            let reason = error.message.as_str();
            tracing::error!(vendor, reason, "the vendor keeps failing: the circuit is open, and tasks wait");
        }
    }

    /// Returns the pause of a task that was not admitted. It is short during a probe.
    pub(in crate::actors) fn wait(&self, wait: Duration) -> Duration {
        let probing = self.state.circuit() == Circuit::HalfOpen;
        let wait = if probing { wait.min(self.retry.min) } else { wait };
        at_least(wait, self.surroundings.ratio())
    }

    /// Returns the pause after this many consecutive failures.
    pub(in crate::actors) fn pause(&self, failures: u32) -> Duration {
        self.retry.after_failures(failures, self.surroundings.ratio())
    }

    /// Returns the pause that the vendor asked for, or the one after this many failures.
    pub(in crate::actors) fn pause_after(&self, error: &VendorError, failures: u32) -> Duration {
        let asked = error.retry_after.map(|asked| at_least(asked.min(ASKED_PAUSE_MAX), self.surroundings.ratio()));
        asked.unwrap_or_else(|| self.pause(failures))
    }

    /// Counts a failed poll of a task and returns the number of consecutive ones.
    pub(in crate::actors) fn one_failure_more(&self, task: TaskId) -> u32 {
        let mut failures = self.failures.lock();
        // Cancelled tasks leave their counters behind, so all are cleared when the map is full.
        if failures.len() >= COUNTED_MAX {
            failures.clear();
        }
        let count = failures.entry(task).or_default();
        *count = count.saturating_add(1);
        *count
    }

    pub(in crate::actors) fn forget_failures(&self, task: TaskId) {
        self.failures.lock().remove(&task);
    }
}
