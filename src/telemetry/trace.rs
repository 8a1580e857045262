//! Traces (W3C Trace Context): what a request caused, and the duration of each part. Finished spans wait in a bounded
//! queue for the exporter; spans that do not fit are dropped and counted. Without a tracer nothing is recorded.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::metrics::Metrics;

mod context;
mod task_traces;

pub use context::SpanContext;
use task_traces::TaskTraces;

/// Maximum number of spans waiting for export.
const WAITING_MAX: usize = 8192;
/// Maximum number of spans per export.
pub const BATCH: usize = 512;

/// Sources of time and random numbers.
#[derive(Clone)]
pub struct TraceSources {
    /// Nanoseconds since 1970.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub random_bytes: Arc<dyn Fn() -> [u8; 24] + Send + Sync>,
}

/// Kind of span, with the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

/// A finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    pub context: SpanContext,
    /// The enclosing span.
    pub parent: Option<[u8; 8]>,
    pub kind: SpanKind,
    pub name: Cow<'static, str>,
    /// Nanoseconds since 1970.
    pub started_at: u64,
    pub ended_at: u64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Error message, if the span failed.
    pub failure: Option<String>,
}

/// Recorder of spans. Cheap to clone. The default records nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<TracerInner>>);

struct TracerInner {
    sources: TraceSources,
    /// Percentage of the traces begun here that are sampled.
    sample_percent: u8,
    queue: Mutex<VecDeque<FinishedSpan>>,
    task_traces: Mutex<TaskTraces>,
    batch_ready: Notify,
    metrics: Metrics,
}

tokio::task_local! {
    static CURRENT: Option<(Tracer, SpanContext)>;
}

impl Tracer {
    /// Creates a tracer that samples this percentage of the traces begun here. Traces of callers keep the caller's
    /// decision.
    #[must_use]
    pub fn new(sources: TraceSources, sample_percent: u8, metrics: Metrics) -> Self {
        let queue = Mutex::default();
        let task_traces = Mutex::default();
        let batch_ready = Notify::new();
        Self(Some(Arc::new(TracerInner { sources, sample_percent, queue, task_traces, batch_ready, metrics })))
    }

    /// Returns `true` if the tracer records spans.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request, which may continue the caller's trace.
    #[must_use]
    pub fn start_request_span(&self, traceparent: Option<&str>) -> Option<Span> {
        let parent = traceparent.and_then(SpanContext::parse);
        self.start_span("request".into(), SpanKind::Server, parent)
    }

    /// Begins the span of a vendor call or delivery for a task, in the trace that submitted the task if it is still
    /// known.
    #[must_use]
    pub fn start_call_span(&self, name: impl Into<Cow<'static, str>>, task: Uuid) -> Option<Span> {
        let inner = self.0.as_ref()?;
        let parent = inner.task_traces.lock().get(task);
        let mut span = self.start_span(name.into(), SpanKind::Client, parent)?;
        span.set_attribute("mediary.task_id", AttributeValue::Text(task.to_string()));
        Some(span)
    }

    fn start_span(&self, name: Cow<'static, str>, kind: SpanKind, parent: Option<SpanContext>) -> Option<Span> {
        let inner = self.0.as_ref()?;
        let context = match parent {
            Some(parent) => parent.child((inner.sources.random_bytes)()),
            None => SpanContext::new_root((inner.sources.random_bytes)(), inner.sample_percent),
        };

        let span = || FinishedSpan {
            context,
            parent: parent.map(|parent| parent.span),
            kind,
            name,
            started_at: (inner.sources.now)(),
            ended_at: 0,
            attributes: Vec::new(),
            failure: None,
        };

        context.sampled.then(|| Span { tracer: self.clone(), span: span() })
    }

    /// Removes and returns up to [`BATCH`] finished spans, oldest first.
    #[must_use]
    pub fn take_batch(&self) -> Vec<FinishedSpan> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut queue = inner.queue.lock();
        let batch_size = queue.len().min(BATCH);
        queue.drain(..batch_size).collect()
    }

    /// Waits until a full batch of spans is queued.
    pub async fn batch_ready(&self) {
        match &self.0 {
            Some(inner) => inner.batch_ready.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Counts spans by the outcome of their export.
    pub fn count_exported(&self, outcome: &'static str, spans: usize) {
        if let Some(inner) = &self.0 {
            inner.metrics.count_spans(outcome, spans as u64);
        }
    }
}

impl TracerInner {
    fn enqueue(&self, span: FinishedSpan) {
        let mut queue = self.queue.lock();
        if queue.len() >= WAITING_MAX {
            drop(queue);
            self.metrics.count_spans("dropped", 1);
            return;
        }
        queue.push_back(span);
        if queue.len() == BATCH {
            self.batch_ready.notify_one();
        }
    }
}

/// A span in progress. Dropping it ends it.
pub struct Span {
    tracer: Tracer,
    span: FinishedSpan,
}

impl Span {
    /// Replaces the name.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.span.name = name.into();
    }

    /// Adds an attribute.
    pub fn set_attribute(&mut self, name: &'static str, value: AttributeValue) {
        self.span.attributes.push((name, value));
    }

    /// Marks the span as failed.
    pub fn set_failure(&mut self, reason: impl Into<String>) {
        self.span.failure = Some(reason.into());
    }

    /// Runs work within the span: spans begun there become its children.
    pub fn instrument<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(Some((self.tracer.clone(), self.span.context)), future)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(inner) = &self.tracer.0 else { return };
        self.span.ended_at = (inner.sources.now)();
        let empty = FinishedSpan { name: Cow::Borrowed(""), attributes: Vec::new(), failure: None, ..self.span };
        inner.enqueue(std::mem::replace(&mut self.span, empty));
    }
}

/// Begins a child of the current span, if there is one.
#[must_use]
pub fn child_span(name: impl FnOnce() -> String) -> Option<Span> {
    let (tracer, context) = CURRENT.try_with(Clone::clone).ok().flatten()?;
    tracer.start_span(name().into(), SpanKind::Internal, Some(context))
}

/// Associates a task with the current trace, for later calls on behalf of the task.
pub fn remember_task(task: Uuid) {
    if let Ok(Some((Tracer(Some(inner)), context))) = CURRENT.try_with(Clone::clone) {
        inner.task_traces.lock().insert(task, context);
    }
}

/// Carries the current span into a future that another task runs.
pub fn in_current_span<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(CURRENT.try_with(Clone::clone).ok().flatten(), future)
}

#[cfg(test)]
mod tests;
