//! A task of any kind as it is shown to its owner.

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

/// How far a task is whose inputs are all here, and one that a vendor works on.
const INPUTS_HERE: f64 = 0.1;
const IN_PROGRESS: f64 = 0.5;

/// A task of any kind.
#[derive(Serialize)]
pub struct TaskView {
    task_id: String,
    kind: &'static str,
    state: &'static str,
    /// Whose it is, for administrators; absent too where nobody is.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// From 0 to 1; falls to what is recorded at a restart, and never otherwise.
    progress: f64,
    /// Of a task that no vendor has taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<usize>,
    /// What keeps it from going on.
    #[serde(skip_serializing_if = "Option::is_none")]
    hindrance: Option<HindranceView>,
    /// What was asked for; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    /// In credits.
    cost: u32,
    created_at: String,
    updated_at: String,
    /// Every change of state, the oldest first.
    history: Vec<Change>,
    /// URLs of the results.
    generated: Vec<String>,
    /// Until when the results are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Whether that time is over.
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
        let (at, next_attempt_at) = (hindrance.at.to_string(), hindrance.next_attempt_at.to_string());
        Self { code, message, at, next_attempt_at }
    }
}

#[derive(Serialize)]
struct Change {
    state: &'static str,
    at: String,
}

/// How long after its next attempt a hindrance is still told: an attempt takes a while, and one that has not begun by then waits for
/// something else, such as a slot at the vendor.
const ATTEMPT_MAX: Duration = Duration::from_mins(1);

/// What views are made with.
pub struct Viewer<'s> {
    models: &'s ReadModels,
    live: &'s Live,
    public_url: &'s str,
    retention: Duration,
    now: Timestamp,
    tells_owner: bool,
}

impl<'s> Viewer<'s> {
    /// Views of now, for an administrator or for whoever the tasks belong to.
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

    /// The task as it was then. Its place in the queue and its hindrance are those of now.
    pub fn view(&self, moment: &TaskMoment) -> TaskView {
        let request = Some(requested(&moment.record.submission));
        TaskView { request, ..self.listed(moment) }
    }

    /// The same among others, of which nobody wants to read what each was asked for.
    pub fn listed(&self, moment: &TaskMoment) -> TaskView {
        self.listed_hindered(moment, self.live.hindrance(moment.record.submission.task).as_ref())
    }

    /// The same whole, with what is known to keep it from going on.
    pub fn view_hindered(&self, moment: &TaskMoment, hindrance: Option<&Hindrance>) -> TaskView {
        let request = Some(requested(&moment.record.submission));
        TaskView { request, ..self.listed_hindered(moment, hindrance) }
    }

    /// The same after a change that may long be over. How much is made is not recorded: it is told of the end alone, which nothing follows.
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
        let (task, work) = (record.submission.task, &record.submission.work);
        let gateway = work.gateway();
        let generated = record.results().map_or_else(Vec::new, |results| urls(results, self.public_url));
        let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };
        let expires_at = (!generated.is_empty()).then(|| record.updated_at.after(self.retention));
        let may_be_so = |hindrance: &&Hindrance| self.now < hindrance.next_attempt_at.after(ATTEMPT_MAX);
        let hindrance = hindrance.filter(|_| !record.is_terminal()).filter(may_be_so);
        // What cannot go on waits for nobody who is before it.
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
    /// At its vendor, where that tells it; else among those that are still to be handed over.
    fn queue_position(&self, task: TaskId) -> Option<usize> {
        let waits_here = self.models.read().tasks.queue_position(task);
        waits_here.or_else(|| self.live.place(task).and_then(|place| usize::try_from(place).ok()))
    }
}

/// How far a task is by what was recorded of it, and so many thousandths more of what is made: what is recorded as begun is half of
/// it, and the whole is said only when the results are here.
#[must_use]
pub fn advanced(recorded: f64, permille: Option<u16>) -> f64 {
    match permille {
        Some(permille) if (IN_PROGRESS..1.0).contains(&recorded) => {
            // In thousandths, so that no long fractions are written.
            (500.0 + (f64::from(permille.min(1000)) * 0.49).floor()) / 1000.0
        }
        _ => recorded,
    }
}

/// How far a task is, by what was recorded of it: a task that fails stays as far as it was.
fn progress(record: &TaskRecord, states: &[(TaskStatus, Timestamp)]) -> f64 {
    match record.status {
        TaskStatus::Completed => 1.0,
        _ if states.iter().any(|(state, _)| *state == TaskStatus::InProgress) => IN_PROGRESS,
        _ if record.submission.work.lacks_inputs() => 0.0,
        _ => INPUTS_HERE,
    }
}
