//! Opening a journal: every record is checked, a torn tail is removed, and damage is repaired if the chain proves a
//! copy ([`super::repair`]). Any other defect prevents the start.
//!
//! Defects and their meaning:
//! - Bad bytes after HEAD, followed only by zeros or records of the same group: a group that was never acknowledged is
//!   incomplete. It is removed and reported.
//! - Bad bytes at or before HEAD, an intact record of a later group after bad bytes, an intact record that does not
//!   follow from the previous one or that this release cannot read, or a HEAD or an index beyond the last record: the
//!   journal was damaged or cut. The start fails.
//!
//! A start may be killed at any moment. The first start creates files in an order that makes every intermediate state
//! recognizable: the signing key, the first segment, HEAD (synced), and only then the first record. So a missing HEAD
//! is harmless exactly if no record was ever written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;

use crate::anchor::{Anchor, reader_from};
use crate::chain::{self, ChainHash, HeadError, HeadFile, JournalHead};
use crate::environment::{Environment, JournalStep};
use crate::error::JournalError;
use crate::files::{create_durably, sync_parent};
use crate::frame::{self, RECORDS_START, SegmentHeader};
use crate::journal::{JournalOptions, TornTail};
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::prefetch::{ExpectedRecords, prefetch};
use crate::reader::{JournalReader, JournalRecord, ReaderEnd};
use crate::repair::{self, CopySource, JournalRepair, JournalRepairer};
use crate::segment::{self, LoadedSegment, SegmentPreparation};
use crate::segment_reader::SegmentReader;

/// A journal that was checked to its end.
pub struct JournalState {
    pub header: SegmentHeader,
    pub head_file: HeadFile,
    /// The last record, acknowledged or not.
    pub head: JournalHead,
    /// The segment to append to.
    pub file: File,
    /// The first position of that segment.
    pub segment_start: u64,
    pub offset: u64,
    pub torn_tail: Option<TornTail>,
    pub repairs: Vec<JournalRepair>,
}

/// Events that the journal must contain.
struct KnownHistory {
    head: JournalHead,
    /// The position up to which the index holds events.
    processed: Position,
}

impl KnownHistory {
    /// Returns the evidence for events after `end`, if any.
    fn evidence_beyond(&self, end: Position) -> Option<String> {
        if self.head.position > end {
            Some(format!("HEAD says that events up to position {} were acknowledged", self.head.position))
        } else {
            (self.processed > end).then(|| format!("the index holds events up to position {}", self.processed))
        }
    }
}

/// Creates or checks the journal and calls `on_record` with every record.
pub fn open<'c, D: PayloadDecoder>(
    options: &'c JournalOptions,
    environment: &'c Arc<dyn Environment>,
    processed: Position,
    anchor: Option<&Anchor>,
    copies: &'c mut CopySource<'c>,
    on_record: impl FnMut(JournalRecord<'_, D>),
) -> Result<JournalState, JournalError> {
    let directory = options.journal_directory();
    create_durably(&directory).map_err(JournalError::io("create", &directory))?;

    // An interrupted start may have created the directory without syncing its parent.
    sync_parent(&directory).map_err(JournalError::io("sync", &directory))?;
    segment::remove_unfinished(&directory).map_err(JournalError::io("clean", &directory))?;

    let existing_segments = segment::list(&directory).map_err(JournalError::io("list", &directory))?;
    let head_path = directory.join("HEAD");
    let is_new_log = existing_segments.is_empty() && !head_path.exists();
    let key = load_or_create_key(options, environment.as_ref(), is_new_log)?;
    let segments = if existing_segments.is_empty() {
        vec![create_first_segment(options, environment, &head_path)?]
    } else {
        existing_segments
    };

    sync_last_segment(&segments)?;
    let (first, header_repair) = match SegmentReader::open(segments[0].clone(), 1) {
        Ok(first) => (first, None),
        Err(damage) => repair::repair_first_header(&segments[0], &head_path, &key, damage)
            .map(|(reader, repair)| (reader, Some(repair)))?,
    };

    let is_head_new = !head_path.exists();
    let (head_file, head) = open_head_file(&head_path, key, &first, segments.len())?;
    if is_head_new {
        environment.step_done(JournalStep::HeadCreated);
    }

    let history = KnownHistory { head, processed };
    let repairs = header_repair.into_iter().collect();
    let header = first.header;
    let reader = match anchor {
        None => JournalReader::new(segments, 1, ChainHash::genesis(header.log)),
        Some(anchor) => reader_from(segments, anchor, history.head.position.min(history.processed))?,
    };

    let repairer = JournalRepairer { options, environment, log: header.log, head, copies, repairs };
    read_and_repair(reader, header, head_file, anchor, &history, repairer, on_record)
}

fn load_or_create_key(
    options: &JournalOptions,
    environment: &dyn Environment,
    is_new_log: bool,
) -> Result<SigningKey, JournalError> {
    let path = options.directory.join("signing.key");
    match chain::load_signing_key(&path) {
        Ok(Some(key)) => Ok(key),
        Ok(None) if is_new_log => {
            let key = chain::create_signing_key(&path, environment.new_key_seed())
                .map_err(JournalError::io("create", &path))?;
            environment.step_done(JournalStep::KeyCreated);
            Ok(key)
        }
        Ok(None) => Err(JournalError::Unverifiable { file: path, reason: "the signing key is missing".to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(JournalError::Unverifiable { file: path, reason: error.to_string() })
        }
        Err(error) => Err(JournalError::io("read", &path)(error)),
    }
}

fn create_first_segment(
    options: &JournalOptions,
    environment: &Arc<dyn Environment>,
    head: &Path,
) -> Result<PathBuf, JournalError> {
    if head.exists() {
        return Err(JournalError::Unverifiable {
            file: head.to_owned(),
            reason: "all segments are missing".to_owned(),
        });
    }
    let directory = options.journal_directory();
    let log = environment.new_log_id();
    let header = SegmentHeader { log, first: 1, chain: ChainHash::genesis(log) };

    SegmentPreparation::start(&directory, options.segment_bytes, environment)
        .finish()
        .and_then(|file| segment::activate(&directory, &file, &header, environment.as_ref()))
        .map_err(JournalError::io("create a segment in", &directory))
}

/// Syncs the last segment, because the records served from now on must be durable. After kill -9 the last group may be
/// in the page cache only.
fn sync_last_segment(segments: &[PathBuf]) -> Result<(), JournalError> {
    let Some(path) = segments.last() else { return Ok(()) };
    File::open(path).and_then(|file| file.sync_all()).map_err(JournalError::io("sync", path))
}

/// Opens HEAD. Creates it if the journal has never contained a record.
fn open_head_file(
    path: &Path,
    key: SigningKey,
    first: &SegmentReader,
    segment_count: usize,
) -> Result<(HeadFile, JournalHead), JournalError> {
    let unverifiable = |reason: String| JournalError::Unverifiable { file: path.to_owned(), reason };
    let log = first.header.log;
    if path.exists() {
        return HeadFile::open(path, key, log).map_err(|error| match error {
            HeadError::Io(reason) => JournalError::io("read", path)(reason),
            other => unverifiable(other.to_string()),
        });
    }

    if segment_count == 1 && first.is_blank_from(RECORDS_START)? {
        HeadFile::create(path, key, log).map_err(JournalError::io("create", path))
    } else {
        Err(unverifiable("it is missing, but the journal is not empty".to_owned()))
    }
}

/// Reads all records, repairs damage, removes a torn tail, and signs the end.
fn read_and_repair<D: PayloadDecoder>(
    mut reader: JournalReader<D>,
    header: SegmentHeader,
    mut head_file: HeadFile,
    anchor: Option<&Anchor>,
    history: &KnownHistory,
    mut repairer: JournalRepairer<'_>,
    mut on_record: impl FnMut(JournalRecord<'_, D>),
) -> Result<JournalState, JournalError> {
    let mut expected = ExpectedRecords::new(&reader, history.head, anchor);

    loop {
        let damage;
        (reader, expected, damage) = prefetch(reader, expected, &mut on_record);
        if !repairer.repair(&mut reader)? {
            damage.map_or(Ok(()), |damage| Err(damage.without_copy()))?;
            break;
        }
    }

    let end = reader.last_record();
    let last_segment = reader.segment_start();
    let options = repairer.options;
    let repairs = repairer.repairs;
    let directory = options.journal_directory();

    let Some(ReaderEnd { segment, offset, flaw }) = reader.into_end() else {
        return Err(JournalError::Unverifiable { file: directory, reason: "it has no segments".to_owned() });
    };

    let torn_tail = classify_tail(&segment, offset, &flaw, &end, history).map_err(JournalError::without_copy)?;

    if let Some(missing) = expected.missing_anchor {
        let reason = format!("the journal has another history up to position {}", missing.position);
        return Err(segment.damage_error(offset, missing.position.0, reason));
    }

    let Some((head_segment, head_offset)) = expected.head_end else {
        let position = history.head.position;
        let reason = format!("HEAD was signed for another history up to position {position}");
        return Err(segment.damage_error(offset, position.0, reason));
    };

    let file = OpenOptions::new().read(true).write(true).open(&segment.path);
    let file = file.map_err(JournalError::io("open", &segment.path))?;
    if torn_tail.is_some() {
        let length = file.metadata().map_or(0, |metadata| metadata.len()).max(options.segment_bytes);
        zero_range(&file, offset as u64, length).map_err(JournalError::io("cut the tail of", &segment.path))?;
    }

    let unsigned_from = if head_segment == last_segment { head_offset } else { RECORDS_START };
    repair::rewrite_unsigned(&file, unsigned_from, offset).map_err(JournalError::io("sync", &segment.path))?;
    head_file.write(&end).map_err(JournalError::io("write HEAD in", &directory))?;

    let segment_start = segment.header.first;
    let offset = offset as u64;
    Ok(JournalState { header, head_file, head: end, file, segment_start, offset, torn_tail, repairs })
}

/// Decides whether the bytes after the last intact record are unused, a torn tail, or damage.
fn classify_tail(
    reader: &SegmentReader,
    offset: usize,
    flaw: &str,
    end: &JournalHead,
    history: &KnownHistory,
) -> Result<Option<TornTail>, JournalError> {
    let next = end.position.0 + 1;
    let is_blank = reader.is_blank_from(offset)?;

    if let Some(evidence) = history.evidence_beyond(end.position) {
        let problem = if is_blank { "the journal ends here" } else { flaw };
        return Err(reader.damage_error(offset, next, format!("{problem}, but {evidence}")));
    }

    if is_blank {
        return Ok(None);
    }

    let segment = LoadedSegment::load(reader.path.clone(), reader.header.first)?;
    if frame::parse(&segment.bytes, offset).is_ok() {
        return Err(segment.damage_error(offset, next, flaw));
    }

    if let Some((at, later)) = frame::find_later_group(&segment.bytes, offset, next) {
        let reason = format!("{flaw}, but position {} at offset {at} was written later and is intact", later.position);
        return Err(segment.damage_error(offset, next, reason));
    }

    let used_end = segment.bytes.iter().rposition(|byte| *byte != 0).map_or(offset, |last| last + 1);
    Ok(Some(TornTail {
        file: segment.path.clone(),
        offset: offset as u64,
        position: Position(next),
        bytes: (used_end - offset) as u64,
        reason: flaw.to_owned(),
    }))
}

/// Zeroes a range from its end to its front, so that an interruption leaves a tail that is classified as before.
fn zero_range(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; 64 * 1024];
    let mut end = to;
    while end > from {
        let start = end.saturating_sub(zeros.len() as u64).max(from).max(RECORDS_START as u64);
        let length = usize::try_from(end - start).unwrap_or(0);
        file.write_all_at(&zeros[..length], start)?;
        end = start;
    }
    file.sync_all()
}
