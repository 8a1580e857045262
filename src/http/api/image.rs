//! Image gateway: submission, with all checks before anything is stored, and status of tasks.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::domain::ids::{TaskId, UserId};
use crate::domain::image::{ImageFamily, ImageWork};
use crate::domain::policy::Action;
use crate::domain::task::{Submission, TaskCommand, TaskKind, TaskRecord, TaskStatus, TaskWork};
use crate::domain::value::CallbackUrl;
use crate::http::api::budget::EarlyBudgetCheck;
use crate::http::api::estimate::estimate_response;
use crate::http::api::input_file::InputFiles;
use crate::http::auth::authorize;
use crate::http::job_body::JobContext;
use crate::http::limits::task_quota::TaskReservation;
use crate::http::pipeline::Call;
use crate::http::request::prefer_wait::PreferWait;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;
use crate::projections::task::ImageTaskView;

mod check;
pub(in crate::http) mod jobs;

pub(in crate::http) use check::derive_seed;

use jobs::{
    CreativeSkinBody, FaithfulSkinBody, FlexibleSkinBody, ImageBody, PrecisionBody, RelightBody, StyleTransferBody,
    UpscaleBody,
};

type ImageSubmitCall = Call<{ Action::SubmitImageTask as u8 }>;
type ImageReadCall = Call<{ Action::ReadImageTask as u8 }>;

/// Envelope of the responses of all image endpoints except the submission of style transfers.
#[derive(Serialize)]
struct ImageTaskEnvelope {
    data: ImageTaskView,
}

/// `POST …/image-upscaler`
pub async fn upscale(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<UpscaleBody>(call).await
}

/// `POST …/image-upscaler-precision-v2`
pub async fn upscale_precisely(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<PrecisionBody>(call).await
}

/// `POST …/image-style-transfer`: returns the task without an envelope.
pub async fn transfer_style(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<StyleTransferBody>(call, |task| ApiResponse::ok(&task)).await
}

/// `POST …/skin-enhancer/creative`
pub async fn enhance_skin_creatively(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<CreativeSkinBody>(call).await
}

/// `POST …/skin-enhancer/faithful`
pub async fn enhance_skin_faithfully(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<FaithfulSkinBody>(call).await
}

/// `POST …/skin-enhancer/flexible`
pub async fn enhance_skin_flexibly(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<FlexibleSkinBody>(call).await
}

/// `POST …/image-relight`
pub async fn relight(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit_wrapped::<RelightBody>(call).await
}

/// `GET …/image-upscaler/{task_id}` and `…/image-upscaler-precision-v2/{task_id}`: tasks of either upscaler.
pub async fn show_upscale(call: ImageReadCall) -> Result<ApiResponse, Problem> {
    show(call, ImageFamily::Upscaler).await
}

/// `GET …/image-style-transfer/{task_id}`
pub async fn show_style_transfer(call: ImageReadCall) -> Result<ApiResponse, Problem> {
    show(call, ImageFamily::StyleTransfer).await
}

/// `GET …/skin-enhancer/{task_id}`: tasks of any mode.
pub async fn show_skin_enhancer(call: ImageReadCall) -> Result<ApiResponse, Problem> {
    show(call, ImageFamily::SkinEnhancer).await
}

/// `GET …/image-relight/{task_id}`
pub async fn show_relight(call: ImageReadCall) -> Result<ApiResponse, Problem> {
    show(call, ImageFamily::Relight).await
}

async fn submit_wrapped<T: ImageBody>(call: ImageSubmitCall) -> Result<ApiResponse, Problem> {
    submit::<T>(call, |data| ApiResponse::ok(&ImageTaskEnvelope { data })).await
}

/// Outcome of the checks of a submission.
enum ImageSubmissionOutcome {
    /// The client asked only for the price.
    Estimate(TaskKind),
    /// The pictures are stored.
    Stored(Box<StoredImageSubmission>),
}

/// Checked submission with stored pictures, ready to be recorded.
struct StoredImageSubmission {
    work: ImageWork,
    webhook: Option<CallbackUrl>,
    reservation: TaskReservation,
}

/// Submits a task and returns it; with `Prefer: wait`, in the state after the wait. An estimate is checked in the same
/// way and changes nothing.
async fn submit<T: ImageBody>(
    mut call: ImageSubmitCall,
    render: impl FnOnce(ImageTaskView) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    let is_estimate = call.is_estimate()?;
    let user = call.user()?;
    let owner = user.id;
    let shared = call.shared().clone();
    let services = &shared.services;
    authorize::require_approval(user, services)?;

    let task = TaskId(call.services().environment.random_uuid());
    if !is_estimate {
        call.check_task_quota(Some(owner), task)?;
    }

    let body = call.body().await?;
    // Reserve after the body has arrived, so that slow bodies reserve nothing. The reservation is held until the read
    // models count the task.
    let reservation = if is_estimate { None } else { Some(call.reserve_task(Some(owner), task)?) };
    let decoder_permit = shared.acquire_decoder(Some(owner)).await?;

    let store = services.media.store.clone();
    let space = services.space.clone();
    let tariff = Arc::clone(&services.media.tariff);
    let seed = check::derive_seed(task);
    let files = InputFiles::new(&call, Some(owner));
    let budgets = EarlyBudgetCheck::new(&call, task);
    // The thread continues if the client disconnects; it holds the reservation and the body's memory charge until it
    // ends.
    let check_and_store = move || {
        let body = body.parse()?;
        let submission = check::check::<T>(&body, store.decoders(), &files)?;
        // Release the decoder before writing, which waits for the disk.
        drop(decoder_permit);
        let Some(reservation) = reservation else { return Ok(ImageSubmissionOutcome::Estimate(submission.kind())) };
        let credits = tariff.image_price(submission.kind().as_str());
        budgets.check(credits)?;
        let stored = submission.store_in(&store, &space, seed, credits);
        drop(body);
        stored.map(|(work, webhook)| {
            ImageSubmissionOutcome::Stored(Box::new(StoredImageSubmission { work, webhook, reservation }))
        })
    };
    let checked = shared.inspectors.run(check_and_store).await.map_err(Problem::internal)??;
    let StoredImageSubmission { work, webhook, reservation } = match checked {
        ImageSubmissionOutcome::Stored(stored) => *stored,
        ImageSubmissionOutcome::Estimate(kind) => {
            return estimate_response(&services.media.tariff.image_breakdown(kind.as_str()));
        }
    };

    if webhook.is_some() {
        check_pending_deliveries(services, Some(owner))?;
    }
    call.charge_credits(&reservation, work.credits)?;
    let work = TaskWork::Image(work);
    let submission = Submission { task, owner: Some(owner), work, webhook, payers: call.payers() };
    let prompt_report = services.options.prompt_reports.of_submission(&submission);
    services.dispatch.task(task, TaskCommand::Submit(submission), call.command_context()).await?;
    drop(reservation);

    let wait = PreferWait::from_headers(call.headers());
    let public_url = &services.options.public_url;
    let ended = if wait.is_requested() { wait.wait_until_ended(services, task).await? } else { None };
    let created = || ImageTaskView::new(task, TaskStatus::Created, None, None, public_url);
    let view = ended.map_or_else(created, |record| ImageTaskView::from_record(&record, public_url));
    wait.add_preference_applied(render(ImageTaskView { prompt_report, ..view })?)
}

/// Reads the body of a job that a command submits, and stores its pictures. Returns `None` if there is no such job.
/// Blocks.
pub(in crate::http) fn read_work(
    job: &str,
    body: &Value,
    context: &JobContext<'_>,
) -> Option<Result<ImageWork, Problem>> {
    let read = match job {
        "image-upscaler" => read_body::<UpscaleBody>,
        "image-upscaler-precision-v2" => read_body::<PrecisionBody>,
        "image-style-transfer" => read_body::<StyleTransferBody>,
        "skin-enhancer/creative" => read_body::<CreativeSkinBody>,
        "skin-enhancer/faithful" => read_body::<FaithfulSkinBody>,
        "skin-enhancer/flexible" => read_body::<FlexibleSkinBody>,
        "image-relight" => read_body::<RelightBody>,
        _ => return None,
    };
    Some(read(body, context))
}

fn read_body<T: ImageBody>(body: &Value, context: &JobContext<'_>) -> Result<ImageWork, Problem> {
    let submission = check::check::<T>(body, context.store.decoders(), &InputFiles::default())?;
    let credits = context.tariff.image_price(submission.kind().as_str());
    submission.store_in(context.store, context.space, context.seed, credits).map(|(work, _)| work)
}

/// Rejects a submission with a webhook while the account has too many pending deliveries, so that unreachable receivers
/// do not affect other accounts.
pub(in crate::http) fn check_pending_deliveries(services: &Services, owner: Option<UserId>) -> Result<(), Problem> {
    let limit = services.options.callbacks_per_account;
    if services.models.read().deliveries.pending_count_of(owner) < limit {
        return Ok(());
    }
    let detail = format!("{limit} webhooks of this account are undelivered; submit without a webhook, or retry later");
    Err(Problem::new(Code::TooManyCallbacks, detail).retry_after(60))
}

/// Returns a task of the given family. Tasks of other families are a 404, and so are tasks of other users, except for
/// administrators (contract 6).
async fn show(call: ImageReadCall, family: ImageFamily) -> Result<ApiResponse, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.path_param("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    if !is_of_family(&task, family) || (task.submission.owner != Some(user.id) && !user.is_admin) {
        return Err(not_found());
    }

    let wait = PreferWait::from_headers(call.headers());
    let task = wait.wait_until_ended(call.services(), id).await?.ok_or_else(not_found)?;
    let options = &call.services().options;
    let prompt_report = options.prompt_reports.of_task(&task);
    let data = ImageTaskView { prompt_report, ..ImageTaskView::from_record(&task, &options.public_url) };
    wait.add_preference_applied(ApiResponse::ok(&ImageTaskEnvelope { data })?)
}

fn is_of_family(task: &TaskRecord, family: ImageFamily) -> bool {
    matches!(&task.submission.work, TaskWork::Image(work) if work.job.family() == family)
}
