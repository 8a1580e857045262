//! The journal of the log: [`mediary_journal`] with commits as payload, and the service's random numbers, fail points
//! and disk space as its environment.

use std::sync::Arc;

use uuid::Uuid;

pub use mediary_journal::scan::{self, JournalDamage, ScanExtent, ScanVisitor};
pub use mediary_journal::{
    Anchor, ChainHash, Checkpoint, CheckpointError, JournalError, JournalHead, JournalLocation, JournalOptions,
    JournalRepair, JournalStep, OpenedJournal, PayloadDecoder, PayloadTooLarge, Position, RecordLocation, RepairedPart,
    SignedCheckpoint, SyncFile, TornTail, WriteError, encode_head_file, hex, load_signing_key, parse_records,
    read_head,
};

use super::codec;
use super::envelope::Commit;
use super::log::LogFailure;
use crate::disk_space::{DataDirPart, DiskSpace};
use crate::environment::{CommitStep, Environment};

/// A journal open for appending.
pub type Journal = mediary_journal::Journal<CommitDecoder>;
/// A sequential pass over the journal.
pub type JournalReader = mediary_journal::JournalReader<CommitDecoder>;
/// One record of the journal.
pub type JournalRecord<'r> = mediary_journal::JournalRecord<'r, CommitDecoder>;
/// Random access to the records of the journal.
pub type CommitRecords = mediary_journal::JournalRecords<CommitDecoder>;
/// Read-only access to the journal of a stopped service.
pub type ReadOnlyJournal = mediary_journal::ReadOnlyJournal<CommitDecoder>;
/// An intact record that a scan has found.
pub type ScannedRecord<'w> = mediary_journal::scan::ScannedRecord<'w, CommitDecoder>;

/// Decoder of the payloads that [`codec::encode`] writes.
pub struct CommitDecoder;

impl PayloadDecoder for CommitDecoder {
    type Commit = Commit;

    fn decode(payload: &[u8]) -> Result<Commit, String> {
        codec::decode(payload).map_err(|error| error.to_string())
    }

    fn first_position(commit: &Commit) -> Position {
        commit[0].position
    }

    fn event_count(commit: &Commit) -> u64 {
        commit.len() as u64
    }
}

/// The service as the environment of its journal.
pub struct JournalEnvironment {
    environment: Environment,
    space: DiskSpace,
}

impl JournalEnvironment {
    /// Creates the environment of a journal, with these random numbers, fail points and disk space.
    #[must_use]
    pub fn new(environment: &Environment, space: &DiskSpace) -> Arc<Self> {
        Arc::new(Self { environment: environment.clone(), space: space.clone() })
    }
}

impl mediary_journal::Environment for JournalEnvironment {
    fn new_log_id(&self) -> Uuid {
        self.environment.uuid()
    }

    fn new_key_seed(&self) -> [u8; 32] {
        self.environment.random_bytes()
    }

    fn check_space(&self, purpose: &str, bytes: u64) -> Result<(), String> {
        self.space.check_available(DataDirPart::Log, purpose, bytes).map_err(|disk_full| disk_full.to_string())
    }

    fn step_done(&self, step: JournalStep) {
        self.environment.fail_points().hit_after(step.into());
    }
}

impl From<JournalStep> for CommitStep {
    fn from(step: JournalStep) -> Self {
        match step {
            JournalStep::Staged => Self::Staged,
            JournalStep::Written => Self::Written,
            JournalStep::Synced => Self::Synced,
            JournalStep::HeadSigned => Self::HeadSigned,
            JournalStep::HeadSynced => Self::HeadSynced,
            JournalStep::SegmentZeroed => Self::SegmentZeroed,
            JournalStep::SegmentBegun => Self::SegmentHeaderSynced,
            JournalStep::SegmentRenamed => Self::SegmentRenamed,
            JournalStep::SegmentNamed => Self::SegmentDirSynced,
            JournalStep::KeyCreated => Self::SigningKeyCreated,
            JournalStep::HeadCreated => Self::HeadCreated,
        }
    }
}

impl From<WriteError> for LogFailure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full { reason } => Self::Full { reason },
            WriteError::Storage { doing, reason } => Self::Storage { doing: doing.to_owned(), reason },
        }
    }
}
