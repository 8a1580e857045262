//! Queries of either source, with the same JSON results.

use serde::Serialize;
use serde_json::Value;
use url::form_urlencoded;

use super::place::{Place, Service};
use super::too_many;
use crate::audit::filter::Streams;
use crate::audit::moment::Moment;
use crate::audit::page::LIMIT_MAX;
use crate::audit::thing::Thing;
use crate::audit::{Audit, Position, Unanswered};
use crate::cli::Failure;

/// Result of a query.
type Result<T> = std::result::Result<T, Failure>;

/// Query string of the parameters that have a value.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish()
}

/// Calls `each` for every event of a resource with its changes.
pub(super) fn history(place: &Place, thing: &Thing, mut each: impl FnMut(Value) -> anyhow::Result<()>) -> Result<()> {
    let mut after = Position(0);
    loop {
        let page = match place {
            // A data directory is read completely for every query, so one query must do.
            Place::Stopped { audit, .. } => json(&audit.history(thing, after, usize::MAX).map_err(refused)?)?,
            Place::Running(service) => {
                let query = query(&[("after", &after.to_string()), ("limit", &LIMIT_MAX.to_string())]);
                about(service, thing, &format!("/admin/history/{}?{query}", path(thing)))?
            }
        };
        let next = page["next"].as_u64();
        let Value::Object(mut page) = page else { return Ok(()) };
        if let Some(Value::Array(entries)) = page.remove("entries") {
            entries.into_iter().try_for_each(&mut each)?;
        }
        match next {
            Some(next) => after = Position(next),
            None => return Ok(()),
        }
    }
}

/// Returns the state of a resource at a point in time.
pub(super) fn as_of(place: &Place, thing: &Thing, moment: Moment, text: &str) -> Result<Value> {
    match place {
        Place::Stopped { audit, .. } => {
            let position = at(audit, moment)?;
            json(&audit.as_of(thing, position).map_err(refused)?)
        }
        Place::Running(service) => {
            let name = if matches!(moment, Moment::Position(_)) { "position" } else { "time" };
            about(service, thing, &format!("/admin/as-of/{}?{}", path(thing), query(&[(name, text)])))
        }
    }
}

/// Arguments of a diff.
pub(super) struct DiffAsked {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub(super) streams: Streams,
    /// The arguments as given: `from`, `to` and `stream`.
    pub(super) texts: [String; 3],
}

/// Calls `each` for every changed resource; returns both positions and the number of resources.
pub(super) fn diff(
    place: &Place,
    asked: &DiffAsked,
    mut each: impl FnMut(Value) -> anyhow::Result<()>,
) -> Result<(u64, u64, usize)> {
    let (mut after, mut count) = (None::<String>, 0);
    loop {
        let page = match place {
            Place::Stopped { audit, .. } => {
                let (from, to) = (at(audit, asked.from)?, at(audit, asked.to)?);
                if from > to {
                    let told = format!("FROM is position {from}, and must not be after TO, which is position {to}");
                    return Err(Failure::Usage(told));
                }
                json(&audit.diff((from, to), &asked.streams, after.as_deref(), LIMIT).map_err(refused)?)?
            }
            Place::Running(service) => {
                let [from, to, stream] = &asked.texts;
                let (after, limit) = (after.as_deref().unwrap_or_default(), LIMIT.to_string());
                let pairs =
                    [("from", from.as_str()), ("to", to), ("stream", stream), ("after", after), ("limit", &limit)];
                service.get(&format!("/admin/diff?{}", query(&pairs)))?
            }
        };
        let (from, to) = (page["from"].as_u64().unwrap_or(0), page["to"].as_u64().unwrap_or(0));
        let next = page["next"].as_str().map(str::to_owned);
        let Value::Object(mut page) = page else { return Ok((from, to, count)) };
        if let Some(Value::Array(things)) = page.remove("things") {
            count += things.len();
            things.into_iter().try_for_each(&mut each)?;
        }
        if next.is_none() {
            return Ok((from, to, count));
        }
        after = next;
    }
}

/// Resources per page.
const LIMIT: usize = 1000;

fn path(thing: &Thing) -> String {
    // Ids contain only characters that are valid in paths.
    format!("{}/{}", thing.kind().as_str(), thing.id())
}

/// Queries a resource of a service.
fn about(service: &Service, thing: &Thing, path: &str) -> Result<Value> {
    let reply = crate::app::block_on(service.api().get(path)).map_err(|failure| service.silent(&failure))?;
    match reply.status {
        200 => Ok(reply.json()),
        404 => Err(refused(Unanswered::Unknown(thing.clone()))),
        _ => Err(service.refused(&reply, path)),
    }
}

fn at(audit: &Audit, moment: Moment) -> Result<Position> {
    audit.position_at(moment).map_err(refused)
}

/// Invalid queries are wrong usage; queries that cannot be answered are failures.
pub(super) fn refused(why: Unanswered) -> Failure {
    match why {
        Unanswered::Beyond { .. } => Failure::Usage(why.to_string()),
        Unanswered::TooMany { events, .. } => too_many(events),
        Unanswered::Unknown(_) | Unanswered::Source(_) => anyhow::Error::from(why).into(),
    }
}

fn json(answer: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(answer).map_err(anyhow::Error::from)?)
}
