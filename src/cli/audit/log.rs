//! `mediary audit log`: lists the events that match a filter.

use std::ops::ControlFlow;

use clap::Args;
use serde_json::Value;

use super::ask::{query, refused};
use super::place::{Place, PlaceArguments};
use super::print::Printer;
use super::text::printable;
use super::{Output, follow};
use crate::audit::Position;
use crate::audit::filter::{ActorFilter, Filter, Streams, parse_type};
use crate::audit::moment::{Edge, Moment};
use crate::audit::page::LIMIT_MAX;
use crate::cli::{Failure, SettingFlags};
use crate::domain::ids::RequestId;
use crate::domain::value::Invalid;

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
    /// Only events of this resource, or of all resources of a kind (node/)
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,
    /// Only events of this type (repeatable)
    #[arg(long = "type", value_name = "TYPE")]
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
    /// Keep printing new events until interrupted; requires a running service
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    place: PlaceArguments,
}

pub(super) fn run(arguments: Arguments, outer: SettingFlags) -> Result<(), Failure> {
    let filter = arguments.filter()?;
    let asked = arguments.query();
    let mut printer = arguments.output.printer();
    match Place::open(arguments.place, outer)? {
        Place::Running(service) if arguments.follow => follow::run(&service, &asked, &mut printer),
        Place::Stopped { data, .. } if arguments.follow => {
            let told = format!("no service is running on {}: --follow needs one", data.root().display());
            Err(anyhow::Error::msg(told).into())
        }
        Place::Stopped { audit, .. } => {
            let mut outcome = Ok(());
            let walked = audit.each(&filter, Position(0), |event| {
                let record = audit.record(event).map_err(refused);
                outcome = record.and_then(|record| {
                    let record = serde_json::to_value(record).map_err(anyhow::Error::from)?;
                    Ok(printer.event(&record)?)
                });
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            walked.map_err(refused)?;
            outcome?;
            Ok(printer.end()?)
        }
        Place::Running(service) => {
            let mut after = 0;
            loop {
                let rest = query(&[("after", &after.to_string()), ("limit", &LIMIT_MAX.to_string())]);
                let page = service.get(&format!("/admin/events?{asked}&{rest}"))?;
                print_page(&page, &mut printer)?;
                match page["next"].as_u64() {
                    Some(next) => after = next,
                    None => return Ok(printer.end()?),
                }
            }
        }
    }
}

fn print_page(page: &Value, printer: &mut Printer) -> anyhow::Result<()> {
    page["events"].as_array().into_iter().flatten().try_for_each(|event| printer.event(event))
}

impl Arguments {
    fn filter(&self) -> Result<Filter, Failure> {
        let types = self.types.iter().map(|text| told("--type", text, parse_type(text)));
        Ok(Filter {
            streams: self.stream.as_deref().map(read_streams).transpose()?.unwrap_or_default(),
            types: types.collect::<Result<_, _>>()?,
            actor: checked("--actor", self.actor.as_deref(), ActorFilter::parse)?,
            request: checked("--request", self.request.as_deref(), RequestId::parse)?,
            from: checked("--from", self.from.as_deref(), |text| Moment::parse(text, Edge::Start))?,
            to: checked("--to", self.to.as_deref(), |text| Moment::parse(text, Edge::End))?,
        })
    }

    /// The filter as a query string for a service.
    fn query(&self) -> String {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (stream, actor, request) = (text(&self.stream), text(&self.actor), text(&self.request));
        let (types, from, to) = (self.types.join(","), text(&self.from), text(&self.to));
        let pairs = [("stream", &stream), ("type", &types), ("actor", &actor), ("request", &request)];
        let pairs: Vec<_> = pairs.into_iter().chain([("from", &from), ("to", &to)]).collect();
        query(&pairs.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
    }
}

/// Parses the `--stream` filter.
pub(super) fn read_streams(text: &str) -> Result<Streams, Failure> {
    told("--stream", text, Streams::parse(text))
}

fn checked<T>(
    name: &str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, Failure> {
    text.map(|text| told(name, text, parse(text))).transpose()
}

fn told<T>(name: &str, text: &str, outcome: Result<T, Invalid>) -> Result<T, Failure> {
    outcome.map_err(|reason| Failure::Usage(format!("{name} {} is invalid: it {reason}", printable(text))))
}
