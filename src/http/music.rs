//! The music gateway: a form in, and out what is heard as it is made, a JSON value a line (contract 7, `docs/music.md`).

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};

use super::answer::{Answer, identity};
use super::error::{Code, Problem};
use super::gate::Call;
use super::sse::X_ACCEL_BUFFERING;
use crate::domain::ids::TaskId;
use crate::domain::policy::Action;
use crate::domain::task::{Submission, TaskCommand, Work};

mod feed;
pub mod form;
mod line;

use feed::{Feed, Record};

/// The media type of the answer.
pub const NDJSON: &str = "application/x-ndjson";
/// Names the task of the stream, which can be cancelled and shown while it is sent.
pub const X_TASK_ID: HeaderName = HeaderName::from_static("x-task-id");
/// When a place among the streams may be free again, in seconds.
const PLACE_AFTER: u32 = 5;

/// `POST /proxy/musicvendor/t2m/generate`: the task is recorded before the answer begins, and however the answer ends, so
/// does the task.
pub async fn generate(mut call: Call<{ Action::GenerateMusic as u8 }>) -> Result<Answer, Problem> {
    let user = call.user()?;
    let owner = user.id;
    let shared = call.shared().clone();
    let services = &shared.services;
    if services.options.require_approval && !user.is_approved && !user.is_admin {
        return Err(Problem::new(Code::ApprovalRequired, "an administrator must approve this account first"));
    }
    let body = call.body().await?;
    let work = form::read(call.headers(), body.bytes().clone()).await?;
    drop(body);
    let place =
        Arc::clone(&shared.music_streams).try_acquire_owned().map_err(|_| no_place(services.options.music.streams))?;
    let task = TaskId(services.surroundings.random_uuid());
    let limit = services.options.submissions_per_caller;
    let reservation = shared.submissions.reserve(Some(owner), task, limit, &services.models.read().tasks)?;

    // From here on a caller who goes away leaves a record of it.
    let record = Record::new(services, task, call.why());
    let submission = Submission { task, owner: Some(owner), work: Work::Music(work.clone()), webhook: None };
    services.dispatch.task(task, TaskCommand::Submit(submission), call.why()).await?;
    drop(reservation);
    services.dispatch.task(task, TaskCommand::RecordBegun, call.why()).await?;

    let playing = (services.musician)(task, work);
    let feed = Feed::new(services, record, playing, place);
    let mut response = HttpResponse::build(StatusCode::OK);
    response.content_type(NDJSON).insert_header(identity());
    response.insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((X_ACCEL_BUFFERING, HeaderValue::from_static("no")));
    response.insert_header((X_TASK_ID, task.to_string()));
    Ok(Answer::ready(response.streaming(feed.into_lines())))
}

fn no_place(streams: usize) -> Problem {
    let detail = format!("{streams} pieces of music are being sent, which is all there are places for; try again soon");
    Problem::new(Code::Overloaded, detail).retry_after(PLACE_AFTER)
}
