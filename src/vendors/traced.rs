//! Vendor wrapper that traces submissions and searches. Polls are not traced: they are frequent and of little use.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::{Job, Progress, Recovery, Vendor, VendorError};
use crate::domain::task::VendorReference;
use crate::telemetry::trace::{Span, Tracer, Value};

/// A vendor with a tracer.
pub struct Traced {
    vendor: Arc<dyn Vendor>,
    tracer: Tracer,
}

impl Traced {
    /// Wraps a vendor.
    #[must_use]
    pub fn new(vendor: Arc<dyn Vendor>, tracer: Tracer) -> Self {
        Self { vendor, tracer }
    }

    fn begin(&self, what: &str, job: &Job) -> Option<Span> {
        let name = self.vendor.name();
        let mut span = self.tracer.call(format!("{what} {name}"), job.task.0)?;
        span.note("mediary.vendor", Value::Text(name.to_owned()));
        Some(span)
    }
}

fn end<T>(span: Option<Span>, result: &Result<T, VendorError>) {
    if let (Some(mut span), Err(error)) = (span, result) {
        span.fail(error.to_string());
    }
}

impl Vendor for Traced {
    fn name(&self) -> &'static str {
        self.vendor.name()
    }

    fn recovery(&self) -> Recovery {
        self.vendor.recovery()
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<VendorReference, VendorError>> {
        Box::pin(async move {
            let span = self.begin("submit to", &job);
            let result = self.vendor.submit(job).await;
            end(span, &result);
            result
        })
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<Progress, VendorError>> {
        self.vendor.poll(reference)
    }

    fn find(&self, job: Job) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        Box::pin(async move {
            let span = self.begin("search", &job);
            let result = self.vendor.find(job).await;
            end(span, &result);
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
