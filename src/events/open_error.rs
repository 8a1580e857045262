//! Errors of opening or reading a log, with the place and the remedy.

use std::io;
use std::path::PathBuf;

use super::journal::JournalError;
use super::stream::Position;
use crate::data_dir::to_help;

const REMEDY: &str = "keep a copy of the data directory, list all damage with `mediary audit verify`, then restore a \
                      backup into a new data directory with `mediary restore`";

/// Reason why a log cannot be opened, or its journal not be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file system error.
    #[error("cannot {doing} {}: {reason}{}", file.display(), to_help(file, reason))]
    Io { doing: &'static str, file: PathBuf, reason: io::Error },
    /// The journal does not hold what was written to it.
    #[error("damage in {} at offset {offset}, position {position}: {reason}; {REMEDY}", file.display())]
    Damaged { file: PathBuf, offset: u64, position: Position, reason: String },
    /// A file that is necessary to verify the journal is unusable.
    #[error("{} does not verify the journal: {reason}; {REMEDY}", file.display())]
    Unverifiable { file: PathBuf, reason: String },
    /// A snapshot proves that the log once held more events.
    #[error(
        "events are lost: {} was taken at position {snapshot_position}, but the log ends at position {head}; put the newer log \
         back, or {REMEDY}; to continue without those events, move that file away",
        snapshot.display()
    )]
    Lost { snapshot: PathBuf, snapshot_position: Position, head: Position },
}

impl OpenError {
    /// Wraps a file system error.
    pub(crate) fn io(doing: &'static str, file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |reason| Self::Io { doing, file, reason }
    }
}

impl From<JournalError> for OpenError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Io { doing, file, reason } => Self::Io { doing, file, reason },
            JournalError::Damaged { file, offset, position, reason } => {
                Self::Damaged { file, offset, position, reason }
            }
            JournalError::Unverifiable { file, reason } => Self::Unverifiable { file, reason },
        }
    }
}
