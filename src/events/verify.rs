//! Verification of a log: the defects of its journal, and the versions of the streams in it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

pub use mediary_journal::{Finding, JournalReport};

use super::journal::{ScannedRecord, SignedCheckpoint};
use super::open_error::OpenError;
use super::stream::StreamId;

/// Parameters of a verification.
pub struct LogVerification<'v> {
    /// The directory of the log.
    pub directory: &'v Path,
    /// `true` if a service writes to the journal, which is then read up to HEAD only.
    pub in_use: bool,
    /// Checkpoint that the history must contain.
    pub since: Option<&'v SignedCheckpoint>,
    /// Called for every intact record, in order.
    pub on_record: &'v mut dyn FnMut(&ScannedRecord<'_>),
    /// Called with the number of segment bytes read since the last call.
    pub progress: &'v mut dyn FnMut(u64),
}

/// Result of verifying a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReport {
    pub journal: JournalReport,
    /// Number of records by schema version.
    pub schemas: BTreeMap<u16, u64>,
}

impl LogVerification<'_> {
    /// Runs the verification. Writes nothing.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn run(self) -> Result<LogReport, OpenError> {
        let Self { directory, in_use, since, on_record, progress } = self;
        let mut contents = LogContents::default();

        let mut check_and_visit = |record: &ScannedRecord<'_>| {
            let defect = contents.check(record);
            on_record(record);
            defect
        };
        let verification = mediary_journal::JournalVerification {
            directory,
            in_use,
            since,
            on_record: &mut check_and_visit,
            progress,
        };
        let journal = verification.run()?;

        Ok(LogReport { journal, schemas: contents.schemas })
    }
}

/// State of the streams and schemas up to a record.
#[derive(Default)]
struct LogContents {
    versions: HashMap<StreamId, u64>,
    schemas: BTreeMap<u16, u64>,
}

impl LogContents {
    /// Counts a record. Returns a description if its version does not follow from the previous one of its stream.
    fn check(&mut self, record: &ScannedRecord<'_>) -> Option<String> {
        if let Some(schema) = record.payload.first_chunk() {
            *self.schemas.entry(u16::from_le_bytes(*schema)).or_default() += 1;
        }

        let first = &record.commit[0];
        let version = self.versions.entry(first.stream.clone()).or_default();
        let previous_version = *version;
        *version = first.version.0 + record.commit.len() as u64 - 1;

        (first.version.0 != previous_version + 1)
            .then(|| format!("stream {} has version {} after version {previous_version}", first.stream, first.version))
    }
}
