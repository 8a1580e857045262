//! Place that all nodes use: it has their files, and records where each generation of the log begins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use super::bucket_files::{self, BucketFilesError};
use super::generation::{GenerationRecord, LeaveRecord};
use super::membership::FilePlace;
use super::shared_files::{self, SharedFilesError};
use crate::events::shared::generation::LogGeneration;
use crate::file_tree::Bucket;

/// A directory that all nodes mount, or a bucket.
#[derive(Clone)]
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

    /// Returns the end of the last cluster of the log that has ended; `None` if none has.
    ///
    /// # Errors
    /// If the place is not that of the log, or cannot be read.
    pub fn read_leave(&self, log_id: Uuid) -> Result<Option<LeaveRecord>, SharedPlaceError> {
        Ok(match self {
            Self::Directory(directory) => shared_files::read_leave(directory, log_id)?,
            Self::Bucket(bucket) => bucket_files::read_leave(bucket, log_id)?,
        })
    }

    /// Records the end of a cluster, unless that was done before. `session` is an id that no other caller uses.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record_leave(&self, record: &LeaveRecord, session: Uuid) -> Result<(), SharedPlaceError> {
        match self {
            Self::Directory(directory) => shared_files::record_leave(directory, record, session)?,
            Self::Bucket(bucket) => bucket_files::record_leave(bucket, record)?,
        }
        Ok(())
    }

    /// Returns the name of the file or object with the beginning of a generation.
    #[must_use]
    pub fn generation_name(&self, log: LogGeneration) -> String {
        match self {
            Self::Directory(directory) => shared_files::generation_path(directory, log).display().to_string(),
            Self::Bucket(bucket) => format!("{}/{}", bucket.name(), bucket_files::generation_key(log)),
        }
    }

    /// Returns the name of the file or object with the end of a cluster whose last generation is `log`.
    #[must_use]
    pub fn leave_record_name(&self, log: LogGeneration) -> String {
        match self {
            Self::Directory(directory) => shared_files::leave_record_path(directory, log).display().to_string(),
            Self::Bucket(bucket) => format!("{}/{}", bucket.name(), bucket_files::leave_key(log)),
        }
    }

    /// Returns `true` if the data directory still uses the files of the place.
    #[must_use]
    pub fn is_used_by(&self, data_dir: &Path) -> bool {
        match self {
            Self::Directory(_) => shared_files::is_linked(data_dir),
            Self::Bucket(_) => data_dir.join(bucket_files::CACHE_FILE).exists(),
        }
    }
}
