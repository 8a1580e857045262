//! Response body of a task of any kind.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::request::requested;
use crate::actors::live::{Hindrance, Live};
use crate::domain::ids::{TaskId, UserId};
use crate::domain::task::{Stage, TaskRecord, TaskStatus};
use crate::domain::value::Timestamp;
use crate::http::server::Services;
use crate::projections::ReadModels;
use crate::projections::task::{FailureView, TaskMoment, urls};

/// Progress of a task whose inputs are stored, and of one that a vendor works on.
const INPUTS_HERE: f64 = 0.1;
const IN_PROGRESS: f64 = 0.5;

/// A task of any kind.
#[derive(Serialize)]
pub struct TaskView {
    task_id: String,
    kind: &'static str,
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
    hindrance: Option<HindranceView>,
    /// Fields of the request; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    /// Price in credits.
    cost: u32,
    created_at: String,
    updated_at: String,
    /// State changes, oldest first.
    history: Vec<Change>,
    /// URLs of the results.
    generated: Vec<String>,
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
struct HindranceView {
    code: String,
    message: String,
    at: String,
    next_attempt_at: String,
}

impl HindranceView {
    fn of(hindrance: &Hindrance) -> Self {
        let FailureView { code, message } = FailureView::of(&hindrance.reason);
        let at = hindrance.at.to_string();
        let next_attempt_at = hindrance.next_attempt_at.to_string();
        Self { code, message, at, next_attempt_at }
    }
}

#[derive(Serialize)]
struct Change {
    state: &'static str,
    at: String,
}

/// Time after the next attempt during which a blocking reason is still shown: an attempt takes a while. A later one
/// waits for something else, such as a slot at the vendor.
const ATTEMPT_MAX: Duration = Duration::from_mins(1);

/// Renderer of task views.
pub struct Viewer<'s> {
    models: &'s ReadModels,
    live: &'s Live,
    public_url: &'s str,
    retention: Duration,
    now: Timestamp,
    tells_owner: bool,
}

impl<'s> Viewer<'s> {
    /// Creates a renderer for the current time; only administrators see the owner.
    pub fn of(services: &'s Services, is_admin: bool) -> Self {
        Self {
            tells_owner: is_admin,
            models: &services.models,
            live: &services.live,
            public_url: &services.options.public_url,
            retention: services.options.media_retention,
            now: services.surroundings.now(),
        }
    }

    /// Returns the task as of `moment`, with its current queue position and blocking reason.
    pub fn view(&self, moment: &TaskMoment) -> TaskView {
        let request = Some(requested(&moment.record.submission));
        TaskView { request, ..self.listed(moment) }
    }

    /// Like [`Viewer::view`], without the request fields, for lists.
    pub fn listed(&self, moment: &TaskMoment) -> TaskView {
        self.listed_hindered(moment, self.live.hindrance(moment.record.submission.task).as_ref())
    }

    /// Like [`Viewer::view`], with a given blocking reason.
    pub fn view_hindered(&self, moment: &TaskMoment, hindrance: Option<&Hindrance>) -> TaskView {
        let request = Some(requested(&moment.record.submission));
        TaskView { request, ..self.listed_hindered(moment, hindrance) }
    }

    /// Returns the task after a past change. Vendor progress is not recorded, so it is shown only with the end of the
    /// task.
    pub fn view_changed(&self, moment: &TaskMoment, hindrance: Option<&Hindrance>) -> TaskView {
        let view = self.view_hindered(moment, hindrance);
        if moment.record.is_terminal() {
            return view;
        }
        TaskView { progress: progress(&moment.record, &moment.states), ..view }
    }

    fn listed_hindered(
        &self,
        TaskMoment { record, states, .. }: &TaskMoment,
        hindrance: Option<&Hindrance>,
    ) -> TaskView {
        let task = record.submission.task;
        let work = &record.submission.work;
        let gateway = work.gateway();
        let generated = record.results().map_or_else(Vec::new, |results| urls(results, self.public_url));
        let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };

        let expires_at = (!generated.is_empty()).then(|| record.updated_at.after(self.retention));
        let may_be_so = |hindrance: &&Hindrance| self.now < hindrance.next_attempt_at.after(ATTEMPT_MAX);
        let hindrance = hindrance.filter(|_| !record.is_terminal()).filter(may_be_so);
        // A blocked task does not wait for the tasks before it in the queue.
        let waits = matches!(record.status, TaskStatus::Created | TaskStatus::Queueing)
            && hindrance.is_none_or(|hindrance| hindrance.queues);

        TaskView {
            task_id: task.to_string(),
            kind: work.kind().as_str(),
            state: record.status.name(gateway),
            owner: record.submission.owner.filter(|_| self.tells_owner).map(|UserId(id)| id.to_string()),
            progress: advanced(progress(record, states), self.live.permille(task)),
            queue_position: waits.then(|| self.queue_position(task)).flatten(),
            hindrance: hindrance.map(HindranceView::of),
            request: None,
            cost: work.credits(),
            created_at: record.created_at.to_string(),
            updated_at: record.updated_at.to_string(),
            history: states
                .iter()
                .map(|(state, at)| Change { state: state.name(gateway), at: at.to_string() })
                .collect(),
            generated,
            expires_at: expires_at.map(|time| time.to_string()),
            expired: expires_at.map(|time| self.now >= time),
            error: failure.map(FailureView::of),
        }
    }
}

impl Viewer<'_> {
    /// Returns the position in the local queue, else the position reported by the vendor.
    fn queue_position(&self, task: TaskId) -> Option<usize> {
        let waits_here = self.models.read().tasks.queue_position(task);
        waits_here.or_else(|| self.live.place(task).and_then(|place| usize::try_from(place).ok()))
    }
}

/// Combines the recorded progress with the vendor's, in thousandths. A running task is between 0.5 and 0.99; 1.0 is
/// reserved for stored results.
#[must_use]
pub fn advanced(recorded: f64, permille: Option<u16>) -> f64 {
    match permille {
        Some(permille) if (IN_PROGRESS..1.0).contains(&recorded) => {
            // Rounded to thousandths, to avoid long fractions in JSON.
            (500.0 + (f64::from(permille.min(1000)) * 0.49).floor()) / 1000.0
        }
        _ => recorded,
    }
}

/// Returns the recorded progress. A failed task keeps the progress it had.
fn progress(record: &TaskRecord, states: &[(TaskStatus, Timestamp)]) -> f64 {
    match record.status {
        TaskStatus::Completed => 1.0,
        _ if states.iter().any(|(state, _)| *state == TaskStatus::InProgress) => IN_PROGRESS,
        _ if record.submission.work.lacks_inputs() => 0.0,
        _ => INPUTS_HERE,
    }
}
