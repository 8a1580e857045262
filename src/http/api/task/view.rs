//! Response body of a task of any kind.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::request_view::{InputUrls, request_parameters};
use crate::actors::task_progress::{TaskBlocker, TaskProgress};
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{PromptReport, TaskRecord, TaskStage, TaskStatus, TaskVendor};
use crate::domain::value::Timestamp;
use crate::http::prompt_reports::PromptReports;
use crate::http::server::Services;
use crate::media::archive::upload_token::UploadKey;
use crate::projections::ReadModels;
use crate::projections::task::index::EntryState;
use crate::projections::task::{FailureView, TaskAt, cover_url, result_urls};

/// Progress of a task whose inputs are stored.
const PROGRESS_INPUTS_STORED: f64 = 0.05;
/// Progress of a task that a vendor works on.
const PROGRESS_RUNNING: f64 = 0.1;

/// A task of any kind.
#[derive(Serialize)]
pub struct TaskView {
    task_id: String,
    kind: &'static str,
    /// Name of the job, as `GET /models` lists it.
    job: &'static str,
    state: &'static str,
    /// Owner, only for administrators; absent for anonymous tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// From 0 to 1. Falls back to the recorded progress after a restart; never decreases otherwise.
    progress: f64,
    /// Only for tasks that no vendor has taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<usize>,
    /// Reason why the task is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<TaskBlockerView>,
    /// Fields of the request; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    /// Price in credits.
    cost: u32,
    /// State of these credits: `held`, `charged` or `refunded`.
    cost_state: &'static str,
    /// `null` while certainly no vendor has the job.
    vendor: Option<TaskVendorView>,
    created_at: String,
    updated_at: String,
    /// State changes, oldest first.
    history: Vec<TaskStateChange>,
    /// URLs of the results.
    generated: Vec<String>,
    /// Report of the built-in engine on the prompt; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_report: Option<PromptReport>,
    /// Still picture of a video.
    #[serde(skip_serializing_if = "Option::is_none")]
    cover_url: Option<String>,
    /// End of the retention of the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// `true` if the retention has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

#[derive(Serialize)]
struct TaskBlockerView {
    code: String,
    message: String,
    since: String,
    next_attempt_at: String,
}

impl TaskBlockerView {
    fn new(blocker: &TaskBlocker) -> Self {
        let FailureView { code, message } = FailureView::from_failure(&blocker.reason);
        let since = blocker.since.to_string();
        let next_attempt_at = blocker.next_attempt_at.to_string();
        Self { code, message, since, next_attempt_at }
    }
}

/// The vendor that has, or may have, the job, or that had it when the task ended.
#[derive(Serialize)]
struct TaskVendorView {
    name: String,
    profile: String,
    /// Id of the job at the vendor; `null` until the vendor has accepted it.
    reference: Option<String>,
    /// Cost at the vendor; `null` until the vendor has accepted the job.
    cost: Option<f64>,
}

impl TaskVendorView {
    fn new(vendor: &TaskVendor) -> Option<Self> {
        let recorded = vendor.recorded.as_ref()?;
        let id = vendor.job_id();
        Some(Self {
            name: recorded.name.to_string(),
            profile: recorded.profile.to_string(),
            reference: id.map(str::to_owned),
            cost: id.map(|_| recorded.price.to_f64()),
        })
    }
}

#[derive(Serialize)]
struct TaskStateChange {
    state: &'static str,
    at: String,
}

/// Time after the planned attempt during which a blocking reason is still shown, because an attempt takes a while. If
/// there was no attempt by then, the task waits for something else, such as a slot at the vendor.
const ATTEMPT_DURATION_MAX: Duration = Duration::from_mins(1);

/// Renderer of task views.
pub struct TaskRenderer<'s> {
    models: &'s ReadModels,
    task_progress: &'s TaskProgress,
    public_url: &'s str,
    prompt_reports: &'s PromptReports,
    retention: Duration,
    now: Timestamp,
    is_admin: bool,
    upload_key: &'s UploadKey,
}

impl<'s> TaskRenderer<'s> {
    /// Creates a renderer for the current time; only administrators see the owner.
    pub fn new(services: &'s Services, is_admin: bool) -> Self {
        Self {
            is_admin,
            upload_key: &services.registry.upload_key,
            models: &services.models,
            task_progress: &services.media.task_progress,
            public_url: &services.options.public_url,
            prompt_reports: &services.options.prompt_reports,
            retention: services.options.media_retention,
            now: services.environment.now(),
        }
    }

    /// Returns the task as of `snapshot`, with its current queue position and blocking reason.
    pub fn view(&self, snapshot: &TaskAt) -> TaskView {
        self.with_request(snapshot, self.list_item(snapshot))
    }

    /// Like [`TaskRenderer::view`], without the request fields, for lists.
    pub fn list_item(&self, snapshot: &TaskAt) -> TaskView {
        self.list_item_with_blocker(snapshot, self.task_progress.blocker(snapshot.record.submission.task).as_ref())
    }

    /// Like [`TaskRenderer::view`], with a given blocking reason.
    pub fn view_with_blocker(&self, snapshot: &TaskAt, blocker: Option<&TaskBlocker>) -> TaskView {
        self.with_request(snapshot, self.list_item_with_blocker(snapshot, blocker))
    }

    fn with_request(&self, TaskAt { record, .. }: &TaskAt, list_item: TaskView) -> TaskView {
        let request = Some(request_parameters(&record.submission, self.input_urls(record)));
        TaskView { request, prompt_report: self.prompt_reports.of_task(record), ..list_item }
    }

    /// Returns the creator of input URLs until the inputs are deleted. Every user who knows the id of an anonymous task
    /// can see the task, so only administrators can see its inputs.
    fn input_urls(&self, record: &TaskRecord) -> Option<InputUrls<'s>> {
        let is_visible = self.is_admin || record.submission.owner.is_some();
        let is_deleted = record.is_terminal() && self.now >= record.updated_at.saturating_add(self.retention);
        let urls = InputUrls { key: self.upload_key, public_url: self.public_url, now: self.now };
        (is_visible && !is_deleted).then_some(urls)
    }

    /// Returns the task after a past change. Vendor progress is not recorded, so it is shown only with the end of the
    /// task.
    pub fn view_at_change(&self, snapshot: &TaskAt, blocker: Option<&TaskBlocker>) -> TaskView {
        let view = self.view_with_blocker(snapshot, blocker);
        if snapshot.record.is_terminal() {
            return view;
        }
        TaskView { progress: recorded_progress(&snapshot.record, &snapshot.states), ..view }
    }

    fn list_item_with_blocker(
        &self,
        TaskAt { record, states, .. }: &TaskAt,
        blocker: Option<&TaskBlocker>,
    ) -> TaskView {
        let task = record.submission.task;
        let work = &record.submission.work;
        let gateway = work.gateway();
        let generated = record.results().map_or_else(Vec::new, |results| result_urls(results, self.public_url));
        let failure = if let TaskStage::Failed { failure } = &record.stage { Some(failure) } else { None };

        let expires_at = (!generated.is_empty()).then(|| record.updated_at.saturating_add(self.retention));
        let is_recent =
            |blocker: &&TaskBlocker| self.now < blocker.next_attempt_at.saturating_add(ATTEMPT_DURATION_MAX);
        let blocker = blocker.filter(|_| !record.is_terminal()).filter(is_recent);
        // A blocked task does not wait for the tasks before it in the queue.
        let is_queued = matches!(record.status, TaskStatus::Created | TaskStatus::Queueing)
            && blocker.is_none_or(|blocker| blocker.counts_as_queued);

        TaskView {
            task_id: task.to_string(),
            kind: work.kind().as_str(),
            job: work.job_name(),
            state: record.status.name(gateway),
            owner: record.submission.owner.filter(|_| self.is_admin).map(|UserId(id)| id.to_string()),
            progress: combined_progress(recorded_progress(record, states), self.task_progress.permille(task)),
            queue_position: is_queued.then(|| self.queue_position(task)).flatten(),
            blocked_by: blocker.map(TaskBlockerView::new),
            request: None,
            prompt_report: None,
            cost: work.credits(),
            cost_state: EntryState::from_record(record).as_str(),
            vendor: record.vendor.as_ref().and_then(TaskVendorView::new),
            created_at: record.created_at.to_string(),
            updated_at: record.updated_at.to_string(),
            history: states
                .iter()
                .map(|(state, at)| TaskStateChange { state: state.name(gateway), at: at.to_string() })
                .collect(),
            generated,
            cover_url: record.results().and_then(|results| cover_url(results, self.public_url)),
            expires_at: expires_at.map(|time| time.to_string()),
            expired: expires_at.map(|time| self.now >= time),
            error: failure.map(FailureView::from_failure),
        }
    }
}

impl TaskRenderer<'_> {
    /// Returns the position in the local queue, else the position reported by the vendor.
    fn queue_position(&self, task: TaskId) -> Option<usize> {
        let recorded_position = self.models.read().tasks.queue_position(task);
        recorded_position
            .or_else(|| self.task_progress.queue_position(task).and_then(|position| usize::try_from(position).ok()))
    }
}

/// Combines the recorded progress, from 0 to 1, with that of the vendor, in thousandths. A running task is between 0.1
/// and 0.99; 1.0 is reserved for stored results.
#[must_use]
pub fn combined_progress(recorded: f64, permille: Option<u16>) -> f64 {
    match permille {
        Some(permille) if (PROGRESS_RUNNING..1.0).contains(&recorded) => {
            // Rounded to thousandths, to avoid long fractions in JSON.
            (100.0 + (f64::from(permille.min(1000)) * 0.89).floor()) / 1000.0
        }
        _ => recorded,
    }
}

/// Returns the recorded progress. A failed task keeps the progress it had.
fn recorded_progress(record: &TaskRecord, states: &[(TaskStatus, Timestamp)]) -> f64 {
    match record.status {
        TaskStatus::Completed => 1.0,
        _ if states.iter().any(|(state, _)| *state == TaskStatus::InProgress) => PROGRESS_RUNNING,
        _ if record.submission.work.has_missing_inputs() => 0.0,
        _ => PROGRESS_INPUTS_STORED,
    }
}
