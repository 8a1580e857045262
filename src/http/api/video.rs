//! Video gateway: submission, with all checks before anything is stored, and results (contract 7). Anonymous callers
//! may submit as contract 3 allows; their tasks can be read and cancelled by anyone who knows the id.

use std::sync::Arc;

use actix_web::web;
use serde_json::Value;

use crate::domain::ids::{TaskId, UserId};
use crate::domain::policy::Action;
use crate::domain::task::{Gateway, Submission, TaskCommand, TaskRecord, TaskResults, TaskStage, TaskStatus, TaskWork};
use crate::domain::value::CallbackUrl;
use crate::domain::video::{PriceItem, VendorCreationId, VideoWork};
use crate::file_tree::is_unavailable;
use crate::http::api::budget::EarlyBudgetCheck;
use crate::http::api::estimate::estimate_response;
use crate::http::api::image::{check_pending_deliveries, derive_seed};
use crate::http::api::input_file::InputFiles;
use crate::http::api::task::{cancel_task, combined_progress};
use crate::http::auth::authorize;
use crate::http::job_body::JobContext;
use crate::http::limits::task_quota::TaskReservation;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::body::JsonBody;
use crate::http::request::fields::BodyContext;
use crate::http::request::prefer_wait::PreferWait;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::server::Services;
use crate::projections::task::{CreationsView, TaskAt, VideoTaskState};

mod check;
mod echo;
pub(in crate::http) mod jobs;

pub use jobs::REFERENCE_IMAGES_MAX;
use jobs::{ExtendVideoBody, MultiframeBody, ReferenceVideoBody, StartEndVideoBody, VideoBody, VideoToExtend};

type VideoSubmitCall = Call<{ Action::SubmitVideoTask as u8 }>;

/// `POST /proxy/videovendor/start-end2video`
pub async fn start_end(call: VideoSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<StartEndVideoBody>(call).await
}

/// `POST /proxy/videovendor/reference2video`
pub async fn reference(call: VideoSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<ReferenceVideoBody>(call).await
}

/// `POST /proxy/videovendor/extend`
pub async fn extend(call: VideoSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<ExtendVideoBody>(call).await
}

/// `POST /proxy/videovendor/multiframe`
pub async fn multiframe(call: VideoSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<MultiframeBody>(call).await
}

/// Outcome of the checks of a submission.
enum VideoSubmissionOutcome {
    /// The client asked only for the price.
    Estimate(Vec<PriceItem>),
    /// The files are stored.
    Stored(Box<StoredVideoSubmission>),
}

/// Checked submission with stored files, ready to be recorded.
struct StoredVideoSubmission {
    work: VideoWork,
    callback: Option<CallbackUrl>,
    /// Fields that the response repeats.
    body: JsonBody,
    reservation: TaskReservation,
}

/// Submits a task and returns it; with `Prefer: wait`, in the state after the wait.
///
/// An estimate is checked in the same way and changes nothing.
async fn submit<T: VideoBody>(mut call: VideoSubmitCall) -> Result<ApiResponse, Problem> {
    let is_estimate = call.is_estimate()?;
    let owner = authorize_submitter(&call)?;
    let shared = call.shared().clone();
    let services = &shared.services;
    let task = TaskId(call.services().environment.random_uuid());
    if !is_estimate {
        call.check_task_quota(owner, task)?;
    }

    let body = call.body().await?.json().await?;
    // Reserve after the body has arrived, so that slow bodies reserve nothing. The reservation is held until the read
    // models count the task.
    let reservation = if is_estimate { None } else { Some(call.reserve_task(owner, task)?) };
    if owner.is_none() && !is_estimate {
        call.charge_anonymous_task()?;
    }

    let context = BodyContext { is_admin: false, max_images: services.options.video_max_images };
    let video = find_video_to_extend(&call, &body).await?;
    let decoder_permit = shared.acquire_decoder(owner).await?;

    let store = services.media.store.clone();
    let space = services.space.clone();
    let tariff = Arc::clone(&services.media.tariff);
    let seed = derive_seed(task);
    let files = InputFiles::new(&call, owner);
    let budgets = EarlyBudgetCheck::new(&call, task);
    let strict_reporter = services.options.prompt_reports.report_strict_video;
    // The thread continues if the client disconnects; it holds the reservation and the permit until it ends.
    let check_and_store = move || {
        let submission = check::check::<T>(&body, context, &video, &tariff, store.decoders(), &files, strict_reporter)?;
        let Some(reservation) = reservation else { return Ok(VideoSubmissionOutcome::Estimate(submission.breakdown)) };
        budgets.check(PriceItem::sum(&submission.breakdown))?;
        let callback = submission.callback.clone();
        let stored = submission.store_in(&store, &space, seed);
        drop(decoder_permit);
        stored.map(|work| {
            VideoSubmissionOutcome::Stored(Box::new(StoredVideoSubmission { work, callback, body, reservation }))
        })
    };
    let checked = shared.inspectors.run(check_and_store).await.map_err(Problem::internal)??;
    let StoredVideoSubmission { work, callback, mut body, reservation } = match checked {
        VideoSubmissionOutcome::Stored(stored) => *stored,
        VideoSubmissionOutcome::Estimate(breakdown) => return estimate_response(&breakdown),
    };

    if callback.is_some() {
        check_pending_deliveries(services, owner)?;
    }
    call.charge_credits(&reservation, work.credits)?;
    let task_work = TaskWork::Video(work.clone());
    let submission = Submission { task, owner, work: task_work, webhook: callback, payers: call.payers() };
    let prompt_report = services.options.prompt_reports.of_submission(&submission);
    let command_context = call.command_context();
    let at = command_context.at;
    services.dispatch.task(task, TaskCommand::Submit(submission), command_context).await?;
    drop(reservation);

    let mut wait = PreferWait::from_headers(call.headers());
    // The response repeats the request fields. If their memory budget is exhausted, it is sent without waiting.
    if wait.is_requested() && !body.move_charge_to_waiting(&shared.body_budget) {
        wait = PreferWait::NONE;
    }
    let ended = if wait.is_requested() { wait.wait_until_ended(services, task).await? } else { None };
    let state = ended.map_or(TaskStatus::Created, |record| record.status);
    wait.add_preference_applied(ApiResponse::ok(&echo::submission_view(task, at, &work, &body, state, prompt_report))?)
}

/// Reads the body of a job that a command submits, and stores its pictures. Returns `None` if there is no such job.
/// Blocks.
pub(in crate::http) fn read_work(
    job: &str,
    body: &Value,
    context: &JobContext<'_>,
) -> Option<Result<VideoWork, Problem>> {
    let read = match job {
        "start-end2video" => read_body::<StartEndVideoBody>,
        "reference2video" => read_body::<ReferenceVideoBody>,
        "extend" => read_body::<ExtendVideoBody>,
        "multiframe" => read_body::<MultiframeBody>,
        _ => return None,
    };
    Some(read(body, context))
}

fn read_body<T: VideoBody>(body: &Value, context: &JobContext<'_>) -> Result<VideoWork, Problem> {
    let id = body.get("video_creation_id").and_then(Value::as_str);
    let video = VideoToExtend { creation: None, vendor_id: id.and_then(|id| VendorCreationId::parse(id).ok()) };
    let submission = check::check::<T>(
        body,
        BodyContext::default(),
        &video,
        context.tariff,
        context.store.decoders(),
        &InputFiles::default(),
        None,
    )?;
    submission.store_in(context.store, context.space, context.seed)
}

/// Checks that the caller may submit, and returns the owner of the new task; `None` for anonymous callers.
///
/// # Errors
/// 401 if anonymous callers are not allowed; 403 if the account must be approved first.
fn authorize_submitter(call: &RequestContext) -> Result<Option<UserId>, Problem> {
    let options = &call.services().options;
    match call.identity().user() {
        None if options.video_needs_token || options.require_approval => Err(authorize::missing_credentials()),
        None => Ok(None),
        Some(user) => authorize::require_approval(user, call.services()).map(|()| Some(user.id)),
    }
}

/// Looks up the video to extend. An id that is not one of the caller's videos is passed on to the vendor (contract 7).
async fn find_video_to_extend(call: &VideoSubmitCall, body: &JsonBody) -> Result<VideoToExtend, Problem> {
    let Some(id) = body.get("video_creation_id").and_then(Value::as_str) else { return Ok(VideoToExtend::default()) };

    if let Ok(creation) = TaskId::parse(id) {
        let task = call.services().models.task(creation).await?.filter(|task| may_see(call, task));
        if let Some(TaskResults::Video(video)) = task.as_ref().and_then(TaskRecord::results) {
            return Ok(VideoToExtend { creation: Some(creation), vendor_id: video.vendor_id.clone() });
        }
    }

    Ok(VideoToExtend { creation: None, vendor_id: VendorCreationId::parse(id).ok() })
}

/// `GET /proxy/videovendor/tasks/{task_id}/creations`
pub async fn creations(call: Call<{ Action::ReadVideoTask as u8 }>) -> Result<ApiResponse, Problem> {
    let id = visible_video_task(&call).await?;
    let wait = PreferWait::from_headers(call.headers());
    wait.wait_until_ended(call.services(), id).await?;
    wait.add_preference_applied(creations_response(&call, id).await?)
}

/// `POST /proxy/videovendor/tasks/{task_id}/cancel`: no effect on a task that has ended.
pub async fn cancel(call: Call<{ Action::CancelVideoTask as u8 }>) -> Result<ApiResponse, Problem> {
    let id = visible_video_task(&call).await?;
    cancel_task(&call, id).await?;
    creations_response(&call, id).await
}

/// Returns the video task of the path, if the caller may see it.
async fn visible_video_task(call: &RequestContext) -> Result<TaskId, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.path_param("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let is_video = task.submission.work.gateway() == Gateway::Video;
    if is_video && may_see(call, &task) { Ok(id) } else { Err(not_found()) }
}

/// Returns `true` for the owner and administrators; tasks of anonymous callers are visible to all.
fn may_see(call: &RequestContext, task: &TaskRecord) -> bool {
    let user = call.identity().user();
    let is_admin = user.is_some_and(|user| user.is_admin);
    task.submission.owner.is_none_or(|owner| is_admin || user.is_some_and(|user| user.id == owner))
}

async fn creations_response(call: &RequestContext, id: TaskId) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let task_at = services.models.task_with_history(id).await?.ok_or_else(|| Problem::not_found("task"))?;
    ApiResponse::ok(&creations_view(&task_at, services).await?)
}

async fn creations_view(TaskAt { record, states, .. }: &TaskAt, services: &Services) -> Result<CreationsView, Problem> {
    let Submission { task, work, .. } = &record.submission;
    let failure = if let TaskStage::Failed { failure } = &record.stage { Some(failure) } else { None };
    let reached = states.iter().map(|(state, _)| *state).filter(|state| !state.is_terminal()).max();

    let state = VideoTaskState {
        task: *task,
        status: record.status,
        reached: reached.unwrap_or(TaskStatus::Created),
        credits: work.credits(),
        results: record.results(),
        failure,
    };

    let payload = if let TaskWork::Video(work) = work { work.payload } else { None };
    let store = services.media.store.clone();
    let read = web::block(move || payload.map(|document| store.read_document(&document)).transpose());
    let payload = match read.await.map_err(Problem::internal)? {
        Err(error) if is_unavailable(&error) => return Err(Problem::files_unavailable()),
        // Payloads are deleted with the files of their tasks.
        read => read.ok().flatten(),
    };

    let view = CreationsView::new(state, payload, &services.options.public_url);
    let progress = combined_progress(view.progress, services.media.task_progress.permille(*task));
    Ok(CreationsView { progress, ..view })
}
