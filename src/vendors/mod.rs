//! Who makes media. A vendor takes a job and is asked how it stands; it never calls back into the house.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::domain::ids::{TaskId, UserId};
use crate::domain::image::ImageWork;
use crate::domain::task::{Failure, Results, Submission, VendorKey, VendorReference, Work};
use crate::domain::video::VideoWork;

pub mod error;
pub mod hint;
pub mod local;
pub mod metered;
pub mod music;
pub mod remote;
pub mod traced;

pub use error::{ErrorKind, VendorError};

/// A maker of media. Whether it works inside the process or across a network, the same four questions are asked of it.
pub trait Vendor: Send + Sync + 'static {
    /// The name in logs and settings.
    fn name(&self) -> &'static str;

    /// What can be done where nobody knows whether a submission arrived.
    fn recovery(&self) -> Recovery;

    /// Hands over a job. Answers as soon as the vendor has it, never waits for the work. Work that the vendor does not do is
    /// refused.
    fn submit(&self, job: Job) -> BoxFuture<'_, Result<VendorReference, VendorError>>;

    /// Asks how a job stands. May be asked again after an end was told; the answer is the same or
    /// [`Progress::Forgotten`].
    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<Progress, VendorError>>;

    /// Looks for this job, which may have been submitted before. Asked only of vendors that can be searched
    /// ([`Recovery::Search`]).
    fn find(&self, job: Job) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        let message = format!("{} cannot be searched for {}", self.name(), job.key);
        Box::pin(std::future::ready(Err(VendorError::new(ErrorKind::Unserved, message))))
    }

    /// Whether the vendor answers at all: asked of one that failed, before anything is risked on it.
    fn lives(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Woken whenever a job may have moved, so that the poller need not wait for its next turn.
    fn moved(&self) -> Arc<Notify>;
}

/// What can be done where nobody knows whether a submission arrived (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// It is made again: a submission whose key was seen before makes no second job.
    Key,
    /// The job is looked for under the key of the submission.
    Search,
    /// Nothing: the task fails, and says so.
    Nothing,
}

/// What is handed to a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The task that it is for, for logs.
    pub task: TaskId,
    /// Account whose turn it takes; anonymous callers are one.
    pub account: Option<UserId>,
    /// What makes a repeated submission recognisable.
    pub key: VendorKey,
    /// What is to be made.
    pub work: Work,
}

impl Job {
    /// The job of a task.
    #[must_use]
    pub fn of(submission: Submission, key: VendorKey) -> Self {
        let Submission { task, owner: account, work, .. } = submission;
        Self { task, account, key, work }
    }

    /// The work on pictures that it is.
    ///
    /// # Errors
    /// When it is other work: its vendor makes pictures only.
    pub fn image(self) -> Result<ImageWork, VendorError> {
        if let Work::Image(work) = self.work { Ok(work) } else { Err(not_made("pictures")) }
    }

    /// The video that it is.
    ///
    /// # Errors
    /// When it is other work: its vendor makes videos only.
    pub fn video(self) -> Result<VideoWork, VendorError> {
        if let Work::Video(work) = self.work { Ok(work) } else { Err(not_made("videos")) }
    }
}

fn not_made(made: &str) -> VendorError {
    VendorError::new(ErrorKind::Refused, format!("this vendor makes {made} only"))
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It waits at the vendor; where that is known, at which place, from 1.
    Queued { place: Option<u32> },
    /// It is being made; where that is known, so many thousandths of it are.
    Running { permille: Option<u16> },
    /// The results are in our store.
    Done(Results),
    /// It ended without a result.
    Failed(Failure),
    /// It ended well, and its results could not be brought home this time.
    Unfetched(Unfetched),
    /// The vendor does not know it, and may be given it again without harm.
    Forgotten,
    /// The vendor does not know it although it took it; a second submission might be paid for twice.
    Lost,
}

/// Why results are not in our store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfetched {
    /// It may be better soon.
    Passing(Failure),
    /// What is there is not what it should be: not waited for long.
    Odd(Failure),
}
