//! The journal as an application uses it: appends, restarts, damage, repair and verification.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mediary_journal::{
    Environment, Journal, JournalError, JournalOptions, JournalReader, JournalRecords, JournalVerification,
    OpenedJournal, PAYLOAD_BYTES_MAX, PayloadDecoder, PayloadTooLarge, Position, ReadOnlyJournal, RecordLocation,
    RepairedPart, SignedCheckpoint, WriteError, parse_records,
};
use tempfile::TempDir;
use uuid::Uuid;

/// Offset of the first record in a segment.
const RECORDS_START: u64 = 512;
const SEGMENT_BYTES: u64 = 4096;
/// Size of a record before its payload.
const FRAME_BYTES: u64 = 56;
/// Size of the record of `commit 1`: the payload is position, number of events and text.
const FIRST_RECORD_BYTES: u64 = FRAME_BYTES + 8 + 1 + "commit 1".len() as u64;

/// Decoder of the test payload: position (u64), number of events (u8), text.
struct TextDecoder;

#[derive(Clone)]
struct TextCommit {
    first: Position,
    events: u64,
    text: String,
}

impl PayloadDecoder for TextDecoder {
    type Commit = TextCommit;

    fn decode(payload: &[u8]) -> Result<TextCommit, String> {
        let (position, rest) = payload.split_first_chunk().ok_or("the payload is too short")?;
        let (events, text) = rest.split_first().ok_or("the payload is too short")?;
        let text = String::from_utf8(text.to_vec()).map_err(|error| error.to_string())?;
        Ok(TextCommit { first: Position(u64::from_le_bytes(*position)), events: u64::from(*events), text })
    }

    fn first_position(commit: &TextCommit) -> Position {
        commit.first
    }

    fn event_count(commit: &TextCommit) -> u64 {
        commit.events
    }
}

/// Environment with fixed random numbers, and disk space that a test switches off.
#[derive(Default)]
struct TestEnvironment {
    is_full: AtomicBool,
}

impl Environment for TestEnvironment {
    fn new_log_id(&self) -> Uuid {
        Uuid::from_u128(5)
    }

    fn new_key_seed(&self) -> [u8; 32] {
        [9; 32]
    }

    fn check_space(&self, purpose: &str, _bytes: u64) -> Result<(), String> {
        if self.is_full.load(Ordering::SeqCst) { Err(format!("no space for {purpose}")) } else { Ok(()) }
    }
}

/// A log directory, with the payloads that were written to it.
struct TestLog {
    directory: TempDir,
    environment: Arc<TestEnvironment>,
    payloads: Vec<Vec<u8>>,
}

impl TestLog {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, environment: Arc::default(), payloads: Vec::new() }
    }

    /// Creates a log with `groups` groups of two commits of two events.
    fn with_groups(groups: u64) -> Self {
        let mut log = Self::new();
        let mut journal = log.open().journal;
        for _ in 0..groups {
            log.write_group(&mut journal).unwrap();
            journal.sign_head().unwrap();
        }
        journal.close().unwrap();
        log
    }

    fn options(&self) -> JournalOptions {
        let mut options = JournalOptions::new(self.directory.path());
        options.segment_bytes = SEGMENT_BYTES;
        options
    }

    fn open(&self) -> OpenedJournal<TextDecoder> {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_open(&self) -> Result<OpenedJournal<TextDecoder>, JournalError> {
        self.open_with_copies(&mut |_| None)
    }

    fn open_with_copies(
        &self,
        copies: &mut dyn FnMut(Position) -> Option<Vec<u8>>,
    ) -> Result<OpenedJournal<TextDecoder>, JournalError> {
        Journal::open_and_repair(self.options(), self.environment.clone(), Position(0), None, copies, |_| {})
    }

    fn write_group(&mut self, journal: &mut Journal<TextDecoder>) -> Result<(), WriteError> {
        let mut payloads = Vec::new();
        for _ in 0..2 {
            let position = journal.staged_head().0 + 1;
            let payload = [&position.to_le_bytes()[..], &[2], format!("commit {position}").as_bytes()].concat();
            journal
                .stage(2, |out| {
                    out.extend_from_slice(&payload);
                    Ok(())
                })
                .unwrap();
            payloads.push(payload);
        }

        journal.write_group()?;
        self.payloads.extend(payloads);
        Ok(())
    }

    fn copy_at(&self, position: Position) -> Option<Vec<u8>> {
        let is_there = |payload: &&Vec<u8>| TextDecoder::decode(payload).is_ok_and(|text| text.first == position);
        self.payloads.iter().find(is_there).cloned()
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("journal")).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
        segments.sort();
        segments
    }

    fn verify(&self, since: Option<&SignedCheckpoint>) -> Vec<String> {
        let verification = JournalVerification::<TextDecoder> {
            directory: self.directory.path(),
            in_use: false,
            since,
            on_record: &mut |_| None,
            progress: &mut |_| {},
        };
        verification.run().unwrap().findings.into_iter().map(|finding| finding.problem).collect()
    }
}

fn texts(mut reader: JournalReader<TextDecoder>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        texts.push(record.commit.text);
    }
    texts
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn written_commits_are_read_after_a_restart() {
    let log = TestLog::with_groups(2);

    let journal = log.open().journal;

    assert_eq!(journal.head(), Position(8));
    assert_eq!(texts(journal.read_from(Position(0)).unwrap()), ["commit 1", "commit 3", "commit 5", "commit 7"]);
    assert_eq!(texts(journal.read_from(Position(3)).unwrap()), ["commit 3", "commit 5", "commit 7"]);
}

#[test]
fn segments_follow_each_other() {
    let log = TestLog::with_groups(100);
    assert!(log.segments().len() > 3);

    let stopped = ReadOnlyJournal::<TextDecoder>::open(log.directory.path()).unwrap();

    assert_eq!(stopped.head().unwrap(), Position(400));
    assert_eq!(texts(stopped.read_from(Position(0)).unwrap()).len(), 200);
    assert_eq!(log.verify(None), [""; 0]);
}

#[test]
fn an_oversized_payload_leaves_the_group_unchanged() {
    let mut log = TestLog::new();
    let mut journal = log.open().journal;

    let staged = journal.stage(1, |out| {
        out.resize(out.len() + PAYLOAD_BYTES_MAX + 1, 1);
        Ok(())
    });

    assert_eq!(staged, Err(PayloadTooLarge { bytes: PAYLOAD_BYTES_MAX + 1 }));
    assert_eq!(journal.staged_head(), Position(0));
    log.write_group(&mut journal).unwrap();
    assert_eq!(journal.head(), Position(4));
}

#[test]
fn a_torn_tail_is_removed_and_reported() {
    let log = TestLog::with_groups(1);
    let segment = &log.segments()[0];
    let bytes = fs::read(segment).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    overwrite(segment, end, &[17, 0, 0, 0, 1, 2, 3]);

    let opened = log.open();

    let torn = opened.torn_tail.unwrap();
    assert_eq!((torn.position, torn.offset, torn.bytes), (Position(5), end, 7));
    assert_eq!(log.open().torn_tail, None);
}

#[test]
fn a_damaged_record_is_repaired_from_a_proven_copy_only() {
    // Given damage in the second record
    let log = TestLog::with_groups(2);
    let segment = &log.segments()[0];
    overwrite(segment, RECORDS_START + FIRST_RECORD_BYTES + FRAME_BYTES + 4, b"?");

    // When the journal is opened without a copy, or with a wrong copy, then the start fails and names the location
    let Err(JournalError::Damaged { position, .. }) = log.try_open() else { panic!("the journal opened") };
    assert_eq!(position, Position(3));
    let mut wrong = |position| log.copy_at(position).map(|payload| [&payload[..], b"!"].concat());
    assert!(log.open_with_copies(&mut wrong).is_err());
    assert_eq!(log.verify(None).len(), 1);

    // When there is a copy that the chain proves, then the record is repaired
    let repaired = log.open_with_copies(&mut |position| log.copy_at(position)).unwrap();
    assert_eq!(repaired.repairs.iter().map(|repair| repair.part).collect::<Vec<_>>(), [RepairedPart::Records(1)]);
    drop(repaired);
    assert_eq!(log.verify(None), [""; 0]);
}

#[test]
fn a_full_disk_rejects_a_group_and_accepts_it_later() {
    // Given a full disk, and a segment without room for another group
    let mut log = TestLog::new();
    let mut journal = log.open().journal;
    log.environment.is_full.store(true, Ordering::SeqCst);

    let refusal = loop {
        if let Err(refusal) = log.write_group(&mut journal) {
            break refusal;
        }
    };

    assert_eq!(refusal, WriteError::Full { reason: "no space for a new journal segment".to_owned() });
    let head = journal.head();

    // When there is space again, then the next group is accepted
    log.environment.is_full.store(false, Ordering::SeqCst);
    log.write_group(&mut journal).unwrap();
    assert_eq!(journal.head(), Position(head.0 + 4));
}

#[test]
fn a_truncated_history_does_not_contain_its_checkpoint() {
    let log = TestLog::with_groups(2);
    let checkpoint = log.open().journal.checkpoint(0);
    assert_eq!(log.verify(Some(&checkpoint)), [""; 0]);

    let shorter = TestLog::with_groups(1);

    let findings = shorter.verify(Some(&checkpoint));
    assert!(findings.len() == 1 && findings[0].contains("the history was truncated"), "{findings:?}");
}

#[test]
fn single_records_are_read_by_location() {
    // Given records in several segments, each with its location
    let log = TestLog::with_groups(60);
    assert!(log.segments().len() > 2);
    let journal = log.open().journal;
    let mut reader = journal.read_from(Position(0)).unwrap();
    let mut expected = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        expected.push((record.commit.first, record.commit.text, record.location));
    }

    // Then each is found at its location, and nowhere else
    let records = JournalRecords::<TextDecoder>::new(log.directory.path());
    for (position, text, location) in &expected {
        assert_eq!(records.read(*position, location).unwrap().text, *text);
        assert!(records.chain_at(*position, location).unwrap().is_some());
        assert!(records.read(Position(position.0 + 2), location).is_err());
        assert!(records.read(*position, &RecordLocation { offset: location.offset + 1, ..*location }).is_err());
        assert!(records.read(*position, &RecordLocation { checksum: !location.checksum, ..*location }).is_err());
    }

    // And a walk from any position, more than once, yields all records after it with the same locations
    for after in [0, 1, 2, 101, 238, 239, 240, 7, 120] {
        let mut found = Vec::new();
        let walked = records.walk(Position(after), Position(240), |record| {
            let copied: Vec<_> = parse_records(record.bytes).map(|copy| copy.unwrap().position).collect();
            assert_eq!(copied, [record.commit.first]);
            found.push((record.commit.first, record.commit.text, record.location));
            ControlFlow::Continue(())
        });
        walked.unwrap();
        let first = expected.iter().position(|(position, ..)| position.0 + 1 > after).unwrap_or(expected.len());
        assert_eq!(found, expected[first..], "after {after}");
    }
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_record_is_found_when_it_is_read() {
    let log = TestLog::with_groups(1);
    let mut reader = log.open().journal.read_from(Position(0)).unwrap();
    let location = reader.next_record().unwrap().unwrap().location;
    let records = JournalRecords::<TextDecoder>::new(log.directory.path());
    let segment = &log.segments()[0];
    let bytes = fs::read(segment).unwrap();
    for offset in RECORDS_START..RECORDS_START + FIRST_RECORD_BYTES {
        let byte = bytes[usize::try_from(offset).unwrap()];
        overwrite(segment, offset, &[byte ^ 0x10]);
        assert!(records.read(Position(1), &location).is_err(), "offset {offset}");
        let walked = records.walk(Position(0), Position(2), |_| ControlFlow::Continue(()));
        assert!(matches!(walked, Err(JournalError::Damaged { .. })), "offset {offset}");
        overwrite(segment, offset, &[byte]);
    }
    assert!(records.read(Position(1), &location).is_ok());
}
