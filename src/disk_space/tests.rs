//! Tests of the monitoring of disk space.

use std::io::ErrorKind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::io::Errno;

use super::*;

/// Creates a monitor that reads the free bytes from `free`.
fn space(reserve: u64, free: &Arc<AtomicU64>) -> DiskSpace {
    let free = Arc::clone(free);
    let measure = move |_: &Path| Ok(FileSystemSpace { device: 1, free: free.load(Ordering::SeqCst) });
    DiskSpace::with_measure(Path::new("a"), reserve, Arc::new(measure))
}

/// Ages the last measurement and refusal by a second, as if the clock had advanced.
fn advance_clock(space: &DiskSpace) {
    let mut state = space.0.state.lock();
    state.measured_at = None;
    state.last_refusal =
        state.last_refusal.take().map(|(at, reason)| (at.checked_sub(MEASURE_INTERVAL).unwrap_or(at), reason));
}

#[test]
fn writes_are_refused_while_less_than_the_reserve_is_free() {
    let free = Arc::new(AtomicU64::new(64 * MIB));
    let space = space(64 * MIB, &free);
    assert_eq!(space.check(), Ok(()));

    // When the space falls below the reserve, then the next measurement refuses writes
    free.store(12 * MIB + 7, Ordering::SeqCst);
    assert_eq!(space.check(), Ok(()), "measured once a second only");
    advance_clock(&space);
    let error = space.check().unwrap_err().to_string();
    let expected = "disk full: 12 MiB free, 64 MiB reserved (storage.reserve_mib)";
    assert_eq!(error, expected);
    assert_eq!(space.state().free_bytes, Some(12 * MIB + 7));

    // And when there is space again, then writes are accepted
    free.store(64 * MIB, Ordering::SeqCst);
    advance_clock(&space);
    assert_eq!((space.check(), space.state().state), (Ok(()), StorageStatus::Ok));
}

#[test]
fn large_writes_must_leave_the_reserve() {
    let free = Arc::new(AtomicU64::new(100 * MIB));
    let reason =
        space(64 * MIB, &free).check_available(DataDirPart::Log, "a segment", 64 * MIB).unwrap_err().to_string();
    assert!(reason.contains("100 MiB free, a segment needs 64 MiB, 64 MiB reserved"), "{reason}");

    assert_eq!(space(36 * MIB, &free).check_available(DataDirPart::Log, "a segment", 64 * MIB), Ok(()));

    let without_reserve = space(0, &free);
    assert_eq!(without_reserve.check_available(DataDirPart::Log, "a segment", u64::MAX), Ok(()), "check disabled");
    assert_eq!(without_reserve.state().free_bytes, Some(100 * MIB), "but still reported");
}

#[test]
fn claimed_space_is_reserved_and_the_unwritten_rest_is_released() {
    let free = Arc::new(AtomicU64::new(200 * MIB));
    let space = space(64 * MIB, &free);

    // Given two incoming archives of known size
    let mut first = space.claim(DataDirPart::Archives, "the archive", 100 * MIB).unwrap();
    let second = space.claim(DataDirPart::Archives, "the archive", 30 * MIB).unwrap();

    // Then a third is refused, even after the first was written but not yet measured
    let claim_error =
        || space.claim(DataDirPart::Archives, "the archive", 10 * MIB).err().map(|error| error.to_string());
    let message = claim_error().unwrap();
    assert!(message.contains("200 MiB free, the archive needs 10 MiB, others need 130 MiB, 64 MiB"), "{message}");

    first.consume(100 * MIB).unwrap();
    free.store(100 * MIB, Ordering::SeqCst);
    assert!(claim_error().is_some_and(|message| message.contains("100 MiB free")), "{:?}", claim_error());

    // Nor can the first exceed its size
    assert!(first.consume(7 * MIB).is_err() && first.consume(6 * MIB).is_ok());

    // The log can use claimed space
    assert_eq!(space.check_available(DataDirPart::Log, "a segment", 20 * MIB), Ok(()));
    drop((first, second));
    assert_eq!(claim_error(), None, "the claims are released");
}

#[test]
fn a_claim_can_be_used_until_the_reserve_is_reached() {
    let free = Arc::new(AtomicU64::new(200 * MIB));
    let space = space(64 * MIB, &free);

    // Given a claim that is larger than the free space, because the log has grown
    let mut claim = space.claim(DataDirPart::Archives, "the archive", 100 * MIB).unwrap();
    free.store(120 * MIB, Ordering::SeqCst);
    advance_clock(&space);

    // Then the archive continues, because another one may release its claim
    claim.consume(30 * MIB).unwrap();

    // An extension is refused with its size
    let message = claim.consume(80 * MIB).unwrap_err().to_string();
    assert!(message.contains("90 MiB free, the archive needs 80 MiB, 64 MiB reserved"), "{message}");

    free.store(63 * MIB, Ordering::SeqCst);
    advance_clock(&space);
    let message = claim.consume(MIB).unwrap_err().to_string();
    assert!(message.contains("63 MiB free, 64 MiB reserved"), "{message}");
}

#[test]
fn space_is_measured_on_the_file_system_that_is_written() {
    // Given a log on a small separate disk
    let measure = |path: &Path| {
        let is_log = path.ends_with("log");
        Ok(if is_log {
            FileSystemSpace { device: 2, free: 130 * MIB }
        } else {
            FileSystemSpace { device: 1, free: 1000 * MIB }
        })
    };
    let space = DiskSpace::with_measure(Path::new("a"), 64 * MIB, Arc::new(measure));

    // Then a larger archive is accepted, and its bytes do not count on the log's disk
    let mut claim = space.claim(DataDirPart::Archives, "the archive", 500 * MIB).unwrap();
    claim.consume(500 * MIB).unwrap();
    assert_eq!(space.check_available(DataDirPart::Log, "a segment", 64 * MIB), Ok(()));
    assert!(space.check_available(DataDirPart::Log, "a segment", 67 * MIB).is_err());

    // But they count on the disk of the archives
    let message = space.check_available(DataDirPart::Directory, "a snapshot", 500 * MIB).unwrap_err().to_string();
    assert!(message.contains("500 MiB free"), "{message}");
    assert_eq!(space.state().free_bytes, Some(130 * MIB), "of the fullest disk");
}

#[test]
fn a_claim_counts_on_the_file_system_of_its_part() {
    // Given pictures and videos on a small separate disk
    let measure = |path: &Path| {
        let (device, free) = if path.ends_with("media") { (2, 130) } else { (1, 1000) };
        Ok(FileSystemSpace { device, free: free * MIB })
    };
    let space = DiskSpace::with_measure(Path::new("a"), 64 * MIB, Arc::new(measure));

    // Then a file that would fit beside the archives is refused there
    let message = space.claim(DataDirPart::Media, "the file", 100 * MIB).err().unwrap().to_string();
    assert!(message.contains("130 MiB free, the file needs 100 MiB"), "{message}");

    // And the bytes of a smaller one count there
    space.claim(DataDirPart::Media, "the file", 60 * MIB).unwrap().consume(60 * MIB).unwrap();
    let message = space.claim(DataDirPart::Media, "the file", 10 * MIB).err().unwrap().to_string();
    assert!(message.contains("70 MiB free"), "{message}");
    assert!(space.claim(DataDirPart::Archives, "the archive", 900 * MIB).is_ok());
}

#[test]
fn after_a_refused_write_the_disk_counts_as_full_for_a_second() {
    let space = DiskSpace::default();
    assert_eq!(space.to_disk_full(&io::Error::other("x")), None);

    let too_many = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
    let too_many_files = space.to_disk_full(&too_many);
    assert!(too_many_files.is_some_and(|disk_full| disk_full.0.starts_with("too many files are open: ")));

    let disk_full = space.to_disk_full(&ErrorKind::StorageFull.into());
    assert_eq!(space.check().err(), disk_full);
    assert_eq!(space.state().state, StorageStatus::Full);

    advance_clock(&space);
    assert_eq!(space.check(), Ok(()));
}

#[test]
fn the_operating_system_is_queried() {
    let folder = tempfile::tempdir().unwrap();
    let space = DiskSpace::new(folder.path(), 1);
    assert!(space.state().free_bytes.is_some_and(|free| free > 0));
    assert!(
        space.check_available(DataDirPart::Log, "a segment", u64::MAX / 2).is_err(),
        "a missing part is measured at the root"
    );
}

#[test]
fn an_older_measurement_does_not_replace_a_newer_one() {
    // Given a measurement that does not end
    let (begun, ended) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let count = Arc::new(AtomicU64::new(0));
    let measure = {
        let begun = Arc::clone(&begun);
        let ended = Arc::clone(&ended);
        let count = Arc::clone(&count);
        move |_: &Path| {
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                ended.wait();
            }
            Ok(FileSystemSpace { device: 1, free: 100 * MIB })
        }
    };
    let space = DiskSpace::with_measure(Path::new("a"), 64 * MIB, Arc::new(measure));
    let slow = thread::spawn({
        let space = space.clone();
        move || space.check()
    });
    begun.wait();

    // When the next one is due, then it is left out
    advance_clock(&space);
    assert_eq!(space.check(), Ok(()));
    assert_eq!(count.load(Ordering::SeqCst), 1);

    // Until the slow one has ended
    ended.wait();
    assert_eq!(slow.join().unwrap(), Ok(()));
    let before = count.load(Ordering::SeqCst);
    advance_clock(&space);
    assert_eq!(space.check(), Ok(()));
    assert!(count.load(Ordering::SeqCst) > before);
}
