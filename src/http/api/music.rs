//! Music gateway: a form in, and the music as newline-delimited JSON while it is produced (contract 7,
//! `docs/music.md`).

use std::convert::Infallible;
use std::future::ready;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures_util::{Stream, stream};

use crate::actors::music_vendor::{MusicCall, MusicUnavailable};
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicJob, MusicWork};
use crate::domain::policy::Action;
use crate::domain::task::{Submission, TaskCommand, TaskFailure, TaskStage, TaskWork};
use crate::domain::video::PriceItem;
use crate::http::api::estimate::estimate_response;
use crate::http::auth::authorize;
use crate::http::auth::stream_access::StreamAccess;
use crate::http::idempotency::RebuiltOnReplay;
use crate::http::pipeline::Call;
use crate::http::response::api_response::{ApiResponse, identity_encoding};
use crate::http::response::error::{Code, Problem};
use crate::http::response::sse::X_ACCEL_BUFFERING;
use crate::http::server::AppState;
use crate::quota::Account;

mod feed;
pub mod form;
mod line;
mod recording;
mod source;

use feed::{MusicFailover, MusicFeed, MusicOutcomeRecorder};
use line::MusicStreamLine;

/// Content type of the response.
pub const NDJSON: &str = "application/x-ndjson";
/// Header with the task id, for status and cancellation while the stream is sent.
pub const X_TASK_ID: HeaderName = HeaderName::from_static("x-task-id");

/// `POST /proxy/musicvendor/t2m/generate`: records the task before the response begins, and its outcome when the
/// response ends.
pub async fn generate(mut call: Call<{ Action::GenerateMusic as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?;
    let owner = user.id;
    let shared = call.shared().clone();
    let services = &shared.services;
    authorize::require_approval(user, services)?;

    let is_estimate = call.is_estimate()?;
    let body = call.body().await?;
    let work = form::read(call.headers(), body.bytes().clone()).await?;
    drop(body);
    let breakdown = services.media.tariff.music_breakdown((services.options.music.seconds_of)(&work));
    if is_estimate {
        return estimate_response(&breakdown);
    }
    let work = MusicWork { credits: PriceItem::sum(&breakdown), ..work };
    // The id is derived from the idempotency key, if any, so a repeated request finds its task.
    let task = TaskId(call.services().environment.random_uuid());
    let access = StreamAccess::new(&call)?;

    if let Some(previous) = services.models.task(task).await? {
        let job = MusicJob { task, account: Some(owner), work };
        let response = replay(&shared, call.account(), &previous.stage, job, access).await;
        // This error may be temporary, so it is not stored as the response.
        let rebuilt_response = |problem: Problem| {
            ApiResponse::from_response(mark_rebuilt_on_replay(problem.to_response(call.request.path())))
        };
        return Ok(response.unwrap_or_else(rebuilt_response));
    }

    let permit = shared.music_streams.try_acquire(call.account())?;
    let reservation = call.reserve_task(Some(owner), task)?;
    call.charge_credits(&reservation, work.credits)?;
    // Admit the call last: a half-open circuit admits only one trial call, which a rejected request must not use up.
    let MusicCall { vendor_index, vendor, permit: admission } =
        services.media.music_pool.admit(&work).map_err(vendor_unavailable)?;

    // From here on, a disconnect is recorded.
    let recorder = MusicOutcomeRecorder::new(services, task, call.command_context());
    let task_work = TaskWork::Music(work.clone());
    let submission = Submission { task, owner: Some(owner), work: task_work, webhook: None, payers: call.payers() };
    services.dispatch.task(task, TaskCommand::Submit(submission), call.command_context()).await?;
    drop(reservation);
    services.dispatch.task(task, vendor.start_command(task), call.command_context()).await?;

    let job = MusicJob { task, account: Some(owner), work };
    let failover = MusicFailover::new(services.media.music_pool.clone(), job.clone(), vendor_index);
    let music = vendor.play(admission, job);
    let feed = MusicFeed::new(services, recorder, (music, permit), access).with_failover(failover);
    Ok(stream_response(task, feed.into_lines()))
}

/// Responds to a repeated request (ADR 18): produces the music again if the result is the same. Records nothing and
/// leaves the task unchanged.
async fn replay(
    shared: &AppState,
    account: Account,
    stage: &TaskStage,
    job: MusicJob,
    access: StreamAccess,
) -> Result<ApiResponse, Problem> {
    let services = &shared.services;
    let task = job.task;
    let failure = match stage {
        TaskStage::Completed { .. } => None,
        TaskStage::Failed { failure } => Some(failure),
        TaskStage::Waiting { .. }
        | TaskStage::Submitting { .. }
        | TaskStage::InProgress { .. }
        | TaskStage::Streaming => {
            let detail = format!("the music of this Idempotency-Key is still being sent as task {task}");
            return Err(Problem::new(Code::IdempotencyKeyInUse, detail).retry_after(1));
        }
    };

    let replay_failure = |failure: &TaskFailure| {
        stream_response(task, stream::once(ready(Ok(MusicStreamLine::failed(failure).to_bytes()))))
    };
    if let Some(failure) = failure.filter(|failure| !was_interrupted(failure)) {
        return Ok(replay_failure(failure));
    }

    // Only the engine that made the music can repeat it; different music under the same key would be wrong.
    let is_vendor_made = services.models.was_made_by_vendor(task).await?;
    if !is_vendor_made && let Some(admitted) = services.media.music_pool.admit_built_in() {
        let permit = shared.music_streams.try_acquire(account)?;
        let MusicCall { vendor, permit: admission, .. } = admitted.map_err(vendor_unavailable)?;
        let music = vendor.play(admission, job);
        let recorder = MusicOutcomeRecorder::for_replay(services, task);
        let feed = MusicFeed::new(services, recorder, (music, permit), access);
        return Ok(stream_response(task, feed.into_lines()));
    }
    failure.map(replay_failure).ok_or_else(|| replay_unavailable(task, is_vendor_made))
}

/// Returns the error for completed music that cannot be produced again.
fn replay_unavailable(task: TaskId, is_vendor_made: bool) -> Problem {
    let maker = if is_vendor_made { "a vendor" } else { "the built-in engine, which is no longer in use" };
    let detail = format!(
        "the music of this Idempotency-Key was sent as task {task} and made by {maker}; GET /tasks/{task} has the URLs \
         of its files while they are kept; use a new key for other music"
    );
    Problem::new(Code::Conflict, detail)
}

/// Returns `true` if the client cannot have received the end of the stream, so that the stream may be repeated.
fn was_interrupted(failure: &TaskFailure) -> bool {
    [TaskFailure::CLIENT_DISCONNECTED, TaskFailure::INTERRUPTED].contains(&failure.code.as_str())
}

fn stream_response(task: TaskId, lines: impl Stream<Item = Result<Bytes, Infallible>> + 'static) -> ApiResponse {
    let mut response = HttpResponse::build(StatusCode::OK);
    response.content_type(NDJSON).insert_header(identity_encoding());
    response.insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((X_ACCEL_BUFFERING, HeaderValue::from_static("no")));
    response.insert_header((X_TASK_ID, task.to_string()));
    ApiResponse::from_response(mark_rebuilt_on_replay(response.streaming(lines)))
}

fn mark_rebuilt_on_replay(mut response: HttpResponse) -> HttpResponse {
    response.extensions_mut().insert(RebuiltOnReplay);
    response
}

fn vendor_unavailable(reason: MusicUnavailable) -> Problem {
    let (detail, wait) = match reason {
        MusicUnavailable::Paused(wait) => {
            ("calls to the music vendor are paused after failures or at its request", wait)
        }
        MusicUnavailable::Full(wait) => ("all music vendors are at capacity", wait),
    };
    Problem::new(Code::Overloaded, detail)
        .retry_after(u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1))
}
