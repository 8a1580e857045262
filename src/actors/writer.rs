//! The writer: one thread through which every event goes, so that one sync makes many commands durable.
//!
//! It takes everything that waits (bounded), appends once, syncs once, lets the read models follow, and answers all. While
//! the disk is busy the next group gathers by itself; when a group begins with fewer appends than the last one had, the
//! writer waits a moment for the others, short against what a sync takes here. A lone client never waits for anybody.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::projector::Projector;
use crate::events::envelope::{Append, Commit};
use crate::events::log::{AppendRefused, EventLog, LogFailure};

/// Most appends that share one sync.
const GROUP_MAX: usize = 1024;
/// Longest pause in which a group gathers.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// The pause is this part of the time that an append takes: on a fast disk the next group gathers during the sync anyway,
/// on a slow one a sync less is worth more.
const GATHER_PART: u32 = 8;
/// Longest time that the log is kept from its own work after a group while appends keep coming.
const UNTIDIED_MAX: Duration = Duration::from_millis(10);

/// Why an append had no effect.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The queue is full; nothing was done.
    #[error("the writer's queue is full")]
    Overloaded,
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

/// How others reach the writer. Cheap to clone; the thread ends when the last handle is gone.
#[derive(Clone)]
pub struct Writer {
    queue: SyncSender<Request>,
    waiting: Arc<AtomicUsize>,
}

/// A writer that runs.
pub struct Started {
    pub writer: Writer,
    pub courier: Courier,
    pub thread: JoinHandle<()>,
    /// Gone when the thread has ended, however it ended.
    pub alive: Weak<()>,
    /// How many appends wait for their group.
    pub waiting: Arc<AtomicUsize>,
}

struct Request {
    append: Append,
    asked_by: oneshot::Sender<Answer>,
    _waits: Waits,
}

/// Counts while it lives.
struct Waits(Arc<AtomicUsize>);

impl Waits {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Answer = Result<Commit, AppendError>;

/// Hands the answers of a group out on the thread of those who asked: the writer wakes that thread once a group, not once
/// an answer.
pub struct Courier {
    groups: mpsc::UnboundedReceiver<Vec<(oneshot::Sender<Answer>, Answer)>>,
}

impl Courier {
    /// Hands out until the writer has ended. To be run on the arbiter of the aggregates.
    pub async fn run(mut self) {
        while let Some(group) = self.groups.recv().await {
            for (asked_by, answer) in group {
                // Nobody may be waiting any more: what was asked is done all the same.
                let _ = asked_by.send(answer);
            }
        }
    }
}

impl Writer {
    /// Starts the thread. `queue` bounds how many appends wait. Answers come only while the courier runs.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(log: Arc<dyn EventLog>, projector: Projector, queue: usize) -> std::io::Result<Started> {
        let (sender, receiver) = sync_channel(queue);
        let (answers, groups) = mpsc::unbounded_channel();
        let pulse = Arc::new(());
        let alive = Arc::downgrade(&pulse);
        let waiting = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            log,
            projector,
            queue: receiver,
            answers,
            last_group: 1,
            pause: Duration::ZERO,
            untidied_since: None,
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(move || {
            worker.run();
            drop(pulse);
        })?;
        let writer = Self { queue: sender, waiting: Arc::clone(&waiting) };
        Ok(Started { writer, courier: Courier { groups }, thread, alive, waiting })
    }

    /// Makes the events of one command durable and visible.
    ///
    /// # Errors
    /// When nothing was recorded, and why; after [`LogFailure::Storage`] and [`AppendError::Interrupted`] it is unknown.
    pub async fn append(&self, append: Append) -> Result<Commit, AppendError> {
        let (asked_by, answered) = oneshot::channel();
        let waits = Waits::new(&self.waiting);
        self.queue.try_send(Request { append, asked_by, _waits: waits }).map_err(|error| match error {
            TrySendError::Full(_) => AppendError::Overloaded,
            TrySendError::Disconnected(_) => {
                LogFailure::ReadOnly { reason: "the writer has stopped".to_owned() }.into()
            }
        })?;
        answered.await.map_err(|_| AppendError::Interrupted)?
    }
}

struct Worker {
    log: Arc<dyn EventLog>,
    projector: Projector,
    queue: Receiver<Request>,
    /// Bounded by the queue: nobody asks again before the answer.
    answers: mpsc::UnboundedSender<Vec<(oneshot::Sender<Answer>, Answer)>>,
    /// How many appends the last group had: as many may be on their way again.
    last_group: usize,
    /// How long to wait for them.
    pause: Duration,
    /// When the first group was committed after which the log has not done its own work yet.
    untidied_since: Option<Instant>,
}

impl Worker {
    fn run(mut self) {
        while let Some(first) = self.next() {
            let group = self.gather(first);
            self.last_group = group.len();
            self.commit(group);
            self.untidied_since.get_or_insert_with(Instant::now);
            if self.untidied_since.is_some_and(|since| since.elapsed() >= UNTIDIED_MAX) {
                self.tidy();
            }
        }
        self.tidy();
    }

    /// The first append of the next group; what the log has to do for itself is done while nobody waits.
    fn next(&mut self) -> Option<Request> {
        if let Ok(request) = self.queue.try_recv() {
            return Some(request);
        }
        self.tidy();
        self.queue.recv().ok()
    }

    fn tidy(&mut self) {
        if self.untidied_since.take().is_some() {
            self.log.after_group();
        }
    }

    fn gather(&self, first: Request) -> Vec<Request> {
        let mut group = Vec::with_capacity(self.last_group + 1);
        group.push(first);
        let deadline = Instant::now() + self.pause;
        while group.len() < GROUP_MAX {
            match self.queue.try_recv() {
                Ok(request) => group.push(request),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) if group.len() >= self.last_group || Instant::now() >= deadline => break,
                Err(TryRecvError::Empty) => std::thread::yield_now(),
            }
        }
        group
    }

    fn commit(&mut self, group: Vec<Request>) {
        let (appends, asked_by): (Vec<_>, Vec<_>) = group.into_iter().map(|r| (r.append, r.asked_by)).unzip();
        let started = Instant::now();
        let answers: Vec<Answer> = match self.log.append(appends) {
            Ok(outcomes) => {
                self.pause = ((self.pause * 3 + started.elapsed() / GATHER_PART) / 4).min(GATHER_MAX);
                self.projector.project(outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()));
                outcomes.into_iter().map(|outcome| outcome.map_err(AppendError::from)).collect()
            }
            Err(failure) => {
                tracing::error!(%failure, "a group of {} appends failed", asked_by.len());
                asked_by.iter().map(|_| Err(failure.clone().into())).collect()
            }
        };
        // Without a courier the service is stopping, and those who asked see that.
        let _ = self.answers.send(asked_by.into_iter().zip(answers).collect());
    }
}
