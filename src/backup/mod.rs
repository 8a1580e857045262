//! Backups: a copy of log and files that is consistent at a position, taken while the service runs, and put back only when every
//! byte of it was verified.
//!
//! ```text
//! manifest.json         what the backup is: position, every file with its hash; signed with the key of the log, written last
//! files/ab/ab…          the files, each once under the SHA-256 of its bytes
//! lock                  keeps a second backup away meanwhile
//! ```
//!
//! A file is complete or absent and never changed, so the manifest that is there stays true while the next one is made: a backup
//! that is killed leaves the one before. What no manifest names any more is removed when the new one is there.

pub mod check;
pub mod manifest;
mod pool;
pub mod restore;
pub mod take;

use std::io;
use std::path::{Path, PathBuf};

use crate::data_dir::{DataDirError, to_help};
use crate::events::journal::OpenError;
use crate::proof::directory::Unverifiable;
use crate::proof::export::ExportError;

/// Why there is no backup, or why it is not put back.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {reason}{}", to_help(path, reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error(transparent)]
    Journal(#[from] OpenError),
    #[error(transparent)]
    Unvouched(#[from] ExportError),
    #[error(transparent)]
    Directory(#[from] Unverifiable),
    #[error(transparent)]
    InUse(#[from] DataDirError),
}

impl BackupError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |reason| Self::File { path, reason }
    }
}
