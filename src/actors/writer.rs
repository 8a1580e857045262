//! The writer: the one place through which every event goes, so that one sync makes many commands durable.
//!
//! It runs on the arbiter of the aggregates, as they do, and syncs there: what a command waits for is one thread, not a hop
//! to another and back (ADR 12). It takes everything that waits (bounded), appends once, syncs once, lets the read models
//! follow, and answers all. While the disk is busy the next group gathers by itself; when a group begins with fewer appends
//! than the last one had, the writer lets the aggregates go on for a moment, short against what a sync takes here. A lone
//! client never waits for anybody.

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
use crate::events::log::{AppendRefused, EventLog, LogFailure};

/// Most appends that share one sync.
const GROUP_MAX: usize = 1024;
/// Longest pause in which a group gathers.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// The pause is this part of the time that an append takes: on a fast disk the next group gathers during the sync anyway,
/// on a slow one a sync less is worth more.
const GATHER_PART: u32 = 8;
/// Longest time after a group in which the log does its own work: signing HEAD takes half as long as a sync.
const UNTIDIED_MAX: Duration = Duration::from_millis(10);

/// Why an append had no effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The queue is full; nothing was done.
    #[error("the writer's queue is full")]
    Overloaded,
    /// Another append came between the check of a rule and this one (see [`super::across`]); nothing was done.
    #[error("overtaken by a change that it depends on")]
    Overtaken,
    /// This append was refused, alone.
    #[error(transparent)]
    Refused(#[from] AppendRefused),
    /// The whole group failed.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// The writer ended before it answered; whether the events were recorded is not known here.
    #[error("the writer ended")]
    Interrupted,
}

/// How others reach the writer. Cheap to clone.
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
    /// A writer, the work that makes its appends durable, and a pulse that is gone when that work has ended, however it
    /// ended. `queue` bounds how many appends wait.
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

    /// Tells how many appends wait for their group; does not keep the writer going.
    pub fn waiting(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let queue = self.queue.downgrade();
        move || queue.upgrade().map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }

    /// Makes the events of one command durable and visible.
    ///
    /// # Errors
    /// When nothing was recorded, and why; after [`LogFailure::Storage`] and [`AppendError::Interrupted`] it is unknown.
    pub async fn append(&self, append: Append) -> Result<Commit, AppendError> {
        let (asked_by, answered) = oneshot::channel();
        self.queue.try_send(Request { append, asked_by }).map_err(|error| match error {
            TrySendError::Full(_) => AppendError::Overloaded,
            TrySendError::Closed(_) => LogFailure::ReadOnly { reason: "the writer has stopped".to_owned() }.into(),
        })?;
        answered.await.map_err(|_| AppendError::Interrupted)?
    }
}

/// The work of a writer.
pub struct Worker {
    log: Arc<dyn EventLog>,
    projector: Projector,
    queue: mpsc::Receiver<Request>,
    /// How many appends the last group had: as many may be on their way again.
    last_group: usize,
    /// How long to wait for them.
    pause: Duration,
    /// When the first group was committed after which the log has not done its own work yet.
    untidied_since: Option<Instant>,
    mishaps: Mishaps,
    _pulse: Arc<()>,
}

impl Worker {
    /// Writes until there is no [`Writer`] left. To be run on the arbiter of the aggregates, which it blocks during a sync.
    pub async fn run(mut self) {
        while let Some(first) = self.next().await {
            let group = self.gather(first).await;
            self.last_group = group.len();
            self.commit(group);
            self.untidied_since.get_or_insert_with(Instant::now);
        }
        self.tidy();
    }

    /// The first append of the next group; what the log has to do for itself is done meanwhile, if it is time.
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

    /// The append and those that come with it: whatever the aggregates decide now, and, for a moment, those who were
    /// answered last.
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
            // Told by the log itself, once.
            Err(failure @ LogFailure::Full { .. }) => asked_by.iter().map(|_| Err(failure.clone().into())).collect(),
            Err(failure) => {
                tracing::error!(%failure, "a group of {} appends failed", asked_by.len());
                asked_by.iter().map(|_| Err(failure.clone().into())).collect()
            }
        };
        for (asked_by, answer) in asked_by.into_iter().zip(answers) {
            // Nobody may be waiting any more: what was asked is done all the same.
            let _ = asked_by.send(answer);
        }
        self.mishaps.done(Step::Answered);
    }
}
