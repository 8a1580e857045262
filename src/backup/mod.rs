//! Backups: copies of the log and its files that are consistent at a position. A backup can be taken while the service
//! runs; a restore writes nothing until every byte is verified.
//!
//! ```text
//! manifest.json         position and hash of every file; signed with the log's key, written last
//! files/ab/ab…          the files, stored once each under the SHA-256 of their bytes
//! lock                  prevents concurrent backups
//! ```
//!
//! A file is complete or absent, and never changes, so the existing manifest stays valid while the next one is
//! prepared: an interrupted backup leaves the previous one. Once the new manifest is written, files that it does not
//! list are removed.

pub mod check;
pub mod create;
pub mod manifest;
mod pool;
pub mod restore;

use std::io;
use std::path::{Path, PathBuf};

use crate::data_dir::{DataDirError, to_help};
use crate::events::journal::JournalError;
use crate::events::open_error::OpenError;
use crate::verification::directory::DirectoryVerificationError;
use crate::verification::export::ExportError;

/// Reason why a backup or a restore fails.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {reason}{}", to_help(path, reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error(transparent)]
    Journal(#[from] OpenError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error(transparent)]
    Directory(#[from] DirectoryVerificationError),
    #[error(transparent)]
    InUse(#[from] DataDirError),
}

impl From<JournalError> for BackupError {
    fn from(error: JournalError) -> Self {
        OpenError::from(error).into()
    }
}

impl BackupError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::File { path, reason }
    }
}
