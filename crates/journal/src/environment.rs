//! Interface to the process that the journal runs in.

use uuid::Uuid;

/// Resources that the journal needs from its process.
pub trait Environment: Send + Sync + 'static {
    /// Creates the id of a new log.
    fn new_log_id(&self) -> Uuid;

    /// Creates the secret seed of a new log's signing key. Must come from a cryptographic random number generator.
    fn new_key_seed(&self) -> [u8; 32];

    /// Checks that the disk has space for `bytes` more, for `purpose`.
    ///
    /// # Errors
    /// Returns the message for the operator if it has not.
    fn check_space(&self, purpose: &str, bytes: u64) -> Result<(), String>;

    /// Fail point: called after each step, so that tests can end the process there.
    fn step_done(&self, _step: JournalStep) {}
}

/// Steps after which a crash must lose nothing that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JournalStep {
    /// A commit is encoded and chained in memory.
    Staged,
    /// A group is written, in the page cache only.
    Written,
    /// The group is synced and therefore durable.
    Synced,
    /// A signed HEAD covers the group, in the page cache only.
    HeadSigned,
    /// At a clean stop, HEAD is synced.
    HeadSynced,
    /// The zeros of the next segment are written and synced.
    SegmentZeroed,
    /// The segment's header is synced; the segment has no final name yet.
    SegmentBegun,
    /// The segment is renamed; its directory is not synced.
    SegmentRenamed,
    /// The segment's name is durable.
    SegmentNamed,
    /// At the first start, the signing key exists and nothing else.
    KeyCreated,
    /// At the first start, HEAD exists.
    HeadCreated,
}
