//! Tests of the monitoring of disk space.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::*;

/// Creates a monitor that reads the free bytes from `free`.
fn space(reserve: u64, free: &Arc<AtomicU64>) -> Space {
    let free = Arc::clone(free);
    let measure = move |_: &Path| Ok(Room { disk: 1, free: free.load(Ordering::SeqCst) });
    Space::measured(Path::new("a"), reserve, Arc::new(measure))
}

/// Sets the last measurement and refusal back in time.
fn later(space: &Space) {
    let mut state = space.0.state.lock();
    state.looked = None;
    state.refused = state.refused.take().map(|(at, reason)| (at.checked_sub(LOOK_EVERY).unwrap_or(at), reason));
}

#[test]
fn less_than_the_reserve_is_a_shortage_until_there_is_room() {
    let free = Arc::new(AtomicU64::new(64 * MIB));
    let space = space(64 * MIB, &free);
    assert_eq!(space.check(), Ok(()));
    free.store(12 * MIB + 7, Ordering::SeqCst);
    assert_eq!(space.check(), Ok(()), "looked at once a second only");
    later(&space);
    let shortage = space.check().unwrap_err().to_string();
    let said = "no room on the disk: 12 MiB are free, and 64 MiB are kept in reserve (storage.reserve_mib)";
    assert_eq!(shortage, said);
    assert_eq!(space.state().free_bytes, Some(12 * MIB + 7));
    free.store(64 * MIB, Ordering::SeqCst);
    later(&space);
    assert_eq!((space.check(), space.state().state), (Ok(()), StorageKind::Ok));
}

#[test]
fn what_takes_much_at_once_must_leave_the_reserve() {
    let free = Arc::new(AtomicU64::new(100 * MIB));
    let reason = space(64 * MIB, &free).check_for(Part::Log, "a segment", 64 * MIB).unwrap_err().to_string();
    assert!(reason.contains("100 MiB are free, a segment takes 64 MiB, and 64 MiB are kept"), "{reason}");
    assert_eq!(space(36 * MIB, &free).check_for(Part::Log, "a segment", 64 * MIB), Ok(()));
    let without = space(0, &free);
    assert_eq!(without.check_for(Part::Log, "a segment", u64::MAX), Ok(()), "switched off");
    assert_eq!(without.state().free_bytes, Some(100 * MIB), "but told");
}

#[test]
fn what_comes_in_is_promised_its_room_and_gives_back_what_it_did_not_take() {
    let free = Arc::new(AtomicU64::new(200 * MIB));
    let space = space(64 * MIB, &free);
    // Given two incoming archives of known size
    let mut first = space.claim("the archive", 100 * MIB).unwrap();
    let second = space.claim("the archive", 30 * MIB).unwrap();
    // Then a third is refused, even after the first was written but not yet measured
    let refusal = || space.claim("the archive", 10 * MIB).err().map(|shortage| shortage.to_string());
    let told = refusal().unwrap();
    assert!(told.contains("200 MiB are free, the archive takes 10 MiB, others take 130 MiB, and 64 MiB"), "{told}");
    first.spend(100 * MIB).unwrap();
    free.store(100 * MIB, Ordering::SeqCst);
    assert!(refusal().is_some_and(|told| told.contains("100 MiB are free")), "{:?}", refusal());
    // nor can the first exceed its size
    assert!(first.spend(7 * MIB).is_err() && first.spend(6 * MIB).is_ok());
    // The log can use claimed space
    assert_eq!(space.check_for(Part::Log, "a segment", 20 * MIB), Ok(()));
    drop((first, second));
    assert_eq!(refusal(), None, "what was promised is free again");
}

#[test]
fn what_was_promised_room_goes_on_until_the_reserve_is_touched() {
    let free = Arc::new(AtomicU64::new(200 * MIB));
    let space = space(64 * MIB, &free);
    // Given a claim that is larger than the free space, because the log has grown
    let mut claim = space.claim("the archive", 100 * MIB).unwrap();
    free.store(120 * MIB, Ordering::SeqCst);
    later(&space);
    // Then the archive continues, because another one may release its claim
    claim.spend(30 * MIB).unwrap();
    // An extension is refused with its size
    let told = claim.spend(80 * MIB).unwrap_err().to_string();
    assert!(told.contains("90 MiB are free, the archive takes 80 MiB, and 64 MiB are kept"), "{told}");
    free.store(63 * MIB, Ordering::SeqCst);
    later(&space);
    let told = claim.spend(MIB).unwrap_err().to_string();
    assert!(told.contains("63 MiB are free, and 64 MiB are kept"), "{told}");
}

#[test]
fn what_takes_room_is_measured_where_it_goes() {
    // Given a log on a small separate disk
    let measure = |place: &Path| {
        let is_log = place.ends_with("log");
        Ok(if is_log { Room { disk: 2, free: 130 * MIB } } else { Room { disk: 1, free: 1000 * MIB } })
    };
    let space = Space::measured(Path::new("a"), 64 * MIB, Arc::new(measure));
    // Then a larger archive is accepted, and its bytes do not count on the log's disk
    let mut claim = space.claim("the archive", 500 * MIB).unwrap();
    claim.spend(500 * MIB).unwrap();
    assert_eq!(space.check_for(Part::Log, "a segment", 64 * MIB), Ok(()));
    assert!(space.check_for(Part::Log, "a segment", 67 * MIB).is_err());
    // but they count on the disk of the archives
    let told = space.check_for(Part::Directory, "a snapshot", 500 * MIB).unwrap_err().to_string();
    assert!(told.contains("500 MiB are free"), "{told}");
    assert_eq!(space.state().free_bytes, Some(130 * MIB), "of the fullest");
}

#[test]
fn a_refused_write_counts_for_a_second() {
    let space = Space::default();
    assert_eq!(space.shortage(&io::Error::other("x")), None);
    let too_many = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
    assert!(space.shortage(&too_many).is_some_and(|shortage| shortage.0.starts_with("too many files are open: ")));
    let refusal = space.shortage(&ErrorKind::StorageFull.into());
    assert_eq!(space.check().err(), refusal);
    assert_eq!(space.state().state, StorageKind::Full);
    later(&space);
    assert_eq!(space.check(), Ok(()));
}

#[test]
fn the_operating_system_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let space = Space::new(folder.path(), 1);
    assert!(space.state().free_bytes.is_some_and(|free| free > 0));
    assert!(
        space.check_for(Part::Log, "a segment", u64::MAX / 2).is_err(),
        "what is not there will be in the directory"
    );
}
