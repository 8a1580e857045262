//! Queries of a data directory or a service, with the same JSON results for both.

use serde::Serialize;
use serde_json::Value;
use url::form_urlencoded;

use super::target::{AuditTarget, ServiceClient};
use super::too_many_events;
use crate::audit::filter::StreamFilter;
use crate::audit::page::LIMIT_MAX;
use crate::audit::point_in_time::PointInTime;
use crate::audit::subject::AuditSubject;
use crate::audit::{Audit, AuditError, Position};
use crate::cli::CliError;

/// Resources per page of a diff.
const DIFF_PAGE_SIZE: usize = 1000;

/// Result of a query.
type AuditQueryResult<T> = std::result::Result<T, CliError>;

/// Returns the query string of the parameters that have a value.
pub(super) fn query_string(pairs: &[(&str, &str)]) -> String {
    let non_empty = pairs.iter().filter(|(_, value)| !value.is_empty());
    form_urlencoded::Serializer::new(String::new()).extend_pairs(non_empty).finish()
}

/// Calls `each` with every event of a resource and its changes, as JSON, oldest first.
pub(super) fn history(
    target: &AuditTarget,
    subject: &AuditSubject,
    mut each: impl FnMut(Value) -> anyhow::Result<()>,
) -> AuditQueryResult<()> {
    let mut after = Position(0);
    loop {
        let page = match target {
            // Every query reads the whole data directory, so a single one returns all events.
            AuditTarget::Stopped { audit, .. } => {
                json(&audit.history(subject, after, usize::MAX).map_err(cli_error_from)?)?
            }
            AuditTarget::Running(service) => {
                let query = query_string(&[("after", &after.to_string()), ("limit", &LIMIT_MAX.to_string())]);
                get_subject(service, subject, &format!("/admin/history/{}?{query}", url_path(subject)))?
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

/// Returns the state of a resource at a point in time; `text` is the point as the user wrote it, which a service
/// parses.
pub(super) fn as_of(
    target: &AuditTarget,
    subject: &AuditSubject,
    point: PointInTime,
    text: &str,
) -> AuditQueryResult<Value> {
    match target {
        AuditTarget::Stopped { audit, .. } => {
            let position = resolve_position(audit, point)?;
            json(&audit.as_of(subject, position).map_err(cli_error_from)?)
        }
        AuditTarget::Running(service) => {
            let name = if matches!(point, PointInTime::Position(_)) { "position" } else { "time" };
            let query = query_string(&[(name, text)]);
            get_subject(service, subject, &format!("/admin/as-of/{}?{query}", url_path(subject)))
        }
    }
}

/// Arguments of a diff.
pub(super) struct DiffQuery {
    pub(super) from: PointInTime,
    pub(super) to: PointInTime,
    pub(super) streams: StreamFilter,
    /// The arguments as given: `from`, `to` and `stream`.
    pub(super) texts: [String; 3],
}

/// Range and size of a diff.
pub(super) struct DiffSummary {
    /// Position after which the range begins.
    pub(super) from: u64,
    /// Last position of the range.
    pub(super) to: u64,
    /// Number of resources with events in the range.
    pub(super) resources: usize,
}

/// Calls `each` with every changed resource, as JSON. Returns the range of the diff.
pub(super) fn diff(
    target: &AuditTarget,
    query: &DiffQuery,
    mut each: impl FnMut(Value) -> anyhow::Result<()>,
) -> AuditQueryResult<DiffSummary> {
    let mut after = None::<String>;
    let mut resources = 0;
    loop {
        let page = match target {
            AuditTarget::Stopped { audit, .. } => {
                let from = resolve_position(audit, query.from)?;
                let to = resolve_position(audit, query.to)?;
                if from > to {
                    let message = format!("FROM is position {from}, but must not be after TO (position {to})");
                    return Err(CliError::Usage(message));
                }
                json(
                    &audit
                        .diff((from, to), &query.streams, after.as_deref(), DIFF_PAGE_SIZE)
                        .map_err(cli_error_from)?,
                )?
            }
            AuditTarget::Running(service) => {
                let [from, to, stream] = &query.texts;
                let after = after.as_deref().unwrap_or_default();
                let limit = DIFF_PAGE_SIZE.to_string();
                let pairs =
                    [("from", from.as_str()), ("to", to), ("stream", stream), ("after", after), ("limit", &limit)];
                service.get(&format!("/admin/diff?{}", query_string(&pairs)))?
            }
        };

        let from = page["from"].as_u64().unwrap_or(0);
        let to = page["to"].as_u64().unwrap_or(0);
        let next = page["next"].as_str().map(str::to_owned);
        let Value::Object(mut page) = page else { return Ok(DiffSummary { from, to, resources }) };
        if let Some(Value::Array(subjects)) = page.remove("things") {
            resources += subjects.len();
            subjects.into_iter().try_for_each(&mut each)?;
        }
        if next.is_none() {
            return Ok(DiffSummary { from, to, resources });
        }
        after = next;
    }
}

fn url_path(subject: &AuditSubject) -> String {
    // Ids contain only characters that are valid in paths.
    format!("{}/{}", subject.kind().as_str(), subject.id())
}

/// Queries a resource of a service.
fn get_subject(service: &ServiceClient, subject: &AuditSubject, path: &str) -> AuditQueryResult<Value> {
    let reply = crate::app::block_on(service.api().get(path)).map_err(|failure| service.unreachable_error(&failure))?;
    match reply.status {
        200 => Ok(reply.json()),
        404 => Err(cli_error_from(AuditError::UnknownSubject(subject.clone()))),
        _ => Err(service.response_error(&reply, path)),
    }
}

fn resolve_position(audit: &Audit, point: PointInTime) -> AuditQueryResult<Position> {
    audit.position_at(point).map_err(cli_error_from)
}

/// Converts an error of a query: invalid queries are wrong usage, all other errors are failures.
pub(super) fn cli_error_from(error: AuditError) -> CliError {
    match error {
        AuditError::BeyondEnd { .. } => CliError::Usage(error.to_string()),
        AuditError::TooMany { events, .. } => too_many_events(events),
        AuditError::UnknownSubject(_) | AuditError::Source(_) => anyhow::Error::from(error).into(),
    }
}

fn json(value: &impl Serialize) -> AuditQueryResult<Value> {
    Ok(serde_json::to_value(value).map_err(anyhow::Error::from)?)
}
