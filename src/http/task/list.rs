//! `GET /tasks`: the tasks of a caller, newest first.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::view::{TaskView, Viewer};
use crate::audit::Position;
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::task::{TaskKind, TaskStatus};
use crate::domain::user::UserProfile;
use crate::domain::value::{Invalid, Timestamp};
use crate::http::answer::Answer;
use crate::http::error::{Code, Problem};
use crate::http::gate::Call;
use crate::http::query::{Query, with_plus};
use crate::projections::ReadModels;
use crate::projections::task::index::{Filter, Found};

/// Default page size.
pub const LIMIT_DEFAULT: u64 = 20;
/// Maximum page size; larger values are clamped.
pub const LIMIT_MAX: u64 = 100;
/// Maximum number of tasks scanned before the lock is released to writers.
const LOOKED: usize = 65_536;

/// Page of tasks.
#[derive(Serialize)]
struct TaskPage {
    tasks: Vec<TaskView>,
    limit: u64,
    /// Value of `cursor` for the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// `GET /tasks`: the caller's tasks; all tasks for administrators (contract 3).
pub async fn list(call: Call<{ Action::ReadTask as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let asked = read_filter(&mut query);
    let limit = query.limit(LIMIT_DEFAULT).min(LIMIT_MAX);
    let before = query.given("cursor", read_cursor);
    query.finish()?;

    let filter = permitted(asked, call.user()?)?;
    let services = call.services();
    let Found { tasks, rest } = search(&services.models, &filter, before, usize::try_from(limit).unwrap_or(1));

    let tasks = services.models.tasks_now(tasks).await?;
    let viewer = Viewer::of(services, call.identity().is_admin());
    let tasks = tasks.iter().map(|task| viewer.listed(task)).collect();
    Answer::ok(&TaskPage { tasks, limit, next_cursor: rest.map(cursor) })
}

/// Collects a page, one part of the index at a time.
fn search(models: &ReadModels, filter: &Filter, before: Option<Position>, limit: usize) -> Found {
    let mut found = models.read().tasks.index.newest(filter, before, limit, LOOKED);
    while found.tasks.len() < limit
        && let Some(before) = found.rest
    {
        let more = models.read().tasks.index.newest(filter, Some(before), limit - found.tasks.len(), LOOKED);
        found.tasks.extend(more.tasks);
        found.rest = more.rest;
    }
    found
}

/// Reads the filter from the query.
fn read_filter(query: &mut Query) -> Filter {
    let owner = query.checked("owner", UserId::parse);
    let kinds = query.many_checked("kind", TaskKind::parse);
    let states = query.many_checked("state", TaskStatus::parse);
    let time = |text: &str| Timestamp::parse(&with_plus(text));
    let from = query.checked("created_from", time);
    let to = query.checked("created_to", time);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        query.fault("created_from", "must not be after /created_to");
    }
    Filter { owner, kinds, states, from, to }
}

/// Restricts the filter to the caller's tasks, except for administrators.
fn permitted(asked: Filter, caller: &UserProfile) -> Result<Filter, Problem> {
    if caller.is_admin {
        return Ok(asked);
    }
    if asked.owner.is_some_and(|owner| owner != caller.id) {
        return Err(Problem::new(Code::Forbidden, "only administrators see the tasks of somebody else"));
    }
    Ok(Filter { owner: Some(caller.id), ..asked })
}

/// Encodes a position as an opaque cursor.
pub fn cursor(place: Position) -> String {
    URL_SAFE_NO_PAD.encode(place.0.to_be_bytes())
}

/// Decodes a cursor.
///
/// # Errors
/// If the text is not a cursor.
pub fn read_cursor(text: &str) -> Result<Position, Invalid> {
    let bytes: Option<[u8; 8]> = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes
        .map(|bytes| Position(u64::from_be_bytes(bytes)))
        .ok_or_else(|| Invalid::new("must be the next_cursor of a page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_nothing_else_is_one() {
        for place in [0, 1, 1042, u64::MAX].map(Position) {
            assert_eq!(read_cursor(&cursor(place)), Ok(place));
        }
        for bad in ["", "1042", "AAAAAAAAAAB", "AAAAAAAAAAAA", "AAAAAAAAA*A", "AAAAAAAAAAA="] {
            assert!(read_cursor(bad).is_err(), "{bad}");
        }
    }
}
