//! Jobs of the built-in engines: their places, turns and ends.

use super::*;
use crate::domain::value::Text;

fn all_wanted() -> IsJobWanted {
    Arc::new(|_| true)
}

fn key(name: &str) -> VendorKey {
    Text::from_recorded(name.to_owned())
}

#[test]
fn a_panic_is_the_failure_of_one_job() {
    assert_eq!(guarded::<()>("image", || panic!("a defect")).unwrap_err().code.as_str(), "engine_failed");
}

#[test]
fn jobs_wait_run_and_end_and_the_oldest_are_forgotten() {
    let jobs: Jobs<u32> = Jobs::new(2, 1, all_wanted());
    assert!(jobs.admit(&key("a"), None, "video").unwrap() && !jobs.admit(&key("a"), None, "video").unwrap());
    assert!(jobs.admit(&key("b"), None, "video").unwrap());
    assert_eq!(jobs.admit(&key("c"), None, "video").unwrap_err().kind, VendorErrorKind::Busy);
    assert_eq!(jobs.state(&key("a")), Some(JobState::Waiting));
    jobs.mark_running(&key("a"));
    assert_eq!(jobs.state(&key("a")), Some(JobState::Running { permille: 0 }));
    jobs.end(key("a"), Ok(1));
    jobs.end(key("b"), Ok(2));
    assert_eq!((jobs.state(&key("a")), jobs.state(&key("b"))), (None, Some(JobState::Ended(Ok(2)))));
}

#[test]
fn what_finds_no_room_is_tried_again_while_the_job_is_wanted() {
    let jobs: Jobs<u32> = Jobs::new(1, 1, all_wanted());
    jobs.admit(&key("a"), None, "image").unwrap();
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    // Given no room, and then some
    let mut waits = 0;
    let mut left = 2;
    let attempt = || {
        if left == 0 {
            Ok("stored")
        } else {
            left -= 1;
            Err(full())
        }
    };
    assert_eq!(jobs.patiently_resting(&key("a"), || waits += 1, attempt).unwrap(), "stored");
    assert_eq!(waits, 2);
    // Other faults do not pass
    let permission_denied = || Err::<(), _>(io::ErrorKind::PermissionDenied.into());
    assert!(jobs.patiently_resting(&key("a"), || panic!("no rest"), permission_denied).is_err());
    // Given a job that is given up while it rests
    let abandoned = jobs.patiently_resting(&key("a"), || jobs.forget(&key("a")), || Err::<(), _>(full()));
    assert_eq!(abandoned.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn jobs_that_wait_have_places_and_those_that_run_only_go_forward() {
    let jobs: Jobs<u32> = Jobs::new(9, 1, all_wanted());
    for name in ["a", "b", "c"] {
        assert!(jobs.admit(&key(name), None, "video").unwrap());
    }
    assert_eq!(["a", "b", "c", "d"].map(|name| jobs.queue_position(&key(name))), [Some(1), Some(2), Some(3), None]);
    jobs.advance(&key("a"), 9);
    assert_eq!(jobs.state(&key("a")), Some(JobState::Waiting), "it does not run");
    jobs.mark_running(&key("a"));
    assert_eq!(["a", "b", "c"].map(|name| jobs.queue_position(&key(name))), [None, Some(1), Some(2)]);
    for (reported, expected) in [(40, 40), (30, 40), (990, 990)] {
        jobs.advance(&key("a"), reported);
        assert_eq!(jobs.state(&key("a")), Some(JobState::Running { permille: expected }));
    }
}

#[test]
fn accounts_take_turns_and_one_leaves_half_of_the_places() {
    let bob = Some(UserId(uuid::Uuid::from_u128(2)));
    let jobs: Jobs<u32> = Jobs::new(6, 1, all_wanted());
    for name in ["a", "b", "c"] {
        assert!(jobs.admit(&key(name), None, "video").unwrap());
    }
    assert_eq!(jobs.admit(&key("d"), None, "video").unwrap_err().kind, VendorErrorKind::Busy);
    assert!(jobs.admit(&key("e"), bob, "video").unwrap());
    assert_eq!(["a", "e", "b", "c"].map(|name| jobs.queue_position(&key(name))), [1, 2, 3, 4].map(Some));
    // What has ended or is forgotten makes room.
    jobs.end(key("a"), Ok(1));
    jobs.forget(&key("b"));
    jobs.forget(&key("a"));
    assert!(["d", "f"].into_iter().all(|name| jobs.admit(&key(name), None, "video").unwrap()));
    assert_eq!(jobs.admit(&key("g"), None, "video").unwrap_err().kind, VendorErrorKind::Busy);
}

#[test]
fn whoever_leaves_the_queue_makes_room_for_those_behind() {
    let jobs: Jobs<u32> = Jobs::new(9, 9, all_wanted());
    for name in ["a", "b", "c", "d"] {
        assert!(jobs.admit(&key(name), None, "video").unwrap());
    }
    jobs.forget(&key("a"));
    jobs.end(key("c"), Ok(1));
    assert_eq!(["a", "b", "c", "d"].map(|name| jobs.queue_position(&key(name))), [None, Some(1), None, Some(2)]);
    // What comes again is the last, and what was forgotten before is not known any more
    assert!(jobs.admit(&key("a"), None, "video").unwrap());
    jobs.forget(&key("unknown"));
    assert_eq!(["a", "b", "d"].map(|name| jobs.queue_position(&key(name))), [Some(3), Some(1), Some(2)]);
}

#[test]
fn what_nobody_asks_after_is_forsaken() {
    let jobs: Jobs<u32> = Jobs::new(2, 1, all_wanted());
    jobs.admit(&key("a"), None, "video").unwrap();
    assert!(!jobs.is_abandoned(&key("a")));
    assert!(jobs.is_abandoned(&key("other")));
    let jobs: Jobs<u32> = Jobs::new(2, 1, Arc::new(|job| *job != key("cancelled")));
    for name in ["a", "cancelled"] {
        jobs.admit(&key(name), None, "video").unwrap();
    }
    assert_eq!(["a", "cancelled"].map(|name| jobs.is_abandoned(&key(name))), [false, true]);
}
