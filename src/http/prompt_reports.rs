//! Reports of the words that the built-in engine understands in prompts.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::domain::ids::TaskId;
use crate::domain::task::{Gateway, PromptReport, Submission, TaskRecord, TaskWork};

/// Maximum number of cached reports.
const RECENT_MAX: usize = 1000;

/// Reports on prompts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PromptReports {
    /// Media that only the built-in engine serves.
    built_in: Vec<Gateway>,
    /// Returns the report on a task.
    report_work: fn(&TaskWork) -> Option<PromptReport>,
    /// Returns the report on the prompt of a video without pictures; a prompt of which the engine understands no word
    /// is then rejected. `None` if every prompt is accepted.
    pub report_strict_video: Option<fn(&str) -> PromptReport>,
    /// Reports on the tasks that were read last, because a long prompt takes some milliseconds.
    recent: Arc<Cache<TaskId, Option<PromptReport>>>,
}

impl PromptReports {
    /// Creates the reports on the work of the built-in engine.
    #[must_use]
    pub fn new(
        built_in: Vec<Gateway>,
        report_work: fn(&TaskWork) -> Option<PromptReport>,
        report_strict_video: Option<fn(&str) -> PromptReport>,
    ) -> Self {
        Self { built_in, report_work, report_strict_video, recent: Arc::new(Cache::new(RECENT_MAX)) }
    }

    /// Returns the report on a submission; `None` if another vendor may get the task.
    #[must_use]
    pub fn of_submission(&self, submission: &Submission) -> Option<PromptReport> {
        if self.built_in.contains(&submission.work.gateway()) { self.of_built_in(submission) } else { None }
    }

    /// Returns the report on a task; `None` if another vendor has it.
    #[must_use]
    pub fn of_task(&self, task: &TaskRecord) -> Option<PromptReport> {
        let recorded = task.vendor.as_ref().and_then(|vendor| vendor.recorded.as_ref());
        match recorded {
            Some(vendor) if vendor.is_built_in() => self.of_built_in(&task.submission),
            Some(_) => None,
            None => self.of_submission(&task.submission),
        }
    }

    fn of_built_in(&self, submission: &Submission) -> Option<PromptReport> {
        if let Some(report) = self.recent.get(&submission.task) {
            return report;
        }
        let report = (self.report_work)(&submission.work);
        self.recent.insert(submission.task, report.clone());
        report
    }
}
