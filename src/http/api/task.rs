//! Tasks of all kinds: status with history, list, event stream, cancellation (`docs/tasks.md`).

use crate::domain::ids::TaskId;
use crate::domain::policy::Action;
use crate::domain::task::TaskCommand;
use crate::http::pipeline::Call;
use crate::http::request::prefer_wait::PreferWait;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

mod list;
mod request_view;
mod stream;
mod view;

pub use list::{DETAILS, LIMIT_DEFAULT, LIMIT_MAX, decode_cursor, encode_cursor, list};
pub use request_view::request_parameters;
pub use stream::stream;
pub use view::{TaskRenderer, TaskView, combined_progress};

/// `GET /tasks/{task_id}`
pub async fn show(call: Call<{ Action::ReadTask as u8 }>) -> Result<ApiResponse, Problem> {
    let id = visible_task(&call).await?;
    let wait = PreferWait::from_headers(call.headers());
    wait.wait_until_ended(call.services(), id).await?;
    wait.add_preference_applied(task_response(&call, id).await?)
}

/// `POST /tasks/{task_id}/cancel`: no effect on a task that has ended.
pub async fn cancel(call: Call<{ Action::CancelTask as u8 }>) -> Result<ApiResponse, Problem> {
    let id = visible_task(&call).await?;
    cancel_task(&call, id).await?;
    task_response(&call, id).await
}

/// Cancels a task, and its job at the vendor.
pub(in crate::http) async fn cancel_task<const ACTION: u8>(call: &Call<ACTION>, id: TaskId) -> Result<(), Problem> {
    let services = call.services();
    let effect = services.dispatch.task(id, TaskCommand::Cancel, call.command_context()).await?;
    if effect.changed
        && let Some(record) = services.models.task(id).await?
    {
        services.media.vendor_cancellations.push_job_of(id, record.vendor.as_ref());
    }
    Ok(())
}

/// Returns the task of the path, if the caller may see it. Tasks of other users are a 404, except for administrators;
/// an anonymous task is visible to any user who knows its id.
pub(in crate::http) async fn visible_task<const ACTION: u8>(call: &Call<ACTION>) -> Result<TaskId, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.path_param("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    let is_visible = task.submission.owner.is_none_or(|owner| owner == user.id) || user.is_admin;
    if is_visible { Ok(id) } else { Err(not_found()) }
}

async fn task_response<const ACTION: u8>(call: &Call<ACTION>, id: TaskId) -> Result<ApiResponse, Problem> {
    let services = call.services();
    let task_at = services.models.task_with_history(id).await?.ok_or_else(|| Problem::not_found("task"))?;
    ApiResponse::ok(&TaskRenderer::new(services, call.identity().is_admin()).view(&task_at))
}
