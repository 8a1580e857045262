//! `mediary audit …`: queries the audit log of a running service or of the data directory of a stopped one, verifies it
//! and exports it.

mod amounts;
mod file_notation;
mod follow;
mod integrity;
mod log;
mod names;
mod print;
mod queries;
mod target;
pub(super) mod text;
mod verify;

use clap::{Args, Subcommand};

use self::target::{AuditTarget, AuditTargetArguments};
pub(super) use self::verify::VerificationOutcome;

use super::{CliError, SettingFlags};
use crate::audit::diff::EVENTS_MAX;
use crate::audit::point_in_time::{DayEdge, PointInTime};
use crate::audit::subject::AuditSubject;

macro_rules! with_resource_help {
    ($examples:literal) => {
        concat!(
            "A resource is written as kind/id: publisher/acme, node/face-tools, user/<uuid>, token/<uuid>,\n",
            "task/<uuid>, delivery/<uuid>, budget/publisher.acme.\n\nExamples:\n",
            $examples
        )
    };
}

macro_rules! with_time_help {
    ($examples:literal) => {
        concat!(
            "A point in time is a log position (1042), a time (2026-01-31T12:00:00Z) or a date in UTC\n",
            "(2026-01-31: the end of the day, with --from its start).\n",
            with_resource_help!($examples)
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

const LOG_HELP: &str = with_time_help!(
    "  mediary audit log --limit 20
  mediary audit log --stream node/ --from 2026-11-20
  mediary audit log --type VersionPublished --type NodeBanned --json
  mediary audit log --follow --url https://registry.example.org --token \"$TOKEN\""
);
const SHOW_HELP: &str = with_resource_help!(
    "  mediary audit show publisher/acme
  mediary audit show node/face-tools --json --wide"
);
const AS_OF_HELP: &str = with_time_help!(
    "  mediary audit as-of 2026-01-31T12:00:00Z node/face-tools
  mediary audit as-of 1042 publisher/acme --json"
);
const DIFF_HELP: &str = with_time_help!(
    "  mediary audit diff 2026-01-30 2026-01-31
  mediary audit diff 10 20 --stream node/"
);
const AMOUNTS_HELP: &str = with_time_help!(
    "  mediary audit amounts --from 2026-03-01 --to 2026-03-31
  mediary audit amounts --payer publisher/acme --json"
);

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// List events, as a table or with --json as JSON Lines
    #[command(after_help = LOG_HELP)]
    Log(log::LogArguments),
    /// Show the history of a resource: each event with the values before and after
    #[command(after_help = SHOW_HELP)]
    Show(ShowArguments),
    /// Show a resource as an administrator would have seen it at a point in time
    #[command(after_help = AS_OF_HELP)]
    AsOf(AsOfArguments),
    /// Show what changed between two points in time, by resource
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArguments),
    /// List the tasks that cost something and who paid, recomputed from the events
    #[command(after_help = AMOUNTS_HELP)]
    Amounts(amounts::AmountsArguments),
    #[command(flatten)]
    Integrity(integrity::AuditIntegrityCommand),
}

#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// Resource, such as publisher/acme
    #[arg(value_name = "RESOURCE")]
    subject: String,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    target: AuditTargetArguments,
}

#[derive(Debug, Args)]
pub(super) struct AsOfArguments {
    /// Log position, time or date
    when: String,
    /// Resource, such as publisher/acme
    #[arg(value_name = "RESOURCE")]
    subject: String,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    target: AuditTargetArguments,
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
    output: OutputFlags,
    #[command(flatten)]
    target: AuditTargetArguments,
}

#[derive(Debug, Args)]
struct OutputFlags {
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    /// Do not shorten ids and texts; implied if stdout is not a terminal
    #[arg(long)]
    wide: bool,
}

pub(super) fn run(command: AuditCommand, outer: SettingFlags) -> Result<(), CliError> {
    match command {
        AuditCommand::Log(arguments) => log::run(arguments, outer),
        AuditCommand::Show(arguments) => show(arguments, outer),
        AuditCommand::AsOf(arguments) => as_of(arguments, outer),
        AuditCommand::Diff(arguments) => diff(arguments, outer),
        AuditCommand::Amounts(arguments) => amounts::run(arguments, outer),
        AuditCommand::Integrity(command) => integrity::run(command, outer),
    }
}

fn show(arguments: ShowArguments, outer: SettingFlags) -> Result<(), CliError> {
    let ShowArguments { subject, output, target } = arguments;
    let subject = parse_subject(&subject)?;
    let target = AuditTarget::open(target, outer)?;
    let mut printer = output.printer();
    queries::history(&target, &subject, |entry| printer.history_entry(&entry))?;
    Ok(())
}

fn as_of(arguments: AsOfArguments, outer: SettingFlags) -> Result<(), CliError> {
    let AsOfArguments { when, subject, output, target } = arguments;
    let subject = parse_subject(&subject)?;
    let point_in_time = parse_point_in_time("WHEN", &when)?;
    let target = AuditTarget::open(target, outer)?;
    let state = queries::as_of(&target, &subject, point_in_time, &when)?;
    output.printer().state(&state)?;
    Ok(())
}

fn diff(arguments: DiffArguments, outer: SettingFlags) -> Result<(), CliError> {
    let DiffArguments { from, to, stream, output, target } = arguments;
    let query = queries::DiffQuery {
        from: parse_point_in_time("FROM", &from)?,
        to: parse_point_in_time("TO", &to)?,
        streams: stream.as_deref().map(log::parse_streams).transpose()?.unwrap_or_default(),
        texts: [from, to, stream.unwrap_or_default()],
    };
    let target = AuditTarget::open(target, outer)?;
    let mut printer = output.printer();
    let summary = queries::diff(&target, &query, |subject| printer.subject_diff(&subject))?;
    printer.diff_summary(&summary)?;
    Ok(())
}

impl OutputFlags {
    fn printer(&self) -> print::Printer {
        print::Printer::new(self.json, self.wide)
    }
}

fn parse_subject(text: &str) -> Result<AuditSubject, CliError> {
    AuditSubject::parse(text)
        .map_err(|reason| CliError::Usage(format!("{} is not a resource: it {reason}", text::printable(text))))
}

fn parse_point_in_time(name: &str, text: &str) -> Result<PointInTime, CliError> {
    let usage_error = |reason| CliError::Usage(format!("{name} {} is invalid: it {reason}", text::printable(text)));
    PointInTime::parse(text, DayEdge::End).map_err(usage_error)
}

/// Returns the error for a diff over `events` events, which are more than [`EVENTS_MAX`].
fn too_many_events(events: u64) -> CliError {
    CliError::Usage(format!("{events} events lie between the two points in time; compare at most {EVENTS_MAX} events"))
}
