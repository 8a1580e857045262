//! Vendor wrapper that traces submissions and searches. Polls are not traced: they are frequent and of little use.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::{JobProgress, SubmissionCall, SubmissionRecovery, Vendor, VendorError, VendorJob};
use crate::domain::ids::TaskId;
use crate::domain::task::{TaskWork, VendorReference};
use crate::telemetry::trace::{AttributeValue, Span, Tracer};

/// A vendor with a tracer.
pub struct TracedVendor {
    vendor: Arc<dyn Vendor>,
    tracer: Tracer,
}

impl TracedVendor {
    /// Wraps a vendor.
    #[must_use]
    pub fn new(vendor: Arc<dyn Vendor>, tracer: Tracer) -> Self {
        Self { vendor, tracer }
    }

    fn start_span(&self, operation: &str, task: TaskId) -> Option<Span> {
        let name = self.vendor.name();
        let mut span = self.tracer.start_call_span(format!("{operation} {name}"), task.0)?;
        span.set_attribute("mediary.vendor", AttributeValue::Text(name.to_owned()));
        Some(span)
    }
}

fn end_span<T>(span: Option<Span>, result: &Result<T, VendorError>) {
    if let (Some(mut span), Err(error)) = (span, result) {
        span.set_failure(error.to_string());
    }
}

impl Vendor for TracedVendor {
    fn name(&self) -> &str {
        self.vendor.name()
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
            let task = job.task;
            let span = self.start_span("prepare for", task);
            let prepared = self.vendor.prepare(job).await;
            end_span(span, &prepared);

            let call = prepared?;
            let traced: SubmissionCall<'_> = Box::pin(async move {
                let span = self.start_span("submit to", task);
                let result = call.await;
                end_span(span, &result);
                result
            });
            Ok(traced)
        })
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        self.vendor.poll(reference)
    }

    fn find(&self, job: VendorJob) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        Box::pin(async move {
            let span = self.start_span("search", job.task);
            let result = self.vendor.find(job).await;
            end_span(span, &result);
            result
        })
    }

    fn cancel(&self, reference: &VendorReference) -> BoxFuture<'_, Result<(), VendorError>> {
        self.vendor.cancel(reference)
    }

    fn health_check(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        self.vendor.health_check()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        self.vendor.progress_notify()
    }
}
