//! Vendor wrapper that counts and times calls.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::Notify;

use super::music::{MusicStreamError, MusicVendor, VendorMusicStream};
use super::{JobProgress, SubmissionCall, SubmissionRecovery, Vendor, VendorError, VendorErrorKind, VendorJob};
use crate::domain::music::{MusicJob, MusicWork};
use crate::domain::task::{TaskWork, VendorReference};
use crate::telemetry::metrics::Metrics;

/// A vendor with metrics.
#[derive(Clone)]
pub struct MeteredVendor<V: ?Sized> {
    vendor: Arc<V>,
    /// Configured name.
    name: String,
    metrics: Metrics,
}

impl<V: ?Sized> MeteredVendor<V> {
    /// Wraps a vendor that is configured under this name.
    #[must_use]
    pub fn new(vendor: Arc<V>, name: String, metrics: Metrics) -> Self {
        Self { vendor, name, metrics }
    }
}

/// Returns the outcome of a call as a metric label.
fn outcome_label<T>(result: &Result<T, VendorError>) -> &'static str {
    match result.as_ref().map_err(|error| error.kind) {
        Ok(_) => "ok",
        Err(VendorErrorKind::Refused) => "refused",
        Err(VendorErrorKind::Unreached | VendorErrorKind::InputUnreadable) => "unreached",
        Err(VendorErrorKind::Busy) => "busy",
        Err(VendorErrorKind::Unserved) => "unserved",
        Err(VendorErrorKind::Unknown) => "unknown",
    }
}

/// Returns kind and outcome of a poll as metric labels. A poll that returns results also fetches them.
fn poll_labels(result: &Result<JobProgress, VendorError>) -> (&'static str, &'static str) {
    match result {
        Ok(JobProgress::Done(_)) => ("result", "ok"),
        Ok(JobProgress::FetchFailed(_)) => ("result", "unfetched"),
        _ => ("poll", outcome_label(result)),
    }
}

impl Vendor for MeteredVendor<dyn Vendor> {
    fn name(&self) -> &str {
        &self.name
    }

    fn recovery(&self) -> SubmissionRecovery {
        self.vendor.recovery()
    }

    fn serves(&self, work: &TaskWork) -> bool {
        self.vendor.serves(work)
    }

    fn extends_by_id(&self) -> bool {
        self.vendor.extends_by_id()
    }

    fn prepare(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>> {
        Box::pin(async move {
            let started = Instant::now();
            let prepared = self.vendor.prepare(job).await;
            self.metrics.observe_vendor_call(self.name(), "prepare", outcome_label(&prepared), started.elapsed());

            let call = prepared?;
            let metered: SubmissionCall<'_> = Box::pin(async move {
                let started = Instant::now();
                let result = call.await;
                self.metrics.observe_vendor_call(self.name(), "submit", outcome_label(&result), started.elapsed());
                result
            });
            Ok(metered)
        })
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        let reference = reference.clone();
        Box::pin(async move {
            let started = Instant::now();
            let result = self.vendor.poll(&reference).await;
            let (call, outcome) = poll_labels(&result);
            self.metrics.observe_vendor_call(self.name(), call, outcome, started.elapsed());
            result
        })
    }

    fn find(&self, job: VendorJob) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        Box::pin(async move {
            let started = Instant::now();
            let result = self.vendor.find(job).await;
            self.metrics.observe_vendor_call(self.name(), "find", outcome_label(&result), started.elapsed());
            result
        })
    }

    fn cancel(&self, reference: &VendorReference) -> BoxFuture<'_, Result<(), VendorError>> {
        let reference = reference.clone();
        Box::pin(async move {
            let started = Instant::now();
            let result = self.vendor.cancel(&reference).await;
            self.metrics.observe_vendor_call(self.name(), "cancel", outcome_label(&result), started.elapsed());
            result
        })
    }

    fn health_check(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        self.vendor.health_check()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        self.vendor.progress_notify()
    }
}

impl MusicVendor for MeteredVendor<dyn MusicVendor> {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        self.vendor.is_remote()
    }

    fn serves(&self, work: &MusicWork) -> bool {
        self.vendor.serves(work)
    }

    /// Measures the time to the first item as the submission.
    fn play(&self, job: MusicJob) -> VendorMusicStream {
        let metrics = self.metrics.clone();
        let name = self.name.clone();
        let mut stream = self.vendor.play(job);
        let first = async move {
            let started = Instant::now();
            let first = stream.next().await;
            let outcome = match &first {
                Some(Err(MusicStreamError::NotAccepted(error))) => outcome_label::<()>(&Err(error.clone())),
                Some(Err(MusicStreamError::Interrupted(_))) => "unknown",
                Some(Ok(_) | Err(MusicStreamError::Failed(_))) | None => "ok",
            };
            metrics.observe_vendor_call(&name, "submit", outcome, started.elapsed());
            stream::iter(first).chain(stream)
        };

        stream::once(first).flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::task::{TaskFailure, TaskResults};
    use crate::telemetry::metrics::{CALL_OUTCOMES, VENDOR_CALLS};
    use crate::vendors::ResultFetchError;

    #[test]
    fn every_outcome_of_a_call_is_a_known_label() {
        let kinds = [
            VendorErrorKind::Refused,
            VendorErrorKind::Unreached,
            VendorErrorKind::InputUnreadable,
            VendorErrorKind::Busy,
            VendorErrorKind::Unserved,
            VendorErrorKind::Unknown,
        ];
        let mut outcomes: Vec<_> = kinds.map(|kind| outcome_label::<()>(&Err(VendorError::new(kind, "m")))).to_vec();
        let failure = TaskFailure::new("result_unavailable", "m");
        let reports = [
            JobProgress::Done(TaskResults::from(Vec::new())),
            JobProgress::FetchFailed(ResultFetchError::Transient(failure)),
        ];
        let [done, unfetched] = reports.map(|progress| poll_labels(&Ok(progress)));
        assert_eq!((done, unfetched), (("result", "ok"), ("result", "unfetched")));
        assert_eq!(poll_labels(&Ok(JobProgress::Lost)), ("poll", "ok"));
        outcomes.extend([done.1, unfetched.1]);
        outcomes.sort_unstable();
        outcomes.dedup();

        let mut known_outcomes = CALL_OUTCOMES;
        known_outcomes.sort_unstable();
        assert_eq!(outcomes, known_outcomes);
        assert!(["submit", "poll", "find", "cancel", done.0].iter().all(|call| VENDOR_CALLS.contains(call)));
    }
}
