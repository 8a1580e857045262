//! Reasons why a task is paused, as shown to its owner. The owner sees only the category of a vendor's error: the exact
//! message is recorded and logged, and may contain details meant for the operator.

use std::time::Duration;

use super::{Poller, Reschedule};
use crate::actors::task_progress::TaskBlocker;
use crate::domain::ids::TaskId;
use crate::domain::task::{TaskFailure, TaskRecord};
use crate::projections::task::TaskEntry;
use crate::vendors::VendorErrorKind;

/// Reason why a task is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockedReason {
    /// An input named by the owner is unavailable: the failure that the task would end with.
    InputUnavailable(TaskFailure),
    /// The service cannot store the inputs.
    InputStorageFailed,
    /// The service cannot record the outcome.
    RecordingFailed,
    /// A call to the vendor failed.
    VendorError(VendorErrorKind),
    /// The vendor does not know the task, possibly temporarily.
    UnknownToVendor,
    /// The vendor that has, or may have, the task is no longer configured.
    VendorRemoved,
    /// The vendor that made the video to extend is no longer configured, and no other one knows the video.
    VideoMakerRemoved,
    /// The circuit breaker admits no call.
    CircuitOpen,
    /// The results cannot be fetched.
    ResultsUnavailable(TaskFailure),
}

impl BlockedReason {
    /// Returns the error code and message that the owner of the task sees.
    fn into_failure(self) -> TaskFailure {
        let (code, message) = match self {
            Self::InputUnavailable(failure) => return failure,
            Self::InputStorageFailed => ("input_not_taken_in", "the service cannot store the inputs right now"),
            Self::RecordingFailed => ("not_recorded", "the service cannot record changes right now"),
            Self::CircuitOpen => ("vendor_paused", "calls to the vendor are paused after failures or at its request"),
            Self::VendorRemoved => ("vendor_removed", "the vendor of the task is no longer configured"),
            Self::VideoMakerRemoved => (
                "vendor_removed",
                "the vendor that made the video to extend is no longer configured, and no other one knows the video",
            ),
            Self::VendorError(VendorErrorKind::Busy) => ("vendor_busy", "the vendor is at capacity"),
            Self::VendorError(VendorErrorKind::Unreached) => ("vendor_unreachable", "the vendor is unreachable"),
            Self::VendorError(VendorErrorKind::InputUnreadable) => {
                ("input_unavailable", "the service cannot read a stored input right now")
            }
            Self::VendorError(VendorErrorKind::Unserved) => {
                ("vendor_unavailable", "the vendor does not accept requests from this service")
            }
            Self::VendorError(VendorErrorKind::Unknown | VendorErrorKind::Refused) => {
                ("vendor_unanswered", "the vendor did not report the status of the task")
            }
            Self::UnknownToVendor => ("vendor_unanswered", "the vendor does not know the task yet"),
            Self::ResultsUnavailable(failure) => {
                let message = "the vendor has finished, but its results cannot be fetched yet";
                return TaskFailure::new(failure.code.as_str(), message);
            }
        };

        TaskFailure::new(code, message)
    }
}

impl Poller {
    /// Pauses a blocked task for `delay`, at most until its deadline, and records the reason for its owner. An open
    /// breaker does not replace an earlier reason, which is more specific.
    pub(super) fn block(&self, task: TaskId, entry: &TaskEntry, reason: BlockedReason, delay: Duration) -> Reschedule {
        let now = self.environment.now();
        let delay = self.limit_to_deadline(&entry.record, delay);

        // The earlier reason `vendor_busy` is outdated once the breaker opens.
        let earlier_blocker = self
            .task_progress
            .blocker(task)
            .filter(|blocker| reason == BlockedReason::CircuitOpen && !blocker.counts_as_queued);

        let counts_as_queued = reason == BlockedReason::VendorError(VendorErrorKind::Busy);
        let blocker = earlier_blocker.unwrap_or_else(|| TaskBlocker {
            reason: reason.into_failure(),
            counts_as_queued,
            since: now,
            next_attempt_at: now,
        });
        self.task_progress.block(task, TaskBlocker { next_attempt_at: now.saturating_add(delay), ..blocker });
        Reschedule::After(delay)
    }

    /// Limits a pause to the time left until the deadline. A task past its deadline keeps the pause.
    pub(super) fn limit_to_deadline(&self, record: &TaskRecord, delay: Duration) -> Duration {
        let age = self.environment.now().since(record.created_at);
        let remaining = self.options.deadline_of(record).checked_sub(age).filter(|remaining| !remaining.is_zero());
        remaining.map_or(delay, |remaining| delay.min(remaining))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_codes_are_known_and_messages_hide_internal_details() {
        let results = ["result_unavailable", "result_unwritable", "result_invalid"]
            .map(|code| BlockedReason::ResultsUnavailable(TaskFailure::new(code, "certificate of results.internal")));
        let vendor_errors = [
            VendorErrorKind::Busy,
            VendorErrorKind::Unreached,
            VendorErrorKind::InputUnreadable,
            VendorErrorKind::Unserved,
            VendorErrorKind::Unknown,
            VendorErrorKind::Refused,
        ]
        .map(BlockedReason::VendorError);
        let input = BlockedReason::InputUnavailable(TaskFailure::new(
            "input_unavailable",
            "an input could not be fetched: no connection",
        ));
        let reasons = [
            BlockedReason::InputStorageFailed,
            BlockedReason::RecordingFailed,
            BlockedReason::UnknownToVendor,
            BlockedReason::CircuitOpen,
            BlockedReason::VendorRemoved,
            BlockedReason::VideoMakerRemoved,
            input,
        ];
        for reason in reasons.into_iter().chain(vendor_errors).chain(results) {
            let failure = reason.into_failure();
            assert!(TaskBlocker::CODES.contains(&failure.code.as_str()), "{failure:?}");
            assert!(!failure.message.as_str().contains("internal"), "{failure:?}");
        }
    }
}
