//! The next step of a task. It depends on the recorded stage alone, so a restart continues where the log ends. Pure.

use std::time::Duration;

use crate::domain::task::{RecordedVendor, TaskRecord, TaskStage, VendorKey, VendorReference};
use crate::domain::value::Timestamp;
use crate::vendors::SubmissionRecovery;

/// Lane of the steps that fetch inputs. Separate lanes keep slow input servers and polls from delaying submissions.
pub(super) const INPUT_LANE: &str = "inputs";
/// Lane of submissions; each vendor has its own.
pub(super) const SUBMIT_LANE: &str = "submissions";
/// Lane of polls; each vendor has its own.
pub(super) const POLL_LANE: &str = "polls";
/// Lane of steps that call no vendor and fetch no inputs.
pub(super) const NO_VENDOR_LANE: &str = "no vendor";

/// Returns the lane of the next step of a task, without the vendor: submissions and polls have a lane for each vendor.
pub(super) fn lane_kind(record: &TaskRecord) -> &'static str {
    match &record.stage {
        _ if record.submission.work.has_missing_inputs() => INPUT_LANE,
        TaskStage::InProgress { .. } => POLL_LANE,
        _ => SUBMIT_LANE,
    }
}

/// The next step of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PollerStep {
    /// Fetch the inputs given as URLs.
    Fetch,
    /// Submit the task to the vendor.
    Submit,
    /// Search for an earlier submission.
    Search { key: VendorKey },
    /// Give up: it is unknown whether a submission arrived, and repeating it could create a second job.
    GiveUpUnknown { reason: &'static str },
    /// Poll the vendor.
    Poll { reference: VendorReference },
    /// Fail the task: its deadline has passed.
    Expire,
    /// Do nothing: the task has ended, or is a stream.
    Nothing,
}

/// The next step of a task whose vendor is no longer configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemovedVendorStep {
    /// Record that the job is lost, so that it is submitted again.
    RecordLostJob,
    /// Record that no vendor has the job, so that another vendor gets it.
    RecordUndelivered,
    /// Give up: it is unknown whether a submission arrived.
    GiveUpUnknown { reason: &'static str },
    /// Fail the task: its deadline has passed.
    Expire,
    /// Wait for the vendor to be configured again.
    AwaitVendor,
}

const UNKNOWN_AFTER_RESTART: &str =
    "the service stopped during the submission, and the vendor cannot tell whether it arrived";
const UNKNOWN_WITHOUT_KEY: &str =
    "it is unknown whether an earlier submission arrived, and the vendor does not support idempotency keys";
const UNKNOWN_AT_DEADLINE: &str = "it was still unknown at the deadline whether the vendor had accepted the task";

/// Returns the next step of a task whose time is limited to `deadline` after its creation.
pub(super) fn next_step(
    record: &TaskRecord,
    now: Timestamp,
    deadline: Duration,
    recovery: SubmissionRecovery,
) -> PollerStep {
    let past_deadline = now.since(record.created_at) >= deadline;

    match &record.stage {
        // Streams are not processed by the poller.
        TaskStage::Completed { .. } | TaskStage::Failed { .. } | TaskStage::Streaming => PollerStep::Nothing,
        // Polled once more after the deadline, because the job may have finished in the meantime.
        TaskStage::InProgress { reference, .. } => PollerStep::Poll { reference: reference.clone() },
        _ if past_deadline => match unknown_at_deadline(record) {
            Some(reason) => PollerStep::GiveUpUnknown { reason },
            None => PollerStep::Expire,
        },
        TaskStage::Waiting { .. } if record.is_in_doubt() && recovery != SubmissionRecovery::Key => {
            PollerStep::GiveUpUnknown { reason: UNKNOWN_WITHOUT_KEY }
        }
        TaskStage::Waiting { .. } if record.submission.work.has_missing_inputs() => PollerStep::Fetch,
        TaskStage::Waiting { .. } => PollerStep::Submit,
        TaskStage::Submitting { key, .. } => match recovery {
            SubmissionRecovery::Key => PollerStep::Submit,
            SubmissionRecovery::Search => PollerStep::Search { key: key.clone() },
            SubmissionRecovery::Nothing => PollerStep::GiveUpUnknown { reason: UNKNOWN_AFTER_RESTART },
        },
    }
}

/// Returns the reason why a task past its deadline has an unknown outcome; `None` if no vendor may have taken it.
pub(super) fn unknown_at_deadline(record: &TaskRecord) -> Option<&'static str> {
    let is_unknown = matches!(record.stage, TaskStage::Submitting { .. }) || record.is_in_doubt();
    is_unknown.then_some(UNKNOWN_AT_DEADLINE)
}

/// Returns the next step of a task whose vendor is no longer configured. The task may go to another vendor only if the
/// removed vendor cannot have the job: a built-in engine keeps no jobs.
pub(super) fn removed_vendor_step(
    record: &TaskRecord,
    vendor: &RecordedVendor,
    now: Timestamp,
    deadline: Duration,
) -> RemovedVendorStep {
    let past_deadline = now.since(record.created_at) >= deadline;

    match &record.stage {
        TaskStage::InProgress { .. } if vendor.is_built_in() => RemovedVendorStep::RecordLostJob,
        TaskStage::Submitting { .. } if vendor.is_built_in() => RemovedVendorStep::RecordUndelivered,
        _ if past_deadline => match unknown_at_deadline(record) {
            Some(reason) => RemovedVendorStep::GiveUpUnknown { reason },
            None => RemovedVendorStep::Expire,
        },
        _ => RemovedVendorStep::AwaitVendor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{TaskId, UserId};
    use crate::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, PictureSource, UpscaleJob};
    use crate::domain::task::{Submission, TaskStatus, TaskWork, VendorPrice};
    use crate::domain::value::{Digest, Text};
    use uuid::Uuid;

    const HOUR: Duration = Duration::from_hours(1);

    fn record(stage: TaskStage) -> TaskRecord {
        let picture = Picture { digest: Digest([1; 32]), format: ImageFormat::Png, bytes: 1, width: 1, height: 1 };
        let job = ImageJob::Upscale(UpscaleJob::default());
        let work = TaskWork::Image(ImageWork {
            job,
            image: PictureSource::Stored(picture),
            reference: None,
            seed: None,
            credits: 0,
        });
        let task = TaskId(Uuid::nil());
        let owner = Some(UserId(Uuid::nil()));
        let submission = Submission { task, owner, work, webhook: None, payers: None };
        let at = Timestamp::from_micros(0);
        TaskRecord { submission, stage, status: TaskStatus::Created, vendor: None, created_at: at, updated_at: at }
    }

    fn next(stage: TaskStage, age: Duration, recovery: SubmissionRecovery) -> PollerStep {
        next_step(&record(stage), Timestamp::from_micros(0).saturating_add(age), HOUR, recovery)
    }

    fn submitting() -> TaskStage {
        TaskStage::Submitting { attempt: 1, key: Text::from_recorded("k".to_owned()) }
    }

    #[test]
    fn a_submission_without_a_response_is_repeated_searched_for_or_given_up() {
        let key = Text::from_recorded("k".to_owned());
        assert_eq!(next(submitting(), Duration::ZERO, SubmissionRecovery::Key), PollerStep::Submit);
        assert_eq!(next(submitting(), Duration::ZERO, SubmissionRecovery::Search), PollerStep::Search { key });
        let given_up = PollerStep::GiveUpUnknown { reason: UNKNOWN_AFTER_RESTART };
        assert_eq!(next(submitting(), Duration::ZERO, SubmissionRecovery::Nothing), given_up);
    }

    #[test]
    fn at_the_deadline_an_unknown_submission_is_given_up_as_unknown() {
        for recovery in [SubmissionRecovery::Key, SubmissionRecovery::Search, SubmissionRecovery::Nothing] {
            assert_eq!(next(submitting(), HOUR, recovery), PollerStep::GiveUpUnknown { reason: UNKNOWN_AT_DEADLINE });
            assert_eq!(next(TaskStage::Waiting { attempts: 3 }, HOUR, recovery), PollerStep::Expire);
            let reference = Text::from_recorded("r".to_owned());
            let key = Text::from_recorded("k".to_owned());
            let running = TaskStage::InProgress { attempt: 1, key, reference: reference.clone() };
            assert_eq!(next(running, HOUR * 2, recovery), PollerStep::Poll { reference });
        }
    }

    #[test]
    fn a_task_of_a_removed_vendor_waits_but_that_of_a_removed_engine_does_not() {
        let vendor = |profile: &str| RecordedVendor {
            name: Text::from_recorded("v".to_owned()),
            profile: Text::from_recorded(profile.to_owned()),
            profile_hash: None,
            price: VendorPrice::default(),
        };
        let in_progress = || TaskStage::InProgress {
            attempt: 1,
            key: Text::from_recorded("k".to_owned()),
            reference: Text::from_recorded("r".to_owned()),
        };
        let step = |stage, profile, age| {
            let now = Timestamp::from_micros(0).saturating_add(age);
            removed_vendor_step(&record(stage), &vendor(profile), now, HOUR)
        };

        assert_eq!(step(in_progress(), "builtin", Duration::ZERO), RemovedVendorStep::RecordLostJob);
        assert_eq!(step(submitting(), "builtin", Duration::ZERO), RemovedVendorStep::RecordUndelivered);
        for stage in [in_progress(), submitting(), TaskStage::Waiting { attempts: 1 }] {
            assert_eq!(step(stage, "mediary", Duration::ZERO), RemovedVendorStep::AwaitVendor);
        }
        assert_eq!(step(in_progress(), "mediary", HOUR), RemovedVendorStep::Expire);
        let given_up = RemovedVendorStep::GiveUpUnknown { reason: UNKNOWN_AT_DEADLINE };
        assert_eq!(step(submitting(), "mediary", HOUR), given_up);
    }
}
