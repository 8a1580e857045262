//! The next step of a task. It depends on the recorded stage alone, so a restart continues where the log ends. Pure.

use std::time::Duration;

use crate::domain::task::{Stage, TaskRecord, VendorKey, VendorReference};
use crate::domain::value::Timestamp;
use crate::vendors::Recovery;

/// Lanes: slow input servers do not delay submissions, nor do polls.
const INPUT_LANE: &str = "inputs";
pub(super) const SUBMIT_LANE: &str = "submissions";
const POLL_LANE: &str = "polls";
/// Number of lanes.
pub const LANES: usize = 3;

/// Returns the lane of the next step of a task.
pub(super) fn lane(record: &TaskRecord) -> &'static str {
    match &record.stage {
        _ if record.submission.work.lacks_inputs() => INPUT_LANE,
        Stage::InProgress { .. } => POLL_LANE,
        _ => SUBMIT_LANE,
    }
}

/// Returns `true` if the vendor has, or may have, the task: it then uses one of the vendor's slots.
pub(super) const fn is_at_vendor(stage: &Stage) -> bool {
    matches!(stage, Stage::Submitting { .. } | Stage::InProgress { .. })
}

/// The next step of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
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
    /// None: the task has ended.
    Nothing,
}

const CANNOT_TELL: &str =
    "the service stopped while it submitted the task, and the vendor cannot tell whether it arrived";
const STILL_UNKNOWN: &str = "it was not known in time whether the vendor took the task";

pub(super) fn next_step(record: &TaskRecord, now: Timestamp, deadline: Duration, recovery: Recovery) -> Step {
    let late = now.since(record.created_at) >= deadline;

    match &record.stage {
        // Streams are not processed by the poller.
        Stage::Completed { .. } | Stage::Failed { .. } | Stage::Streaming => Step::Nothing,
        // Polled once more after the deadline, because the job may have finished in the meantime.
        Stage::InProgress { reference, .. } => Step::Poll { reference: reference.clone() },
        Stage::Submitting { .. } if late => Step::GiveUpUnknown { reason: STILL_UNKNOWN },
        _ if late => Step::Expire,
        Stage::Waiting { .. } if record.submission.work.lacks_inputs() => Step::Fetch,
        Stage::Waiting { .. } => Step::Submit,
        Stage::Submitting { key, .. } => match recovery {
            Recovery::Key => Step::Submit,
            Recovery::Search => Step::Search { key: key.clone() },
            Recovery::Nothing => Step::GiveUpUnknown { reason: CANNOT_TELL },
        },
    }
}

/// Returns the number of submissions so far.
pub(super) fn attempts(stage: &Stage) -> u32 {
    match stage {
        Stage::Waiting { attempts } => *attempts,
        Stage::Submitting { attempt, .. } | Stage::InProgress { attempt, .. } => *attempt,
        Stage::Completed { .. } | Stage::Failed { .. } | Stage::Streaming => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{TaskId, UserId};
    use crate::domain::image::{ImageFormat, ImageJob, ImageWork, Picture, Source, Upscale};
    use crate::domain::task::{Submission, TaskStatus, Work};
    use crate::domain::value::{Digest, Text};
    use uuid::Uuid;

    const HOUR: Duration = Duration::from_hours(1);

    fn record(stage: Stage) -> TaskRecord {
        let picture = Picture { digest: Digest([1; 32]), format: ImageFormat::Png, bytes: 1, width: 1, height: 1 };
        let job = ImageJob::Upscale(Upscale::default());
        let work = Work::Image(ImageWork { job, image: Source::Kept(picture), reference: None, seed: None });
        let task = TaskId(Uuid::nil());
        let owner = Some(UserId(Uuid::nil()));
        let submission = Submission { task, owner, work, webhook: None };
        let at = Timestamp::from_micros(0);
        TaskRecord { submission, stage, status: TaskStatus::Created, created_at: at, updated_at: at }
    }

    fn next(stage: Stage, age: Duration, recovery: Recovery) -> Step {
        next_step(&record(stage), Timestamp::from_micros(0).after(age), HOUR, recovery)
    }

    fn submitting() -> Stage {
        Stage::Submitting { attempt: 1, key: Text::recorded("k".to_owned()) }
    }

    #[test]
    fn a_submission_without_an_answer_is_repeated_searched_for_or_given_up() {
        let key = Text::recorded("k".to_owned());
        assert_eq!(next(submitting(), Duration::ZERO, Recovery::Key), Step::Submit);
        assert_eq!(next(submitting(), Duration::ZERO, Recovery::Search), Step::Search { key });
        let given_up = Step::GiveUpUnknown { reason: CANNOT_TELL };
        assert_eq!(next(submitting(), Duration::ZERO, Recovery::Nothing), given_up);
    }

    #[test]
    fn at_the_deadline_what_is_unknown_is_said_to_be_unknown() {
        for recovery in [Recovery::Key, Recovery::Search, Recovery::Nothing] {
            assert_eq!(next(submitting(), HOUR, recovery), Step::GiveUpUnknown { reason: STILL_UNKNOWN });
            assert_eq!(next(Stage::Waiting { attempts: 3 }, HOUR, recovery), Step::Expire);
            let reference = Text::recorded("r".to_owned());
            let key = Text::recorded("k".to_owned());
            let running = Stage::InProgress { attempt: 1, key, reference: reference.clone() };
            assert_eq!(next(running, HOUR * 2, recovery), Step::Poll { reference });
        }
    }
}
