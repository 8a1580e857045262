//! Vendor wrapper that counts and times calls.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::Notify;

use super::music::{MusicVendor, Playing, Stopped};
use super::{ErrorKind, Job, Progress, Recovery, Vendor, VendorError};
use crate::domain::ids::TaskId;
use crate::domain::music::MusicWork;
use crate::domain::task::VendorReference;
use crate::telemetry::metrics::Metrics;

/// A vendor with metrics.
#[derive(Clone)]
pub struct Metered<V: ?Sized> {
    vendor: Arc<V>,
    metrics: Metrics,
}

impl<V: ?Sized> Metered<V> {
    /// Wraps a vendor.
    #[must_use]
    pub fn new(vendor: Arc<V>, metrics: Metrics) -> Self {
        Self { vendor, metrics }
    }
}

/// Returns the outcome of a call as a metric label.
fn outcome<T>(result: &Result<T, VendorError>) -> &'static str {
    match result.as_ref().map_err(|error| error.kind) {
        Ok(_) => "ok",
        Err(ErrorKind::Refused) => "refused",
        Err(ErrorKind::Unreached) => "unreached",
        Err(ErrorKind::Busy) => "busy",
        Err(ErrorKind::Unserved) => "unserved",
        Err(ErrorKind::Unknown) => "unknown",
    }
}

/// Returns kind and outcome of a poll as metric labels. A poll that returns results also fetches them.
fn of_poll(result: &Result<Progress, VendorError>) -> (&'static str, &'static str) {
    match result {
        Ok(Progress::Done(_)) => ("result", "ok"),
        Ok(Progress::Unfetched(_)) => ("result", "unfetched"),
        _ => ("poll", outcome(result)),
    }
}

impl Vendor for Metered<dyn Vendor> {
    fn name(&self) -> &'static str {
        self.vendor.name()
    }

    fn recovery(&self) -> Recovery {
        self.vendor.recovery()
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<VendorReference, VendorError>> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = self.vendor.submit(job).await;
            self.metrics.called(self.name(), "submit", outcome(&result), begun.elapsed());
            result
        })
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<Progress, VendorError>> {
        let reference = reference.clone();
        Box::pin(async move {
            let begun = Instant::now();
            let result = self.vendor.poll(&reference).await;
            let (call, outcome) = of_poll(&result);
            self.metrics.called(self.name(), call, outcome, begun.elapsed());
            result
        })
    }

    fn find(&self, job: Job) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = self.vendor.find(job).await;
            self.metrics.called(self.name(), "find", outcome(&result), begun.elapsed());
            result
        })
    }

    fn lives(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        self.vendor.lives()
    }

    fn moved(&self) -> Arc<Notify> {
        self.vendor.moved()
    }
}

impl MusicVendor for Metered<dyn MusicVendor> {
    fn name(&self) -> &'static str {
        self.vendor.name()
    }

    fn is_remote(&self) -> bool {
        self.vendor.is_remote()
    }

    /// Measures the time to the first moment as the submission.
    fn play(&self, task: TaskId, work: MusicWork) -> Playing {
        let metrics = self.metrics.clone();
        let name = self.name();
        let mut playing = self.vendor.play(task, work);
        let first = async move {
            let begun = Instant::now();
            let first = playing.next().await;
            let outcome = match &first {
                Some(Err(Stopped::Untaken(error))) => outcome::<()>(&Err(error.clone())),
                Some(Err(Stopped::Broken(_))) => "unknown",
                Some(Ok(_) | Err(Stopped::Failed(_))) | None => "ok",
            };
            metrics.called(name, "submit", outcome, begun.elapsed());
            stream::iter(first).chain(playing)
        };

        stream::once(first).flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::task::{Failure, Results};
    use crate::telemetry::metrics::{CALL_OUTCOMES, VENDOR_CALLS};
    use crate::vendors::Unfetched;

    #[test]
    fn what_comes_of_a_call_has_a_name_that_is_foreseen() {
        let kinds =
            [ErrorKind::Refused, ErrorKind::Unreached, ErrorKind::Busy, ErrorKind::Unserved, ErrorKind::Unknown];
        let mut outcomes: Vec<_> = kinds.map(|kind| outcome::<()>(&Err(VendorError::new(kind, "m")))).to_vec();
        let failure = Failure::new("result_unavailable", "m");
        let told = [Progress::Done(Results::from(Vec::new())), Progress::Unfetched(Unfetched::Passing(failure))];
        let [done, unfetched] = told.map(|progress| of_poll(&Ok(progress)));
        assert_eq!((done, unfetched), (("result", "ok"), ("result", "unfetched")));
        assert_eq!(of_poll(&Ok(Progress::Lost)), ("poll", "ok"));
        outcomes.extend([done.1, unfetched.1]);
        outcomes.sort_unstable();

        let mut foreseen = CALL_OUTCOMES;
        foreseen.sort_unstable();
        assert_eq!(outcomes, foreseen);
        assert!(["submit", "poll", "find", done.0].iter().all(|call| VENDOR_CALLS.contains(call)));
    }
}
