//! Tasks of all kinds: status with history, list, event stream, cancellation (`docs/tasks.md`).

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::waiting::Wait;
use crate::domain::ids::TaskId;
use crate::domain::policy::Action;
use crate::domain::task::TaskCommand;

mod list;
mod request;
mod stream;
mod view;

pub use list::{LIMIT_DEFAULT, LIMIT_MAX, cursor, list, read_cursor};
pub use request::requested;
pub use stream::stream;
use view::Viewer;
pub use view::advanced;

/// `GET /tasks/{task_id}`
pub async fn show(call: Call<{ Action::ReadTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_task(&call).await?;
    let wait = Wait::of(call.headers());
    wait.for_end(call.services(), id).await?;
    wait.told_in(shown(&call, id).await?)
}

/// `POST /tasks/{task_id}/cancel`: no effect on a task that has ended.
pub async fn cancel(call: Call<{ Action::CancelTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_task(&call).await?;
    call.services().dispatch.task(id, TaskCommand::Cancel, call.why()).await?;
    shown(&call, id).await
}

/// Returns the task of the path, if the caller may see it. Tasks of other users are a 404, except for administrators;
/// an anonymous task is visible to any user who knows its id.
pub(super) async fn own_task<const ACTION: u8>(call: &Call<ACTION>) -> Result<TaskId, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.segment("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    let is_visible = task.submission.owner.is_none_or(|owner| owner == user.id) || user.is_admin;
    if is_visible { Ok(id) } else { Err(not_found()) }
}

async fn shown<const ACTION: u8>(call: &Call<ACTION>, id: TaskId) -> Result<Answer, Problem> {
    let services = call.services();
    let now = services.models.task_now(id).await?.ok_or_else(|| Problem::not_found("task"))?;
    Answer::ok(&Viewer::of(services, call.identity().is_admin()).view(&now))
}
