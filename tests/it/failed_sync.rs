//! Failed sync: a group that is not durable is neither acknowledged nor served, and a start keeps all of it or nothing.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mediary::disk_space::StorageStatus;
use mediary::events::log::{EventLog, LogFailure};
use mediary::events::stream::Position;

use crate::journal::{LogFixture, RECORDS_START, all, overwrite, write_group};
use crate::samples::append;

/// Creates log files on a disk that can be switched to fail every sync.
fn fixture_with_breakable_disk() -> (LogFixture, Arc<AtomicBool>) {
    let mut log_fixture = LogFixture::new();
    let is_broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&is_broken);
    log_fixture.options.journal.sync = Arc::new(move |file: &File| {
        if breaks.load(Ordering::SeqCst) { Err(io::Error::other("the disk is gone")) } else { file.sync_data() }
    });
    (log_fixture, is_broken)
}

#[test]
fn a_failed_sync_makes_the_log_read_only() {
    let (log_fixture, is_broken) = fixture_with_breakable_disk();
    let (log, _) = log_fixture.open();
    write_group(&log, 0);
    let before = all(&log);
    is_broken.store(true, Ordering::SeqCst);
    let failure = log.append(vec![append(1, 1, 5, 1), append(3, 0, 5, 1)]).unwrap_err();
    assert!(matches!(failure, LogFailure::Storage { .. }), "{failure}");
    // The log stays read-only when the disk works again, because the content of the disk is unknown.
    is_broken.store(false, Ordering::SeqCst);
    let failure = log.append(vec![append(4, 0, 6, 1)]).unwrap_err();
    assert!(matches!(&failure, LogFailure::ReadOnly { reason } if reason.contains("the disk is gone")), "{failure}");
    log.after_group();
    assert_eq!((log.head(), all(&log)), (Position(2), before.clone()));
    drop(log);
    // The group reached the file nevertheless, so it is complete. No acknowledged write is lost.
    let (log, _) = log_fixture.open();
    assert_eq!((&all(&log)[..2], log.head()), (&before[..], Position(4)));
}

#[test]
fn after_a_failed_sync_complete_commands_before_the_first_gap_are_kept() {
    // Given a group of three whose sync failed, of which the disk has only the first and the last
    let (log_fixture, is_broken) = fixture_with_breakable_disk();
    let (log, _) = log_fixture.open();
    write_group(&log, 0);
    let before = all(&log);
    let (segment, end) = log_fixture.end();
    is_broken.store(true, Ordering::SeqCst);
    assert!(log.append((0..3).map(|nth| append(nth + 10, 0, 9, 1)).collect()).is_err());
    // Reads continue, and do not see it
    assert_eq!((all(&log), log.storage().state), (before.clone(), StorageStatus::ReadOnly));
    drop(log);
    let (_, longer) = log_fixture.end();
    let record = (longer - end) / 3;
    overwrite(&segment, end + record, &vec![0; usize::try_from(record).unwrap()]);

    // When the log opens, then it has the whole first command, as after any lost response, and nothing behind the gap
    is_broken.store(false, Ordering::SeqCst);
    let (log, report) = log_fixture.open();
    let after = all(&log);
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));
    assert_eq!(report.torn_tail.map(|torn| torn.position), Some(Position(4)));
}

#[test]
fn an_unsigned_group_is_rewritten_once_by_the_next_start() {
    // Given a group that is complete in memory but may not be on the disk
    let log_fixture = LogFixture::with_groups(1);
    let (segment, end) = log_fixture.end();
    log_fixture.without_head(|| write_group(&log_fixture.open().0, 1));
    let written = fs::metadata(&segment).unwrap().modified().unwrap();

    // When the log opens, then the group is written again before it is served, and only once
    log_fixture.open().0.close().unwrap();
    let rewritten_at = fs::metadata(&segment).unwrap().modified().unwrap();
    assert!(rewritten_at > written && end > RECORDS_START);
    log_fixture.open().0.close().unwrap();
    assert_eq!(fs::metadata(&segment).unwrap().modified().unwrap(), rewritten_at);
}
