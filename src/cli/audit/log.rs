//! `mediary audit log`: lists the events that match a filter.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use clap::{Args, value_parser};
use serde_json::Value;

use super::names::ResourceNames;
use super::print::Printer;
use super::queries::{cli_error_from, query_string};
use super::target::{AuditTarget, AuditTargetArguments, ServiceClient};
use super::text::printable;
use super::{OutputFlags, follow};
use crate::audit::filter::{ActorFilter, AuditFilter, StreamFilter, parse_event_type};
use crate::audit::page::{LIMIT_MAX, SCANNED_MAX};
use crate::audit::point_in_time::{DayEdge, PointInTime};
use crate::audit::{Audit, Position};
use crate::cli::suggestions::SuggestedEventTypes;
use crate::cli::{CliError, SettingFlags};
use crate::domain::ids::RequestId;
use crate::domain::value::InvalidValue;

/// Maximum of `--limit`, because these events are kept in memory.
const NEWEST_MAX: u32 = 100_000;
/// Positions that the first step of a backward search covers.
const FIRST_WINDOW: u64 = 1000;
/// Number of positions in the largest step of a backward search.
const WINDOW_MAX: u64 = SCANNED_MAX;

/// Events whose names are looked up together. A data directory is read once for each batch.
const NAME_BATCH_SIZE: usize = 10_000;

#[derive(Debug, Args)]
pub(in crate::cli) struct LogArguments {
    /// Only events of this resource, or of all resources of a kind (node/)
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,
    /// Only events of this type (repeatable)
    #[arg(long = "type", value_name = "TYPE", value_parser = SuggestedEventTypes, hide_possible_values = true)]
    types: Vec<String>,
    /// Only events caused by this actor: system, user/<uuid>, token/<uuid> or a UUID
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only events caused by the request with this id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Start: log position, time or date (from the start of the day)
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// End: log position, time or date (to the end of the day)
    #[arg(long, value_name = "WHEN")]
    to: Option<String>,
    /// Only the newest events, newest first
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(NEWEST_MAX)), conflicts_with = "follow")]
    limit: Option<u32>,
    /// Keep printing new events until interrupted; requires a running service
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    target: AuditTargetArguments,
}

pub(super) fn run(arguments: LogArguments, outer: SettingFlags) -> Result<(), CliError> {
    let query = arguments.query()?;
    let mut printer = arguments.output.printer();
    match AuditTarget::open(arguments.target, outer)? {
        AuditTarget::Running(service) if arguments.follow => follow::run(&service, &query.to_text(), &mut printer),
        AuditTarget::Stopped { data, .. } if arguments.follow => {
            let message = format!("no service is running on {}: --follow needs one", data.root().display());
            Err(anyhow::Error::msg(message).into())
        }
        target => {
            let mut events = NamedEvents { target: &target, names: ResourceNames::default(), waiting: Vec::new() };
            match arguments.limit {
                Some(limit) => {
                    let newest = read_newest(&target, &query, limit as usize)?;
                    newest.into_iter().try_for_each(|event| events.push(&mut printer, event))?;
                }
                None => for_each_event(&target, &query, |event| events.push(&mut printer, event.clone()))?,
            }
            events.flush(&mut printer)?;
            Ok(printer.finish()?)
        }
    }
}

/// Prints events with the names of their actors and resources, which are looked up for a batch of events together.
struct NamedEvents<'t> {
    target: &'t AuditTarget,
    names: ResourceNames,
    waiting: Vec<Value>,
}

impl NamedEvents<'_> {
    /// Prints an event: at once if no names are shown, otherwise with its batch.
    fn push(&mut self, printer: &mut Printer, event: Value) -> anyhow::Result<()> {
        if !printer.shows_names() {
            return printer.event(&event, &self.names);
        }
        self.waiting.push(event);
        if self.waiting.len() >= NAME_BATCH_SIZE { self.flush(printer) } else { Ok(()) }
    }

    /// Prints the events that wait for their names.
    fn flush(&mut self, printer: &mut Printer) -> anyhow::Result<()> {
        self.names.look_up(self.target, &self.waiting);
        let events = std::mem::take(&mut self.waiting);
        events.iter().try_for_each(|event| printer.event(event, &self.names))
    }
}

/// Filter of events, for a data directory and for a service.
#[derive(Clone)]
pub(super) struct LogQuery {
    filter: AuditFilter,
    /// The filter as parameters of a query to a service.
    texts: Vec<(&'static str, String)>,
}

impl LogQuery {
    pub(super) fn new(filter: AuditFilter, texts: &[(&'static str, &str)]) -> Self {
        Self { filter, texts: texts.iter().map(|(name, text)| (*name, (*text).to_owned())).collect() }
    }

    /// Returns the query string for a service.
    fn to_text(&self) -> String {
        let pairs: Vec<_> = self.texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        query_string(&pairs)
    }

    /// Returns the same query for the positions `from` to `to`, both inclusive.
    fn with_range(&self, from: u64, to: u64) -> Self {
        let mut query = self.clone();
        query.filter.from = Some(PointInTime::Position(Position(from)));
        query.filter.to = Some(PointInTime::Position(Position(to)));
        query.texts.retain(|(name, _)| *name != "from" && *name != "to");
        query.texts.extend([("from", from.to_string()), ("to", to.to_string())]);
        query
    }
}

/// Returns the newest matching events, at most `limit`, newest first.
///
/// Events can only be read forwards, so this reads windows of positions, the last window first. Each window is wider
/// than the one before, until enough events match. A range of times is read as a whole.
fn read_newest(target: &AuditTarget, query: &LogQuery, limit: usize) -> Result<Vec<Value>, CliError> {
    let from = position_or(query.filter.from, 1);
    let to = position_or(query.filter.to, u64::MAX);
    let (Some(from), Some(to)) = (from, to) else { return read_newest_in_range(target, query, limit) };

    let first = from.max(1);
    let mut end = to.min(read_head(target)?);
    let mut width = FIRST_WINDOW;
    let mut newest = Vec::new();
    while newest.len() < limit && end >= first {
        let start = first.max((end + 1).saturating_sub(width));
        newest.extend(read_newest_in_range(target, &query.with_range(start, end), limit - newest.len())?);
        end = start - 1;
        width = (width * 4).min(WINDOW_MAX);
    }
    Ok(newest)
}

/// Reads the whole range of the query and keeps the newest matching events, at most `limit`, newest first.
fn read_newest_in_range(target: &AuditTarget, query: &LogQuery, limit: usize) -> Result<Vec<Value>, CliError> {
    let mut newest = VecDeque::new();
    for_each_event(target, query, |event| {
        if newest.len() == limit {
            newest.pop_front();
        }
        newest.push_back(event.clone());
        Ok(())
    })?;
    Ok(newest.into_iter().rev().collect())
}

/// Returns the position of `point`, or `default` if there is no point; `None` if `point` is a time, not a position.
fn position_or(point: Option<PointInTime>, default: u64) -> Option<u64> {
    match point {
        None => Some(default),
        Some(PointInTime::Position(position)) => Some(position.0),
        Some(PointInTime::Time(_)) => None,
    }
}

/// Returns the position of the last event.
fn read_head(target: &AuditTarget) -> Result<u64, CliError> {
    match target {
        AuditTarget::Stopped { audit, .. } => audit.head().map_err(cli_error_from),
        AuditTarget::Running(service) => {
            let page = service.get("/admin/events?limit=1")?;
            page["head"].as_u64().ok_or_else(|| anyhow::Error::msg("the service sent no position").into())
        }
    }
}

/// Calls `on_event` with each matching event as JSON.
pub(super) fn for_each_event(
    target: &AuditTarget,
    query: &LogQuery,
    mut on_event: impl FnMut(&Value) -> anyhow::Result<()>,
) -> Result<(), CliError> {
    match target {
        AuditTarget::Stopped { audit, .. } => for_each_event_of_log(audit, &query.filter, on_event),
        AuditTarget::Running(service) => for_each_event_of_service(service, &query.to_text(), &mut on_event),
    }
}

fn for_each_event_of_log(
    audit: &Audit,
    filter: &AuditFilter,
    mut on_event: impl FnMut(&Value) -> anyhow::Result<()>,
) -> Result<(), CliError> {
    let mut result = Ok(());
    let scanned = audit.for_each(filter, Position(0), |event| {
        result = audit.record(event).map_err(cli_error_from).and_then(|record| {
            let record = serde_json::to_value(record).map_err(anyhow::Error::from)?;
            Ok(on_event(&record)?)
        });
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    scanned.map_err(cli_error_from)?;
    result
}

/// Reads the events of a running service, page by page.
fn for_each_event_of_service(
    service: &ServiceClient,
    query: &str,
    on_event: &mut impl FnMut(&Value) -> anyhow::Result<()>,
) -> Result<(), CliError> {
    let mut after = 0;
    loop {
        let paging = query_string(&[("after", &after.to_string()), ("limit", &LIMIT_MAX.to_string())]);
        let page = service.get(&format!("/admin/events?{query}&{paging}"))?;
        page["events"].as_array().into_iter().flatten().try_for_each(&mut *on_event)?;
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
}

impl LogArguments {
    fn query(&self) -> Result<LogQuery, CliError> {
        let types = self.types.iter().map(|text| or_usage_error("--type", text, parse_event_type(text)));
        let filter = AuditFilter {
            streams: self.stream.as_deref().map(parse_streams).transpose()?.unwrap_or_default(),
            types: types.collect::<Result<_, _>>()?,
            actor: parse_option("--actor", self.actor.as_deref(), ActorFilter::parse)?,
            request: parse_option("--request", self.request.as_deref(), RequestId::parse)?,
            from: parse_option("--from", self.from.as_deref(), |text| PointInTime::parse(text, DayEdge::Start))?,
            to: parse_option("--to", self.to.as_deref(), |text| PointInTime::parse(text, DayEdge::End))?,
        };
        let types = self.types.join(",");
        let texts = [
            ("stream", self.stream.as_deref()),
            ("type", Some(types.as_str())),
            ("actor", self.actor.as_deref()),
            ("request", self.request.as_deref()),
            ("from", self.from.as_deref()),
            ("to", self.to.as_deref()),
        ];
        Ok(LogQuery::new(filter, &texts.map(|(name, text)| (name, text.unwrap_or_default()))))
    }
}

/// Parses the `--stream` filter.
pub(super) fn parse_streams(text: &str) -> Result<StreamFilter, CliError> {
    or_usage_error("--stream", text, StreamFilter::parse(text))
}

/// Parses an optional argument. The error names the argument and its value.
pub(super) fn parse_option<T>(
    name: &str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, InvalidValue>,
) -> Result<Option<T>, CliError> {
    text.map(|text| or_usage_error(name, text, parse(text))).transpose()
}

/// Turns an invalid value into a usage error that names the argument and the value.
pub(super) fn or_usage_error<T>(name: &str, text: &str, result: Result<T, InvalidValue>) -> Result<T, CliError> {
    result.map_err(|reason| CliError::Usage(format!("{name} {} is invalid: it {reason}", printable(text))))
}
