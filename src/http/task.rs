//! Tasks of every kind: how one stands and came to it, and the end of one that nobody wants any more.

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use super::waiting::Wait;
use crate::domain::ids::TaskId;
use crate::domain::policy::Action;
use crate::domain::task::{TaskCommand, TaskRecord, TaskStatus, Work};
use crate::domain::value::Timestamp;
use crate::projections::task::{FailureView, ImageTaskView};

/// A task of any kind as it is shown to its owner.
#[derive(Serialize)]
struct TaskView {
    task_id: String,
    kind: &'static str,
    state: &'static str,
    /// From 0 to 1.
    progress: u8,
    created_at: String,
    updated_at: String,
    /// Every change of state, the oldest first.
    history: Vec<Change>,
    /// URLs of the results.
    generated: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailureView>,
}

#[derive(Serialize)]
struct Change {
    state: &'static str,
    at: String,
}

/// `GET /tasks/{task_id}`
pub async fn show(call: Call<{ Action::ReadTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_task(&call).await?;
    let wait = Wait::of(call.headers());
    wait.for_end(call.services(), id).await?;
    wait.told_in(shown(&call, id).await?)
}

/// `POST /tasks/{task_id}/cancel`: a task that has ended stays as it is.
pub async fn cancel(call: Call<{ Action::CancelTask as u8 }>) -> Result<Answer, Problem> {
    let id = own_task(&call).await?;
    call.services().dispatch.task(id, TaskCommand::Cancel, call.why()).await?;
    shown(&call, id).await
}

/// The task that the path names, if the caller may see it. Tasks of others are not found, except by administrators.
pub(super) async fn own_task<const ACTION: u8>(call: &Call<ACTION>) -> Result<TaskId, Problem> {
    let not_found = || Problem::not_found("task");
    let id = TaskId::parse(&call.segment("task_id")).map_err(|_| not_found())?;
    let task = call.services().models.task(id).await?.ok_or_else(not_found)?;
    let user = call.user()?;
    if task.submission.owner != user.id && !user.is_admin {
        return Err(not_found());
    }
    Ok(id)
}

async fn shown<const ACTION: u8>(call: &Call<ACTION>, id: TaskId) -> Result<Answer, Problem> {
    let services = call.services();
    let (record, states) = services.models.task_with_states(id).await?.ok_or_else(|| Problem::not_found("task"))?;
    Answer::ok(&view(&record, &states, &services.options.public_url))
}

fn view(record: &TaskRecord, states: &[(TaskStatus, Timestamp)], public_url: &str) -> TaskView {
    let Work::Image(work) = &record.submission.work;
    let ImageTaskView { generated, status, task_id, error } = ImageTaskView::of_record(record, public_url);
    TaskView {
        task_id,
        kind: work.job.kind(),
        state: status,
        progress: u8::from(record.status == TaskStatus::Completed),
        created_at: record.created_at.to_string(),
        updated_at: record.updated_at.to_string(),
        history: states.iter().map(|(state, at)| Change { state: state.as_str(), at: at.to_string() }).collect(),
        generated,
        error,
    }
}
