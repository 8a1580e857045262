//! Durable log: crashes, damage, and the distinction between the two.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mediary::environment::Environment;
use mediary::events::envelope::RecordedEvent;
use mediary::events::journal::{Journal, JournalEnvironment, JournalError};
use mediary::events::log::{EventLog, LogFailure};
use mediary::events::open_error::OpenError;
use mediary::events::sled_log::{OpenReport, SledLog, SledLogOptions};
use mediary::events::stream::Position;
use tempfile::TempDir;

use crate::samples::{AT, append};

/// Offset of the first record in a segment.
pub const RECORDS_START: u64 = 512;
const SEGMENT_BYTES: u64 = 8 * 1024;

/// Data directory, and changes to it between two openings of the log.
pub struct LogFixture {
    directory: TempDir,
    pub options: SledLogOptions,
}

impl LogFixture {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = SledLogOptions::new(directory.path());
        options.journal.segment_bytes = SEGMENT_BYTES;
        Self { directory, options }
    }

    /// Creates a log with `groups` groups of two events, each group signed in HEAD.
    pub fn with_groups(groups: u64) -> Self {
        let fixture = Self::new();
        let log = fixture.open().0;
        for index in 0..groups {
            write_group(&log, index);
        }
        log.close().unwrap();
        fixture
    }

    pub fn try_open(&self) -> Result<(SledLog, OpenReport), OpenError> {
        SledLog::open(&self.options, &Environment::manual(AT, 7), |_| {})
    }

    pub fn open(&self) -> (SledLog, OpenReport) {
        self.try_open().unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn open_error(&self) -> OpenError {
        match self.try_open() {
            Ok((_, report)) => panic!("the log opened: {report:?}"),
            Err(error) => error,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("journal")).unwrap().map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
        segments.sort();
        segments
    }

    /// Returns the last segment, and the offset after its last non-zero byte.
    pub fn end(&self) -> (PathBuf, u64) {
        let path = self.segments().pop().unwrap();
        let bytes = fs::read(&path).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        (path, end as u64)
    }

    /// Does `work`, and restores HEAD to its state before.
    pub fn without_head(&self, work: impl FnOnce()) {
        let head = fs::read(self.path("journal/HEAD")).unwrap();
        work();
        fs::write(self.path("journal/HEAD"), head).unwrap();
    }
}

pub fn write_group(log: &SledLog, index: u64) {
    let outcome = log.append(vec![append(1, index, index, 1), append(2, index, index, 1)]).unwrap();
    assert!(outcome.iter().all(Result::is_ok), "{outcome:?}");
    log.after_group();
}

/// Reads all events of a log.
pub fn all(log: &dyn EventLog) -> Vec<RecordedEvent> {
    log.read_all(Position(0), usize::MAX).unwrap()
}

pub fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// Flips one bit of the byte at `offset`.
pub fn flip(path: &Path, offset: u64) {
    let mut byte = [0];
    File::open(path).unwrap().read_exact_at(&mut byte, offset).unwrap();
    overwrite(path, offset, &[byte[0] ^ 0x10]);
}

#[test]
fn a_torn_tail_is_cut_and_reported() {
    // Given an incomplete record after HEAD
    let log_fixture = LogFixture::with_groups(3);
    log_fixture.without_head(|| {
        let log = log_fixture.open().0;
        log.append(vec![append(1, 3, 9, 1)]).unwrap();
    });
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    let (segment, end) = log_fixture.end();
    overwrite(&segment, end - 10, &[0; 10]);

    // When the log opens, then the record is removed and reported
    let (log, report) = log_fixture.open();
    let torn = report.torn_tail.unwrap();
    assert_eq!((log.head(), torn.position, torn.file), (Position(6), Position(7), segment.clone()));
    assert_eq!(all(&log).len(), 6);

    // And the next append takes its place
    log.append(vec![append(1, 3, 10, 1)]).unwrap();
    drop(log);
    let (log, report) = log_fixture.open();
    assert_eq!((all(&log).len(), report.torn_tail), (7, None));
}

#[test]
fn an_incomplete_group_is_truncated_in_any_write_order() {
    let log_fixture = LogFixture::with_groups(2);
    let (segment, end) = log_fixture.end();
    log_fixture.without_head(|| {
        let log = log_fixture.open().0;
        log.append((0..4).map(|index| append(index + 10, 0, 9, 1)).collect()).unwrap();
    });
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    // The first of four records is missing, the others are complete.
    overwrite(&segment, end, &[0; 60]);
    let (log, report) = log_fixture.open();
    assert_eq!((log.head(), report.torn_tail.map(|torn| torn.position)), (Position(4), Some(Position(5))));
}

#[test]
fn whole_records_after_head_are_kept() {
    let log_fixture = LogFixture::with_groups(2);
    log_fixture.without_head(|| write_group(&log_fixture.open().0, 2));
    let (log, report) = log_fixture.open();
    assert_eq!((log.head(), report.torn_tail), (Position(6), None));
}

#[test]
fn a_flipped_bit_before_head_fails_the_start() {
    let log_fixture = LogFixture::with_groups(3);
    let segment = &log_fixture.segments()[0];
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    flip(segment, RECORDS_START + 70);
    let message = log_fixture.open_error().to_string();
    assert!(message.contains(segment.to_str().unwrap()), "{message}");
    assert!(message.contains("at offset 512, position 1:"), "{message}");
    assert!(message.contains("mediary restore"), "{message}");
}

#[test]
fn every_damaged_byte_of_the_acknowledged_records_is_found() {
    let log_fixture = LogFixture::with_groups(2);
    let (segment, end) = log_fixture.end();
    for offset in RECORDS_START..end {
        flip(&segment, offset);
        let environment = JournalEnvironment::new(&Environment::manual(AT, 7), &log_fixture.options.space);
        let opened = Journal::open(log_fixture.options.journal.clone(), environment, Position(0), |_| {}).map(drop);
        assert!(matches!(opened, Err(JournalError::Damaged { .. })), "offset {offset}");
        flip(&segment, offset);
    }
    assert_eq!(log_fixture.open().0.head(), Position(4));
}

#[test]
fn a_damaged_record_before_a_later_group_fails_the_start() {
    // Given a stale HEAD (power was lost), and damage in a record that was synced after it
    let log_fixture = LogFixture::with_groups(2);
    let (segment, end) = log_fixture.end();
    log_fixture.without_head(|| {
        let log = log_fixture.open().0;
        write_group(&log, 2);
        write_group(&log, 3);
    });
    flip(&segment, end + 60);
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    let OpenError::Damaged { position, offset, .. } = log_fixture.open_error() else {
        panic!("the start failed with another error")
    };
    assert_eq!((position, offset), (Position(5), end));
}

#[test]
fn a_truncated_segment_fails_the_start() {
    let log_fixture = LogFixture::with_groups(3);
    let (segment, end) = log_fixture.end();
    OpenOptions::new().write(true).open(&segment).unwrap().set_len(end - 1).unwrap();
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    assert!(matches!(log_fixture.open_error(), OpenError::Damaged { position: Position(6), .. }));
}

#[test]
fn a_missing_segment_fails_the_start() {
    let log_fixture = LogFixture::with_groups(200);
    let segments = log_fixture.segments();
    assert!(segments.len() > 2, "the log has only {} segments", segments.len());
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    for missing in &segments {
        let bytes = fs::read(missing).unwrap();
        fs::remove_file(missing).unwrap();
        assert!(matches!(log_fixture.open_error(), OpenError::Damaged { .. }), "{}", missing.display());
        fs::remove_dir_all(log_fixture.path("sled")).unwrap();
        fs::write(missing, bytes).unwrap();
    }
    assert_eq!(log_fixture.open().0.head(), Position(400));
}

#[test]
fn an_older_journal_fails_the_start() {
    let log_fixture = LogFixture::with_groups(2);
    let (segment, end) = log_fixture.end();
    write_group(&log_fixture.open().0, 2);
    let length = fs::metadata(&segment).unwrap().len();
    overwrite(&segment, end, &vec![0; usize::try_from(length - end).unwrap()]);
    fs::remove_dir_all(log_fixture.path("sled")).unwrap();
    let message = log_fixture.open_error().to_string();
    assert!(message.contains("HEAD says that events up to position 6 were acknowledged"), "{message}");
}

#[test]
fn sled_ahead_of_the_journal_fails_the_start() {
    let log_fixture = LogFixture::with_groups(2);
    let (segment, end) = log_fixture.end();
    log_fixture.without_head(|| {
        let log = log_fixture.open().0;
        write_group(&log, 2);
        log.close().unwrap();
    });
    let length = fs::metadata(&segment).unwrap().len();
    overwrite(&segment, end, &vec![0; usize::try_from(length - end).unwrap()]);
    let message = log_fixture.open_error().to_string();
    assert!(message.contains("the index holds events up to position 6"), "{message}");
}

#[test]
fn a_damaged_tail_known_to_sled_is_not_truncated() {
    // Given a stale HEAD, and damage in the last acknowledged record and its chain hash, which sled already had
    let log_fixture = LogFixture::with_groups(2);
    log_fixture.without_head(|| {
        let log = log_fixture.open().0;
        write_group(&log, 2);
        log.close().unwrap();
    });
    let (segment, end) = log_fixture.end();
    flip(&segment, end - 1);
    let bytes = fs::read(&segment).unwrap();
    let chain = (0..bytes.len()).rev().find(|at| bytes[*at..].starts_with(&[6, 0, 0, 0, 0, 0, 0, 0])).unwrap() + 16;
    flip(&segment, chain as u64);
    for _ in 0..2 {
        assert!(matches!(log_fixture.open_error(), OpenError::Damaged { position: Position(6), .. }));
    }
}

#[test]
fn a_torn_head_slot_leaves_the_other() {
    let log_fixture = LogFixture::with_groups(3);
    for slot in [0, 4096] {
        flip(&log_fixture.path("journal/HEAD"), slot + 40);
        let (log, _) = log_fixture.open();
        assert_eq!(log.head(), Position(6), "slot at {slot}");
    }
}

#[test]
fn a_missing_or_forged_head_fails_the_start() {
    let log_fixture = LogFixture::with_groups(2);
    let head = log_fixture.path("journal/HEAD");
    let head_bytes = fs::read(&head).unwrap();
    fs::remove_file(&head).unwrap();
    assert!(matches!(log_fixture.open_error(), OpenError::Unverifiable { file, .. } if file == head));
    fs::write(&head, vec![0; 8192]).unwrap();
    assert!(matches!(log_fixture.open_error(), OpenError::Unverifiable { file, .. } if file == head));
    fs::write(&head, head_bytes).unwrap();
    fs::write(log_fixture.path("signing.key"), [9; 32]).unwrap();
    assert!(matches!(log_fixture.open_error(), OpenError::Unverifiable { file, .. } if file == head));
    fs::remove_file(log_fixture.path("signing.key")).unwrap();
    assert!(
        matches!(log_fixture.open_error(), OpenError::Unverifiable { file, .. } if file == log_fixture.path("signing.key"))
    );
}

#[test]
fn a_first_start_killed_at_any_step_can_be_repeated() {
    // Killed after the segment, before HEAD.
    let log_fixture = LogFixture::with_groups(0);
    fs::remove_file(log_fixture.path("journal/HEAD")).unwrap();
    write_group(&log_fixture.open().0, 0);
    // Killed after the key, before the segment.
    let log_fixture = LogFixture::with_groups(0);
    fs::remove_dir_all(log_fixture.path("journal")).unwrap();
    write_group(&log_fixture.open().0, 0);
    // Killed while HEAD was being written.
    let log_fixture = LogFixture::with_groups(0);
    fs::rename(log_fixture.path("journal/HEAD"), log_fixture.path("journal/HEAD.draft")).unwrap();
    fs::write(log_fixture.path("signing.draft"), [1, 2, 3]).unwrap();
    write_group(&log_fixture.open().0, 0);
}

#[test]
fn a_kill_during_segment_preparation_loses_nothing() {
    let log_fixture = LogFixture::with_groups(100);
    let head = log_fixture.open().0.head();
    // Half-way through preparation, with a header or without.
    fs::write(log_fixture.path("journal/next.tmp"), [0; 1000]).unwrap();
    assert_eq!(log_fixture.open().0.head(), head);
    let segment_bytes = fs::read(&log_fixture.segments()[0]).unwrap();
    fs::write(log_fixture.path("journal/next.tmp"), segment_bytes).unwrap();
    write_group(&log_fixture.open().0, 100);
    let (log, report) = log_fixture.open();
    assert_eq!((log.head(), report.torn_tail), (Position(202), None));
}

#[test]
fn segments_roll_and_are_read_from_any_position() {
    let log_fixture = LogFixture::with_groups(200);
    assert!(log_fixture.segments().len() > 2, "{:?}", log_fixture.segments());

    let (log, _) = log_fixture.open();
    let events = all(&log);
    assert_eq!(events.len(), 400);

    for after in [0, 1, 57, 399, 400] {
        let mut reader = log.read_journal(Position(after)).unwrap();
        let mut read_events = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            read_events.extend_from_slice(&record.commit);
        }
        assert_eq!(read_events, events[usize::try_from(after).unwrap()..], "after {after}");
    }
}

#[test]
fn a_group_is_synced_once() {
    let mut log_fixture = LogFixture::new();
    let calls = Arc::new(AtomicU64::new(0));
    let call_counter = Arc::clone(&calls);
    log_fixture.options.journal.sync = Arc::new(move |file: &File| {
        call_counter.fetch_add(1, Ordering::SeqCst);
        file.sync_data()
    });
    let (log, _) = log_fixture.open();
    for index in 0..10 {
        write_group(&log, index);
    }
    log.append(vec![append(1, 99, 0, 1)]).unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), log.sync_count()), (10, 10));
}

#[test]
fn a_closed_log_rejects_appends_and_serves_reads() {
    let log_fixture = LogFixture::with_groups(1);
    let (log, _) = log_fixture.open();
    log.close().unwrap();
    assert!(matches!(log.append(vec![append(1, 1, 1, 1)]), Err(LogFailure::ReadOnly { .. })));
    assert_eq!(all(&log).len(), 2);
    log.close().unwrap();
}
