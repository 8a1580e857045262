//! In-memory jobs of a built-in engine.
//!
//! The key of a job is also its reference: while the job is known, the same key is the same job. Nothing survives a
//! restart, and nothing has to: the vendor reports the job as forgotten, the task is submitted again, and the same
//! inputs and parameters yield the same file.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::disk_space::missing_resource;
use crate::domain::ids::UserId;
use crate::domain::task::{TaskFailure, VendorKey};
use crate::file_tree::is_unavailable;
use crate::media::decoders::{PictureDecodeError, PictureDecoders};
use crate::media::input::DecodedPicture;
use crate::vendors::{VendorError, VendorErrorKind};

/// Returns `true` while a job is wanted: its task was not cancelled and has not ended otherwise.
pub type IsJobWanted = Arc<dyn Fn(&VendorKey) -> bool + Send + Sync>;

/// Pause requested when the engine is full.
pub(super) const BUSY_PAUSE: Duration = Duration::from_secs(5);
/// Time without a poll after which a job is dropped, even if it is still wanted.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval at which a waiting job checks whether it is still wanted.
const WANTED_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Pause of a job that lacks disk space or file descriptors.
const RESOURCE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState<T> {
    /// Waiting for its share of the engine.
    Waiting,
    Running {
        /// Progress in thousandths.
        permille: u16,
    },
    Ended(Result<T, TaskFailure>),
}

/// The known jobs.
pub(super) struct Jobs<T> {
    /// Maximum number of jobs that wait or run.
    open_max: usize,
    /// Maximum number of remembered ended jobs.
    ended_max: usize,
    is_wanted: IsJobWanted,
    registry: Mutex<KnownJobs<T>>,
    progress_notify: Arc<Notify>,
}

struct KnownJobs<T> {
    jobs: HashMap<VendorKey, JobEntry<T>>,
    /// Sequence numbers of waiting jobs of each account, in order; accounts without any are absent.
    waiting: HashMap<Option<UserId>, VecDeque<u64>>,
    /// Number of waiting and running jobs of each account; accounts without any are absent.
    open: HashMap<Option<UserId>, usize>,
    /// Ended jobs, oldest first.
    ended: VecDeque<VendorKey>,
    /// Number of jobs admitted so far.
    arrivals: u64,
}

struct JobEntry<T> {
    account: Option<UserId>,
    state: JobState<T>,
    /// Time of the last poll.
    last_polled_at: Instant,
    /// Sequence number of the admission.
    arrival: u64,
}

impl<T> KnownJobs<T> {
    /// Removes a job from the waiting ones, if it is among them.
    fn leave_queue(&mut self, key: &VendorKey) {
        let Some(JobEntry { account, arrival, .. }) = self.jobs.get(key) else { return };
        let Some(queue) = self.waiting.get_mut(account) else { return };
        if let Ok(index) = queue.binary_search(arrival) {
            queue.remove(index);
        }
        if queue.is_empty() {
            self.waiting.remove(account);
        }
    }

    /// Removes a job from the count of waiting and running ones.
    fn close(&mut self, account: Option<UserId>) {
        let remaining = self.open.remove(&account).unwrap_or(0).saturating_sub(1);
        if remaining > 0 {
            self.open.insert(account, remaining);
        }
    }
}

impl<T: Clone> Jobs<T> {
    pub fn new(open_max: usize, ended_max: usize, is_wanted: IsJobWanted) -> Self {
        let registry = KnownJobs {
            jobs: HashMap::new(),
            waiting: HashMap::new(),
            open: HashMap::new(),
            ended: VecDeque::new(),
            arrivals: 0,
        };
        Self { open_max, ended_max, is_wanted, registry: Mutex::new(registry), progress_notify: Arc::default() }
    }

    /// Admits a job; `false` if it is already known.
    ///
    /// # Errors
    /// If too many jobs wait or run, in total or of this account; the message names `engine`.
    pub fn admit(&self, key: &VendorKey, account: Option<UserId>, engine: &str) -> Result<bool, VendorError> {
        let mut registry = self.registry.lock();

        if let Some(entry) = registry.jobs.get_mut(key) {
            entry.last_polled_at = Instant::now();
            return Ok(false);
        }

        // One account may use half of the slots.
        let account_max = self.open_max.div_ceil(2).max(2);
        let account_open = registry.open.get(&account).copied().unwrap_or(0);

        if registry.jobs.len() - registry.ended.len() >= self.open_max || account_open >= account_max {
            let mut busy = VendorError::new(VendorErrorKind::Busy, format!("the queue of the {engine} engine is full"));
            busy.retry_after = Some(BUSY_PAUSE);
            return Err(busy);
        }

        registry.arrivals += 1;
        let arrival = registry.arrivals;
        registry.waiting.entry(account).or_default().push_back(arrival);
        *registry.open.entry(account).or_default() += 1;

        let entry = JobEntry { account, state: JobState::Waiting, last_polled_at: Instant::now(), arrival };
        registry.jobs.insert(key.clone(), entry);
        Ok(true)
    }

    /// Marks a job as running.
    pub fn mark_running(&self, key: &VendorKey) {
        let mut registry = self.registry.lock();
        registry.leave_queue(key);
        if let Some(entry) = registry.jobs.get_mut(key) {
            entry.state = JobState::Running { permille: 0 };
        }
        drop(registry);
        self.progress_notify.notify_one();
    }

    /// Sets the progress of a running job in thousandths. It never decreases, even if threads report out of order.
    pub fn advance(&self, key: &VendorKey, new_permille: u16) {
        if let Some(JobEntry { state: JobState::Running { permille }, .. }) = self.registry.lock().jobs.get_mut(key) {
            *permille = new_permille.max(*permille);
        }
    }

    /// Returns the position of a job among the waiting ones, from 1; accounts take turns. `None` for a job that is not
    /// waiting.
    pub fn queue_position(&self, key: &VendorKey) -> Option<u32> {
        let registry = self.registry.lock();
        let JobEntry { account, arrival, .. } = registry.jobs.get(key)?;
        let own_queue = registry.waiting.get(account)?;
        let own_ahead = own_queue.binary_search(arrival).ok()?;

        // In each round, accounts come in the order of their first waiting jobs.
        let other_queues = registry.waiting.iter().filter(|(other, _)| *other != account);
        let others_ahead =
            other_queues.map(|(_, queue)| queue.len().min(own_ahead + usize::from(queue.front() < own_queue.front())));
        u32::try_from(own_ahead + others_ahead.sum::<usize>() + 1).ok()
    }

    /// Marks a job as ended.
    pub fn end(&self, key: VendorKey, outcome: Result<T, TaskFailure>) {
        let mut registry = self.registry.lock();
        registry.leave_queue(&key);

        if let Some(entry) = registry.jobs.get_mut(&key) {
            entry.state = JobState::Ended(outcome);
            let account = entry.account;
            registry.close(account);
            registry.ended.push_back(key);
        }

        while registry.ended.len() > self.ended_max {
            if let Some(oldest) = registry.ended.pop_front() {
                registry.jobs.remove(&oldest);
            }
        }

        drop(registry);
        self.progress_notify.notify_one();
    }

    /// Removes a job.
    pub fn forget(&self, key: &VendorKey) {
        let mut registry = self.registry.lock();
        registry.leave_queue(key);
        if let Some(JobEntry { account, state: JobState::Waiting | JobState::Running { .. }, .. }) =
            registry.jobs.remove(key)
        {
            registry.close(account);
        }
        drop(registry);
        self.progress_notify.notify_one();
    }

    /// Returns the state of a job, if known. Counts as a poll.
    pub fn state(&self, key: &VendorKey) -> Option<JobState<T>> {
        let mut registry = self.registry.lock();
        let entry = registry.jobs.get_mut(key)?;
        entry.last_polled_at = Instant::now();
        Some(entry.state.clone())
    }

    /// Returns the number of known jobs.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.registry.lock().jobs.len()
    }

    /// Returns `true` if a job is no longer wanted, or was not polled for [`POLL_TIMEOUT`].
    pub fn is_abandoned(&self, key: &VendorKey) -> bool {
        !self.is_wanted(key)
            || self.registry.lock().jobs.get(key).is_none_or(|entry| entry.last_polled_at.elapsed() > POLL_TIMEOUT)
    }

    /// Returns `true` if a job is wanted, whether it is polled or not.
    pub fn is_wanted(&self, key: &VendorKey) -> bool {
        (self.is_wanted)(key)
    }

    /// Completes within seconds after the job is no longer wanted.
    pub async fn wait_until_unwanted(&self, key: &VendorKey) {
        while self.is_wanted(key) {
            tokio::time::sleep(WANTED_CHECK_INTERVAL).await;
        }
    }

    /// Retries a file operation of a job while the disk is full or too many files are open: such errors are temporary
    /// and should not fail the job. Blocks, at most until the job is no longer wanted.
    ///
    /// # Errors
    /// Returns the other errors of `attempt`.
    pub fn retry_while_exhausted<R>(&self, key: &VendorKey, attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.retry_with_wait(key, || thread::sleep(RESOURCE_RETRY_DELAY), attempt)
    }

    fn retry_with_wait<R>(
        &self,
        key: &VendorKey,
        mut wait: impl FnMut(),
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let mut is_logged = false;

        loop {
            match attempt() {
                Err(error) if is_temporary(&error) && !self.is_abandoned(key) => {
                    if !is_logged {
                        let job = key.as_str();
                        if is_unavailable(&error) {
                            tracing::warn!(%error, job, "engine job waits for the bucket");
                        } else {
                            tracing::warn!(%error, job, "engine job waits for disk space or file descriptors");
                        }
                        is_logged = true;
                    }
                    wait();
                }
                other => return other,
            }
        }
    }

    /// Decodes a picture of a job, waiting for memory while the job is wanted. Blocks.
    ///
    /// # Errors
    /// Same as [`PictureDecoders::decode`].
    pub fn decode(
        &self,
        key: &VendorKey,
        decoders: &PictureDecoders,
        bytes: &[u8],
    ) -> Result<DecodedPicture, PictureDecodeError> {
        loop {
            // A decoder waits before it reports that it is busy, so this loop does not spin.
            match decoders.decode(bytes) {
                Err(PictureDecodeError::Busy) if !self.is_abandoned(key) => {}
                decoded => return decoded,
            }
        }
    }

    /// Returns the notification of changed jobs.
    pub fn progress_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.progress_notify)
    }
}

/// Turns a panic of an engine into a failure of its job.
pub(super) fn catch_engine_panic<T>(
    engine: &str,
    job: impl FnOnce() -> Result<T, TaskFailure>,
) -> Result<T, TaskFailure> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| {
        tracing::error!(engine, "engine panicked");
        let message = format!("the {engine} engine failed on this job; this is a bug in the service");
        Err(TaskFailure::new("engine_failed", &message))
    })
}

/// Returns a failure caused by this service. The cause is logged for the operator; owners get a fixed sentence.
pub(super) fn internal_failure(code: &str, sentence: &str, cause: &dyn Display) -> TaskFailure {
    tracing::error!(code, %cause, "{sentence}");
    TaskFailure::new(code, sentence)
}

/// Returns `true` for a failure that passes on its own, so that a retry of the same job can succeed.
fn is_temporary(error: &io::Error) -> bool {
    missing_resource(error).is_some() || is_unavailable(error)
}

#[cfg(test)]
mod tests;
