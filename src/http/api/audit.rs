//! Audit queries for administrators: events, histories, past states.

use actix_web::web;
use serde::Serialize;

use crate::audit::filter::{ActorFilter, AuditFilter, StreamFilter, parse_event_type};
use crate::audit::page::{LIMIT_DEFAULT, LIMIT_MAX};
use crate::audit::point_in_time::{DayEdge, PointInTime};
use crate::audit::subject::AuditSubject;
use crate::audit::{Audit, AuditError, Position};
use crate::domain::ids::RequestId;
use crate::domain::policy::Action;
use crate::domain::value::InvalidValue;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::fields::FieldError;
use crate::http::request::query::Query;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;

/// `GET /admin/events`: the events that match a filter, oldest first.
pub async fn events(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let filter = read_filter(&mut query);
    let after = read_after(&mut query);
    let limit = read_limit(&mut query);
    query.finish()?;
    run_query(&call, move |audit| audit.page(&filter, after.unwrap_or_default(), limit).map_err(query_error)).await
}

/// `GET /admin/history/{kind}/{id}`: the events of one subject, each with its changes.
pub async fn history(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let subject = subject_in_path(&call)?;
    let mut query = call.query()?;
    let after = read_after(&mut query);
    let limit = read_limit(&mut query);
    query.finish()?;
    run_query(&call, move |audit| audit.history(&subject, after.unwrap_or_default(), limit).map_err(query_error)).await
}

/// `GET /admin/as-of/{kind}/{id}`: the state of one subject at a point in time.
pub async fn as_of(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let subject = subject_in_path(&call)?;
    let mut query = call.query()?;
    let position = query.optional("position", parse_position);
    let time = query.optional_non_empty("time", parse_time);
    let is_set = |query: &Query, name| query.first(name).is_some_and(|text| !text.trim().is_empty());
    if is_set(&query, "position") == is_set(&query, "time") {
        query.add_error("position", "or time must be given, but not both");
    }
    query.finish()?;

    let (point, name) = match (position, time) {
        (Some(position), _) => (PointInTime::Position(position), "position"),
        (None, Some(time)) => (time, "time"),
        (None, None) => return Err(Problem::internal("no point in time was parsed")),
    };

    run_query(&call, move |audit| {
        let position = position_of(audit, point, name)?;
        audit.as_of(&subject, position).map_err(query_error)
    })
    .await
}

/// `GET /admin/diff`: the changes between two points in time.
pub async fn diff(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let parse_point = |text: &str| PointInTime::parse(text.trim(), DayEdge::End);
    let from = query.required("from", parse_point);
    let to = query.required("to", parse_point);
    let streams = query.optional_non_empty("stream", StreamFilter::parse).unwrap_or_default();
    let after = query.optional_non_empty("after", |text| AuditSubject::parse(text).map(|subject| subject.to_string()));
    let limit = read_limit(&mut query);
    query.finish()?;

    let (Some(from), Some(to)) = (from, to) else { return Err(Problem::internal("no points in time were parsed")) };

    run_query(&call, move |audit| {
        let from = position_of(audit, from, "from")?;
        let to = position_of(audit, to, "to")?;
        if from > to {
            return Err(field_error("from", &format!("is position {from}, but must not be after /to (position {to})")));
        }
        audit.diff((from, to), &streams, after.as_deref(), limit).map_err(query_error)
    })
    .await
}

/// Runs a query on a blocking thread.
async fn run_query<T: Serialize + Send + 'static>(
    call: &RequestContext,
    query: impl FnOnce(&Audit) -> Result<T, Problem> + Send + 'static,
) -> Result<ApiResponse, Problem> {
    let audit = call.services().operations.audit.clone();
    ApiResponse::ok(&web::block(move || query(&audit)).await.map_err(Problem::internal)??)
}

/// Returns the position at a point in time, given by the parameter `name`. Blocks.
fn position_of(audit: &Audit, point: PointInTime, name: &str) -> Result<Position, Problem> {
    audit.position_at(point).map_err(|error| match error {
        AuditError::BeyondEnd { head, .. } => field_error(name, &format!("is after the last event (position {head})")),
        other => query_error(other),
    })
}

fn field_error(name: &str, reason: &str) -> Problem {
    Problem::invalid(vec![FieldError::new(format!("/{name}"), reason)])
}

/// Returns the error for a failed query.
pub fn query_error(error: AuditError) -> Problem {
    match error {
        AuditError::Source(failure) => Problem::internal(failure),
        AuditError::UnknownSubject(_) => Problem::not_found("resource"),
        AuditError::BeyondEnd { .. } | AuditError::TooMany { .. } => {
            field_error("to", &format!("selects too much: {error}"))
        }
    }
}

/// Returns the subject of the path; 404 if it is malformed.
fn subject_in_path(call: &RequestContext) -> Result<AuditSubject, Problem> {
    let name = format!("{}/{}", call.path_param("kind"), call.path_param("id"));
    AuditSubject::parse(&name).map_err(|_| Problem::not_found("resource"))
}

/// Reads the filter parameters; errors are added to `query`.
pub fn read_filter(query: &mut Query) -> AuditFilter {
    AuditFilter {
        streams: query.optional_non_empty("stream", StreamFilter::parse).unwrap_or_default(),
        types: query.parsed_values("type", parse_event_type),
        actor: query.optional_non_empty("actor", ActorFilter::parse),
        request: query.optional_non_empty("request", RequestId::parse),
        from: query.optional_non_empty("from", |text| PointInTime::parse(text, DayEdge::Start)),
        to: query.optional_non_empty("to", |text| PointInTime::parse(text, DayEdge::End)),
    }
}

/// Reads the position after which to begin.
pub fn read_after(query: &mut Query) -> Option<Position> {
    query.optional("after", parse_position)
}

/// Maximum position: the largest integer that JSON numbers represent exactly.
pub const POSITION_MAX: u64 = (1 << 53) - 1;

/// Parses a position.
pub fn parse_position(text: &str) -> Result<Position, InvalidValue> {
    let is_numeric = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let position = text.parse().ok().filter(|position| is_numeric && *position <= POSITION_MAX).map(Position);
    position.ok_or_else(|| InvalidValue::new(format!("must be a position: an integer from 0 to {POSITION_MAX}")))
}

fn parse_time(text: &str) -> Result<PointInTime, InvalidValue> {
    match PointInTime::parse(text, DayEdge::End)? {
        time @ PointInTime::Time(_) => Ok(time),
        PointInTime::Position(_) => Err(InvalidValue::new("must be a time such as 2026-01-31T12:00:00Z, or a date")),
    }
}

fn read_limit(query: &mut Query) -> usize {
    usize::try_from(query.limit(LIMIT_DEFAULT).min(LIMIT_MAX)).unwrap_or(usize::MAX)
}
