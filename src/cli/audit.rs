//! `mediary audit …`: queries the audit log of a running service or of the data directory of a stopped one, verifies it
//! and exports it.

mod ask;
mod follow;
mod input;
mod log;
mod place;
mod print;
mod proof;
mod text;
mod verify;

use clap::{Args, Subcommand};

use self::place::{Place, PlaceArguments};
pub(super) use self::verify::Outcome;

use super::{Failure, SettingFlags};
use crate::audit::diff::EVENTS_MAX;
use crate::audit::moment::{Edge, Moment};
use crate::audit::thing::Thing;

macro_rules! with_things {
    ($examples:literal) => {
        concat!(
            "A resource is written as kind/id: publisher/acme, node/face-tools, user/<uuid>, token/<uuid>,\n",
            "task/<uuid>, delivery/<uuid>.\n\nExamples:\n",
            $examples
        )
    };
}

macro_rules! with_words {
    ($examples:literal) => {
        concat!(
            "A point in time is a log position (1042), a time (2026-01-31T12:00:00Z) or a date in UTC\n",
            "(2026-01-31: the end of the day, with --from its start).\n",
            with_things!($examples)
        )
    };
}

pub(super) const HELP: &str = "\
Examples:
  mediary audit log --stream node/ --from 2026-11-20
  mediary audit show publisher/acme
  mediary audit diff 2026-01-30 2026-01-31
  mediary audit verify --since 2026-11-21.checkpoint
  mediary audit checkpoint --out 2026-11-21.checkpoint";

const LOG_HELP: &str = with_words!(
    "  mediary audit log --stream node/ --from 2026-11-20
  mediary audit log --type VersionPublished --type NodeBanned --json
  mediary audit log --follow --url https://registry.example.org --token \"$TOKEN\""
);
const SHOW_HELP: &str = with_things!(
    "  mediary audit show publisher/acme
  mediary audit show node/face-tools --json --wide"
);
const AS_OF_HELP: &str = with_words!(
    "  mediary audit as-of 2026-01-31T12:00:00Z node/face-tools
  mediary audit as-of 1042 publisher/acme --json"
);
const DIFF_HELP: &str = with_words!(
    "  mediary audit diff 2026-01-30 2026-01-31
  mediary audit diff 10 20 --stream node/"
);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List events, as a table or with --json as JSON Lines
    #[command(after_help = LOG_HELP)]
    Log(log::Arguments),
    /// Show the history of a resource: each event with the values before and after
    #[command(after_help = SHOW_HELP)]
    Show(ShowArguments),
    /// Show a resource as an administrator would have seen it at a point in time
    #[command(after_help = AS_OF_HELP)]
    AsOf(AsOfArguments),
    /// Show what changed between two points in time, by resource
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
    #[command(flatten)]
    Proof(proof::Command),
}

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// Resource, such as publisher/acme
    #[arg(value_name = "RESOURCE")]
    thing: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Args)]
pub(super) struct AsOfArguments {
    /// Log position, time or date
    when: String,
    /// Resource, such as publisher/acme
    #[arg(value_name = "RESOURCE")]
    thing: String,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// Start: log position, time or date
    from: String,
    /// End: log position, time or date
    to: String,
    /// Only this resource, or all resources of a kind (node/)
    #[arg(long, value_name = "STREAM")]
    stream: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Args)]
struct Output {
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    /// Do not shorten ids and texts; implied if stdout is not a terminal
    #[arg(long)]
    wide: bool,
}

pub(super) fn run(command: Command, outer: SettingFlags) -> Result<(), Failure> {
    match command {
        Command::Log(arguments) => log::run(arguments, outer),
        Command::Show(arguments) => show(arguments, outer),
        Command::AsOf(arguments) => as_of(arguments, outer),
        Command::Diff(arguments) => diff(arguments, outer),
        Command::Proof(command) => proof::run(command, outer),
    }
}

fn show(arguments: ShowArguments, outer: SettingFlags) -> Result<(), Failure> {
    let ShowArguments { thing, output, place } = arguments;
    let thing = read_thing(&thing)?;
    let place = Place::open(place, outer)?;
    let mut printer = output.printer();
    ask::history(&place, &thing, |entry| printer.entry(&entry))?;
    Ok(())
}

fn as_of(arguments: AsOfArguments, outer: SettingFlags) -> Result<(), Failure> {
    let AsOfArguments { when, thing, output, place } = arguments;
    let (thing, moment) = (read_thing(&thing)?, read_moment("the time", &when)?);
    let place = Place::open(place, outer)?;
    let answer = ask::as_of(&place, &thing, moment, &when)?;
    output.printer().state(&answer)?;
    Ok(())
}

fn diff(arguments: DiffArguments, outer: SettingFlags) -> Result<(), Failure> {
    let DiffArguments { from, to, stream, output, place } = arguments;
    let asked = ask::DiffAsked {
        from: read_moment("FROM", &from)?,
        to: read_moment("TO", &to)?,
        streams: stream.as_deref().map(log::read_streams).transpose()?.unwrap_or_default(),
        texts: [from, to, stream.unwrap_or_default()],
    };
    let place = Place::open(place, outer)?;
    let mut printer = output.printer();
    let told = ask::diff(&place, &asked, |thing| printer.thing(&thing))?;
    printer.diff_end(told)?;
    Ok(())
}

impl Output {
    fn printer(&self) -> print::Printer {
        print::Printer::new(self.json, self.wide)
    }
}

fn read_thing(text: &str) -> Result<Thing, Failure> {
    Thing::parse(text)
        .map_err(|reason| Failure::Usage(format!("{} is not a resource: it {reason}", text::printable(text))))
}

fn read_moment(what: &str, text: &str) -> Result<Moment, Failure> {
    let told = |reason| Failure::Usage(format!("{what} {} is invalid: it {reason}", text::printable(text)));
    Moment::parse(text, Edge::End).map_err(told)
}

/// Error for a diff over too many events.
fn too_many(events: u64) -> Failure {
    Failure::Usage(format!("{events} events lie between the two points in time; compare at most {EVENTS_MAX} events"))
}
