//! Cancellations passed on to vendors. The tasks have already ended; the response of a vendor does not change them.
//!
//! The queue is kept in memory. Cancellations still queued when the service stops are lost, and the jobs run to their
//! ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::poller::PoolVendor;
use super::poller::backoff::Backoff;
use super::reactor::{Reactor, ReactorOptions, Reschedule, WorkerSlots};
use crate::domain::ids::TaskId;
use crate::domain::task::{RecordedVendor, TaskVendor, VendorReference};
use crate::environment::Environment;
use crate::vendors::{Vendor, VendorErrorKind};

/// Maximum number of waiting cancellations; further ones are dropped, and those jobs run to their end.
const PENDING_MAX: usize = 65_536;
/// Number of calls after which a cancellation is given up.
const ATTEMPTS_MAX: u32 = 8;
/// Pauses between the calls.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_mins(1) };

/// Job that its vendor has yet to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingCancellation {
    task: TaskId,
    vendor: RecordedVendor,
    reference: VendorReference,
    /// Number of calls so far.
    attempts: u32,
}

/// Queue of cancellations. Cheap to clone.
#[derive(Clone, Default)]
pub struct VendorCancellations {
    pending: Arc<Mutex<HashMap<TaskId, PendingCancellation>>>,
    arrival: Arc<Notify>,
}

impl VendorCancellations {
    /// Adds the job of a cancelled task, if its vendor has accepted it.
    pub fn push_job_of(&self, task: TaskId, vendor: Option<&TaskVendor>) {
        let Some(TaskVendor { recorded: Some(recorded), reference: Some(reference), .. }) = vendor else { return };
        self.push(task, recorded.clone(), reference.clone());
    }

    /// Adds a job. Built-in engines notice by themselves that a task has ended.
    pub(super) fn push(&self, task: TaskId, vendor: RecordedVendor, reference: VendorReference) {
        if vendor.is_built_in() {
            return;
        }

        let mut pending = self.pending.lock();
        if pending.len() < PENDING_MAX {
            pending.entry(task).or_insert(PendingCancellation { task, vendor, reference, attempts: 0 });
        } else {
            tracing::warn!(%task, "cancellation not passed on, too many are waiting");
        }
        drop(pending);
        self.arrival.notify_one();
    }

    /// Counts a call. Returns the number of calls so far; [`ATTEMPTS_MAX`] if the cancellation is no longer queued.
    fn count_attempt(&self, task: TaskId) -> u32 {
        let mut pending = self.pending.lock();
        let Some(cancellation) = pending.get_mut(&task) else { return ATTEMPTS_MAX };
        cancellation.attempts += 1;
        cancellation.attempts
    }

    fn remove(&self, task: TaskId) {
        self.pending.lock().remove(&task);
    }
}

/// Reactor that calls the vendors.
#[derive(Clone)]
pub struct VendorCanceller {
    cancellations: VendorCancellations,
    vendors: Arc<Vec<(RecordedVendor, Arc<dyn Vendor>)>>,
    environment: Environment,
}

impl VendorCanceller {
    /// Maximum number of concurrent calls: to all vendors, and to one vendor.
    pub const OPTIONS: ReactorOptions = ReactorOptions { concurrency: 32, lane: 8 };

    /// Returns a reactor that empties the queue.
    #[must_use]
    pub fn new<'v>(
        cancellations: VendorCancellations,
        vendors: impl IntoIterator<Item = &'v PoolVendor>,
        environment: Environment,
    ) -> Self {
        let vendors = vendors.into_iter().map(|vendor| (vendor.identity.clone(), Arc::clone(&vendor.vendor)));
        Self { cancellations, vendors: Arc::new(vendors.collect()), environment }
    }
}

impl Reactor for VendorCanceller {
    type Key = TaskId;
    type Work = PendingCancellation;
    const NAME: &'static str = "vendor canceller";

    fn due(&self, slots: &mut WorkerSlots<TaskId>) -> Vec<(TaskId, PendingCancellation)> {
        let pending = self.cancellations.pending.lock();
        let due = pending
            .values()
            .filter(|cancellation| slots.try_reserve(&cancellation.task, cancellation.vendor.name.as_str()));
        due.map(|cancellation| (cancellation.task, cancellation.clone())).collect()
    }

    async fn act(&self, cancellation: PendingCancellation) -> Reschedule {
        let PendingCancellation { task, vendor: recorded, reference, .. } = cancellation;
        let vendor = self.vendors.iter().find(|(identity, _)| identity.is_same_vendor(&recorded));
        let Some((_, vendor)) = vendor else {
            self.cancellations.remove(task);
            return Reschedule::WhenDue;
        };

        match vendor.cancel(&reference).await {
            Ok(()) => tracing::info!(%task, vendor = recorded.name.as_str(), "cancellation passed on"),
            Err(error) => {
                let attempts = self.cancellations.count_attempt(task);
                tracing::warn!(%task, vendor = recorded.name.as_str(), %error, attempts, "cancellation failed");
                // The vendor would refuse again: the job has ended, or cannot be cancelled.
                if error.kind != VendorErrorKind::Refused && attempts < ATTEMPTS_MAX {
                    let delay = RETRY.after_failures(attempts, self.environment.random_f64());
                    return Reschedule::After(error.retry_after.map_or(delay, |pause| pause.clamp(delay, RETRY.max)));
                }
            }
        }
        self.cancellations.remove(task);
        Reschedule::WhenDue
    }

    async fn changed(&mut self) -> Vec<String> {
        self.cancellations.arrival.notified().await;
        Vec::new()
    }
}
