//! How a vendor is treated.

use std::time::Duration;

use super::breaker::BreakerOptions;
use super::pace::Pauses;

/// How a vendor is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerOptions {
    /// How long a task may take from its submission.
    pub deadline: Duration,
    /// Rests between two questions about a task.
    pub poll: Pauses,
    /// Rests after failures.
    pub retry: Pauses,
    /// How long a job is asked after that the vendor took and does not know.
    pub lost_after: Duration,
    /// How long after a call a search that finds nothing is not believed yet.
    pub search_settles: Duration,
    /// None: the vendor is asked however often it failed.
    pub breaker: Option<BreakerOptions>,
}

impl PollerOptions {
    /// For a vendor inside the process.
    #[must_use]
    pub const fn inside(deadline: Duration) -> Self {
        let poll = Pauses { min: Duration::from_secs(2), max: Duration::from_secs(2) };
        let retry = Pauses { min: Duration::from_secs(5), max: Duration::from_mins(5) };
        let none = Duration::ZERO;
        Self { deadline, poll, retry, lost_after: none, search_settles: none, breaker: None }
    }
}
