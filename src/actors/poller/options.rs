//! Options of a poller, and of each vendor of its pool.

use std::time::Duration;

use super::backoff::Backoff;
use super::breaker::BreakerOptions;
use crate::domain::task::{Gateway, TaskRecord, TaskStage};
use crate::domain::value::Timestamp;

/// Options of the poller of one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerOptions {
    /// Gateway whose tasks the poller processes.
    pub gateway: Gateway,
    /// Longest time from submission to the end of a task.
    pub deadline: Duration,
    /// The same for off-peak tasks.
    pub deadline_off_peak: Duration,
    /// Age from which a submission that this process did not start is taken over: until then, another node may still
    /// be sending it. Zero outside a cluster.
    pub takeover_delay: Duration,
}

/// Options of one vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolVendorOptions {
    /// Maximum number of tasks at the vendor; the others wait in order. `None`: unlimited.
    pub slots: Option<usize>,
    /// Maximum number of concurrent submissions, and of concurrent polls.
    pub concurrency: usize,
    /// Pauses between two polls of a task.
    pub poll: Backoff,
    /// Pauses after failures.
    pub retry: Backoff,
    /// Time after acceptance for which a job is still polled although the vendor does not know it.
    pub lost_after: Duration,
    /// Time after a submission in which an empty search for its job is not trusted: the vendor may still be accepting
    /// the job.
    pub search_grace_period: Duration,
    /// If `None`, the vendor is called regardless of earlier failures.
    pub breaker: Option<BreakerOptions>,
}

impl PoolVendorOptions {
    /// Maximum number of concurrent calls to a built-in engine.
    const BUILT_IN_CONCURRENCY: usize = 256;

    /// Returns the options of a built-in engine.
    #[must_use]
    pub const fn built_in() -> Self {
        let poll = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(1) };
        let retry = Backoff { min: Duration::from_secs(5), max: Duration::from_mins(5) };
        Self {
            slots: None,
            concurrency: Self::BUILT_IN_CONCURRENCY,
            poll,
            retry,
            lost_after: Duration::ZERO,
            search_grace_period: Duration::ZERO,
            breaker: None,
        }
    }
}

impl PollerOptions {
    /// Longest time of an off-peak task (seed specification).
    const OFF_PEAK_DEADLINE: Duration = Duration::from_hours(48);

    /// Returns the options of a gateway whose tasks have this deadline.
    #[must_use]
    pub const fn new(gateway: Gateway, deadline: Duration) -> Self {
        let deadline_off_peak = Self::OFF_PEAK_DEADLINE;
        let takeover_delay = Duration::ZERO;
        Self { gateway, deadline, deadline_off_peak, takeover_delay }
    }

    /// Returns `true` if another node may be submitting the task at the moment.
    pub(super) fn may_be_submitting_elsewhere(&self, record: &TaskRecord, now: Timestamp) -> bool {
        matches!(record.stage, TaskStage::Submitting { .. }) && now.since(record.updated_at) < self.takeover_delay
    }

    /// Returns the longest time of this task from its submission.
    pub(super) fn deadline_of(&self, record: &TaskRecord) -> Duration {
        if record.submission.work.is_off_peak() { self.deadline_off_peak.max(self.deadline) } else { self.deadline }
    }

    /// Returns `true` if an off-peak task has waited for half of its time and is therefore prioritized.
    pub(super) fn is_long_waiting_off_peak(&self, record: &TaskRecord, now: Timestamp) -> bool {
        record.submission.work.is_off_peak() && now.since(record.created_at) >= self.deadline_of(record) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::task::{Submission, TaskStage, TaskStatus, TaskWork};
    use crate::domain::video::{GenerateJob, Seed, VideoJob, VideoWork};

    const HOUR: Duration = Duration::from_hours(1);

    fn record(off_peak: bool) -> TaskRecord {
        let job = VideoJob::StartEnd(GenerateJob { off_peak, ..GenerateJob::default() });
        let images = Vec::new();
        let seed = Seed::from_random(1);
        let payload = None;
        let meta_data = None;
        let work = TaskWork::Video(VideoWork { job, images, seed, payload, meta_data, credits: 0 });

        let submission = Submission { task: TaskId(uuid::Uuid::nil()), owner: None, work, webhook: None, payers: None };
        let at = Timestamp::from_micros(0);
        let stage = TaskStage::Waiting { attempts: 0 };
        let status = TaskStatus::Queueing;
        TaskRecord { submission, stage, status, vendor: None, created_at: at, updated_at: at }
    }

    #[test]
    fn off_peak_tasks_have_two_days_and_are_prioritized_after_one() {
        let options = PollerOptions::new(Gateway::Video, HOUR);
        assert_eq!([false, true].map(|off_peak| options.deadline_of(&record(off_peak))), [HOUR, 48 * HOUR]);
        let long_deadline = PollerOptions { deadline: 72 * HOUR, ..options };
        assert_eq!(long_deadline.deadline_of(&record(true)), 72 * HOUR);

        let is_long_waiting = |off_peak, hours: u32| {
            let now = Timestamp::from_micros(0).saturating_add(hours * HOUR);
            options.is_long_waiting_off_peak(&record(off_peak), now)
        };
        assert_eq!(
            [is_long_waiting(true, 23), is_long_waiting(true, 24), is_long_waiting(false, 24)],
            [false, true, false]
        );
    }
}
