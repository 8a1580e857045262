//! Verification of a journal: looks for every possible defect in its directory, changes nothing, and reports findings
//! with file, offset and position.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use uuid::Uuid;

use crate::chain::{self, ChainHash, HeadError, JournalHead};
use crate::checkpoint::SignedCheckpoint;
use crate::error::JournalError;
use crate::hex;
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::scan::{self, JournalDamage, ScanEnd, ScanExtent, ScanVisitor, ScannedRecord};

/// Maximum number of pauses in which HEAD of a running service may catch up with its responses.
const HEAD_RETRIES: u32 = 20;
/// Length of such a pause.
const HEAD_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A defect and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File of the defect.
    pub file: PathBuf,
    /// Offset in bytes.
    pub offset: Option<u64>,
    /// The affected position.
    pub position: Option<Position>,
    /// Description of the defect, in a sentence.
    pub problem: String,
}

impl Finding {
    /// Creates a finding about a whole file.
    #[must_use]
    pub fn in_file(file: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self { file: file.into(), offset: None, position: None, problem: problem.into() }
    }
}

impl From<JournalDamage> for Finding {
    fn from(JournalDamage { file, offset, position, reason }: JournalDamage) -> Self {
        Self { file, offset: Some(offset), position: Some(position), problem: reason }
    }
}

/// Result of verifying a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalReport {
    /// The id of the log; `None` if no segment header is intact.
    pub log: Option<Uuid>,
    /// The key that signs HEAD, checkpoints and exports.
    pub public_key: Option<[u8; 32]>,
    /// The last intact record.
    pub head: Option<JournalHead>,
    /// Number of events read.
    pub events: u64,
    /// All defects.
    pub findings: Vec<Finding>,
    /// Positions after HEAD: in the hash chain, but covered by no signature.
    pub unsigned: Option<RangeInclusive<u64>>,
    /// Remarks that are not defects.
    pub notes: Vec<String>,
}

/// Returns the positions that were read after a signed HEAD.
fn unsigned_positions(head: Option<JournalHead>, end: JournalHead) -> Option<RangeInclusive<u64>> {
    let signed_position = head?.position.0;
    (end.position.0 > signed_position).then(|| signed_position + 1..=end.position.0)
}

/// Parameters of a verification.
pub struct JournalVerification<'v, D: PayloadDecoder> {
    /// The directory of the log: `signing.key`, and `journal/` with HEAD and segments.
    pub directory: &'v Path,
    /// `true` if a service writes to the journal, which is then read up to HEAD only.
    pub in_use: bool,
    /// Checkpoint that the history must contain.
    pub since: Option<&'v SignedCheckpoint>,
    /// Called for every intact record, in order. Returns a defect of the record's content, which is reported unless an
    /// earlier defect may have caused it.
    pub on_record: &'v mut dyn FnMut(&ScannedRecord<'_, D>) -> Option<String>,
    /// Called with the number of segment bytes read since the last call.
    pub progress: &'v mut dyn FnMut(u64),
}

/// Key and HEAD that authenticate the journal.
struct SignedState {
    key: Option<SigningKey>,
    head: Option<JournalHead>,
}

impl<D: PayloadDecoder> JournalVerification<'_, D> {
    /// Runs the verification.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn run(self) -> Result<JournalReport, JournalError> {
        let Self { directory, in_use, since, on_record, progress } = self;
        let journal = directory.join("journal");
        let mut report = JournalReport::default();

        // Reads HEAD first: everything that it covers is on disk by then, even if the service writes meanwhile.
        let log = scan::read_log_id(&scan::segments(&journal)?);
        let minimum = since.filter(|_| in_use).map_or(Position(0), |since| since.checkpoint().head.position);
        let SignedState { key, head } = read_signed_state(directory, log, minimum, &mut report);
        let segments = scan::segments(&journal)?;
        report.log = log;
        report.public_key = key.map(|key| key.verifying_key().to_bytes());

        let Some(log) = log else {
            let problem =
                if segments.is_empty() { "all segments are missing" } else { "no segment has an intact header" };
            report.findings.push(Finding::in_file(journal, problem));
            return Ok(report);
        };

        let mut visitor = VerificationVisitor::new(&mut report, head, since, on_record, progress);
        let extent = if in_use { ScanExtent::UpToHead } else { ScanExtent::Everything };
        let end = scan::scan(&segments, log, head, extent, &mut visitor)?;
        visitor.finish(&journal, log, &end);

        report.head = Some(end.head);
        report.unsigned = unsigned_positions(head, end.head);

        if let Some(JournalDamage { file, offset, reason, .. }) = end.torn {
            let location = format!("{} from offset {offset} on", file.display());
            report.notes.push(format!(
                "{location} is an unfinished write that was never acknowledged ({reason}): the next start removes it"
            ));
        }

        Ok(report)
    }
}

/// Reads the signing key and HEAD; reports their defects.
fn read_signed_state(
    directory: &Path,
    log: Option<Uuid>,
    minimum: Position,
    report: &mut JournalReport,
) -> SignedState {
    let key_path = directory.join("signing.key");
    let mut add_finding = |file: &Path, problem: String| report.findings.push(Finding::in_file(file, problem));
    let key = chain::load_signing_key(&key_path).unwrap_or_else(|error| {
        add_finding(&key_path, format!("the signing key cannot be read: {error}"));
        None
    });

    let head_path = directory.join("journal/HEAD");

    let (Some(key), Some(log)) = (key, log) else {
        if !key_path.exists() {
            add_finding(&key_path, "the signing key is missing: the journal cannot be authenticated".to_owned());
        }
        return SignedState { key: None, head: None };
    };

    let head = match read_head(&head_path, &key, log, minimum) {
        Ok(head) => Some(head),
        Err(HeadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            add_finding(&head_path, "HEAD is missing: the last acknowledged position is unknown".to_owned());
            None
        }
        Err(error) => {
            add_finding(&head_path, error.to_string());
            None
        }
    };

    SignedState { key: Some(key), head }
}

/// Reads HEAD. Waits for a limited time until it reaches `minimum`, because a service writes HEAD shortly after its
/// responses.
fn read_head(path: &Path, key: &SigningKey, log: Uuid, minimum: Position) -> Result<JournalHead, HeadError> {
    let mut retries = 0..HEAD_RETRIES;
    loop {
        let head = chain::read_head(path, &key.verifying_key(), log)?;
        if head.position >= minimum || retries.next().is_none() {
            return Ok(head);
        }
        std::thread::sleep(HEAD_RETRY_PAUSE);
    }
}

/// Intermediate result of the scan.
struct VerificationVisitor<'s, D: PayloadDecoder> {
    report: &'s mut JournalReport,
    head: Option<JournalHead>,
    is_head_found: bool,
    since: Option<&'s SignedCheckpoint>,
    is_since_found: bool,
    on_record: &'s mut dyn FnMut(&ScannedRecord<'_, D>) -> Option<String>,
    progress: &'s mut dyn FnMut(u64),
}

impl<'s, D: PayloadDecoder> VerificationVisitor<'s, D> {
    fn new(
        report: &'s mut JournalReport,
        head: Option<JournalHead>,
        since: Option<&'s SignedCheckpoint>,
        on_record: &'s mut dyn FnMut(&ScannedRecord<'_, D>) -> Option<String>,
        progress: &'s mut dyn FnMut(u64),
    ) -> Self {
        Self { report, head, is_head_found: false, since, is_since_found: false, on_record, progress }
    }

    /// Adds the findings that require the whole scan.
    fn finish(&mut self, journal: &Path, log: Uuid, end: &ScanEnd) {
        let genesis = JournalHead { position: Position(0), chain: ChainHash::genesis(log) };
        let end_position = end.head.position;

        if let Some(head) = self.head
            && !self.is_head_found
            && head != genesis
            && head.position <= end_position
        {
            let problem = format!("HEAD was signed for another history up to position {}", head.position);
            self.report.findings.push(Finding::in_file(journal.join("HEAD"), problem));
        }

        if let Some(since) = self.since {
            let is_found = self.is_since_found || since.checkpoint().head == genesis;
            if let Some(problem) = checkpoint_mismatch(since, log, self.report.public_key, end_position, is_found) {
                let position = Some(since.checkpoint().head.position);
                self.report.findings.push(Finding { file: journal.to_owned(), offset: None, position, problem });
            }
        }
    }
}

/// Returns the reason why a history does not match a checkpoint.
fn checkpoint_mismatch(
    since: &SignedCheckpoint,
    log: Uuid,
    key: Option<[u8; 32]>,
    end_position: Position,
    is_checkpoint_found: bool,
) -> Option<String> {
    let checkpoint = since.checkpoint();
    let position = checkpoint.head.position;

    if checkpoint.log != log {
        return Some(format!("this is log {log}, but the checkpoint is of log {}", checkpoint.log));
    }

    if let Some(key) = key.filter(|key| *key != since.public_key()) {
        let own_key = hex::encode(&key);
        let checkpoint_key = hex::encode(&since.public_key());
        return Some(format!("the log signs with key {own_key}, but the checkpoint was signed with {checkpoint_key}"));
    }

    if position > end_position {
        return Some(format!(
            "the history was truncated: it ends at position {end_position}, but the checkpoint was taken at {position}"
        ));
    }

    (!is_checkpoint_found)
        .then(|| format!("the history was rewritten: up to position {position} it differs from the checkpoint"))
}

impl<D: PayloadDecoder> ScanVisitor<D> for VerificationVisitor<'_, D> {
    fn visit_record(&mut self, record: &ScannedRecord<'_, D>) {
        self.report.events += D::event_count(&record.commit);
        self.is_head_found |= self.head == Some(record.end);
        self.is_since_found |= self.since.is_some_and(|since| since.checkpoint().head == record.end);

        if let Some(problem) = (self.on_record)(record)
            && self.report.findings.is_empty()
        {
            let file = record.file.to_owned();
            let offset = Some(record.offset);
            let position = Some(D::first_position(&record.commit));
            self.report.findings.push(Finding { file, offset, position, problem });
        }
    }

    fn visit_damage(&mut self, damage: JournalDamage) {
        self.report.findings.push(damage.into());
    }

    fn visit_segment(&mut self, path: &Path, used: &[u8]) -> Result<(), JournalError> {
        (self.progress)(fs::metadata(path).map_or(used.len() as u64, |file| file.len()));
        Ok(())
    }
}
