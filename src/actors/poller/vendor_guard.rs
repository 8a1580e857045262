//! The guard of a vendor: its circuit breaker, and the pauses of tasks whose calls failed or were not admitted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::backoff::{Backoff, add_jitter};
use super::breaker::{Admission, BreakerOptions, CircuitBreaker, CircuitState};
use crate::domain::ids::TaskId;
use crate::domain::task::Gateway;
use crate::environment::Environment;
use crate::vendors::{VendorError, VendorErrorKind};

/// Longest pause that a vendor may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Maximum number of tasks whose failures are counted.
const FAILURE_COUNTERS_MAX: usize = 65_536;

/// Vendor as configured, for operators. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorDescription {
    pub name: Arc<str>,
    pub profile: Arc<str>,
    pub gateway: Gateway,
    /// Maximum number of tasks at the vendor; `None` if unlimited.
    pub slots: Option<usize>,
}

/// Observable state of a vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorState {
    description: VendorDescription,
    breaker: Option<Arc<Mutex<CircuitBreaker>>>,
    environment: Environment,
}

impl VendorState {
    /// Returns the vendor as configured.
    #[must_use]
    pub const fn description(&self) -> &VendorDescription {
        &self.description
    }

    /// Returns the state of the circuit breaker; a vendor without one is always closed.
    #[must_use]
    pub fn circuit(&self) -> CircuitState {
        self.breaker.as_ref().map_or(CircuitState::Closed, |breaker| breaker.lock().circuit(self.environment.now()))
    }
}

/// Guard of one vendor. Cheap to clone.
#[derive(Clone)]
pub(in crate::actors) struct VendorGuard {
    state: VendorState,
    retry: Backoff,
    environment: Environment,
    /// Notified when the breaker closes, so that waiting tasks proceed.
    closed: Arc<Notify>,
    /// Consecutive failed polls per task.
    failures: Arc<Mutex<HashMap<TaskId, u32>>>,
}

impl VendorGuard {
    /// Returns a guard. Without breaker options, every call is admitted.
    pub(in crate::actors) fn new(
        description: VendorDescription,
        breaker: Option<BreakerOptions>,
        retry: Backoff,
        environment: Environment,
    ) -> Self {
        let breaker = breaker.map(|options| Arc::new(Mutex::new(CircuitBreaker::new(options))));
        let state = VendorState { description, breaker, environment: environment.clone() };
        Self { state, retry, environment, closed: Arc::default(), failures: Arc::default() }
    }

    pub(in crate::actors) fn state(&self) -> VendorState {
        self.state.clone()
    }

    pub(in crate::actors) fn name(&self) -> &str {
        &self.state.description.name
    }

    /// Decides whether the vendor may be called. After [`Admission::Probe`], the caller records the outcome of the
    /// probe or releases it.
    pub(in crate::actors) fn admit(&self) -> Admission {
        let breaker = self.state.breaker.as_ref();
        breaker.map_or(Admission::Allow, |breaker| breaker.lock().admit(self.environment.now()))
    }

    /// Returns the time for which the vendor may not be called; `None` if it may be called now.
    pub(in crate::actors) fn time_until_admission(&self) -> Option<Duration> {
        self.state.breaker.as_ref()?.lock().time_until_admission(self.environment.now())
    }

    /// Ends a probe without an outcome, so that the next call becomes the probe.
    pub(in crate::actors) fn release_probe(&self) {
        if let Some(breaker) = &self.state.breaker {
            breaker.lock().release_probe(self.environment.now());
        }
    }

    /// Completes when the breaker closes.
    pub(in crate::actors) async fn wait_until_closed(&self) {
        self.closed.notified().await;
    }

    /// Records a successful call, which closes the breaker.
    pub(in crate::actors) fn record_success(&self) {
        if self.state.breaker.as_ref().is_some_and(|breaker| breaker.lock().record_success()) {
            tracing::info!(vendor = self.name(), "vendor circuit closed");
            self.closed.notify_one();
        }
    }

    /// Records a failed call. A refusal is a response of a working vendor and counts as a success; an input that this
    /// service cannot read is not the vendor's failure. A busy vendor that names a pause is held for that time and has
    /// not failed.
    pub(in crate::actors) fn record_failure(&self, error: &VendorError) {
        match error.kind {
            VendorErrorKind::Refused => return self.record_success(),
            VendorErrorKind::InputUnreadable => return,
            _ => {}
        }

        let Some(breaker) = &self.state.breaker else { return };
        let now = self.environment.now();
        let mut breaker = breaker.lock();

        if let Some(pause) = error.retry_after {
            breaker.hold(now, pause.min(RETRY_AFTER_MAX));
            if error.kind == VendorErrorKind::Busy {
                return;
            }
        }

        if breaker.record_failure(now) {
            let vendor = self.name();
            let reason = error.message.as_str();
            tracing::error!(vendor, reason, "vendor circuit opened, tasks wait");
        }
    }

    /// Returns the pause of a task that was not admitted for `wait`. It is short during a probe, whose outcome is known
    /// soon.
    pub(in crate::actors) fn admission_delay(&self, wait: Duration) -> Duration {
        let half_open = self.state.circuit() == CircuitState::HalfOpen;
        let wait = if half_open { wait.min(self.retry.min) } else { wait };
        add_jitter(wait, self.environment.random_f64())
    }

    /// Returns the pause after `failures` consecutive failures.
    pub(in crate::actors) fn backoff_after(&self, failures: u32) -> Duration {
        self.retry.after_failures(failures, self.environment.random_f64())
    }

    /// Returns the pause that the vendor asked for, or else the backoff after `failures` consecutive failures.
    pub(in crate::actors) fn retry_delay(&self, error: &VendorError, failures: u32) -> Duration {
        let requested = error
            .retry_after
            .map(|retry_after| add_jitter(retry_after.min(RETRY_AFTER_MAX), self.environment.random_f64()));
        requested.unwrap_or_else(|| self.backoff_after(failures))
    }

    /// Counts a failed poll of a task and returns the number of its consecutive failures.
    pub(in crate::actors) fn count_failure(&self, task: TaskId) -> u32 {
        let mut failures = self.failures.lock();
        // Cancelled tasks leave their counters behind, so all are cleared when the map is full.
        if failures.len() >= FAILURE_COUNTERS_MAX {
            failures.clear();
        }
        let count = failures.entry(task).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// Forgets the failed polls of a task.
    pub(in crate::actors) fn reset_failures(&self, task: TaskId) {
        self.failures.lock().remove(&task);
    }
}
