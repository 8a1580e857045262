//! Errors of the journal.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use rustix::io::Errno;

use crate::position::Position;

/// Reason why a journal cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file system error.
    #[error("cannot {doing} {}: {reason}", file.display())]
    Io {
        /// The failed action, an infinitive.
        doing: &'static str,
        /// File or directory of the action.
        file: PathBuf,
        /// The error.
        reason: io::Error,
    },
    /// The journal does not hold what was written to it.
    #[error("damage in {} at offset {offset}, position {position}: {reason}", file.display())]
    Damaged {
        /// File of the damage.
        file: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The affected position, or the next expected one.
        position: Position,
        /// Description of the defect.
        reason: String,
    },
    /// A file that is necessary to verify the journal is unusable.
    #[error("{} does not verify the journal: {reason}", file.display())]
    Unverifiable {
        /// The unusable file.
        file: PathBuf,
        /// Description of the defect.
        reason: String,
    },
}

impl JournalError {
    /// Adds to a damage report that no copy could repair it.
    pub(crate) fn without_copy(self) -> Self {
        match self {
            Self::Damaged { file, offset, position, reason } => {
                let reason = format!("{reason}, and no copy in the index is proven by the chain");
                Self::Damaged { file, offset, position, reason }
            }
            other => other,
        }
    }

    /// Wraps a file system error of an action, given as an infinitive.
    pub fn io(doing: &'static str, file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |reason| Self::Io { doing, file, reason }
    }
}

/// Reason why a group was not made durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A resource is missing temporarily, such as disk space. Nothing of the group was written, and the journal accepts
    /// the next one.
    #[error("{reason}")]
    Full {
        /// Message for the operator.
        reason: String,
    },
    /// The state of the disk is unknown. The journal must not be written again.
    #[error("{doing}: {reason}")]
    Storage {
        /// The failed action, an infinitive.
        doing: &'static str,
        /// The error.
        reason: String,
    },
}

impl WriteError {
    /// Wraps a failure after which the state of the disk is unknown.
    pub(crate) fn storage(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Storage { doing, reason: error.to_string() }
    }

    /// Wraps a failure before anything of the group was written.
    pub(crate) fn before_write(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::full(doing, &error).unwrap_or_else(|| Self::storage(doing)(error))
    }

    /// Converts an error about a temporarily missing resource; `None` for other errors.
    pub(crate) fn full(doing: &str, error: &io::Error) -> Option<Self> {
        missing_resource(error).map(|resource| Self::Full { reason: format!("{resource} to {doing}: {error}") })
    }
}

/// Returns the missing resource if an error can pass without a restart: disk space (also a quota or file size limit),
/// or open files of the process or the system. `None` for other errors.
#[must_use]
pub fn missing_resource(error: &io::Error) -> Option<&'static str> {
    if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) {
        return Some("disk full");
    }
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)).then_some("too many files are open")
}
