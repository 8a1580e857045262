//! Tests of admission, queue positions, fairness and the end of jobs.

use super::*;
use crate::domain::value::Text;

fn all_wanted() -> IsJobWanted {
    Arc::new(|_| true)
}

fn key(name: &str) -> VendorKey {
    Text::from_recorded(name.to_owned())
}

#[test]
fn a_panic_fails_one_job() {
    assert_eq!(catch_engine_panic::<()>("image", || panic!("a defect")).unwrap_err().code.as_str(), "engine_failed");
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
fn storage_is_retried_while_full_and_the_job_is_wanted() {
    let jobs: Jobs<u32> = Jobs::new(1, 1, all_wanted());
    jobs.admit(&key("a"), None, "image").unwrap();
    let full = || io::Error::from(io::ErrorKind::StorageFull);

    // Given a disk that is full at two attempts, then the third succeeds
    let mut waits = 0;
    let mut failures_left = 2;
    let attempt = || {
        if failures_left == 0 {
            Ok("stored")
        } else {
            failures_left -= 1;
            Err(full())
        }
    };
    assert_eq!(jobs.retry_with_wait(&key("a"), || waits += 1, attempt).unwrap(), "stored");
    assert_eq!(waits, 2);

    // Other errors are not retried
    let permission_denied = || Err::<(), _>(io::ErrorKind::PermissionDenied.into());
    assert!(jobs.retry_with_wait(&key("a"), || panic!("no wait"), permission_denied).is_err());

    // A job that is forgotten while it waits is not retried
    let abandoned = jobs.retry_with_wait(&key("a"), || jobs.forget(&key("a")), || Err::<(), _>(full()));
    assert_eq!(abandoned.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn waiting_jobs_have_positions_and_progress_never_decreases() {
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
fn accounts_take_turns_and_each_uses_at_most_half_of_the_slots() {
    let bob = Some(UserId(uuid::Uuid::from_u128(2)));
    let jobs: Jobs<u32> = Jobs::new(6, 1, all_wanted());
    for name in ["a", "b", "c"] {
        assert!(jobs.admit(&key(name), None, "video").unwrap());
    }
    assert_eq!(jobs.admit(&key("d"), None, "video").unwrap_err().kind, VendorErrorKind::Busy);
    assert!(jobs.admit(&key("e"), bob, "video").unwrap());
    assert_eq!(["a", "e", "b", "c"].map(|name| jobs.queue_position(&key(name))), [1, 2, 3, 4].map(Some));

    // Ended and forgotten jobs free their slots
    jobs.end(key("a"), Ok(1));
    jobs.forget(&key("b"));
    jobs.forget(&key("a"));
    assert!(["d", "f"].into_iter().all(|name| jobs.admit(&key(name), None, "video").unwrap()));
    assert_eq!(jobs.admit(&key("g"), None, "video").unwrap_err().kind, VendorErrorKind::Busy);
}

#[test]
fn jobs_that_leave_the_queue_advance_those_behind() {
    let jobs: Jobs<u32> = Jobs::new(9, 9, all_wanted());
    for name in ["a", "b", "c", "d"] {
        assert!(jobs.admit(&key(name), None, "video").unwrap());
    }
    jobs.forget(&key("a"));
    jobs.end(key("c"), Ok(1));
    assert_eq!(["a", "b", "c", "d"].map(|name| jobs.queue_position(&key(name))), [None, Some(1), None, Some(2)]);

    // A job that is admitted again is the last; forgetting an unknown one has no effect
    assert!(jobs.admit(&key("a"), None, "video").unwrap());
    jobs.forget(&key("unknown"));
    assert_eq!(["a", "b", "d"].map(|name| jobs.queue_position(&key(name))), [Some(3), Some(1), Some(2)]);
}

#[test]
fn unknown_and_unwanted_jobs_are_abandoned() {
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
