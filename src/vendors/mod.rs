//! Vendors, which generate media. A vendor accepts a job and is polled for its progress; it never calls back into the
//! modules that call it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::domain::ids::{TaskId, UserId};
use crate::domain::image::ImageWork;
use crate::domain::task::{Submission, TaskFailure, TaskResults, TaskWork, VendorKey, VendorReference};
use crate::domain::video::VideoWork;

pub mod credential_mask;
pub mod error;
pub mod local;
pub mod metered_vendor;
pub mod music;
pub mod profile;
pub mod profile_vendor;
pub mod traced_vendor;
pub mod webhook_ticket;

pub use error::{VendorError, VendorErrorKind};

/// A vendor of media. The interface is the same for built-in engines and remote vendors.
pub trait Vendor: Send + Sync + 'static {
    /// Returns the name in logs, metrics and settings.
    fn name(&self) -> &str;

    /// Returns the recovery for submissions with an unknown outcome.
    fn recovery(&self) -> SubmissionRecovery;

    /// Returns `true` if the vendor does this kind of work. Other work must not be submitted.
    fn serves(&self, _work: &TaskWork) -> bool {
        true
    }

    /// Returns `true` if the vendor identifies a video to extend by its own id. It then extends only videos that it
    /// made itself, because other vendors' ids mean nothing to it.
    fn extends_by_id(&self) -> bool {
        false
    }

    /// Prepares a submission: reads and uploads inputs, and waits for memory. Starts no job, so a failure leaves
    /// nothing unknown. The returned call sends the submission. Either step rejects unsupported work.
    fn prepare(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionCall<'_>, VendorError>>;

    /// Prepares and submits a job.
    fn submit(&self, job: VendorJob) -> BoxFuture<'_, Result<SubmissionReply, VendorError>> {
        Box::pin(async move { self.prepare(job).await?.await })
    }

    /// Returns the progress of a job. After the end, further polls return the same result or
    /// [`JobProgress::Forgotten`].
    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>>;

    /// Searches for this job, which may have been submitted before. Called only for vendors with
    /// [`SubmissionRecovery::Search`].
    fn find(&self, job: VendorJob) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        let message = format!("{} cannot be searched for {}", self.name(), job.key);
        Box::pin(std::future::ready(Err(VendorError::new(VendorErrorKind::Unserved, message))))
    }

    /// Cancels a job whose result is no longer needed. Does nothing if the vendor has no cancellation.
    fn cancel(&self, _reference: &VendorReference) -> BoxFuture<'_, Result<(), VendorError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Checks that the vendor works. Called after a failure, before the vendor gets another job.
    fn health_check(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns a notification of possible progress, so that the poller need not wait for its next poll.
    fn progress_notify(&self) -> Arc<Notify>;
}

/// Submission that was prepared and is sent when it is awaited. Ends once the vendor has accepted the job, without
/// waiting for the work, unless the response of the vendor is the result.
pub type SubmissionCall<'v> = BoxFuture<'v, Result<SubmissionReply, VendorError>>;

/// Response of a vendor that took a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionReply {
    /// Accepted; the job is polled under this reference. If the response was the result but could not be stored, the
    /// vendor keeps it in memory, and polls store it.
    Accepted(VendorReference),
    /// Done: the response was the result, which is in the store of this service.
    Finished { reference: VendorReference, results: TaskResults },
}

impl SubmissionReply {
    /// Returns the reference of the job.
    #[must_use]
    pub fn into_reference(self) -> VendorReference {
        match self {
            Self::Accepted(reference) | Self::Finished { reference, .. } => reference,
        }
    }
}

/// Recovery for submissions with an unknown outcome (contract 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubmissionRecovery {
    /// Repeat: the vendor recognizes the key and creates no second job.
    Key,
    /// Search for the job by the key of the submission.
    Search,
    /// None: the task fails because its outcome is unknown.
    Nothing,
}

/// A job for a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorJob {
    /// Task of the job, for logs.
    pub task: TaskId,
    /// Account for fair scheduling; all anonymous callers share one.
    pub account: Option<UserId>,
    /// Idempotency key of the submission.
    pub key: VendorKey,
    /// Work to do.
    pub work: TaskWork,
}

impl VendorJob {
    /// Returns the job of a task.
    #[must_use]
    pub fn from_submission(submission: Submission, key: VendorKey) -> Self {
        let Submission { task, owner: account, work, .. } = submission;
        Self { task, account, key, work }
    }

    /// Returns the image work.
    ///
    /// # Errors
    /// If it is other work, which this vendor does not support.
    pub fn into_image_work(self) -> Result<ImageWork, VendorError> {
        if let TaskWork::Image(work) = self.work { Ok(work) } else { Err(unsupported_work("pictures")) }
    }

    /// Returns the video work.
    ///
    /// # Errors
    /// If it is other work, which this vendor does not support.
    pub fn into_video_work(self) -> Result<VideoWork, VendorError> {
        if let TaskWork::Video(work) = self.work { Ok(work) } else { Err(unsupported_work("videos")) }
    }
}

fn unsupported_work(product: &str) -> VendorError {
    VendorError::new(VendorErrorKind::Refused, format!("this vendor only makes {product}"))
}

/// Progress of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProgress {
    /// Queued at the vendor. The position counts from 1, if it is known.
    Queued { queue_position: Option<u32> },
    /// Running, with the progress in thousandths, if it is known.
    Running { permille: Option<u16> },
    /// Done; the results are in the store of this service.
    Done(TaskResults),
    /// Ended without a result.
    Failed(TaskFailure),
    /// Done at the vendor, but the results could not be fetched this time.
    FetchFailed(ResultFetchError),
    /// Unknown to the vendor; may be submitted again without harm.
    Forgotten,
    /// Unknown to the vendor although it accepted the job; another submission might be charged twice.
    Lost,
}

/// Reason why results could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultFetchError {
    /// A retry may succeed.
    Transient(TaskFailure),
    /// The results are invalid; retried only a few times.
    Malformed(TaskFailure),
}
