//! What stands between the tasks and a vendor: its circuit breaker, and how long a task rests that could not go on.

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

/// The longest pause that a vendor may ask for.
const ASKED_PAUSE_MAX: Duration = Duration::from_hours(1);

/// Tasks whose failures are counted.
const COUNTED_MAX: usize = 65_536;

/// What the poller of a vendor shows of itself. Cheap to clone.
#[derive(Clone)]
pub struct VendorState {
    pub name: &'static str,
    breaker: Option<Arc<Mutex<Breaker>>>,
    surroundings: Surroundings,
}

impl VendorState {
    /// The state of the circuit breaker; one that is not there is always closed.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        self.breaker.as_ref().map_or(Circuit::Closed, |breaker| breaker.lock().circuit(self.surroundings.now()))
    }
}

/// The gate before one vendor. Cheap to clone.
#[derive(Clone)]
pub(in crate::actors) struct Gate {
    state: VendorState,
    retry: Pauses,
    surroundings: Surroundings,
    /// Woken when the breaker has closed: what waited behind it may go on.
    closed: Arc<Notify>,
    /// Questions about a task that brought nothing, in a row.
    failures: Arc<Mutex<HashMap<TaskId, u32>>>,
}

impl Gate {
    /// A gate that is open for ever where there are no options of a breaker.
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

    /// Whether the vendor may be called.
    pub(in crate::actors) fn admission(&self) -> Admission {
        let breaker = self.state.breaker.as_ref();
        breaker.map_or(Admission::Go, |breaker| breaker.lock().admit(self.surroundings.now()))
    }

    /// A probe has shown nothing.
    pub(in crate::actors) fn give_back(&self) {
        if let Some(breaker) = &self.state.breaker {
            breaker.lock().give_back(self.surroundings.now());
        }
    }

    /// Ends when the breaker has closed.
    pub(in crate::actors) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// The vendor has answered.
    pub(in crate::actors) fn succeeded(&self) {
        if self.state.breaker.as_ref().is_some_and(|breaker| breaker.lock().succeeded()) {
            tracing::info!(vendor = self.state.name, "the vendor is back: the circuit is closed");
            self.closed.notify_one();
        }
    }

    /// A call has failed. A refusal is an answer of a vendor that works; one that is busy and says until when is left alone for so
    /// long, and has not failed.
    pub(in crate::actors) fn failed(&self, error: &VendorError) {
        if error.kind == ErrorKind::Refused {
            return self.succeeded();
        }
        let Some(breaker) = &self.state.breaker else { return };
        let (now, mut breaker) = (self.surroundings.now(), breaker.lock());
        if let Some(pause) = error.retry_after {
            breaker.hold(now, pause.min(ASKED_PAUSE_MAX));
            if error.kind == ErrorKind::Busy {
                return;
            }
        }
        if breaker.failed(now) {
            let (vendor, reason) = (self.state.name, error.message.as_str());
            tracing::error!(vendor, reason, "the vendor keeps failing: the circuit is open, and tasks wait");
        }
    }

    /// The rest of a task that may not go to the vendor; while a probe is under way nobody waits for long.
    pub(in crate::actors) fn wait(&self, wait: Duration) -> Duration {
        let probing = self.state.circuit() == Circuit::HalfOpen;
        let wait = if probing { wait.min(self.retry.min) } else { wait };
        at_least(wait, self.surroundings.ratio())
    }

    /// The rest after so many failures in a row.
    pub(in crate::actors) fn pause(&self, failures: u32) -> Duration {
        self.retry.after_failures(failures, self.surroundings.ratio())
    }

    /// The rest that the vendor asked for, or else the one after so many failures.
    pub(in crate::actors) fn pause_after(&self, error: &VendorError, failures: u32) -> Duration {
        let asked = error.retry_after.map(|asked| at_least(asked.min(ASKED_PAUSE_MAX), self.surroundings.ratio()));
        asked.unwrap_or_else(|| self.pause(failures))
    }

    /// How many questions about a task brought nothing, with the one that just did.
    pub(in crate::actors) fn one_failure_more(&self, task: TaskId) -> u32 {
        let mut failures = self.failures.lock();
        // Tasks that were cancelled leave theirs behind: now and then all begin anew.
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
