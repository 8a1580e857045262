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
mod threads;

pub use context::Context;
use threads::Threads;

/// Maximum number of spans waiting for export.
const WAITING_MAX: usize = 8192;
/// Maximum number of spans per export.
pub const BATCH: usize = 512;

/// Sources of time and random numbers.
#[derive(Clone)]
pub struct Sources {
    /// Nanoseconds since 1970.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub chance: Arc<dyn Fn() -> [u8; 24] + Send + Sync>,
}

/// Kind of span, with the numbers of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// A finished span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub context: Context,
    /// The enclosing span.
    pub parent: Option<[u8; 8]>,
    pub kind: Kind,
    pub name: Cow<'static, str>,
    /// Nanoseconds since 1970.
    pub begun: u64,
    pub ended: u64,
    pub attributes: Vec<(&'static str, Value)>,
    /// Error message, if the span failed.
    pub failure: Option<String>,
}

/// Recorder of spans. Cheap to clone. The default records nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    sources: Sources,
    /// Percentage of the traces begun here that are sampled.
    percent: u8,
    waiting: Mutex<VecDeque<Ended>>,
    threads: Mutex<Threads>,
    enough: Notify,
    metrics: Metrics,
}

tokio::task_local! {
    static CURRENT: Option<(Tracer, Context)>;
}

impl Tracer {
    /// Creates a tracer that samples this percentage of the traces begun here. Traces of callers keep the caller's
    /// decision.
    #[must_use]
    pub fn new(sources: Sources, percent: u8, metrics: Metrics) -> Self {
        let waiting = Mutex::default();
        let threads = Mutex::default();
        let enough = Notify::new();
        Self(Some(Arc::new(Inner { sources, percent, waiting, threads, enough, metrics })))
    }

    /// Returns `true` if the tracer records spans.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request, which may continue the caller's trace.
    #[must_use]
    pub fn request(&self, traceparent: Option<&str>) -> Option<Span> {
        let parent = traceparent.and_then(Context::parse);
        self.begin("request".into(), Kind::Server, parent)
    }

    /// Begins the span of a vendor call or delivery for a task, in the trace that submitted the task if it is still
    /// known.
    #[must_use]
    pub fn call(&self, name: impl Into<Cow<'static, str>>, task: Uuid) -> Option<Span> {
        let inner = self.0.as_ref()?;
        let parent = inner.threads.lock().get(task);
        let mut span = self.begin(name.into(), Kind::Client, parent)?;
        span.note("mediary.task_id", Value::Text(task.to_string()));
        Some(span)
    }

    fn begin(&self, name: Cow<'static, str>, kind: Kind, parent: Option<Context>) -> Option<Span> {
        let inner = self.0.as_ref()?;
        let context = match parent {
            Some(parent) => parent.child((inner.sources.chance)()),
            None => Context::fresh((inner.sources.chance)(), inner.percent),
        };

        let span = || Ended {
            context,
            parent: parent.map(|parent| parent.span),
            kind,
            name,
            begun: (inner.sources.now)(),
            ended: 0,
            attributes: Vec::new(),
            failure: None,
        };

        context.sampled.then(|| Span { tracer: self.clone(), span: span() })
    }

    /// Removes and returns up to [`BATCH`] finished spans, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<Ended> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut waiting = inner.waiting.lock();
        let most = waiting.len().min(BATCH);
        waiting.drain(..most).collect()
    }

    /// Waits until a full batch of spans is queued.
    pub async fn enough(&self) {
        match &self.0 {
            Some(inner) => inner.enough.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Counts spans by the outcome of their export.
    pub fn count(&self, outcome: &'static str, spans: usize) {
        if let Some(inner) = &self.0 {
            inner.metrics.spans(outcome, spans as u64);
        }
    }
}

impl Inner {
    fn keep(&self, span: Ended) {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            drop(waiting);
            self.metrics.spans("dropped", 1);
            return;
        }
        waiting.push_back(span);
        if waiting.len() == BATCH {
            self.enough.notify_one();
        }
    }
}

/// A span in progress. Dropping it ends it.
pub struct Span {
    tracer: Tracer,
    span: Ended,
}

impl Span {
    /// Replaces the name.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.span.name = name.into();
    }

    /// Adds an attribute.
    pub fn note(&mut self, name: &'static str, value: Value) {
        self.span.attributes.push((name, value));
    }

    /// Marks the span as failed.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.span.failure = Some(why.into());
    }

    /// Runs work within the span: spans begun there become its children.
    pub fn within<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(Some((self.tracer.clone(), self.span.context)), work)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(inner) = &self.tracer.0 else { return };
        self.span.ended = (inner.sources.now)();
        let empty = Ended { name: Cow::Borrowed(""), attributes: Vec::new(), failure: None, ..self.span };
        inner.keep(std::mem::replace(&mut self.span, empty));
    }
}

/// Begins a child of the current span, if there is one.
#[must_use]
pub fn part(name: impl FnOnce() -> String) -> Option<Span> {
    let (tracer, context) = CURRENT.try_with(Clone::clone).ok().flatten()?;
    tracer.begin(name().into(), Kind::Internal, Some(context))
}

/// Associates a task with the current trace, for later calls on behalf of the task.
pub fn remember(task: Uuid) {
    if let Ok(Some((Tracer(Some(inner)), context))) = CURRENT.try_with(Clone::clone) {
        inner.threads.lock().insert(task, context);
    }
}

/// Carries the current span into work that runs on its own.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(CURRENT.try_with(Clone::clone).ok().flatten(), work)
}

#[cfg(test)]
mod tests;
