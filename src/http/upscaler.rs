//! The image upscaler: submissions, checked whole before anything is written, and their status.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web;
use serde::Serialize;
use tokio::time::timeout;

use super::answer::Answer;
use super::body::Body;
use super::error::{Code, Problem};
use super::fields::{self, Fields};
use super::gate::Call;
use crate::domain::ids::TaskId;
use crate::domain::image::{Dial, OptimizedFor, Picture, Prompt, ScaleFactor, Upscale, UpscaleEngine};
use crate::domain::policy::Action;
use crate::domain::task::{Submission, TaskCommand, TaskStatus, Work};
use crate::domain::value::{CallbackUrl, Invalid};
use crate::media::input::{Inspected, Source, inspect, measure};
use crate::media::store::{Area, Store};
use crate::projections::task::ImageTaskView;
use crate::space::Space;

/// How long a submission waits for its turn to have its picture decoded.
const DECODER_WITHIN: Duration = Duration::from_secs(30);

/// What every image endpoint but style transfer answers with.
#[derive(Serialize)]
struct Data {
    data: ImageTaskView,
}

/// A submission that passed every check; nothing of it is written yet.
struct Checked {
    picture: Vec<u8>,
    inspected: Inspected,
    parameters: Upscale,
    webhook: Option<CallbackUrl>,
}

/// `POST …/image-upscaler`: submits a job.
pub async fn submit(mut call: Call<{ Action::SubmitImageTask as u8 }>) -> Result<Answer, Problem> {
    let user = call.user()?;
    let owner = user.id;
    let shared = call.shared().clone();
    let services = &shared.services;
    if services.options.require_approval && !user.is_approved && !user.is_admin {
        return Err(Problem::new(Code::ApprovalRequired, "an administrator must approve this account first"));
    }
    let task = TaskId(call.services().surroundings.random_uuid());
    let limit = services.options.submissions_per_caller;
    // Held until the task is in the read models, which count it from then on.
    let place = shared.submissions.reserve(owner, task, limit, &services.models.read().tasks)?;

    let body = call.body().await?;
    let turn = timeout(DECODER_WITHIN, Arc::clone(&shared.decoders).acquire_owned()).await;
    let turn = turn.map_err(|_| Problem::overloaded())?.map_err(Problem::internal)?;
    let (store, space) = (services.store.clone(), services.space.clone());
    // The thread works on when the caller goes away; turn and place stay taken for just as long.
    let work = move || {
        let kept = check(body)?.keep(&store, &space);
        drop(turn);
        kept.map(|kept| (kept, place))
    };
    let ((input, parameters, webhook), _place) = web::block(work).await.map_err(Problem::internal)??;

    let submission = Submission { task, owner, work: Work::ImageUpscale { input, parameters }, webhook };
    services.dispatch.task(task, TaskCommand::Submit(submission), call.why()).await?;
    let public_url = &services.options.public_url;
    Answer::ok(&Data { data: ImageTaskView::new(task, TaskStatus::Created, &[], None, public_url) })
}

/// `GET …/image-upscaler/{task_id}`: the status of a job. Jobs of others are not found, except by administrators.
pub async fn show(call: Call<{ Action::ReadImageTask as u8 }>) -> Result<Answer, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.segment("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    let Work::ImageUpscale { .. } = task.submission.work;
    if task.submission.owner != user.id && !user.is_admin {
        return Err(not_found());
    }
    Answer::ok(&Data { data: ImageTaskView::of_record(&task, &call.services().options.public_url) })
}

/// Checks everything, the picture last: it is decoded only when its result would be small enough. Blocks.
fn check(body: Body) -> Result<Checked, Problem> {
    let body = body.parse()?;
    fields::read(&body, |fields| {
        let parameters = read_parameters(fields);
        let webhook = fields.text("webhook_url", read_webhook).flatten();
        let picture = fields.required_text("image", Source::parse).map(Source::into_bytes)?;
        let measured = noted(fields, measure(&picture))?;
        check_output(fields, &parameters, &measured)?;
        let inspected = noted(fields, inspect(&picture))?;
        Some(Checked { picture, inspected, parameters, webhook })
    })
}

/// What is known of the picture; a refusal becomes a fault of its field.
fn noted(fields: &mut Fields<'_, '_>, inspected: Result<Inspected, Invalid>) -> Option<Inspected> {
    inspected.map_err(|reason| fields.fault("image", reason)).ok()
}

/// An empty URL means none, as everywhere (contract 4).
fn read_webhook(text: &str) -> Result<Option<CallbackUrl>, Invalid> {
    if text.is_empty() { Ok(None) } else { CallbackUrl::parse(text).map(Some) }
}

/// A field that is wrong is noted and stands here with its default, so that the other checks go on.
fn read_parameters(fields: &mut Fields<'_, '_>) -> Upscale {
    Upscale {
        scale_factor: fields.text("scale_factor", ScaleFactor::parse).unwrap_or(ScaleFactor::X2),
        engine: fields.text("engine", UpscaleEngine::parse).unwrap_or(UpscaleEngine::Automatic),
        optimized_for: fields.text("optimized_for", OptimizedFor::parse).unwrap_or(OptimizedFor::Standard),
        creativity: fields.integer("creativity", Dial::new).unwrap_or_default(),
        fractality: fields.integer("fractality", Dial::new).unwrap_or_default(),
        hdr: fields.integer("hdr", Dial::new).unwrap_or_default(),
        resemblance: fields.integer("resemblance", Dial::new).unwrap_or_default(),
        prompt: fields.text("prompt", Prompt::parse),
    }
}

/// A picture too large for any factor is the picture's fault, else it is the factor's.
fn check_output(fields: &mut Fields<'_, '_>, parameters: &Upscale, measured: &Inspected) -> Option<()> {
    let Inspected { width, height, .. } = *measured;
    let reason = match parameters.check_output(width, height) {
        Ok(()) => return Some(()),
        Err(reason) => reason,
    };
    let least = Upscale { scale_factor: ScaleFactor::X2, ..parameters.clone() };
    let fits = least.check_output(width, height).is_ok();
    fields.fault(if fits { "scale_factor" } else { "image" }, format!("makes the result too large: {reason}"));
    None
}

impl Checked {
    /// Writes the picture to the store. Blocks.
    fn keep(self, store: &Store, space: &Space) -> Result<(Picture, Upscale, Option<CallbackUrl>), Problem> {
        let Inspected { format, width, height } = self.inspected;
        let input = store.put(Area::Input, &self.picture, format, width, height);
        let input = input.map_err(|error| Problem::of_disk(&error, space))?;
        Ok((input, self.parameters, self.webhook))
    }
}
