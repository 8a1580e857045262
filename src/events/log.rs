//! The event log as a trait, with the guarantees of every backend. One contract test suite (`tests/it/log_contract.rs`)
//! checks them for all backends.
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

/// Maximum size of a stored event in bytes (ADR 5: as small as the largest single field allows).
pub const EVENT_BYTES_MAX: usize = 96 * 1024;
/// Maximum size of all stored events of one append in bytes.
pub const COMMIT_BYTES_MAX: usize = mediary_journal::PAYLOAD_BYTES_MAX;

/// Reason why one append of a group was rejected. The others of the group are unaffected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendRejection {
    /// Another append came first.
    #[error("stream {stream} has version {actual}, but the append expected {expected}")]
    Conflict { stream: StreamId, expected: Version, actual: Version },
    /// Its idempotency key is held by another command. Only a shared log checks this.
    #[error("another command holds the idempotency key")]
    Claimed,
    /// Something that the decision depends on has changed since. Only a shared log checks this.
    #[error("{tag} has changed since the decision")]
    Overtaken { tag: String },
    /// An event exceeds [`EVENT_BYTES_MAX`], or all together exceed [`COMMIT_BYTES_MAX`].
    #[error("{bytes} bytes exceed the limit of an event ({EVENT_BYTES_MAX}) or of a command ({COMMIT_BYTES_MAX})")]
    TooLarge { bytes: usize },
}

impl Append {
    /// Checks that the stream has the version that the append expects.
    ///
    /// # Errors
    /// Returns [`AppendRejection::Conflict`] if it does not.
    pub fn check_version(&self, actual: Version) -> Result<(), AppendRejection> {
        if actual == self.expected {
            return Ok(());
        }
        Err(AppendRejection::Conflict { stream: self.stream.clone(), expected: self.expected, actual })
    }
}

/// Reason why the log failed. Nothing of the group was acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogFailure {
    /// An error of the disk or the file system.
    #[error("{doing}: {reason}")]
    Storage { doing: String, reason: String },
    /// The disk is full, or no more files can be opened. Nothing of the group was written, and the append may be
    /// retried later.
    #[error("{reason}")]
    Full { reason: String },
    /// An earlier failure made the log read-only until a restart repairs it.
    #[error("the log is read-only since: {reason}")]
    ReadOnly { reason: String },
    /// The engine of a shared log did not accept the group. Nothing of it was recorded, and the append may be retried.
    #[error("the shared log cannot be reached: {reason}")]
    Unreachable { reason: String },
    /// The engine of a shared log did not return the group in time. The group may still be recorded, but not after a
    /// later group of this node.
    #[error("the outcome is unknown: {reason}")]
    OutcomeUnknown { reason: String },
    /// The local log and the shared log contradict each other. Neither reads nor appends are possible.
    #[error("the node has diverged from the shared log: {reason}")]
    Diverged { reason: String },
    /// A command has ended the shared log. Neither reads nor appends are possible.
    #[error(
        "`mediary cluster leave` or `mediary cluster rebuild-engine` has ended this log: complete the command on the directory \
         where it began. After a rebuild, start this node again"
    )]
    Closed,
    /// The data read is not the data written.
    #[error("damage in {location} at position {position}: {reason}")]
    Damaged { location: String, position: Position, reason: String },
}

/// The outcome of each append of a group, in the order of the group.
pub type GroupOutcome = Vec<Result<Commit, AppendRejection>>;

/// An append-only log of events with one global order.
///
/// Every backend guarantees:
/// - *Durable*: when [`EventLog::append`] returns, the accepted events survive everything that the backend promises to
///   survive.
/// - *Ordered*: positions have no gaps, and versions of a stream have no gaps. Both start at 1.
/// - *Guarded*: an append whose `expected` differs from the stream's version is rejected and changes nothing. The
///   appends of a group apply in order. An append without events is only checked, and records nothing.
/// - *Atomic*: the events of one append are all in the log, consecutively, or none is, even after a crash.
/// - *Readable*: every read that starts after [`EventLog::append`] has returned sees its events.
/// - *Closed on failure*: after a failed append the log rejects all further ones with [`LogFailure::ReadOnly`], and
///   continues to serve reads. [`LogFailure::Full`] is an exception: nothing was written, and the log accepts appends
///   again once there is space. So are [`LogFailure::Unreachable`] and [`LogFailure::OutcomeUnknown`] of a shared log.
///
/// The calls block, so they must not run on an arbiter thread, except for the writer's appends to an embedded log on
/// its own arbiter (ADR 12).
pub trait EventLog: Send + Sync + 'static {
    /// Makes the accepted appends of a group durable together, with one sync.
    ///
    /// # Errors
    /// Returns [`LogFailure`] if the group could not be made durable. None of it is then acknowledged.
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure>;

    /// Reads the events of a stream after version `after`, oldest first.
    ///
    /// # Errors
    /// Returns [`LogFailure`] if the events cannot be read as they were written.
    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure>;

    /// Reads at most `limit` events after position `after`, oldest first; none at the head.
    ///
    /// # Errors
    /// Returns [`LogFailure`] if the events cannot be read as they were written.
    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure>;

    /// Returns the position of the last acknowledged event.
    fn head(&self) -> Position;

    /// Returns `true` if several nodes append to the log. Such a log itself applies the commits of all nodes to the
    /// read models, and an append waits for other machines.
    fn is_shared(&self) -> bool {
        false
    }

    /// Completes the work after the last append, such as signing HEAD. The writer calls it after it has sent the
    /// replies, so that clients do not wait for it.
    fn after_group(&self) {}
}
