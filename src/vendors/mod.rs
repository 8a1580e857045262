//! Who makes media. A vendor takes a job and is asked how it stands; it never calls back into the house.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::domain::ids::TaskId;
use crate::domain::image::Picture;
use crate::domain::task::{Failure, VendorKey, VendorReference, Work};

pub mod error;
pub mod local;

pub use error::{ErrorKind, VendorError};

/// A maker of media. Whether it works inside the process or across a network, the same four questions are asked of it.
pub trait Vendor: Send + Sync + 'static {
    /// The name in logs and settings.
    fn name(&self) -> &'static str;

    /// Whether a submission whose key was seen before makes no second job.
    fn honours_keys(&self) -> bool;

    /// Hands over a job. Answers as soon as the vendor has it, never waits for the work.
    fn submit(&self, job: Job) -> BoxFuture<'_, Result<VendorReference, VendorError>>;

    /// Asks how a job stands. May be asked again after an end was told; the answer is the same or
    /// [`Progress::Forgotten`].
    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<Progress, VendorError>>;

    /// Woken whenever a job may have moved, so that the poller need not wait for its next turn.
    fn moved(&self) -> Arc<Notify>;
}

/// What is handed to a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The task that it is for, for logs.
    pub task: TaskId,
    /// What makes a repeated submission recognisable.
    pub key: VendorKey,
    /// What is to be made.
    pub work: Work,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It waits or runs.
    Running,
    /// The results are in our store.
    Done(Vec<Picture>),
    /// It ended without a result.
    Failed(Failure),
    /// The vendor does not know it: it never did, or it has let go of it.
    Forgotten,
}
