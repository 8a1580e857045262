//! Failures of tasks.

use serde::{Deserialize, Serialize};

use crate::domain::value::Text;

/// Failure of a task: a stable code and a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailure {
    pub code: Text<64>,
    pub message: Text<1000>,
}

impl TaskFailure {
    /// Code of a task that was cancelled.
    pub const CANCELLED: &'static str = "cancelled";
    /// Code of a stream whose client disconnected before its end.
    pub const CLIENT_DISCONNECTED: &'static str = "client_gone";
    /// Code of a stream that was cut off by the end of the service.
    pub const INTERRUPTED: &'static str = "interrupted";

    /// All codes of this version; logs of other versions may contain others.
    pub const CODES: [&'static str; 28] = [
        Self::CANCELLED,
        Self::CLIENT_DISCONNECTED,
        "deadline_exceeded",
        "engine_failed",
        "engine_stopped",
        "input_invalid",
        "input_unavailable",
        "input_undecodable",
        "input_unreadable",
        Self::INTERRUPTED,
        "no_sound",
        "not_recorded",
        "outcome_unknown",
        "output_too_large",
        "quota_exceeded",
        "result_invalid",
        "result_unavailable",
        "result_unwritable",
        "vendor_broke_off",
        "vendor_failed",
        "vendor_lost",
        "vendor_refused",
        "vendor_unavailable",
        "video_too_large",
        "video_too_long",
        "video_undecodable",
        "video_unreadable",
        "video_unsupported",
    ];

    /// Creates a failure. The message is cut at 1000 characters, without control characters.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        let message = message.chars().filter(|c| !c.is_control()).take(1000).collect();
        Self { code: Text::from_recorded(code.to_owned()), message: Text::from_recorded(message) }
    }

    /// Returns the failure of a cancelled task.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(Self::CANCELLED, "cancelled on request")
    }

    /// Returns the failure of a vendor call without a response that must not be repeated.
    #[must_use]
    pub fn unknown_outcome(reason: &Text<1000>) -> Self {
        Self::new("outcome_unknown", reason.as_str())
    }

    /// Returns `true` for the failure of a cancelled task.
    #[must_use]
    pub fn is_cancellation(&self) -> bool {
        self.code.as_str() == Self::CANCELLED
    }

    /// Returns `true` if the client ended the task, by a disconnect or a cancellation.
    #[must_use]
    pub fn is_by_client(&self) -> bool {
        self.is_cancellation() || self.code.as_str() == Self::CLIENT_DISCONNECTED
    }

    /// Returns the failure of a stream that was cut off by the end of the service.
    #[must_use]
    pub fn interrupted(message: &str) -> Self {
        Self::new(Self::INTERRUPTED, message)
    }

    /// Returns the code as a static string if it is in [`Self::CODES`], which bounds the number of label values.
    #[must_use]
    pub fn known_code(&self) -> Option<&'static str> {
        Self::CODES.into_iter().find(|code| *code == self.code.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_codes_of_this_version_are_known() {
        for code in ["cancelled", "vendor_lost", "interrupted"] {
            assert_eq!(TaskFailure::new(code, "").known_code(), Some(code));
        }
        assert_eq!(TaskFailure::new("odd", "").known_code(), None);
        assert!(TaskFailure::CODES.is_sorted());
    }

    #[test]
    fn exactly_the_failure_codes_are_documented() {
        let page = include_str!("../../../docs/tasks.md");
        let table = page.split("## Why tasks fail").nth(1).and_then(|section| section.split("\n## ").next()).unwrap();
        let cells = table.lines().filter(|line| line.starts_with("| `")).filter_map(|row| row.split(" | ").next());
        let mut documented: Vec<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        documented.sort_unstable();
        assert_eq!(documented, TaskFailure::CODES, "docs/tasks.md");
    }
}
