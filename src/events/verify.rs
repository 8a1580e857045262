//! Proof of a journal: everything that can be wrong in its directory is looked for, nothing is changed, and what is found is
//! said with file, offset and position.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ed25519_dalek::SigningKey;
use uuid::Uuid;

use super::chain::{self, ChainHash, Head, HeadError};
use super::checkpoint::SignedCheckpoint;
use super::hex;
use super::journal::OpenError;
use super::journal::walk::{self, Damage, End, Walked, Watch};
use super::stream::{Position, StreamId};

/// How long HEAD of a running service may be behind what it has answered: so many times so long.
const HEAD_MOMENTS: u32 = 20;
const HEAD_MOMENT: Duration = Duration::from_millis(50);

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    /// In bytes.
    pub offset: Option<u64>,
    pub position: Option<Position>,
    /// What is wrong, in a sentence.
    pub what: String,
}

impl Finding {
    /// Something that is wrong with a whole file.
    #[must_use]
    pub fn of_file(file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self { file: file.into(), offset: None, position: None, what: what.into() }
    }
}

impl From<Damage> for Finding {
    fn from(Damage { file, offset, position, reason }: Damage) -> Self {
        Self { file, offset: Some(offset), position: Some(position), what: reason }
    }
}

/// What a journal turned out to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalReport {
    pub log: Option<Uuid>,
    /// The key that signs HEAD, checkpoints and exports.
    pub public_key: Option<[u8; 32]>,
    /// The last whole record.
    pub head: Option<Head>,
    /// How many events were read.
    pub events: u64,
    /// How many records each schema version wrote.
    pub schemas: BTreeMap<u16, u64>,
    pub findings: Vec<Finding>,
    /// Positions after HEAD: in the hash chain, but covered by no signature.
    pub unsigned: Option<RangeInclusive<u64>>,
    /// What is no damage and should be known.
    pub notes: Vec<String>,
}

/// Returns the positions that were read after a signed HEAD.
fn unsigned(head: Option<Head>, end: Head) -> Option<RangeInclusive<u64>> {
    let signed = head?.position.0;
    (end.position.0 > signed).then(|| signed + 1..=end.position.0)
}

/// How a journal is to be verified.
pub struct Verification<'v> {
    /// The directory of the log: `signing.key`, and `journal/` with HEAD and segments.
    pub directory: &'v Path,
    /// Whether somebody writes to it: then it is read up to HEAD only.
    pub in_use: bool,
    /// What the history must contain.
    pub since: Option<&'v SignedCheckpoint>,
    /// Is given every whole record, in order.
    pub each: &'v mut dyn FnMut(&Walked<'_>),
    /// Is told how many bytes of segments were read more.
    pub progress: &'v mut dyn FnMut(u64),
}

/// The files of a journal that vouch for it.
struct Vouchers {
    key: Option<SigningKey>,
    head: Option<Head>,
}

impl Verification<'_> {
    /// Reads everything.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn run(self) -> Result<JournalReport, OpenError> {
        let Self { directory, in_use, since, each, progress } = self;
        let journal = directory.join("journal");
        let mut report = JournalReport::default();
        // HEAD first: what it says is on disk by then, whatever is written meanwhile.
        let log = walk::log_of(&walk::segments(&journal)?);
        let wanted = since.filter(|_| in_use).map_or(Position(0), |since| since.checkpoint().head.position);
        let Vouchers { key, head } = vouchers(directory, log, wanted, &mut report);
        let segments = walk::segments(&journal)?;
        report.log = log;
        report.public_key = key.map(|key| key.verifying_key().to_bytes());
        let Some(log) = log else {
            let what = if segments.is_empty() { "all segments are missing" } else { "no segment has a whole header" };
            report.findings.push(Finding::of_file(journal, what));
            return Ok(report);
        };
        let mut seen = Seen::new(&mut report, head, since, each, progress);
        let end = walk::walk(&segments, log, head, in_use, &mut seen)?;
        seen.finish(&journal, log, &end);
        report.head = Some(end.head);
        report.unsigned = unsigned(head, end.head);
        if let Some((file, offset, what)) = end.torn {
            let place = format!("{} from offset {offset} on", file.display());
            report.notes.push(format!(
                "{place} is an unfinished write that was never acknowledged ({what}): the next start cuts it off"
            ));
        }
        Ok(report)
    }
}

/// Reads the signing key and HEAD; what is wrong with them is found here.
fn vouchers(directory: &Path, log: Option<Uuid>, wanted: Position, report: &mut JournalReport) -> Vouchers {
    let key_path = directory.join("signing.key");
    let mut tell = |file: &Path, what: String| report.findings.push(Finding::of_file(file, what));
    let key = chain::load_key(&key_path).unwrap_or_else(|error| {
        tell(&key_path, format!("the signing key cannot be read: {error}"));
        None
    });
    let head_path = directory.join("journal/HEAD");
    let (Some(key), Some(log)) = (key, log) else {
        if !key_path.exists() {
            tell(&key_path, "the signing key is missing: nothing vouches for the journal".to_owned());
        }
        return Vouchers { key: None, head: None };
    };
    let head = match read_head(&head_path, &key, log, wanted) {
        Ok(head) => Some(head),
        Err(HeadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            tell(&head_path, "HEAD is missing: nobody can say how far the journal was acknowledged".to_owned());
            None
        }
        Err(error) => {
            tell(&head_path, error.to_string());
            None
        }
    };
    Vouchers { key: Some(key), head }
}

/// Reads HEAD; a service writes it a moment after its answers, so one that is not at `wanted` yet is given that moment.
fn read_head(path: &Path, key: &SigningKey, log: Uuid, wanted: Position) -> Result<Head, HeadError> {
    let mut moments = 0..HEAD_MOMENTS;
    loop {
        let head = chain::read_head(path, &key.verifying_key(), log)?;
        if head.position >= wanted || moments.next().is_none() {
            return Ok(head);
        }
        std::thread::sleep(HEAD_MOMENT);
    }
}

/// What the walk has shown so far.
struct Seen<'s> {
    report: &'s mut JournalReport,
    versions: HashMap<StreamId, u64>,
    head: Option<Head>,
    head_met: bool,
    since: Option<&'s SignedCheckpoint>,
    since_met: bool,
    each: &'s mut dyn FnMut(&Walked<'_>),
    progress: &'s mut dyn FnMut(u64),
}

impl<'s> Seen<'s> {
    fn new(
        report: &'s mut JournalReport,
        head: Option<Head>,
        since: Option<&'s SignedCheckpoint>,
        each: &'s mut dyn FnMut(&Walked<'_>),
        progress: &'s mut dyn FnMut(u64),
    ) -> Self {
        let (versions, head_met, since_met) = (HashMap::new(), false, false);
        Self { report, versions, head, head_met, since, since_met, each, progress }
    }

    /// What can be said only when everything was seen.
    fn finish(&mut self, journal: &Path, log: Uuid, end: &End) {
        let genesis = Head { position: Position(0), chain: ChainHash::genesis(log) };
        let reached = end.head.position;
        if let Some(head) = self.head
            && !self.head_met
            && head != genesis
            && head.position <= reached
        {
            let what = format!("HEAD was signed for another history up to position {}", head.position);
            self.report.findings.push(Finding::of_file(journal.join("HEAD"), what));
        }
        if let Some(since) = self.since {
            let met = self.since_met || since.checkpoint().head == genesis;
            if let Some(what) = misfit(since, log, self.report.public_key, reached, met) {
                let position = Some(since.checkpoint().head.position);
                self.report.findings.push(Finding { file: journal.to_owned(), offset: None, position, what });
            }
        }
    }
}

/// Why a history is not the one of a checkpoint.
fn misfit(since: &SignedCheckpoint, log: Uuid, key: Option<[u8; 32]>, reached: Position, met: bool) -> Option<String> {
    let checkpoint = since.checkpoint();
    let position = checkpoint.head.position;
    if checkpoint.log != log {
        return Some(format!("this is log {log}, the checkpoint was taken of log {}", checkpoint.log));
    }
    if let Some(key) = key.filter(|key| *key != since.public_key()) {
        let (ours, theirs) = (hex::encode(&key), hex::encode(&since.public_key()));
        return Some(format!("the log signs with key {ours}, the checkpoint was signed with {theirs}"));
    }
    if position > reached {
        return Some(format!(
            "the history was cut: it ends at position {reached}, the checkpoint was taken at {position}"
        ));
    }
    (!met).then(|| {
        format!(
            "the history was rewritten: what stands up to position {position} is not what the checkpoint was taken of"
        )
    })
}

impl Watch for Seen<'_> {
    fn record(&mut self, record: &Walked<'_>) {
        let (first, count) = (&record.commit[0], record.commit.len() as u64);
        self.report.events += count;
        if let Some(schema) = record.payload.first_chunk() {
            *self.report.schemas.entry(u16::from_le_bytes(*schema)).or_default() += 1;
        }
        self.head_met |= self.head == Some(record.end);
        self.since_met |= self.since.is_some_and(|since| since.checkpoint().head == record.end);
        let version = self.versions.entry(first.stream.clone()).or_default();
        // Where positions are missing, versions are too: that was told.
        if first.version.0 != *version + 1 && self.report.findings.is_empty() {
            let what = format!("stream {} has version {} after version {version}", first.stream, first.version);
            let (file, offset) = (record.file.to_owned(), Some(record.offset));
            self.report.findings.push(Finding { file, offset, position: Some(first.position), what });
        }
        *version = first.version.0 + count - 1;
        (self.each)(record);
    }

    fn damage(&mut self, damage: Damage) {
        self.report.findings.push(damage.into());
    }

    fn segment(&mut self, path: &Path, used: &[u8]) -> Result<(), OpenError> {
        (self.progress)(fs::metadata(path).map_or(used.len() as u64, |file| file.len()));
        Ok(())
    }
}
