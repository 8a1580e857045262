//! Audit queries for administrators: events, histories, past states.

use actix_web::web;
use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::fields::Fault;
use super::gate::{Admitted, Call};
use super::query::Query;
use crate::audit::filter::{ActorFilter, Filter, Streams, parse_type};
use crate::audit::moment::{Edge, Moment};
use crate::audit::page::{LIMIT_DEFAULT, LIMIT_MAX};
use crate::audit::thing::Thing;
use crate::audit::{Audit, Position, Unanswered};
use crate::domain::ids::RequestId;
use crate::domain::policy::Action;
use crate::domain::value::Invalid;

/// `GET /admin/events`: the events that match a filter, oldest first.
pub async fn events(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let filter = read_filter(&mut query);
    let after = read_after(&mut query);
    let limit = read_limit(&mut query);
    query.finish()?;
    answered(&call, move |audit| audit.page(&filter, after.unwrap_or_default(), limit).map_err(refusal)).await
}

/// `GET /admin/history/{kind}/{id}`: the events of one subject, each with its changes.
pub async fn history(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let thing = thing_of(&call)?;
    let mut query = call.query()?;
    let after = read_after(&mut query);
    let limit = read_limit(&mut query);
    query.finish()?;
    answered(&call, move |audit| audit.history(&thing, after.unwrap_or_default(), limit).map_err(refusal)).await
}

/// `GET /admin/as-of/{kind}/{id}`: the state of one subject at a point in time.
pub async fn as_of(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let thing = thing_of(&call)?;
    let mut query = call.query()?;
    let position = query.given("position", read_position);
    let time = query.checked("time", read_time);
    let given = |query: &Query, name| query.one(name).is_some_and(|text| !text.trim().is_empty());
    if given(&query, "position") == given(&query, "time") {
        query.fault("position", "must be given, or time, and not both");
    }
    query.finish()?;

    let (moment, name) = match (position, time) {
        (Some(position), _) => (Moment::Position(position), "position"),
        (None, Some(time)) => (time, "time"),
        (None, None) => return Err(Problem::internal("no moment was read")),
    };

    answered(&call, move |audit| {
        let position = at(audit, moment, name)?;
        audit.as_of(&thing, position).map_err(refusal)
    })
    .await
}

/// `GET /admin/diff`: the changes between two points in time.
pub async fn diff(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let moment = |text: &str| Moment::parse(text.trim(), Edge::End);
    let from = query.required("from", moment);
    let to = query.required("to", moment);
    let streams = query.checked("stream", Streams::parse).unwrap_or_default();
    let after = query.checked("after", |text| Thing::parse(text).map(|thing| thing.to_string()));
    let limit = read_limit(&mut query);
    query.finish()?;

    let (Some(from), Some(to)) = (from, to) else { return Err(Problem::internal("no moments were read")) };

    answered(&call, move |audit| {
        let from = at(audit, from, "from")?;
        let to = at(audit, to, "to")?;
        if from > to {
            return Err(fault(
                "from",
                &format!("is position {from}, and must not be after /to, which is position {to}"),
            ));
        }
        audit.diff((from, to), &streams, after.as_deref(), limit).map_err(refusal)
    })
    .await
}

/// Runs a query on a blocking thread.
async fn answered<T: Serialize + Send + 'static>(
    call: &Admitted,
    ask: impl FnOnce(&Audit) -> Result<T, Problem> + Send + 'static,
) -> Result<Answer, Problem> {
    let audit = call.services().audit.clone();
    Answer::ok(&web::block(move || ask(&audit)).await.map_err(Problem::internal)??)
}

/// Returns the position at a point in time, given by the parameter `name`. Blocks.
fn at(audit: &Audit, moment: Moment, name: &str) -> Result<Position, Problem> {
    audit.position_at(moment).map_err(|why| match why {
        Unanswered::Beyond { head, .. } => fault(name, &format!("is beyond the last event, which has position {head}")),
        other => refusal(other),
    })
}

fn fault(name: &str, reason: &str) -> Problem {
    Problem::invalid(vec![Fault { pointer: format!("/{name}"), reason: reason.to_owned() }])
}

/// Returns the error for a failed query.
pub fn refusal(why: Unanswered) -> Problem {
    match why {
        Unanswered::Source(failure) => Problem::internal(failure),
        Unanswered::Unknown(_) => Problem::not_found("thing"),
        Unanswered::Beyond { .. } | Unanswered::TooMany { .. } => fault("to", &format!("asks for too much: {why}")),
    }
}

/// Returns the subject of the path; 404 if it is malformed.
fn thing_of(call: &Admitted) -> Result<Thing, Problem> {
    let named = format!("{}/{}", call.segment("kind"), call.segment("id"));
    Thing::parse(&named).map_err(|_| Problem::not_found("thing"))
}

/// Reads the filter parameters; errors are added to `query`.
pub fn read_filter(query: &mut Query) -> Filter {
    Filter {
        streams: query.checked("stream", Streams::parse).unwrap_or_default(),
        types: query.many_checked("type", parse_type),
        actor: query.checked("actor", ActorFilter::parse),
        request: query.checked("request", RequestId::parse),
        from: query.checked("from", |text| Moment::parse(text, Edge::Start)),
        to: query.checked("to", |text| Moment::parse(text, Edge::End)),
    }
}

/// Reads the position after which to begin.
pub fn read_after(query: &mut Query) -> Option<Position> {
    query.given("after", read_position)
}

/// Maximum position: the largest integer that JSON numbers represent exactly.
pub const POSITION_MAX: u64 = (1 << 53) - 1;

/// Parses a position.
pub fn read_position(text: &str) -> Result<Position, Invalid> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let position = text.parse().ok().filter(|position| digits && *position <= POSITION_MAX).map(Position);
    position.ok_or_else(|| Invalid::new(format!("must be a position: a whole number from 0 to {POSITION_MAX}")))
}

fn read_time(text: &str) -> Result<Moment, Invalid> {
    match Moment::parse(text, Edge::End)? {
        time @ Moment::Time(_) => Ok(time),
        Moment::Position(_) => Err(Invalid::new("must be a time such as 2026-01-31T12:00:00Z, or a date")),
    }
}

fn read_limit(query: &mut Query) -> usize {
    usize::try_from(query.limit(LIMIT_DEFAULT).min(LIMIT_MAX)).unwrap_or(usize::MAX)
}
