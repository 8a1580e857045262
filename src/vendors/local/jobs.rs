//! The jobs that an engine inside has, known by their keys, in memory.
//!
//! A job is known by its key, which is also its reference: the same key while the job is known is the same job. Nothing
//! survives a restart, and nothing needs to: the vendor answers that it forgot, the task is submitted again, and the same
//! inputs with the same parameters give the same file.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::ids::UserId;
use crate::domain::task::{Failure, VendorKey};
use crate::media::decoders::{DecodeError, Decoders};
use crate::media::input::Decoded;
use crate::space::lacking;
use crate::vendors::{ErrorKind, VendorError};

/// What a submission to a full engine is asked to wait.
pub(super) const BUSY_PAUSE: Duration = Duration::from_secs(5);
/// Whether somebody still wants a job: nobody does when its task was cancelled, or ended in another way.
pub type Wanted = Arc<dyn Fn(&VendorKey) -> bool + Send + Sync>;

/// How long a job is made that nobody asks after, though nobody is known to have given it up.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// How often a job that waits for its share looks whether it is still wanted.
const GLANCE: Duration = Duration::from_secs(2);
/// How long a job rests that found no room.
const REST: Duration = Duration::from_secs(1);

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing<T> {
    /// It waits for its share of the engine.
    Waiting,
    /// So many thousandths of it are made.
    Running {
        permille: u16,
    },
    Ended(Result<T, Failure>),
}

/// The jobs that are known.
pub(super) struct Jobs<T> {
    /// Jobs that may wait or run.
    open_max: usize,
    /// Ended jobs that are remembered.
    ended_max: usize,
    wanted: Wanted,
    known: Mutex<Known<T>>,
    moved: Arc<Notify>,
}

struct Known<T> {
    jobs: HashMap<VendorKey, Entry<T>>,
    /// Numbers of the jobs that wait, of each account in order; accounts without any are absent.
    waiting: HashMap<Option<UserId>, VecDeque<u64>>,
    /// Jobs of each account that wait or run; accounts without any are absent.
    open: HashMap<Option<UserId>, usize>,
    /// Ended jobs, the oldest first.
    ended: VecDeque<VendorKey>,
    /// How many jobs came so far.
    came: u64,
}

struct Entry<T> {
    account: Option<UserId>,
    standing: Standing<T>,
    /// When somebody asked after it last.
    asked: Instant,
    /// Which one it was of all that came.
    came: u64,
}

impl<T> Known<T> {
    /// The job does not wait any more, if it did.
    fn leave_queue(&mut self, key: &VendorKey) {
        let Some(Entry { account, came, .. }) = self.jobs.get(key) else { return };
        let Some(waiting) = self.waiting.get_mut(account) else { return };
        if let Ok(place) = waiting.binary_search(came) {
            waiting.remove(place);
        }
        if waiting.is_empty() {
            self.waiting.remove(account);
        }
    }

    /// The job does not wait or run any more.
    fn close(&mut self, account: Option<UserId>) {
        let left = self.open.remove(&account).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            self.open.insert(account, left);
        }
    }
}

impl<T: Clone> Jobs<T> {
    pub fn new(open_max: usize, ended_max: usize, wanted: Wanted) -> Self {
        let known = Known {
            jobs: HashMap::new(),
            waiting: HashMap::new(),
            open: HashMap::new(),
            ended: VecDeque::new(),
            came: 0,
        };
        Self { open_max, ended_max, wanted, known: Mutex::new(known), moved: Arc::default() }
    }

    /// Takes the key in; false when its job is known already.
    ///
    /// # Errors
    /// When too many jobs wait or run, of all accounts or of this one; `engine` is named.
    pub fn admit(&self, key: &VendorKey, account: Option<UserId>, engine: &str) -> Result<bool, VendorError> {
        let mut known = self.known.lock();
        if let Some(entry) = known.jobs.get_mut(key) {
            entry.asked = Instant::now();
            return Ok(false);
        }
        // One account leaves half of the places to the others.
        let own_max = self.open_max.div_ceil(2).max(2);
        let own = known.open.get(&account).copied().unwrap_or(0);
        if known.jobs.len() - known.ended.len() >= self.open_max || own >= own_max {
            let mut busy = VendorError::new(ErrorKind::Busy, format!("the {engine} engine has too many jobs waiting"));
            busy.retry_after = Some(BUSY_PAUSE);
            return Err(busy);
        }
        known.came += 1;
        let came = known.came;
        known.waiting.entry(account).or_default().push_back(came);
        *known.open.entry(account).or_default() += 1;
        let entry = Entry { account, standing: Standing::Waiting, asked: Instant::now(), came };
        known.jobs.insert(key.clone(), entry);
        Ok(true)
    }

    /// The job has its share of the engine.
    pub fn begin(&self, key: &VendorKey) {
        let mut known = self.known.lock();
        known.leave_queue(key);
        if let Some(entry) = known.jobs.get_mut(key) {
            entry.standing = Standing::Running { permille: 0 };
        }
        drop(known);
        self.moved.notify_one();
    }

    /// So many thousandths of a job that runs are made. What was told before is not taken back, whatever order threads tell it in.
    pub fn advance(&self, key: &VendorKey, made: u16) {
        if let Some(Entry { standing: Standing::Running { permille }, .. }) = self.known.lock().jobs.get_mut(key) {
            *permille = made.max(*permille);
        }
    }

    /// Returns the place of a job among those that wait, from 1; accounts take turns. `None` for a job that does not wait.
    pub fn place(&self, key: &VendorKey) -> Option<u32> {
        let known = self.known.lock();
        let Entry { account, came, .. } = known.jobs.get(key)?;
        let own = known.waiting.get(account)?;
        let before = own.binary_search(came).ok()?;
        let others = known.waiting.iter().filter(|(other, _)| *other != account);
        // In each round those come first whose first job came first.
        let ahead = others.map(|(_, queue)| queue.len().min(before + usize::from(queue.front() < own.front())));
        u32::try_from(before + ahead.sum::<usize>() + 1).ok()
    }

    /// The job has ended.
    pub fn end(&self, key: VendorKey, outcome: Result<T, Failure>) {
        let mut known = self.known.lock();
        known.leave_queue(&key);
        if let Some(entry) = known.jobs.get_mut(&key) {
            entry.standing = Standing::Ended(outcome);
            let account = entry.account;
            known.close(account);
            known.ended.push_back(key);
        }
        while known.ended.len() > self.ended_max {
            if let Some(oldest) = known.ended.pop_front() {
                known.jobs.remove(&oldest);
            }
        }
        drop(known);
        self.moved.notify_one();
    }

    /// The job is not known any more.
    pub fn forget(&self, key: &VendorKey) {
        let mut known = self.known.lock();
        known.leave_queue(key);
        if let Some(Entry { account, standing: Standing::Waiting | Standing::Running { .. }, .. }) =
            known.jobs.remove(key)
        {
            known.close(account);
        }
        drop(known);
        self.moved.notify_one();
    }

    /// How a job stands, if it is known. Whoever asks is interested in it.
    pub fn standing(&self, key: &VendorKey) -> Option<Standing<T>> {
        let mut known = self.known.lock();
        let entry = known.jobs.get_mut(key)?;
        entry.asked = Instant::now();
        Some(entry.standing.clone())
    }

    /// How many jobs are known.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.known.lock().jobs.len()
    }

    /// Whether nobody wants a job any more, or has asked after it for [`PATIENCE`].
    pub fn is_forsaken(&self, key: &VendorKey) -> bool {
        !self.is_wanted(key) || self.known.lock().jobs.get(key).is_none_or(|entry| entry.asked.elapsed() > PATIENCE)
    }

    /// Whether somebody wants a job, also one that is not asked after.
    pub fn is_wanted(&self, key: &VendorKey) -> bool {
        (self.wanted)(key)
    }

    /// Comes back when nobody wants the job any more, seconds later: what waits for its share need not wait for that.
    pub async fn unwanted(&self, key: &VendorKey) {
        while self.is_wanted(key) {
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Does what a job does with files, again while there is no room for it or too many files are open: that passes, and a job that
    /// failed of it would be lost. Blocks, until nobody wants the job any more.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub fn patiently<R>(&self, key: &VendorKey, attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        self.patiently_resting(key, || thread::sleep(REST), attempt)
    }

    fn patiently_resting<R>(
        &self,
        key: &VendorKey,
        mut rest: impl FnMut(),
        mut attempt: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        let mut is_told = false;
        loop {
            match attempt() {
                Err(error) if lacking(&error).is_some() && !self.is_forsaken(key) => {
                    if !is_told {
                        tracing::warn!(%error, job = key.as_str(), "a job of the engine waits for room");
                        is_told = true;
                    }
                    rest();
                }
                other => return other,
            }
        }
    }

    /// Decodes a picture of a job, and waits for the memory that it takes while the job is wanted. Blocks.
    ///
    /// # Errors
    /// Those of [`Decoders::decode`].
    pub fn decode(&self, key: &VendorKey, decoders: &Decoders, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        loop {
            match decoders.decode(bytes) {
                Err(DecodeError::Busy) if !self.is_forsaken(key) => {}
                decoded => return decoded,
            }
        }
    }

    /// Woken whenever a job has moved.
    pub fn moved(&self) -> Arc<Notify> {
        Arc::clone(&self.moved)
    }
}

/// A panic in an engine is the failure of one job.
pub(super) fn guarded<T>(engine: &str, make: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| {
        tracing::error!(engine, "the engine panicked");
        let message = format!("the {engine} engine failed on this job; this is a defect of the service");
        Err(Failure::new("engine_failed", &message))
    })
}

/// A failure of this house: its cause is for the operator's log; owners and webhooks are told a fixed sentence.
pub(super) fn defect(code: &str, sentence: &str, cause: &dyn Display) -> Failure {
    tracing::error!(code, %cause, "{sentence}");
    Failure::new(code, sentence)
}

#[cfg(test)]
mod tests;
