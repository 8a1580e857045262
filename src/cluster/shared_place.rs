//! Place that all nodes use: it has their files, and records where each generation of the log begins.

use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use super::bucket_files::{self, BucketFilesError};
use super::generation::GenerationRecord;
use super::membership::FilePlace;
use super::shared_files::{self, SharedFilesError};
use crate::file_tree::Bucket;

/// A directory that all nodes mount, or a bucket.
pub enum SharedPlace {
    Directory(PathBuf),
    Bucket(Arc<Bucket>),
}

/// Reason why the place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SharedPlaceError {
    #[error(transparent)]
    Directory(#[from] SharedFilesError),
    #[error(transparent)]
    Bucket(#[from] BucketFilesError),
}

impl SharedPlaceError {
    /// Returns `true` if no cluster has used the place yet.
    #[must_use]
    pub fn is_new_place(&self) -> bool {
        matches!(
            self,
            Self::Directory(SharedFilesError::NotMounted(_)) | Self::Bucket(BucketFilesError::NoOwner { .. })
        )
    }

    /// Returns `true` if the place could not be reached, so that nothing is known about it.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Bucket(error) if error.is_unavailable())
    }
}

impl SharedPlace {
    #[must_use]
    pub fn kind(&self) -> FilePlace {
        match self {
            Self::Directory(_) => FilePlace::Directory,
            Self::Bucket(_) => FilePlace::Bucket,
        }
    }

    /// Returns the beginning of the latest generation of the log; `None` if there is only the first one.
    ///
    /// # Errors
    /// If the place is not that of the log, or cannot be read.
    pub fn read_generation(&self, log_id: Uuid) -> Result<Option<GenerationRecord>, SharedPlaceError> {
        Ok(match self {
            Self::Directory(directory) => shared_files::read_generation(directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::read_generation(bucket, log_id)?,
        })
    }

    /// Records the beginning of a generation, unless another node has done so: a generation begins once. Returns the one
    /// that is recorded. `session` is an id that no other caller uses.
    ///
    /// # Errors
    /// If it cannot be written or read.
    pub fn record_generation(
        &self,
        record: &GenerationRecord,
        session: Uuid,
    ) -> Result<GenerationRecord, SharedPlaceError> {
        Ok(match self {
            Self::Directory(directory) => shared_files::record_generation(directory, record, session)?,
            Self::Bucket(bucket) => bucket_files::record_generation(bucket, record)?,
        })
    }
}
