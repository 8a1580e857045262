//! Video gateway: submission, with all checks before anything is stored, and results (contract 7). Anonymous callers
//! may submit as contract 3 allows; such a task can be read and cancelled by anyone who knows its id.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web;
use serde_json::Value;
use tokio::time::timeout;

use super::answer::Answer;
use super::authorize;
use super::body::Json;
use super::error::{Code, Problem};
use super::gate::{Admitted, Call};
use super::image::{check_callbacks, drawn_from, inspect};
use super::server::Services;
use super::task::advanced;
use super::waiting::Wait;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::policy::Action;
use crate::domain::task::{Gateway, Results, Stage, Submission, TaskCommand, TaskRecord, TaskStatus, Work};
use crate::projections::task::{CreationsView, TaskMoment, VideoMoment};

mod check;
mod echo;
mod jobs;

use jobs::{Bounds, Known, ReadJob};
pub use jobs::{EXTEND_IMAGES, REFERENCE_IMAGES, START_END_IMAGES};

/// Maximum wait for a turn to decode pictures.
const DECODER_WITHIN: Duration = Duration::from_secs(30);

type Submitting = Call<{ Action::SubmitVideoTask as u8 }>;

/// `POST /proxy/videovendor/start-end2video`
pub async fn start_end(call: Submitting) -> Result<Answer, Problem> {
    submit(call, jobs::start_end).await
}

/// `POST /proxy/videovendor/reference2video`
pub async fn reference(call: Submitting) -> Result<Answer, Problem> {
    submit(call, jobs::reference).await
}

/// `POST /proxy/videovendor/extend`
pub async fn extend(call: Submitting) -> Result<Answer, Problem> {
    submit(call, jobs::extend).await
}

/// `POST /proxy/videovendor/multiframe`
pub async fn multiframe(call: Submitting) -> Result<Answer, Problem> {
    submit(call, jobs::multiframe).await
}

/// Submits a task and returns it; with `Prefer: wait`, in the state after the wait.
async fn submit(mut call: Submitting, read: ReadJob) -> Result<Answer, Problem> {
    let owner = submitter(&call)?;
    let shared = call.shared().clone();
    let services = &shared.services;
    let task = TaskId(call.services().surroundings.random_uuid());
    call.check_room(owner, task)?;

    let body = call.body().await?.json().await?;
    // After the body has arrived, so that slow bodies hold no places. Held until the read models count the task.
    let place = call.reserve(owner, task)?;
    if owner.is_none() {
        call.charge_anonymous_task()?;
    }

    let bounds = Bounds { max_images: services.options.video_max_images, known: known(&call, &body).await? };
    let turn = timeout(DECODER_WITHIN, shared.decoders.acquire(owner, 1)).await;
    let turn = turn.map_err(|_| Problem::overloaded())?;

    let store = services.store.clone();
    let space = services.space.clone();
    let tariff = Arc::clone(&services.tariff);
    let drawn = drawn_from(task);
    // The thread continues if the client disconnects; it holds the turn and the place until it ends.
    let work = move || {
        let checked = check::check(&body, read, &bounds, &tariff, store.decoders())?;
        let callback = checked.callback.clone();
        let kept = checked.keep(&store, &space, drawn);
        drop(turn);
        kept.map(|kept| (kept, callback, body, place))
    };
    let (work, callback, mut body, place) = shared.inspectors.run(work).await.map_err(Problem::internal)??;

    if callback.is_some() {
        check_callbacks(services, owner)?;
    }
    call.charge(&place, work.credits)?;
    let submission = Submission { task, owner, work: Work::Video(work.clone()), webhook: callback };
    let why = call.why();
    let at = why.at;
    services.dispatch.task(task, TaskCommand::Submit(submission), why).await?;
    drop(place);

    let wait = Wait::of(call.headers());
    // The response repeats the request fields. If their memory budget is exhausted, it is sent without waiting.
    let wait = if wait.is_asked() && !body.release_for_waiting(&shared.bodies) { Wait::NONE } else { wait };
    let waited = if wait.is_asked() { wait.for_end(services, task).await? } else { None };
    let state = waited.map_or(TaskStatus::Created, |record| record.status);
    wait.told_in(Answer::ok(&echo::submitted(task, at, &work, &body, state))?)
}

/// Returns the owner of a new task; `None` for anonymous callers, where those are allowed.
fn submitter(call: &Admitted) -> Result<Option<UserId>, Problem> {
    let options = &call.services().options;
    match call.identity().user() {
        None if options.video_needs_token || options.require_approval => Err(authorize::no_credentials()),
        None => Ok(None),
        Some(user) if options.require_approval && !user.is_approved && !user.is_admin => {
            Err(Problem::new(Code::ApprovalRequired, "an administrator must approve this account first"))
        }
        Some(user) => Ok(Some(user.id)),
    }
}

/// Looks up the video to extend.
async fn known(call: &Submitting, body: &Json) -> Result<Known, Problem> {
    let named = body.get("video_creation_id").and_then(Value::as_str).map(TaskId::parse);
    let Some(Ok(creation)) = named else { return Ok(Known::Unnamed) };
    let task = call.services().models.task(creation).await?.filter(|task| may_see(call, task));
    Ok(match task.as_ref().and_then(TaskRecord::results) {
        Some(Results::Video(made)) => Known::Own { creation, at_vendor: made.at_vendor.clone() },
        _ => Known::Nothing,
    })
}

/// `GET /proxy/videovendor/tasks/{task_id}/creations`
pub async fn creations(call: Call<{ Action::ReadVideoTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_video(&call).await?;
    let wait = Wait::of(call.headers());
    wait.for_end(call.services(), id).await?;
    wait.told_in(shown(&call, id).await?)
}

/// `POST /proxy/videovendor/tasks/{task_id}/cancel`: no effect on a task that has ended.
pub async fn cancel(call: Call<{ Action::CancelVideoTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_video(&call).await?;
    call.services().dispatch.task(id, TaskCommand::Cancel, call.why()).await?;
    shown(&call, id).await
}

/// Returns the video task of the path, if the caller may see it.
async fn own_video(call: &Admitted) -> Result<TaskId, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.segment("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let is_video = task.submission.work.gateway() == Gateway::Video;
    if is_video && may_see(call, &task) { Ok(id) } else { Err(not_found()) }
}

/// Returns `true` for the owner and administrators; tasks of anonymous callers are visible to all.
fn may_see(call: &Admitted, task: &TaskRecord) -> bool {
    let user = call.identity().user();
    let is_admin = user.is_some_and(|user| user.is_admin);
    task.submission.owner.is_none_or(|owner| is_admin || user.is_some_and(|user| user.id == owner))
}

async fn shown(call: &Admitted, id: TaskId) -> Result<Answer, Problem> {
    let services = call.services();
    let now = services.models.task_now(id).await?.ok_or_else(|| Problem::not_found("task"))?;
    Answer::ok(&view(&now, services).await)
}

async fn view(TaskMoment { record, states, .. }: &TaskMoment, services: &Services) -> CreationsView {
    let Submission { task, work, .. } = &record.submission;
    let failure = if let Stage::Failed { failure } = &record.stage { Some(failure) } else { None };
    let reached = states.iter().map(|(state, _)| *state).filter(|state| !state.is_terminal()).max();

    let moment = VideoMoment {
        task: *task,
        status: record.status,
        reached: reached.unwrap_or(TaskStatus::Created),
        credits: work.credits(),
        results: record.results(),
        failure,
    };

    let payload = if let Work::Video(work) = work { work.payload } else { None };
    let store = services.store.clone();
    // Payloads are deleted with the files of their tasks.
    let read = move || payload.and_then(|document| store.read_document(&document).ok());
    let payload = web::block(read).await.ok().flatten();

    let view = CreationsView::new(moment, payload, &services.options.public_url);
    let progress = advanced(view.progress, services.live.permille(*task));
    CreationsView { progress, ..view }
}
