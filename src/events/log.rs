//! The event log as a trait, and what every backend promises. One contract suite (`tests/it/log_contract.rs`) holds all of
//! them to it.
//!
//! ```text
//!            position 1     2     3     4     5     6
//!                     ┌─────┬─────┬─────┬─────┬─────┐
//! log                 │ A/1 │ B/1 │ A/2 │ A/3 │ B/2 │ ◀── head() = 5, the next append gets 6
//!                     └─────┴─────┴─────┴─────┴─────┘
//! stream A, version   1           2     3
//! ```

use super::envelope::{Append, Commit, RecordedEvent};
use super::stream::{Position, StreamId, Version};
use crate::space::lacking;

/// Most bytes of one stored event (DESIGN 3: small records; ADR 5: as small as the largest single field allows).
pub const EVENT_BYTES_MAX: usize = 96 * 1024;
/// Most bytes of the stored events of one append together.
pub const COMMIT_BYTES_MAX: usize = 1024 * 1024;

/// Why one append of a group was refused; the others of the group are not touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefused {
    /// Somebody else appended first.
    #[error("stream {stream} has version {actual}, the append expected {expected}")]
    Conflict { stream: StreamId, expected: Version, actual: Version },
    /// One of the events is larger than [`EVENT_BYTES_MAX`], or all are larger than [`COMMIT_BYTES_MAX`].
    #[error(
        "{bytes} bytes are more than an event ({EVENT_BYTES_MAX}) or the events of a command ({COMMIT_BYTES_MAX}) may have"
    )]
    TooLarge { bytes: usize },
}

impl Append {
    /// Whether the stream has the version that the append expects.
    ///
    /// # Errors
    /// [`AppendRefused::Conflict`] when it has not.
    pub fn check(&self, actual: Version) -> Result<(), AppendRefused> {
        if actual == self.expected {
            return Ok(());
        }
        Err(AppendRefused::Conflict { stream: self.stream.clone(), expected: self.expected, actual })
    }
}

/// Why the log could not do its work. Nothing of the group was acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogFailure {
    /// The disk or the file system refused.
    #[error("{doing}: {reason}")]
    Storage { doing: String, reason: String },
    /// There is no room, or no more files can be opened: nothing of the group was written, and it may be tried again once there is.
    #[error("{reason}")]
    Full { reason: String },
    /// An earlier failure left the log read-only until it is healed by a restart.
    #[error("the log is read-only since: {reason}")]
    ReadOnly { reason: String },
    /// What was read is not what was written.
    #[error("damage in {place} at position {position}: {reason}")]
    Damaged { place: String, position: Position, reason: String },
}

impl LogFailure {
    /// What an error comes to that says that something is lacking for now: room, or a file that may be open.
    #[must_use]
    pub fn full(doing: &str, error: &std::io::Error) -> Option<Self> {
        lacking(error).map(|lacking| Self::Full { reason: format!("{lacking} to {doing}: {error}") })
    }
}

/// What became of each append of a group, in the order of the group.
pub type GroupOutcome = Vec<Result<Commit, AppendRefused>>;

/// An append-only log of events with one global order.
///
/// Every backend promises:
/// - *Durable*: when [`EventLog::append`] returns, the accepted events survive whatever the backend says it survives.
/// - *Ordered*: positions have no gaps; the versions of a stream have no gaps; both start at 1.
/// - *Guarded*: an append whose `expected` is not the stream's version is refused and changes nothing. Within a group the
///   appends count one after the other. An append without events is only checked: it records nothing.
/// - *Atomic*: the events of one append are all in the log, one after the other, or none is, also after a crash.
/// - *Readable*: what [`EventLog::append`] returned is seen by every read that starts later.
/// - *Closed on failure*: after a failed append the log refuses all further ones with [`LogFailure::ReadOnly`]; reads go on.
///   [`LogFailure::Full`] is no such failure: nothing was written, and appends are taken again once there is room.
///
/// The calls block: never make one on an arbiter thread, but for the appends of the writer on its own (ADR 12).
pub trait EventLog: Send + Sync + 'static {
    /// Makes the accepted appends of a group durable together, with one sync.
    ///
    /// # Errors
    /// [`LogFailure`] when the group could not be made durable: then none of it is acknowledged.
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure>;

    /// The events of a stream after version `after`, oldest first.
    ///
    /// # Errors
    /// [`LogFailure`] when the events cannot be read as they were written.
    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure>;

    /// At most `limit` events after position `after`, oldest first; empty at the head.
    ///
    /// # Errors
    /// [`LogFailure`] when the events cannot be read as they were written.
    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure>;

    /// The position of the last acknowledged event.
    fn head(&self) -> Position;

    /// Does what is left to do after the last append (sign the HEAD, note the time): called by the writer once the
    /// answers are out, off the path of the answer.
    fn after_group(&self) {}
}
