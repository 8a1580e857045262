//! Failed sync: a group that is not durable is neither acknowledged nor served, and a start keeps all of it or nothing.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mediary::disk_space::StorageStatus;
use mediary::events::log::{EventLog, LogFailure};
use mediary::events::stream::Position;

use crate::journal::{House, RECORDS_START, all, overwrite, write_group};
use crate::samples::append;

/// Log files on a disk that can be switched to fail every sync.
fn house_on_a_disk_that_may_break() -> (House, Arc<AtomicBool>) {
    let mut house = House::new();
    let broken = Arc::new(AtomicBool::new(false));
    let breaks = Arc::clone(&broken);
    house.options.journal.sync = Arc::new(move |file: &File| {
        if breaks.load(Ordering::SeqCst) { Err(io::Error::other("the disk is gone")) } else { file.sync_data() }
    });
    (house, broken)
}

#[test]
fn a_failed_sync_makes_the_log_read_only() {
    let (house, broken) = house_on_a_disk_that_may_break();
    let (log, _) = house.open();
    write_group(&log, 0);
    let before = all(&log);
    broken.store(true, Ordering::SeqCst);
    let failure = log.append(vec![append(1, 1, 5, 1), append(3, 0, 5, 1)]).unwrap_err();
    assert!(matches!(failure, LogFailure::Storage { .. }), "{failure}");
    // Even when the disk works again: its content is unknown.
    broken.store(false, Ordering::SeqCst);
    let failure = log.append(vec![append(4, 0, 6, 1)]).unwrap_err();
    assert!(matches!(&failure, LogFailure::ReadOnly { reason } if reason.contains("the disk is gone")), "{failure}");
    log.after_group();
    assert_eq!((log.head(), all(&log)), (Position(2), before.clone()));
    drop(log);
    // The group reached the file all the same: it returns complete. No acknowledged write is lost.
    let (log, _) = house.open();
    assert_eq!((&all(&log)[..2], log.head()), (&before[..], Position(4)));
}

#[test]
fn of_a_group_whose_sync_failed_whole_commands_come_back_up_to_the_first_gap() {
    // Given a group of three whose sync failed, of which the disk has only the first and the last
    let (house, broken) = house_on_a_disk_that_may_break();
    let (log, _) = house.open();
    write_group(&log, 0);
    let before = all(&log);
    let (segment, end) = house.end();
    broken.store(true, Ordering::SeqCst);
    assert!(log.append((0..3).map(|nth| append(nth + 10, 0, 9, 1)).collect()).is_err());
    // Reads continue, and do not see it
    assert_eq!((all(&log), log.storage().state), (before.clone(), StorageStatus::ReadOnly));
    drop(log);
    let (_, longer) = house.end();
    let record = (longer - end) / 3;
    overwrite(&segment, end + record, &vec![0; usize::try_from(record).unwrap()]);
    // When the log opens, then the first command is there in full, as after any lost answer, and nothing behind the gap
    // is
    broken.store(false, Ordering::SeqCst);
    let (log, report) = house.open();
    let after = all(&log);
    assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1));
    assert_eq!(report.torn_tail.map(|torn| torn.position), Some(Position(4)));
}

#[test]
fn what_no_head_vouches_for_is_written_again_by_a_start() {
    // Given a group that is complete in memory but may not be on the disk
    let house = House::with_groups(1);
    let (segment, end) = house.end();
    house.without_head(|| write_group(&house.open().0, 1));
    let written = fs::metadata(&segment).unwrap().modified().unwrap();
    // When the log opens, then the group is written again before it is served, and only once
    house.open().0.close().unwrap();
    let again = fs::metadata(&segment).unwrap().modified().unwrap();
    assert!(again > written && end > RECORDS_START);
    house.open().0.close().unwrap();
    assert_eq!(fs::metadata(&segment).unwrap().modified().unwrap(), again);
}
