//! The writer: appends all events, so that one sync makes many commands durable.
//!
//! It runs on the arbiter of the aggregates and syncs there, which saves two thread switches per command (ADR 12). It
//! takes all waiting appends (up to a limit), appends and syncs once, updates the read models, and replies to all.
//! During a sync the next group accumulates. If a group begins with fewer appends than the last one had, the writer
//! first lets the aggregates run for a fraction of the time of a sync. A lone client never waits.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::timeout_at;

use super::across::Across;
use super::projector::Projector;
use crate::clock::{Mishaps, Step};
use crate::events::envelope::{Append, Commit};
use crate::events::log::{AppendRejection, EventLog, LogFailure};

/// Maximum number of appends that share one sync.
const GROUP_MAX: usize = 1024;
/// Longest pause in which a group accumulates.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// The pause is this fraction of the time of an append. On a fast disk the next group accumulates during the sync
/// anyway; on a slow disk a saved sync is worth a longer pause.
const GATHER_PART: u32 = 8;
/// Longest delay of the log's maintenance after a group: signing HEAD takes half as long as a sync.
const UNTIDIED_MAX: Duration = Duration::from_millis(10);

/// Reason why an append failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The queue is full; nothing was done.
    #[error("the writer's queue is full")]
    Overloaded,
    /// Another append changed what a cross-stream rule depends on (see [`super::across`]); nothing was done.
    #[error("overtaken by a change that it depends on")]
    Overtaken,
    /// Only this append was refused.
    #[error(transparent)]
    Refused(#[from] AppendRejection),
    /// The whole group failed.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The writer stopped before it replied; it is unknown whether the events were recorded.
    #[error("the writer ended")]
    Interrupted,
}

/// Handle of the writer. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Request>,
}

struct Request {
    append: Append,
    asked_by: oneshot::Sender<Answer>,
}

type Answer = Result<Commit, AppendError>;

impl Writer {
    /// Returns a handle, the worker that makes appends durable, and a reference that expires when the worker ends for
    /// any reason. `queue` limits the number of waiting appends.
    #[must_use]
    pub fn new(
        log: Arc<dyn EventLog>,
        projector: Projector,
        queue: usize,
        mishaps: Mishaps,
    ) -> (Self, Worker, Weak<()>) {
        let (sender, receiver) = mpsc::channel(queue);
        let pulse = Arc::new(());
        let alive = Arc::downgrade(&pulse);
        let worker = Worker {
            log,
            projector,
            queue: receiver,
            last_group: 1,
            pause: Duration::ZERO,
            untidied_since: None,
            mishaps,
            _pulse: pulse,
        };

        (Self { queue: sender }, worker, alive)
    }

    /// Returns a function that returns the number of waiting appends; it does not keep the writer running.
    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let queue = self.queue.downgrade();
        move || queue.upgrade().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Makes the events of one command durable and visible.
    ///
    /// # Errors
    /// Returns the reason if nothing was recorded. After [`LogFailure::Storage`] and [`AppendError::Interrupted`] it is
    /// unknown whether the events were recorded.
    pub async fn append(&self, append: Append) -> Result<Commit, AppendError> {
        let (asked_by, answered) = oneshot::channel();
        self.queue.try_send(Request { append, asked_by }).map_err(|error| match error {
            TrySendError::Full(_) => AppendError::Overloaded,
            TrySendError::Closed(_) => LogFailure::ReadOnly { reason: "the writer has stopped".to_owned() }.into(),
        })?;
        answered.await.map_err(|_| AppendError::Interrupted)?
    }
}

/// The worker of a writer.
pub struct Worker {
    log: Arc<dyn EventLog>,
    projector: Projector,
    queue: mpsc::Receiver<Request>,
    /// Size of the last group: as many appends may arrive again.
    last_group: usize,
    /// Longest wait for them.
    pause: Duration,
    /// Time of the first commit since the log's last maintenance.
    untidied_since: Option<Instant>,
    mishaps: Mishaps,
    _pulse: Arc<()>,
}

impl Worker {
    /// Writes until all [`Writer`]s are dropped. Must run on the arbiter of the aggregates, which it blocks during a
    /// sync.
    pub async fn run(mut self) {
        while let Some(first) = self.next().await {
            let group = self.gather(first).await;
            self.last_group = group.len();
            self.commit(group);
            self.untidied_since.get_or_insert_with(Instant::now);
        }
        self.tidy();
    }

    /// Returns the first append of the next group. Runs the log's maintenance in the meantime, if due.
    async fn next(&mut self) -> Option<Request> {
        while let Some(due) = self.untidied_since.map(|since| since + UNTIDIED_MAX) {
            if Instant::now() >= due {
                self.tidy();
            } else if let Ok(request) = timeout_at(due.into(), self.queue.recv()).await {
                return request;
            }
        }
        self.queue.recv().await
    }

    fn tidy(&mut self) {
        if self.untidied_since.take().is_some() {
            self.log.after_group();
        }
    }

    /// Collects the appends that share a sync with `first`: those already decided, and for a short time those of
    /// clients that just received a reply.
    async fn gather(&mut self, first: Request) -> Vec<Request> {
        let mut group = Vec::with_capacity(self.last_group + 1);
        group.push(first);

        let deadline = Instant::now() + self.pause;

        loop {
            yield_now().await;
            while group.len() < GROUP_MAX
                && let Ok(request) = self.queue.try_recv()
            {
                group.push(request);
            }
            if group.len() >= self.last_group.min(GROUP_MAX) || Instant::now() >= deadline {
                return group;
            }
        }
    }

    fn commit(&mut self, group: Vec<Request>) {
        let mut rules = Across::new(self.projector.models());
        let (group, overtaken): (Vec<_>, Vec<_>) = group.into_iter().partition(|request| rules.allows(&request.append));

        for request in overtaken {
            let _ = request.asked_by.send(Err(AppendError::Overtaken));
        }
        if group.is_empty() {
            return;
        }

        let (appends, asked_by): (Vec<_>, Vec<_>) = group.into_iter().map(|r| (r.append, r.asked_by)).unzip();
        let started = Instant::now();
        let answers: Vec<Answer> = match self.log.append(appends) {
            Ok(outcomes) => {
                self.pause = ((self.pause * 3 + started.elapsed() / GATHER_PART) / 4).min(GATHER_MAX);
                self.projector.project(outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()));
                self.mishaps.done(Step::Projected);
                outcomes.into_iter().map(|outcome| outcome.map_err(AppendError::from)).collect()
            }
            // The log itself logs this, once.
            Err(failure @ LogFailure::Full { .. }) => asked_by.iter().map(|_| Err(failure.clone().into())).collect(),
            Err(failure) => {
                tracing::error!(%failure, "a group of {} appends failed", asked_by.len());
                asked_by.iter().map(|_| Err(failure.clone().into())).collect()
            }
        };

        for (asked_by, answer) in asked_by.into_iter().zip(answers) {
            // The caller may have gone; its append is recorded nevertheless.
            let _ = asked_by.send(answer);
        }

        self.mishaps.done(Step::Answered);
    }
}
