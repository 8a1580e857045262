//! Reasons for which a task is paused, as shown to its owner. The owner sees only the category of a vendor's error: the
//! exact message is recorded and logged, and may contain details meant for the operator.

use std::time::Duration;

use super::{Next, Poller};
use crate::actors::live::Hindrance;
use crate::domain::ids::TaskId;
use crate::domain::task::{Failure, TaskRecord};
use crate::projections::task::TaskEntry;
use crate::vendors::ErrorKind;

/// Reason why a task is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// An input named by the owner is unavailable: the failure that the task would end with.
    Shown(Failure),
    /// The service cannot store the inputs.
    OurInputs,
    /// The service cannot record the outcome.
    Unrecorded,
    /// A call to the vendor failed.
    Vendor(ErrorKind),
    /// The vendor does not know the task, possibly temporarily.
    Unknown,
    /// The circuit breaker admits no call.
    Gate,
    /// The results cannot be fetched.
    Results(Failure),
}

impl Cause {
    fn reason(self) -> Failure {
        let (code, message) = match self {
            Self::Shown(failure) => return failure,
            Self::OurInputs => ("input_not_taken_in", "the service cannot take in its inputs at this time"),
            Self::Unrecorded => ("not_recorded", "the service cannot record changes at this time"),
            Self::Gate => ("vendor_paused", "the vendor had trouble or asked for it, and is left alone for a while"),
            Self::Vendor(ErrorKind::Busy) => ("vendor_busy", "the vendor has no room at this time"),
            Self::Vendor(ErrorKind::Unreached) => ("vendor_unreachable", "the vendor cannot be reached at this time"),
            Self::Vendor(ErrorKind::Unserved) => ("vendor_unavailable", "the vendor does not serve this service"),
            Self::Vendor(ErrorKind::Unknown | ErrorKind::Refused) => {
                ("vendor_unanswered", "the vendor was asked and gave no answer that says how the task stands")
            }
            Self::Unknown => ("vendor_unanswered", "the vendor does not know the task at this time"),
            Self::Results(failure) => {
                let message = "the vendor is done, and its results cannot be brought home yet";
                return Failure::new(failure.code.as_str(), message);
            }
        };

        Failure::new(code, message)
    }
}

impl Poller {
    /// Pauses a blocked task and records the reason for its owner. An open breaker does not replace an earlier reason,
    /// which is more specific.
    pub(super) fn hindered(&self, task: TaskId, entry: &TaskEntry, cause: Cause, rest: Duration) -> Next {
        let at = self.surroundings.now();
        let rest = self.until_deadline(&entry.record, rest);
        // `vendor_busy` is outdated once the breaker opens.
        let before = self.live.hindrance(task).filter(|before| cause == Cause::Gate && !before.queues);
        let queues = cause == Cause::Vendor(ErrorKind::Busy);
        let hindrance = before.unwrap_or_else(|| Hindrance { reason: cause.reason(), queues, at, next_attempt_at: at });
        self.live.hinder(task, Hindrance { next_attempt_at: at.after(rest), ..hindrance });
        Next::After(rest)
    }

    /// Limits a pause to the time left until the deadline. A task past its deadline keeps the pause.
    pub(super) fn until_deadline(&self, record: &TaskRecord, rest: Duration) -> Duration {
        let age = self.surroundings.now().since(record.created_at);
        let left = self.options.deadline_of(record).checked_sub(age).filter(|left| !left.is_zero());
        left.map_or(rest, |left| rest.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_all_causes_are_known_and_of_results_nothing_else_is_told() {
        let results = ["result_unavailable", "result_unwritable", "result_invalid"];
        let results = results.map(|code| Cause::Results(Failure::new(code, "certificate of results.internal")));
        let kinds =
            [ErrorKind::Busy, ErrorKind::Unreached, ErrorKind::Unserved, ErrorKind::Unknown, ErrorKind::Refused];
        let input = Cause::Shown(Failure::new("input_unavailable", "an input could not be fetched: no connection"));
        let others = [Cause::OurInputs, Cause::Unrecorded, Cause::Unknown, Cause::Gate, input];
        for cause in others.into_iter().chain(kinds.map(Cause::Vendor)).chain(results) {
            let reason = cause.reason();
            assert!(Hindrance::CODES.contains(&reason.code.as_str()), "{reason:?}");
            assert!(!reason.message.as_str().contains("internal"), "{reason:?}");
        }
    }
}
