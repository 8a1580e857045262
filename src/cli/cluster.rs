//! `mediary cluster`: checks the engine, turns a data directory into a node, shows the nodes, continues the log in a
//! new stream, and takes the last node out.

use std::fmt::Write as _;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::audit::text::printable;
use super::client::cluster_status;
use super::client::service::ServiceArguments;
use super::{CliError, DirectoryFlags, SettingFlags, existing_data_dir, print, print_text};
use crate::app::{
    AloneEvidence, EngineAccess, EngineContents, EngineReport, RebuildOptions, check_cluster, check_engine,
    connect_engine, create_engine, delete_engine, deletion_command, init_cluster, leave_cluster, list_generations,
    rebuild_engine, verify_engine,
};
use crate::cluster::membership::Membership;
use crate::config::{ClusterSettings, Settings};
use crate::environment::Environment;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};
use crate::events::shared::generation::LogGeneration;
use crate::pluralize::pluralize;

pub(super) const HELP: &str = "\
Examples:
  mediary cluster check --config /etc/mediary.toml
  mediary cluster init --config /etc/mediary.toml
  mediary cluster status
  mediary cluster verify --config /etc/mediary.toml
  mediary cluster rebuild-engine --config /etc/mediary.toml
  mediary cluster leave --config /etc/mediary.toml

The settings in [cluster] name the engine, and the directory or bucket that all nodes use. `mediary config
--reference` describes them, docs/cluster.md the steps.";

const INIT_HELP: &str = "\
Examples:
  mediary cluster init --config /etc/mediary.toml

The service must be stopped. Every other node starts on a restored backup of this one.";

const CHECK_HELP: &str = "\
Checks the servers of the engine and, if the data directory is a node, its secrets, the shared files
and the log in the engine. Writes a test object to the bucket and removes it; changes nothing else.
Prints one line per check: ok, risk or FAILED. A node may run. A start also checks the node's own
log, as `mediary audit verify` does.

Examples:
  mediary cluster check --config /etc/mediary.toml
  mediary cluster check --config /etc/mediary.toml --json

Exit codes: 0 no check failed, 1 a check failed, 2 the servers or the data directory cannot be
read.";

const STATUS_HELP: &str = "\
Examples:
  mediary cluster status
  mediary cluster status --url https://media.example.org --json";

const VERIFY_HELP: &str = "\
Examples:
  mediary cluster verify --config /etc/mediary.toml

Nodes may run meanwhile. The exit status is 1 if groups are missing or damaged, or if nodes had
different logs, and 2 if the engine cannot be opened, such as a PostgreSQL schema that lacks groups.
`mediary audit verify` checks the log of a node.";

const LEAVE_HELP: &str = "\
Examples:
  mediary cluster leave --config /etc/mediary.toml

All nodes must be stopped. Then this directory serves alone, with everything that the cluster has
recorded, and no other node can start again. Run it again if it is interrupted.";

const REBUILD_HELP: &str = "\
Examples:
  mediary cluster rebuild-engine --config /etc/mediary.toml --delete-old
  mediary cluster rebuild-engine --config /etc/mediary.toml --lost --all-stopped

All nodes must be stopped. The command applies everything in the stream, ends it for all other nodes,
and begins the next generation of the log in an empty one. Nodes with exactly the same log join it at
their next start; those that lack changes apply the rest of the old stream first, and have to be
replaced if it is lost or deleted. Run it again on the same directory if it is interrupted.

If the engine has lost the stream, use the directory with the highest position among those that agree
(`mediary audit verify`), --lost and --all-stopped: changes that only other directories have are lost.";

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Turn the data directory of a stopped service into the first node of a cluster
    #[command(after_help = INIT_HELP)]
    Init(DirectoryFlags),
    /// Check the engine, and that the data directory belongs to it, without starting a node
    #[command(after_help = CHECK_HELP)]
    Check(CheckArguments),
    /// Show the nodes as a running one sees them
    #[command(after_help = STATUS_HELP)]
    Status(ServiceArguments),
    /// Read everything that the engine has, and check it
    #[command(after_help = VERIFY_HELP)]
    Verify(DirectoryFlags),
    /// Continue the log of stopped nodes in a new, empty stream: to free the space of the old one, or if it is lost
    #[command(after_help = REBUILD_HELP)]
    RebuildEngine(RebuildArguments),
    /// Take the data directory of the last node out of its cluster, and end the cluster
    #[command(after_help = LEAVE_HELP)]
    Leave(LeaveArguments),
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

#[derive(Debug, Args)]
pub(super) struct RebuildArguments {
    /// Continue without the old stream if the engine has lost it; needs --all-stopped
    #[arg(long)]
    lost: bool,
    /// Delete the streams of all earlier generations at the end
    #[arg(long)]
    delete_old: bool,
    /// Continue if it cannot be determined whether a node is running; only after you have stopped all nodes
    #[arg(long)]
    all_stopped: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

#[derive(Debug, Args)]
pub(super) struct LeaveArguments {
    /// Continue if it cannot be determined whether a node is running; only after you have stopped all nodes
    #[arg(long)]
    all_stopped: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn run(command: ClusterCommand, outer: SettingFlags) -> Result<(), CliError> {
    match command {
        ClusterCommand::Init(directory) => Ok(init(&directory.settings(outer)?)?),
        ClusterCommand::Check(CheckArguments { json, directory }) => check(&directory.settings(outer)?, json),
        ClusterCommand::Status(service) => cluster_status::run(&service),
        ClusterCommand::Verify(directory) => verify(&directory.settings(outer)?),
        ClusterCommand::RebuildEngine(RebuildArguments { lost, delete_old, all_stopped, directory }) => {
            let options = RebuildOptions { evidence: evidence(all_stopped), is_lost: lost, deletes_former: delete_old };
            Ok(rebuild(&directory.settings(outer)?, options)?)
        }
        ClusterCommand::Leave(LeaveArguments { all_stopped, directory }) => {
            Ok(leave(&directory.settings(outer)?, evidence(all_stopped))?)
        }
    }
}

fn evidence(all_stopped: bool) -> AloneEvidence {
    if all_stopped { AloneEvidence::Stated } else { AloneEvidence::Heard }
}

fn check_settings(settings: &Settings) -> anyhow::Result<()> {
    check_has_engine(settings)?;
    existing_data_dir(settings).map(drop)
}

fn check_has_engine(settings: &Settings) -> anyhow::Result<()> {
    anyhow::ensure!(
        settings.cluster.is_member(),
        "cluster.engine is not set: name the engine, such as nats://a:4222,nats://b:4222,nats://c:4222 or \
         postgres://mediary@host:5432/mediary"
    );
    Ok(())
}

fn init(settings: &Settings) -> anyhow::Result<()> {
    check_settings(settings)?;
    with_engine(&settings.cluster, |engine| init_cluster(settings, &Environment::system(), engine))?;
    let text = format!(
        "{} is the first node of a cluster. Start it; then restore a backup of it on each other machine, and start these \
         with the same [cluster] settings.\n",
        settings.data_dir.display()
    );
    print(&text).context("cannot write to stdout")
}

fn check(settings: &Settings, json: bool) -> Result<(), CliError> {
    check_has_engine(settings).map_err(CliError::CannotRun)?;
    let cluster = &settings.cluster;
    let report = check_cluster(settings, |log| check_engine(cluster, log), |log| connect_engine(cluster, log))
        .map_err(CliError::CannotRun)?;
    let text = if json { format!("{}\n", json_of(&report)) } else { text_of(&report) };
    print_text(&text)?;
    if report.is_suitable() { Ok(()) } else { Err(CliError::CheckFailed) }
}

fn json_of(report: &EngineReport) -> Value {
    let check = |EngineCheck { subject, status, finding }: &EngineCheck| {
        let status = match status {
            CheckStatus::Met => "ok",
            CheckStatus::Risk => "risk",
            CheckStatus::Failed => "failed",
        };
        json!({ "subject": subject, "status": status, "finding": finding })
    };
    let checks: Vec<_> = report.checks.iter().map(check).collect();
    let log_id = report.log.map(|log| log.log_id);
    let generation = report.log.map(|log| log.number);
    json!({ "log_id": log_id, "generation": generation, "ok": report.is_suitable(), "checks": checks })
}

fn text_of(report: &EngineReport) -> String {
    let mut text = String::new();
    for EngineCheck { subject, status, finding } in &report.checks {
        let status = match status {
            CheckStatus::Met => "ok    ",
            CheckStatus::Risk => "risk  ",
            CheckStatus::Failed => "FAILED",
        };
        let _ = writeln!(text, "{status}  {}", printable(&format!("{subject}: {finding}")));
    }
    text += match (report.is_suitable(), report.log) {
        (false, _) => "A node does not start.\n",
        (true, Some(_)) => "The data directory fits its cluster.\n",
        (true, None) => "The servers can be used. The data directory is not a node, so no stored log was checked.\n",
    };
    text
}

fn leave(settings: &Settings, evidence: AloneEvidence) -> anyhow::Result<()> {
    check_settings(settings)?;
    leave_cluster(settings, &Environment::system(), evidence, |log| connect_engine(&settings.cluster, log))?;
    let text = format!(
        "{} is no longer a node and has everything that the cluster recorded. Remove cluster.engine from its settings. \
         The other directories, and the stream or schema of the engine, can be deleted.\n",
        settings.data_dir.display()
    );
    print(&text).context("cannot write to stdout")
}

fn rebuild(settings: &Settings, options: RebuildOptions) -> anyhow::Result<()> {
    check_settings(settings)?;
    let cluster = &settings.cluster;
    let begun = with_engine(cluster, |engine| rebuild_engine(settings, &Environment::system(), options, engine))?;

    let LogGeneration { log_id, number } = begun.log();
    let mut text = format!(
        "{} begins at {}. Start this node and the others: nodes whose log ends there join, and nodes that lack changes \
         first apply the rest of the old stream, if it still exists. Then make a new backup: one made before cannot add \
         a node once the old stream is deleted.\n",
        begun.log(),
        begun.base()
    );
    let former = LogGeneration { log_id, number: number - 1 };
    // The old stream may be lost.
    if list_generations(cluster, log_id)?.contains(&former) {
        let command = deletion_command(cluster, former);
        let _ = writeln!(text, "When all nodes have joined, the old stream can be deleted: {command}");
    }
    print(&text).context("cannot write to stdout")
}

/// Calls a function with access to the streams of the engine of the settings.
fn with_engine<T>(cluster: &ClusterSettings, call: impl FnOnce(&EngineAccess<'_>) -> T) -> T {
    call(&EngineAccess {
        open: &|log| connect_engine(cluster, log),
        create: &|log| create_engine(cluster, log),
        list: &|log_id| list_generations(cluster, log_id),
        delete: &|log| delete_engine(cluster, log),
    })
}

fn verify(settings: &Settings) -> Result<(), CliError> {
    check_settings(settings)?;
    let Some(membership) = Membership::read(&settings.data_dir).context("cannot read cluster.json")? else {
        return Err(anyhow::anyhow!("{} is not a node of a cluster", settings.data_dir.display()).into());
    };
    let log = membership.log();
    let contents = connect_engine(&settings.cluster, log).and_then(|engine| verify_engine(&*engine));
    let EngineContents { groups, proposals, bytes, findings } = contents.map_err(CliError::VerificationIncomplete)?;

    let groups = pluralize(groups, "group");
    let proposals = pluralize(proposals, "proposed change");
    let counted = format!("{log}: {groups} with {proposals}, {} MiB", bytes >> 20);
    let sound = "All groups can be read, and the nodes that sent them had the same log.".to_owned();
    let damage = findings.iter().map(|finding| format!("DAMAGED: {finding}"));
    let lines = std::iter::once(counted).chain(findings.is_empty().then_some(sound)).chain(damage);
    print(&lines.map(|line| line + "\n").collect::<String>()).context("cannot write to stdout")?;
    if findings.is_empty() { Ok(()) } else { Err(CliError::DamageFound) }
}
