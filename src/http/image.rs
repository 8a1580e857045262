//! Image gateway: submission, with all checks before anything is stored, and status of tasks.

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;

use super::answer::Answer;
use super::error::{Code, Problem};
use super::gate::Call;
use super::server::Services;
use super::waiting::Wait;
use crate::domain::ids::{TaskId, UserId};
use crate::domain::image::ImageFamily;
use crate::domain::policy::Action;
use crate::domain::task::{Submission, TaskCommand, TaskRecord, TaskStatus, Work};
use crate::projections::task::ImageTaskView;

mod check;
mod jobs;

pub(super) use check::{drawn_from, inspect};

use check::ReadJob;

/// Maximum wait for a turn to decode pictures.
const DECODER_WITHIN: Duration = Duration::from_secs(30);

type Submitting = Call<{ Action::SubmitImageTask as u8 }>;
type Reading = Call<{ Action::ReadImageTask as u8 }>;

/// Envelope of the responses of all image endpoints except the submission of style transfers.
#[derive(Serialize)]
struct Data {
    data: ImageTaskView,
}

/// `POST …/image-upscaler`
pub async fn upscale(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::upscale).await
}

/// `POST …/image-upscaler-precision-v2`
pub async fn upscale_precisely(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::upscale_precisely).await
}

/// `POST …/image-style-transfer`: returns the task without an envelope.
pub async fn transfer_style(call: Submitting) -> Result<Answer, Problem> {
    let (task, wait) = submit(call, jobs::transfer_style).await?;
    wait.told_in(Answer::ok(&task)?)
}

/// `POST …/skin-enhancer/creative`
pub async fn enhance_skin_creatively(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::enhance_skin_creatively).await
}

/// `POST …/skin-enhancer/faithful`
pub async fn enhance_skin_faithfully(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::enhance_skin_faithfully).await
}

/// `POST …/skin-enhancer/flexible`
pub async fn enhance_skin_flexibly(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::enhance_skin_flexibly).await
}

/// `POST …/image-relight`
pub async fn relight(call: Submitting) -> Result<Answer, Problem> {
    submit_wrapped(call, jobs::relight).await
}

/// `GET …/image-upscaler/{task_id}` and `…/image-upscaler-precision-v2/{task_id}`: tasks of either upscaler.
pub async fn show_upscale(call: Reading) -> Result<Answer, Problem> {
    show(call, ImageFamily::Upscaler).await
}

/// `GET …/image-style-transfer/{task_id}`
pub async fn show_style(call: Reading) -> Result<Answer, Problem> {
    show(call, ImageFamily::StyleTransfer).await
}

/// `GET …/skin-enhancer/{task_id}`: tasks of any mode.
pub async fn show_skin(call: Reading) -> Result<Answer, Problem> {
    show(call, ImageFamily::SkinEnhancer).await
}

/// `GET …/image-relight/{task_id}`
pub async fn show_relight(call: Reading) -> Result<Answer, Problem> {
    show(call, ImageFamily::Relight).await
}

async fn submit_wrapped(call: Submitting, read: ReadJob) -> Result<Answer, Problem> {
    let (data, wait) = submit(call, read).await?;
    wait.told_in(Answer::ok(&Data { data })?)
}

/// Submits a task and returns it; with `Prefer: wait`, in the state after the wait.
async fn submit(mut call: Submitting, read: ReadJob) -> Result<(ImageTaskView, Wait), Problem> {
    let user = call.user()?;
    let owner = user.id;
    let shared = call.shared().clone();
    let services = &shared.services;
    if services.options.require_approval && !user.is_approved && !user.is_admin {
        return Err(Problem::new(Code::ApprovalRequired, "an administrator must approve this account first"));
    }

    let task = TaskId(call.services().surroundings.random_uuid());
    call.check_room(Some(owner), task)?;

    let body = call.body().await?;
    // After the body has arrived, so that slow bodies hold no places. Held until the read models count the task.
    let place = call.reserve(Some(owner), task)?;
    let turn = timeout(DECODER_WITHIN, shared.decoders.acquire(Some(owner), 1)).await;
    let turn = turn.map_err(|_| Problem::overloaded())?;

    let store = services.store.clone();
    let space = services.space.clone();
    let drawn = check::drawn_from(task);
    // The thread continues if the client disconnects; it holds the place and the body's memory charge until it ends.
    let work = move || {
        let body = body.parse()?;
        let checked = check::check(&body, read, store.decoders())?;
        // Release the decoder before writing, which waits for the disk.
        drop(turn);
        let kept = checked.keep(&store, &space, drawn);
        drop(body);
        kept.map(|kept| (kept, place))
    };
    let ((work, webhook), place) = shared.inspectors.run(work).await.map_err(Problem::internal)??;

    if webhook.is_some() {
        check_callbacks(services, Some(owner))?;
    }
    let submission = Submission { task, owner: Some(owner), work: Work::Image(work), webhook };
    services.dispatch.task(task, TaskCommand::Submit(submission), call.why()).await?;
    drop(place);

    let wait = Wait::of(call.headers());
    let public_url = &services.options.public_url;
    let waited = if wait.is_asked() { wait.for_end(services, task).await? } else { None };
    let created = || ImageTaskView::new(task, TaskStatus::Created, None, None, public_url);
    Ok((waited.map_or_else(created, |record| ImageTaskView::of_record(&record, public_url)), wait))
}

/// Limits the pending webhook deliveries of an account, so that unreachable receivers do not affect other accounts.
pub(super) fn check_callbacks(services: &Services, owner: Option<UserId>) -> Result<(), Problem> {
    let most = services.options.callbacks_per_account;
    if services.models.read().deliveries.pending_of(owner) < most {
        return Ok(());
    }
    let detail =
        format!("{most} of your callbacks wait for their receivers; submit without a webhook, or when some are told");
    Err(Problem::new(Code::TooManyCallbacks, detail).retry_after(60))
}

/// Returns a task of the given family. Tasks of other users and families are a 404; administrators see all users'
/// (contract 6).
async fn show(call: Reading, family: ImageFamily) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.segment("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    if !is_of(&task, family) || (task.submission.owner != Some(user.id) && !user.is_admin) {
        return Err(not_found());
    }

    let wait = Wait::of(call.headers());
    let task = wait.for_end(call.services(), id).await?.ok_or_else(not_found)?;
    let data = ImageTaskView::of_record(&task, &call.services().options.public_url);
    wait.told_in(Answer::ok(&Data { data })?)
}

fn is_of(task: &TaskRecord, family: ImageFamily) -> bool {
    matches!(&task.submission.work, Work::Image(work) if work.job.family() == family)
}
