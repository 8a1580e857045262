//! Traces: what a request set going, and how long each part of it took (W3C Trace Context). Spans that have ended wait in a
//! bounded queue for whoever sends them on; what does not fit is dropped and counted. Without a tracer nothing is noted.

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

/// Spans that may wait to be sent on.
const WAITING_MAX: usize = 8192;
/// Most spans that are sent on together.
pub const BATCH: usize = 512;

/// Where time and chance come from.
#[derive(Clone)]
pub struct Sources {
    /// Nanoseconds since 1970.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub chance: Arc<dyn Fn() -> [u8; 24] + Send + Sync>,
}

/// What a span is to others (the numbers of OTLP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
}

/// What is noted of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub context: Context,
    /// The span within which it happened.
    pub parent: Option<[u8; 8]>,
    pub kind: Kind,
    pub name: Cow<'static, str>,
    /// Nanoseconds since 1970.
    pub begun: u64,
    pub ended: u64,
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Notes spans; cheap to clone. The default notes nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    sources: Sources,
    /// How many of a hundred traces that begin here are noted.
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
    /// Notes so many of a hundred traces; those that somebody else has begun, as they have decided.
    #[must_use]
    pub fn new(sources: Sources, percent: u8, metrics: Metrics) -> Self {
        let (waiting, threads, enough) = (Mutex::default(), Mutex::default(), Notify::new());
        Self(Some(Arc::new(Inner { sources, percent, waiting, threads, enough, metrics })))
    }

    /// Whether anything is noted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request, which may go on a trace that a caller has begun.
    #[must_use]
    pub fn request(&self, traceparent: Option<&str>) -> Option<Span> {
        let parent = traceparent.and_then(Context::parse);
        self.begin("request".into(), Kind::Server, parent)
    }

    /// Begins the span of a call for a task, in the trace that submitted it, if that is known still.
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

    /// Up to [`BATCH`] spans that wait, the oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<Ended> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut waiting = inner.waiting.lock();
        let most = waiting.len().min(BATCH);
        waiting.drain(..most).collect()
    }

    /// Ends when as many spans wait as are sent on together.
    pub async fn enough(&self) {
        match &self.0 {
            Some(inner) => inner.enough.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Counts spans that were sent on, or not.
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

/// A span that goes on; it ends when it is dropped.
pub struct Span {
    tracer: Tracer,
    span: Ended,
}

impl Span {
    /// Calls it otherwise than when it began.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.span.name = name.into();
    }

    /// Notes something of it.
    pub fn note(&mut self, name: &'static str, value: Value) {
        self.span.attributes.push((name, value));
    }

    /// It failed.
    pub fn fail(&mut self, why: impl Into<String>) {
        self.span.failure = Some(why.into());
    }

    /// Does work within it: what begins there is a part of it.
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

/// Begins a part of what is being done, if that is traced.
#[must_use]
pub fn part(name: impl FnOnce() -> String) -> Option<Span> {
    let (tracer, context) = CURRENT.try_with(Clone::clone).ok().flatten()?;
    tracer.begin(name().into(), Kind::Internal, Some(context))
}

/// Remembers that a task belongs to what is being done, for the calls that are made for it later.
pub fn remember(task: Uuid) {
    if let Ok(Some((Tracer(Some(inner)), context))) = CURRENT.try_with(Clone::clone) {
        inner.threads.lock().insert(task, context);
    }
}

/// Work that goes on by itself within what is being done now.
pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(CURRENT.try_with(Clone::clone).ok().flatten(), work)
}

#[cfg(test)]
mod tests;
