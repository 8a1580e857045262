//! How a vendor is treated.

use std::time::Duration;

use super::breaker::BreakerOptions;
use super::pace::Pauses;
use crate::domain::task::{Gateway, TaskRecord};
use crate::domain::value::Timestamp;

/// How a vendor is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerOptions {
    /// Whose tasks it works on.
    pub gateway: Gateway,
    /// How many tasks it has at a time; the others wait here, in their order.
    pub slots: usize,
    /// How long a task may take from its submission.
    pub deadline: Duration,
    /// How long one may take that is made off peak.
    pub deadline_off_peak: Duration,
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
    /// How long a task may take that is made off peak (seed).
    pub const OFF_PEAK: Duration = Duration::from_hours(48);

    /// For a vendor inside the process.
    #[must_use]
    pub const fn inside(gateway: Gateway, deadline: Duration) -> Self {
        let poll = Pauses { min: Duration::from_secs(1), max: Duration::from_secs(1) };
        let retry = Pauses { min: Duration::from_secs(5), max: Duration::from_mins(5) };
        let (none, slots, deadline_off_peak) = (Duration::ZERO, usize::MAX, Self::OFF_PEAK);
        let (lost_after, search_settles, breaker) = (none, none, None);
        Self { gateway, slots, deadline, deadline_off_peak, poll, retry, lost_after, search_settles, breaker }
    }

    /// How long this task may take from its submission.
    pub(super) fn deadline_of(&self, record: &TaskRecord) -> Duration {
        if record.submission.work.is_off_peak() { self.deadline_off_peak.max(self.deadline) } else { self.deadline }
    }

    /// Whether a task that is made off peak has waited for half of its time: then it goes first.
    pub(super) fn has_waited_off_peak(&self, record: &TaskRecord, now: Timestamp) -> bool {
        record.submission.work.is_off_peak() && now.since(record.created_at) >= self.deadline_of(record) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::task::{Stage, Submission, TaskStatus, Work};
    use crate::domain::video::{Generate, Seed, VideoJob, VideoWork};

    const HOUR: Duration = Duration::from_hours(1);

    fn record(off_peak: bool) -> TaskRecord {
        let job = VideoJob::StartEnd(Generate { off_peak, ..Generate::default() });
        let (images, seed, payload, meta_data) = (Vec::new(), Seed::drawn(1), None, None);
        let work = Work::Video(VideoWork { job, images, seed, payload, meta_data, credits: 0 });
        let submission = Submission { task: TaskId(uuid::Uuid::nil()), owner: None, work, webhook: None };
        let at = Timestamp::from_micros(0);
        let (stage, status) = (Stage::Waiting { attempts: 0 }, TaskStatus::Queueing);
        TaskRecord { submission, stage, status, created_at: at, updated_at: at }
    }

    #[test]
    fn off_peak_tasks_have_two_days_and_do_not_wait_for_ever() {
        let options = PollerOptions::inside(Gateway::Video, HOUR);
        assert_eq!([false, true].map(|off_peak| options.deadline_of(&record(off_peak))), [HOUR, 48 * HOUR]);
        let patient = PollerOptions { deadline: 72 * HOUR, ..options };
        assert_eq!(patient.deadline_of(&record(true)), 72 * HOUR);
        let waited = |off_peak, hours: u32| {
            options.has_waited_off_peak(&record(off_peak), Timestamp::from_micros(0).after(hours * HOUR))
        };
        assert_eq!([waited(true, 23), waited(true, 24), waited(false, 24)], [false, true, false]);
    }
}
