//! Tests of damage on disk, as seen by readers of an open log.

use uuid::Uuid;

use super::super::SledTrees;
use super::*;
use crate::domain::ids::{EventId, TaskId};
use crate::domain::task::TaskEvent;
use crate::events::envelope::{CommandContext, NewEvent};
use crate::events::stream_versions::StreamVersions;

const AT: Timestamp = Timestamp::from_micros(1);

fn stream() -> StreamId {
    StreamId::from(&TaskId(Uuid::nil()))
}

/// A log of six events in one stream, all of them in sled.
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

/// Damages sled under an open log; returns which of `read_all` and `read_stream` report damage.
fn check_damage(damage: impl Fn(&SledTrees)) -> [bool; 2] {
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    damage(log.shared.trees.read().as_ref().unwrap());
    let is_damage = |result: Result<_, LogFailure>| matches!(result, Err(LogFailure::Damaged { .. }));
    let damage_seen =
        [is_damage(log.read_all(Position(0), usize::MAX)), is_damage(log.read_stream(&stream(), Version(0)))];

    // After a reader found damage, the log is not reported as intact any more, even if the start found it so.
    let status = log.verification();
    assert!(matches!(status.state, ScrubState::Damaged { .. }) && status.until == Position(0), "{status:?}");
    drop(log);

    // The next start repairs the damage.
    let (log, report) = open(directory.path());
    assert_eq!((log.verification().state, log.verification().position), (ScrubState::Intact, Position(6)));
    assert!(report.sled.rebuilt.is_some(), "{report:?}");
    assert_eq!(log.read_all(Position(0), usize::MAX).unwrap().len(), 6);
    drop(log);

    assert_eq!(open(directory.path()).1.sled.rebuilt, None);
    damage_seen
}

#[test]
fn damage_that_a_reader_met_is_over_when_sled_was_made_anew_meanwhile() {
    // Given a log in which a reader found damaged sled data
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    let (log, _) = open(directory.path());
    drop(log.shared.trees.read().as_ref().unwrap().events.remove(3u64.to_be_bytes()).unwrap());
    assert!(log.read_all(Position(0), usize::MAX).is_err());
    assert!(matches!(log.verification().state, ScrubState::Damaged { .. }), "{:?}", log.verification());

    // When sled fails and is reopened
    assert!(log.shared.reopen_until_filled("it failed"));

    // Then it matches the journal, and no damage is reported
    assert_eq!(log.verification().state, ScrubState::Intact);
    assert_eq!(log.read_all(Position(0), usize::MAX).unwrap().len(), 6);
}

/// Flips a bit in the last byte of the journal; returns the file.
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
fn damage_that_a_reader_met_in_the_journal_is_told_until_a_start_has_read_all_of_it() {
    // Given a log whose sled has failed, and a flipped bit in the journal
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    let anchor = log.anchor(Position(6)).unwrap().unwrap();
    drop(log);
    let (log, _) = open_from(directory.path(), Some(&anchor));
    log.stop_scrub();
    log.shared.close_trees();
    let segment = flip_last_journal_bit(directory.path());

    // When a client reads, and the journal is read in place of sled
    let result = log.read_stream(&stream(), Version(0));

    // Then the reader gets damage, and the log reports it with its place
    assert!(matches!(&result, Err(LogFailure::Damaged { location, .. }) if location.contains("offset")), "{result:?}");
    let ScrubState::Damaged { reason } = log.verification().state else { panic!("{:?}", log.verification()) };
    assert!(reason.contains(&segment.display().to_string()) && reason.contains("position 6"), "{reason}");

    // And correct bytes from the disk later change nothing: sled is up to date again, but the journal remains suspect
    flip_last_journal_bit(directory.path());
    assert!(log.shared.reopen_until_filled("it failed"));
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 6);
    assert!(matches!(log.verification().state, ScrubState::Damaged { .. }), "{:?}", log.verification());
    drop(log);

    // Until the next start, which reads the whole journal, regardless of the snapshot
    let (log, _) = open_from(directory.path(), Some(&anchor));
    assert_eq!((log.verification().state, log.verification().position), (ScrubState::Intact, Position(6)));
}

#[test]
fn damage_that_a_snapshot_met_in_the_journal_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    flip_last_journal_bit(directory.path());
    assert!(log.anchor(Position(6)).is_err());
    assert!(matches!(log.verification().state, ScrubState::Damaged { .. }), "{:?}", log.verification());
}

#[test]
fn a_missing_record_is_damage_and_never_partial_data() {
    let remove = |position: u64| move |trees: &SledTrees| drop(trees.events.remove(position.to_be_bytes()).unwrap());
    for position in 1..=6 {
        assert_eq!(check_damage(remove(position)), [true, true], "position {position}");
    }
}

#[test]
fn an_undecodable_record_is_damage() {
    assert_eq!(check_damage(|trees| drop(trees.events.insert(4u64.to_be_bytes(), &[1, 0, 9]).unwrap())), [true, true]);
}

#[test]
fn a_missing_entry_of_the_stream_index_is_damage() {
    let remove = |trees: &SledTrees| {
        let key = super::super::stream_key(&stream(), Some(Version(3)));
        drop(trees.streams.remove(key).unwrap());
    };
    assert_eq!(check_damage(remove), [false, true]);
}

#[test]
fn a_stream_whose_end_is_lost_is_damage_before_the_scrub_knows() {
    // Given a log with a snapshot, and sled without the last entry of the stream
    let directory = tempfile::tempdir().unwrap();
    let log = log_with_events(directory.path());
    let anchor = log.anchor(Position(6)).unwrap().unwrap();
    let key = super::super::stream_key(&stream(), Some(Version(6)));
    drop(log.shared.trees.read().as_ref().unwrap().streams.remove(key).unwrap());
    log.close().unwrap();
    drop(log);

    // When the log is opened with that snapshot
    let (log, _) = open_from(directory.path(), Some(&anchor));
    let mut versions = StreamVersions::default();
    (1..=6).for_each(|version| versions.observe(&stream(), Version(version)));
    log.set_expected_versions(versions);

    // Then no read succeeds on the remaining events, and no append follows them
    assert!(matches!(log.read_stream(&stream(), Version(0)), Err(LogFailure::Damaged { .. })));
    assert!(log.append(vec![append(5)]).is_err());
    drop(log);

    // And the next start rebuilds sled
    let (log, report) = open(directory.path());
    assert!(report.sled.rebuilt.is_some(), "{report:?}");
    assert_eq!(log.read_stream(&stream(), Version(0)).unwrap().len(), 6);
}

#[test]
fn streams_are_not_remembered_when_the_log_was_checked() {
    let directory = tempfile::tempdir().unwrap();
    drop(log_with_events(directory.path()));
    let (log, _) = open(directory.path());
    log.set_expected_versions(StreamVersions::default());
    assert_eq!(*log.shared.expected_versions.read(), None);
}
