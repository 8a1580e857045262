//! The writer: appends all events, so that one sync makes many commands durable.
//!
//! It runs on the arbiter of the aggregates and syncs there, which saves two thread switches per command (ADR 12). It
//! takes all waiting appends (up to a limit), appends and syncs once, updates the read models, and replies to all.
//! During a sync the next group accumulates. If a group begins with fewer appends than the last one had, the writer
//! first lets the aggregates run for a fraction of the time of a sync. A lone client never waits.
//!
//! An append to a shared log waits for other machines, so it runs on a thread of its own, one at a time. The log then
//! updates the read models itself, because other nodes append too.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::timeout_at;

use super::cross_stream_rules::CrossStreamRules;
use super::projector::Projector;
use crate::environment::{CommitStep, FailPoints};
use crate::events::envelope::{Append, Commit};
use crate::events::log::{AppendRejection, EventLog, GroupOutcome, LogFailure};
use crate::projections::budget::BudgetExceeded;

/// Maximum number of appends that share one sync.
const GROUP_MAX: usize = 1024;
/// Longest pause in which a group accumulates.
const GROUP_DELAY_MAX: Duration = Duration::from_millis(1);
/// The pause is this fraction of the time of an append. On a fast disk the next group accumulates during the sync
/// anyway; on a slow disk a saved sync is worth a longer pause.
const GROUP_DELAY_DIVISOR: u32 = 8;
/// Longest delay of the log's maintenance after a group: signing HEAD takes half as long as a sync.
const MAINTENANCE_DELAY_MAX: Duration = Duration::from_millis(10);

/// Reason why an append failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The queue is full; nothing was done.
    #[error("the writer's queue is full")]
    Overloaded,
    /// Another append changed what a cross-stream rule depends on (see [`super::cross_stream_rules`]); nothing was
    /// done.
    #[error("conflicts with a concurrent change that it depends on")]
    CrossStreamConflict,
    /// The submission would exceed a budget; nothing was done.
    #[error("exceeds the budget of {}", .0.subject)]
    BudgetExceeded(Box<BudgetExceeded>),
    /// Only this append was refused.
    #[error(transparent)]
    Refused(#[from] AppendRejection),
    /// The whole group failed.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The writer stopped before it replied; it is unknown whether the events were recorded.
    #[error("the writer stopped")]
    Interrupted,
}

/// Handle of the writer. Cheap to clone.
#[derive(Clone)]
pub struct EventWriter {
    queue: mpsc::Sender<AppendRequest>,
}

struct AppendRequest {
    append: Append,
    reply: oneshot::Sender<AppendOutcome>,
}

type AppendOutcome = Result<Commit, AppendError>;

impl EventWriter {
    /// Returns a handle, the worker that makes appends durable, and a reference that expires when the worker ends for
    /// any reason. `queue` limits the number of waiting appends.
    #[must_use]
    pub fn new(
        log: Arc<dyn EventLog>,
        projector: Projector,
        queue: usize,
        fail_points: FailPoints,
    ) -> (Self, EventWriterTask, Weak<()>) {
        let (sender, receiver) = mpsc::channel(queue);
        let alive_guard = Arc::new(());
        let liveness = Arc::downgrade(&alive_guard);
        let worker = EventWriterTask {
            log,
            projector,
            queue: receiver,
            last_group: 1,
            group_delay: Duration::ZERO,
            maintenance_pending_since: None,
            fail_points,
            _alive: alive_guard,
        };

        (Self { queue: sender }, worker, liveness)
    }

    /// Returns a function that reads the number of waiting appends, and that does not keep the writer running.
    pub fn queue_length(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let queue = self.queue.downgrade();
        move || queue.upgrade().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Makes the events of one command durable and visible.
    ///
    /// # Errors
    /// Returns the reason if nothing was recorded. After [`LogFailure::Storage`] and [`AppendError::Interrupted`] it is
    /// unknown whether the events were recorded.
    pub async fn append(&self, append: Append) -> Result<Commit, AppendError> {
        let (reply, receiver) = oneshot::channel();
        self.queue.try_send(AppendRequest { append, reply }).map_err(|error| match error {
            TrySendError::Full(_) => AppendError::Overloaded,
            TrySendError::Closed(_) => LogFailure::ReadOnly { reason: "the writer has stopped".to_owned() }.into(),
        })?;
        receiver.await.map_err(|_| AppendError::Interrupted)?
    }
}

/// The worker of a writer.
pub struct EventWriterTask {
    log: Arc<dyn EventLog>,
    projector: Projector,
    queue: mpsc::Receiver<AppendRequest>,
    /// Size of the last group: as many appends may arrive again.
    last_group: usize,
    /// Longest wait for that many appends.
    group_delay: Duration,
    /// Time of the first commit since the log's last maintenance.
    maintenance_pending_since: Option<Instant>,
    fail_points: FailPoints,
    /// Expires the reference from [`EventWriter::new`] when the worker is dropped.
    _alive: Arc<()>,
}

impl EventWriterTask {
    /// Writes until all [`EventWriter`]s are dropped. Must run on the arbiter of the aggregates, which it blocks during
    /// a sync of an embedded log.
    pub async fn run(mut self) {
        while let Some(first) = self.next_append().await {
            let group = self.collect_group(first).await;
            self.last_group = group.len();
            self.commit(group).await;
            self.maintenance_pending_since.get_or_insert_with(Instant::now);
        }
        self.run_maintenance();
    }

    /// Returns the first append of the next group. Runs the log's maintenance in the meantime, if due.
    async fn next_append(&mut self) -> Option<AppendRequest> {
        while let Some(deadline) =
            self.maintenance_pending_since.map(|pending_since| pending_since + MAINTENANCE_DELAY_MAX)
        {
            if Instant::now() >= deadline {
                self.run_maintenance();
            } else if let Ok(request) = timeout_at(deadline.into(), self.queue.recv()).await {
                return request;
            }
        }
        self.queue.recv().await
    }

    fn run_maintenance(&mut self) {
        if self.maintenance_pending_since.take().is_some() {
            self.log.after_group();
        }
    }

    /// Collects the appends that share a sync with `first`: those already decided, and for a short time those of
    /// clients that just received a reply.
    async fn collect_group(&mut self, first: AppendRequest) -> Vec<AppendRequest> {
        let mut group = Vec::with_capacity(self.last_group + 1);
        group.push(first);

        let deadline = Instant::now() + self.group_delay;

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

    /// Appends a group with one sync, updates the read models and replies to all callers. Adapts the delay of the next
    /// group to the time that the append took.
    async fn commit(&mut self, group: Vec<AppendRequest>) {
        let mut rules = CrossStreamRules::new(self.projector.models());
        let mut appends = Vec::with_capacity(group.len());
        let mut replies = Vec::with_capacity(group.len());

        for AppendRequest { append, reply } in group {
            match rules.check(&append) {
                Ok(guards) => {
                    appends.push(Append { guards, ..append });
                    replies.push(reply);
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            }
        }
        if appends.is_empty() {
            return;
        }

        let started = Instant::now();
        let outcomes: Vec<AppendOutcome> = match self.append_group(appends).await {
            Ok(results) => {
                // A moving average, so that a single slow sync has little effect.
                let measured = started.elapsed() / GROUP_DELAY_DIVISOR;
                self.group_delay = ((self.group_delay * 3 + measured) / 4).min(GROUP_DELAY_MAX);
                if !self.log.is_shared() {
                    self.projector.project(results.iter().filter_map(|result| result.as_ref().ok()));
                }
                self.fail_points.hit_after(CommitStep::Projected);
                results.into_iter().map(|result| result.map_err(AppendError::from)).collect()
            }
            // The log itself reports a full disk, once.
            Err(failure @ LogFailure::Full { .. }) => replies.iter().map(|_| Err(failure.clone().into())).collect(),
            Err(failure) => {
                tracing::error!(%failure, appends = replies.len(), "append failed");
                replies.iter().map(|_| Err(failure.clone().into())).collect()
            }
        };

        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // The caller may have gone; its append is recorded nevertheless.
            let _ = reply.send(outcome);
        }

        self.fail_points.hit_after(CommitStep::Replied);
    }

    /// Appends a group. Blocks the arbiter if the log is embedded.
    async fn append_group(&self, appends: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        if !self.log.is_shared() {
            return self.log.append(appends);
        }
        let log = Arc::clone(&self.log);
        let appended = tokio::task::spawn_blocking(move || log.append(appends)).await;
        appended.unwrap_or_else(|panic| Err(LogFailure::OutcomeUnknown { reason: panic.to_string() }))
    }
}
