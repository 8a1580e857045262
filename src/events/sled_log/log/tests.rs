//! Tests of readers of an open log whose files are damaged on disk.

use std::time::Instant;

use uuid::Uuid;

use super::super::{SledIndex, location_key};
use super::*;
use crate::domain::ids::{EventId, TaskId};
use crate::domain::task::TaskEvent;
use crate::events::envelope::{CommandContext, NewEvent};

const AT: Timestamp = Timestamp::from_micros(1);

fn stream() -> StreamId {
    StreamId::from(&TaskId(Uuid::nil()))
}

/// Returns a closed log of six events in one stream, all of them indexed in sled.
fn log_with_events(directory: &std::path::Path) -> SledLog {
    let log = open(directory).0;
    log.append((0..6).map(append).collect()).unwrap();
    log.close().unwrap();
    log
}

fn append(expected: u64) -> Append {
    Append {
        stream: stream(),
        expected: Version(expected),
        context: CommandContext::from_system(None, AT),
        events: vec![NewEvent { id: EventId(Uuid::nil()), event: TaskEvent::VendorForgot.into() }],
        guards: Vec::new(),
    }
}

fn open(directory: &std::path::Path) -> (SledLog, OpenReport) {
    open_from(directory, None)
}

fn open_from(directory: &std::path::Path, anchor: Option<&Anchor>) -> (SledLog, OpenReport) {
    let mut options = SledLogOptions::new(directory);
    options.journal.segment_bytes = 16 * 1024;
    SledLog::open_from(&options, &Environment::manual(AT, 1), anchor, |_| {}).unwrap()
}

/// Returns the stream's key in the index for the commit at a position.
fn key(position: u64) -> [u8; 16] {
    location_key(StreamHash::from(&stream()), Position(position))
}

/// Returns the index in sled, which must be open.
fn sled(log: &SledLog) -> Arc<SledIndex> {
    log.shared.index.read().sled.clone().expect("sled is open")
}

/// Waits until sled has indexed the whole log.
fn wait_until_indexed(log: &SledLog) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while log.indexed_position() < log.head() {
        assert!(Instant::now() < deadline, "sled is not filled");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Damages sled under an open log and checks that reads and appends are correct and that sled is replaced.
#[track_caller]
fn assert_replaced(damage: impl Fn(&SledIndex)) {
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    let (log, _) = open(directory.path());
    let expected = log.read_stream(&stream(), Version(0)).unwrap();
    assert_eq!((expected.len(), log.indexed_position()), (6, Position(6)));

    let damaged = sled(&log);
    damage(&damaged);
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap(), expected);
    let is_damaged = |index: &Option<Arc<SledIndex>>| index.as_ref().is_some_and(|sled| Arc::ptr_eq(sled, &damaged));
    assert!(!is_damaged(&log.shared.index.read().sled), "the damaged sled is still used");
    drop(damaged);

    // The journal is intact, so nothing is reported, and the log accepts appends.
    assert_eq!(log.verification().state, ScrubState::Intact);
    assert!(log.append(vec![append(6)]).unwrap()[0].is_ok());
    wait_until_indexed(&log);
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 7);
    assert_eq!(log.read_all(Position(0), usize::MAX).unwrap().len(), 7);
    log.close().unwrap();
    drop(log);
    assert_eq!(open(directory.path()).1.messages(), [""; 0]);
}

#[test]
fn a_flipped_bit_in_sled_is_detected_at_the_read_and_the_journal_is_served() {
    for bit in (0..20 * 8).step_by(7) {
        assert_replaced(|sled| {
            let mut value = sled.places.get(key(4)).unwrap().unwrap();
            value[bit / 8] ^= 1 << (bit % 8);
            sled.places.insert(key(4), value).unwrap();
        });
    }
}

#[test]
fn an_entry_that_sled_has_lost_is_detected_at_the_read() {
    for position in 1..=6 {
        assert_replaced(|sled| drop(sled.places.remove(key(position)).unwrap()));
    }
    assert_replaced(|sled| sled.places.clear().unwrap());
}

#[test]
fn an_entry_that_leads_to_another_record_is_detected_at_the_read() {
    assert_replaced(|sled| {
        let other = sled.places.get(key(2)).unwrap().unwrap();
        sled.places.insert(key(5), other).unwrap();
    });
    assert_replaced(|sled| {
        let other = sled.places.remove(key(2)).unwrap().unwrap();
        sled.places.insert(location_key(StreamHash(7), Position(2)), other).unwrap();
    });
}

#[test]
fn a_damaged_copy_in_sled_repairs_nothing() {
    // Given a log, and its copy in sled with a flipped bit
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    let (log, _) = open(directory.path());
    let index = sled(&log);
    let original = index.copies.first().unwrap().unwrap();
    let payload = index.payload_at(Position(3)).expect("there is a copy");

    // Then the copy is read as the original payload, or not at all
    for bit in (0..original.1.len() * 8).step_by(61) {
        let mut value = original.1.clone();
        value[bit / 8] ^= 1 << (bit % 8);
        index.copies.insert(&original.0, value).unwrap();
        assert!(index.payload_at(Position(3)).is_none_or(|found| found == payload), "bit {bit}");
        assert!(index.end().is_err(), "bit {bit}");
    }
}

#[test]
fn reads_continue_while_sled_cannot_be_filled() {
    // Given a log whose sled cannot be recreated, because the disk counts as full
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    let (log, _) = open(directory.path());
    log.shared.space.record_refusal("a test");
    log.rebuild_index().unwrap();

    // Then everything is served from the journal
    assert_eq!((log.indexed_position(), log.index_bytes()), (Position(0), None));
    assert_eq!(log.read_stream(&stream(), Version(2)).unwrap().len(), 4);
    assert_eq!(log.read_all(Position(1), 3).unwrap().len(), 3);

    // And sled is filled when it can be
    wait_until_indexed(&log);
    assert!(log.index_bytes().is_some());
}

#[test]
fn an_index_of_an_older_release_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    std::fs::remove_dir_all(directory.path().join("sled")).unwrap();
    let db = sled::open(directory.path().join("sled")).unwrap();
    db.open_tree("events").unwrap().insert(1_u64.to_be_bytes(), "a record").unwrap();
    drop(db);

    let (log, report) = open(directory.path());
    assert!(report.index_failure.is_some(), "{report:?}");
    wait_until_indexed(&log);
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 6);
}

/// Flips a bit in the last byte of the journal that is not zero; returns the file.
fn flip_last_journal_bit(directory: &std::path::Path) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(directory.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.find(|path| path.extension().is_some_and(|extension| extension == "seg")).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 0x80;
    std::fs::write(&segment, bytes).unwrap();
    segment
}

#[test]
fn damage_found_by_a_reader_is_reported_until_a_start_has_verified_the_journal() {
    // Given a log that was started from a snapshot, and a flipped bit in the journal
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    let anchor = log.anchor(Position(6)).unwrap().unwrap();
    drop(log);
    let (log, _) = open_from(directory.path(), Some(&anchor));
    log.stop_scrub();
    let segment = flip_last_journal_bit(directory.path());

    // When a client reads the record
    let result = log.read_stream(&stream(), Version(0));

    // Then the reader gets damage, and the log reports it with its location
    assert!(matches!(&result, Err(LogFailure::Damaged { location, .. }) if location.contains("offset")), "{result:?}");
    let ScrubState::Damaged { reason } = log.verification().state else { panic!("{:?}", log.verification()) };
    assert!(reason.contains(&segment.display().to_string()) && reason.contains("position 6"), "{reason}");

    // And sled is kept, because it has a copy of the record
    assert_eq!(log.indexed_position(), Position(6));

    // And correct bytes from the disk later change nothing: reads work, but the journal remains suspect
    flip_last_journal_bit(directory.path());
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 6);
    assert!(matches!(log.verification().state, ScrubState::Damaged { .. }), "{:?}", log.verification());
    drop(log);

    // Until the next start, which reads the whole journal, regardless of the snapshot
    let (log, _) = open_from(directory.path(), Some(&anchor));
    assert_eq!((log.verification().state, log.verification().position), (ScrubState::Intact, Position(6)));
}

#[test]
fn damage_found_by_a_snapshot_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    flip_last_journal_bit(directory.path());
    assert!(log.anchor(Position(6)).is_err());
    assert!(matches!(log.verification().state, ScrubState::Damaged { .. }), "{:?}", log.verification());
}

#[test]
fn a_start_from_a_snapshot_knows_how_many_events_a_stream_has() {
    // Given a log with a snapshot, and sled without the last entry of the stream
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    let anchor = log.anchor(Position(6)).unwrap().unwrap();
    drop(sled(&log).places.remove(key(6)).unwrap());
    log.close().unwrap();
    drop(log);

    // When the log is opened with that snapshot
    let (log, _) = open_from(directory.path(), Some(&anchor));
    let mut counts = StreamCounts::default();
    counts.add(StreamHash::from(&stream()), 6);
    log.set_stream_counts(counts);

    // Then reads return all events, and appends follow the last one
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 6);
    assert!(log.append(vec![append(5)]).unwrap()[0].is_err());
    assert!(log.append(vec![append(6)]).unwrap()[0].is_ok());
}
