//! `GET /tasks`: the tasks of a caller, newest first.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::view::{TaskRenderer, TaskView};
use crate::audit::Position;
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::task::{TaskKind, TaskStatus};
use crate::domain::user::UserProfile;
use crate::domain::value::{InvalidValue, Timestamp};
use crate::http::pipeline::Call;
use crate::http::request::query::{Query, restore_plus_signs};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::projections::ReadModels;
use crate::projections::task::index::{TaskFilter, TaskListPart};

/// Default page size.
pub const LIMIT_DEFAULT: u64 = 20;
/// Maximum page size; larger values are clamped.
pub const LIMIT_MAX: u64 = 100;
/// Query parameter that adds the request and the prompt report to each task.
pub const DETAILS: &str = "details";
/// Maximum number of tasks scanned before the lock is released to writers.
const SCAN_CHUNK: usize = 65_536;

/// Page of tasks.
#[derive(Serialize)]
struct TaskPage {
    tasks: Vec<TaskView>,
    limit: u64,
    /// Value of `cursor` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// `GET /tasks`: the caller's tasks; all tasks for administrators (contract 3).
pub async fn list(call: Call<{ Action::ReadTask as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let is_detailed = query.flag(DETAILS).unwrap_or(false);
    let requested = read_filter(&mut query);
    let limit = query.limit(LIMIT_DEFAULT).min(LIMIT_MAX);
    let before = query.optional("cursor", decode_cursor);
    query.finish()?;

    let filter = restrict_to_caller(requested, call.user()?)?;
    let services = call.services();
    let TaskListPart { tasks, continue_before } =
        search(&services.models, &filter, before, usize::try_from(limit).unwrap_or(1));

    let tasks = services.models.tasks_with_history(tasks).await?;
    let renderer = TaskRenderer::new(services, call.identity().is_admin());
    let render = |task| if is_detailed { renderer.view(task) } else { renderer.list_item(task) };
    let tasks = tasks.iter().map(render).collect();
    ApiResponse::ok(&TaskPage { tasks, limit, next_cursor: continue_before.map(encode_cursor) })
}

/// Collects a page, one part of the index at a time, so that writers need not wait for the whole scan.
fn search(models: &ReadModels, filter: &TaskFilter, before: Option<Position>, limit: usize) -> TaskListPart {
    let mut part = models.read().tasks.index.newest(filter, before, limit, SCAN_CHUNK);
    while part.tasks.len() < limit
        && let Some(before) = part.continue_before
    {
        let next_part = models.read().tasks.index.newest(filter, Some(before), limit - part.tasks.len(), SCAN_CHUNK);
        part.tasks.extend(next_part.tasks);
        part.continue_before = next_part.continue_before;
    }
    part
}

/// Reads the filter from the query.
fn read_filter(query: &mut Query) -> TaskFilter {
    let owner = query.optional_non_empty("owner", UserId::parse);
    let kinds = query.parsed_values("kind", TaskKind::parse);
    let states = query.parsed_values("state", TaskStatus::parse);
    let parse_time = |text: &str| Timestamp::parse(&restore_plus_signs(text));
    let from = query.optional_non_empty("created_from", parse_time);
    let to = query.optional_non_empty("created_to", parse_time);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        query.add_error("created_from", "must not be after /created_to");
    }
    TaskFilter { owner, kinds, states, from, to }
}

/// Restricts the filter to the caller's tasks, except for administrators.
fn restrict_to_caller(requested: TaskFilter, caller: &UserProfile) -> Result<TaskFilter, Problem> {
    if caller.is_admin {
        return Ok(requested);
    }
    if requested.owner.is_some_and(|owner| owner != caller.id) {
        return Err(Problem::new(Code::Forbidden, "only administrators can list the tasks of other users"));
    }
    Ok(TaskFilter { owner: Some(caller.id), ..requested })
}

/// Encodes a position as an opaque cursor.
pub fn encode_cursor(position: Position) -> String {
    URL_SAFE_NO_PAD.encode(position.0.to_be_bytes())
}

/// Decodes a cursor.
///
/// # Errors
/// If the text is not a cursor.
pub fn decode_cursor(text: &str) -> Result<Position, InvalidValue> {
    let bytes: Option<[u8; 8]> = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes
        .map(|bytes| Position(u64::from_be_bytes(bytes)))
        .ok_or_else(|| InvalidValue::new("must be the next_cursor of an earlier page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_other_text_is_rejected() {
        for position in [0, 1, 1042, u64::MAX].map(Position) {
            assert_eq!(decode_cursor(&encode_cursor(position)), Ok(position));
        }
        for bad in ["", "1042", "AAAAAAAAAAB", "AAAAAAAAAAAA", "AAAAAAAAA*A", "AAAAAAAAAAA="] {
            assert!(decode_cursor(bad).is_err(), "{bad}");
        }
    }
}
