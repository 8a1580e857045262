//! Progress of running tasks, and the reasons why others are blocked.
//!
//! Progress changes too often for the log, so only the last report is kept, in memory. After a restart it is unknown
//! until the next attempt. The nodes of a cluster exchange their reports.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::domain::ids::TaskId;
use crate::domain::task::TaskFailure;
use crate::domain::value::Timestamp;
use crate::vendors::JobProgress;

/// Maximum number of tasks. The task reported least recently is evicted, because ended tasks are no longer reported.
const TRACKED_TASKS_MAX: usize = 65_536;

/// Progress of a task at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedProgress {
    /// The task is queued at this position, counted from 1.
    Queued { queue_position: u32 },
    /// Completed part of the task, in thousandths.
    Running { permille: u16 },
}

/// Reason why a task is blocked, shown to its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBlocker {
    pub reason: TaskFailure,
    /// `true` if the vendor is at capacity: the task then still counts as queued.
    pub counts_as_queued: bool,
    /// Time at which the task was blocked first.
    pub since: Timestamp,
    /// Latest time of the next attempt.
    pub next_attempt_at: Timestamp,
}

impl TaskBlocker {
    /// All reason codes.
    pub const CODES: [&'static str; 12] = [
        "input_unavailable",
        "input_not_taken_in",
        "not_recorded",
        "vendor_unreachable",
        "vendor_busy",
        "vendor_unavailable",
        "vendor_unanswered",
        "vendor_paused",
        "vendor_removed",
        "result_unavailable",
        "result_unwritable",
        "result_invalid",
    ];
}

/// State of a task in a report to another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    task: TaskId,
    progress: Option<ReportedProgress>,
    blocker: Option<TaskBlocker>,
}

/// State of one task.
#[derive(Debug, Default)]
struct TaskProgressEntry {
    /// `true` if the last report of the task came from another node.
    is_adopted: bool,
    reported: Option<ReportedProgress>,
    blocker: Option<TaskBlocker>,
    /// Number of the last report, among the reports of all tasks.
    report_number: u64,
}

#[derive(Debug, Default)]
struct TaskProgressTable {
    tasks: HashMap<TaskId, TaskProgressEntry>,
    /// The same tasks, least recently reported first.
    by_recency: BTreeMap<u64, TaskId>,
    last_report: u64,
}

impl TaskProgressTable {
    /// Returns the state of a task and marks it as the most recently reported. Evicts the oldest task if the table is
    /// full.
    fn touch(&mut self, task: TaskId) -> &mut TaskProgressEntry {
        let entry = self.touch_adopted(task);
        entry.is_adopted = false;
        entry
    }

    /// Same as [`TaskProgressTable::touch`], but for a report of another node.
    fn touch_adopted(&mut self, task: TaskId) -> &mut TaskProgressEntry {
        self.last_report += 1;
        if self.tasks.len() >= TRACKED_TASKS_MAX
            && !self.tasks.contains_key(&task)
            && let Some((_, oldest)) = self.by_recency.pop_first()
        {
            self.tasks.remove(&oldest);
        }

        let entry = self.tasks.entry(task).or_default();
        self.by_recency.remove(&entry.report_number);
        self.by_recency.insert(self.last_report, task);
        entry.report_number = self.last_report;
        entry.is_adopted = true;
        entry
    }
}

/// Progress of unfinished tasks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TaskProgress(Arc<Mutex<TaskProgressTable>>);

impl TaskProgress {
    /// Records the progress reported by a vendor. Progress never decreases, even if the vendor starts over.
    pub fn record(&self, task: TaskId, progress: &JobProgress) {
        let reported = match progress {
            JobProgress::Queued { queue_position: Some(queue_position) } => {
                ReportedProgress::Queued { queue_position: *queue_position }
            }
            JobProgress::Running { permille: Some(permille) } => ReportedProgress::Running { permille: *permille },
            _ => return,
        };

        let mut table = self.0.lock();
        let stored = &mut table.touch(task).reported;

        *stored = Some(match (*stored, reported) {
            (Some(ReportedProgress::Running { permille: previous }), ReportedProgress::Running { permille }) => {
                ReportedProgress::Running { permille: permille.max(previous) }
            }
            (Some(running @ ReportedProgress::Running { .. }), ReportedProgress::Queued { .. }) => running,
            (None | Some(ReportedProgress::Queued { .. }), update) => update,
        });
    }

    /// Marks the task as blocked.
    pub fn block(&self, task: TaskId, blocker: TaskBlocker) {
        self.0.lock().touch(task).blocker = Some(blocker);
    }

    /// Marks the task as unblocked.
    pub fn unblock(&self, task: TaskId) {
        let mut table = self.0.lock();
        if table.tasks.get(&task).is_some_and(|entry| entry.blocker.is_some()) {
            table.touch(task).blocker = None;
        }
    }

    /// Returns at most `max` reports of this node after report number `after`, and the number from which to continue.
    #[must_use]
    pub fn reports_after(&self, after: u64, max: usize) -> (Vec<TaskReport>, u64) {
        let table = self.0.lock();
        let mut last = after;
        let mut reports = Vec::new();
        for (number, task) in table.by_recency.range(after + 1..) {
            let Some(entry) = table.tasks.get(task) else { continue };
            if reports.len() == max {
                break;
            }
            last = *number;
            if !entry.is_adopted {
                reports.push(TaskReport { task: *task, progress: entry.reported, blocker: entry.blocker.clone() });
            }
        }
        (reports, last)
    }

    /// Records a report of another node.
    pub fn adopt(&self, report: TaskReport) {
        let mut table = self.0.lock();
        let entry = table.touch_adopted(report.task);
        entry.reported = report.progress;
        entry.blocker = report.blocker;
    }

    /// Returns the reason why a task is blocked, if it is.
    #[must_use]
    pub fn blocker(&self, task: TaskId) -> Option<TaskBlocker> {
        self.0.lock().tasks.get(&task)?.blocker.clone()
    }

    /// Returns the progress of a task in thousandths, if known.
    #[must_use]
    pub fn permille(&self, task: TaskId) -> Option<u16> {
        match self.reported(task) {
            Some(ReportedProgress::Running { permille }) => Some(permille),
            _ => None,
        }
    }

    /// Returns the task's position in the queue of its vendor, if known.
    #[must_use]
    pub fn queue_position(&self, task: TaskId) -> Option<u32> {
        match self.reported(task) {
            Some(ReportedProgress::Queued { queue_position }) => Some(queue_position),
            _ => None,
        }
    }

    fn reported(&self, task: TaskId) -> Option<ReportedProgress> {
        self.0.lock().tasks.get(&task)?.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn task(number: u128) -> TaskId {
        TaskId(Uuid::from_u128(number))
    }

    #[test]
    fn progress_never_decreases() {
        let progress = TaskProgress::default();
        let record_queued = |position| progress.record(task(1), &JobProgress::Queued { queue_position: position });
        let record_running = |permille| progress.record(task(1), &JobProgress::Running { permille });

        record_queued(None);
        assert_eq!((progress.queue_position(task(1)), progress.permille(task(1))), (None, None));
        record_queued(Some(2));
        record_queued(Some(1));
        assert_eq!((progress.queue_position(task(1)), progress.permille(task(1))), (Some(1), None));

        for (reported, expected) in [(Some(10), 10), (Some(400), 400), (None, 400), (Some(20), 400)] {
            record_running(reported);
            record_queued(Some(3));
            assert_eq!((progress.queue_position(task(1)), progress.permille(task(1))), (None, Some(expected)));
        }

        assert_eq!(progress.permille(task(2)), None);
    }

    #[test]
    fn a_blocker_is_reported_until_unblocked_and_keeps_the_progress() {
        let progress = TaskProgress::default();
        let at = Timestamp::from_micros(1);
        let reason = TaskFailure::new("vendor_busy", "at capacity");
        let blocker = TaskBlocker { reason, counts_as_queued: true, since: at, next_attempt_at: at };

        progress.record(task(1), &JobProgress::Running { permille: Some(400) });
        progress.block(task(1), blocker.clone());
        assert_eq!((progress.blocker(task(1)), progress.permille(task(1))), (Some(blocker), Some(400)));

        progress.unblock(task(1));
        progress.unblock(task(2));
        assert_eq!((progress.blocker(task(1)), progress.permille(task(1))), (None, Some(400)));
    }

    #[test]
    fn the_task_reported_least_recently_is_evicted() {
        // Given as many tasks as are kept, of which the first is reported once more
        let progress = TaskProgress::default();
        let record =
            |number: usize| progress.record(task(number as u128), &JobProgress::Running { permille: Some(400) });
        (0..TRACKED_TASKS_MAX).for_each(record);
        record(0);

        // When one more task is reported
        record(TRACKED_TASKS_MAX);

        // Then only the second one, reported least recently, is evicted
        let is_known = |number: usize| progress.permille(task(number as u128)).is_some();
        let evicted: Vec<_> = (0..=TRACKED_TASKS_MAX).filter(|number| !is_known(*number)).collect();
        assert_eq!(evicted, [1]);
        assert_eq!(progress.0.lock().by_recency.len(), TRACKED_TASKS_MAX);
    }

    #[test]
    fn a_node_sends_each_of_its_own_reports_once() {
        // Given a node that works on one task, and knows of another from a second node
        let [first, second] = [(); 2].map(|()| TaskProgress::default());
        first.record(task(1), &JobProgress::Running { permille: Some(400) });
        second.record(task(2), &JobProgress::Queued { queue_position: Some(3) });
        let (reports, sent_by_second) = second.reports_after(0, 10);
        for report in reports {
            first.adopt(report);
        }
        assert_eq!(first.queue_position(task(2)), Some(3));

        // When it sends its reports, then only that of its own task, and only once
        let (reports, sent_by_first) = first.reports_after(0, 10);
        assert_eq!(reports.iter().map(|report| report.task).collect::<Vec<_>>(), [task(1)]);
        for report in reports {
            second.adopt(report);
        }
        assert_eq!(second.permille(task(1)), Some(400));
        assert_eq!(first.reports_after(sent_by_first, 10).0, []);
        assert_eq!(second.reports_after(sent_by_second, 10).0, []);
    }
}
