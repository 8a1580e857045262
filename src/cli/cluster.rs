//! `mediary cluster`: turns a data directory into a node, shows the nodes, and takes the last one out.

use anyhow::Context;
use clap::Subcommand;

use super::client::cluster_status;
use super::client::service::ServiceArguments;
use super::{CliError, DirectoryFlags, SettingFlags, existing_data_dir, print};
use crate::app::{connect_engine, create_engine, init_cluster, leave_cluster};
use crate::config::Settings;
use crate::environment::Environment;

pub(super) const HELP: &str = "\
Examples:
  mediary cluster init --config /etc/mediary.toml
  mediary cluster status
  mediary cluster leave --config /etc/mediary.toml

The settings in [cluster] name the engine and the directory that all nodes mount. `mediary config
--reference` describes them, docs/cluster.md the steps.";

const INIT_HELP: &str = "\
Examples:
  mediary cluster init --config /etc/mediary.toml

The service must be stopped. Every other node starts on a restored backup of this one.";

const STATUS_HELP: &str = "\
Examples:
  mediary cluster status
  mediary cluster status --url https://media.example.org --json";

const LEAVE_HELP: &str = "\
Examples:
  mediary cluster leave --config /etc/mediary.toml

All nodes must be stopped. Then this directory serves alone, with everything that the cluster has
recorded, and no other node can start again.";

#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    /// Turn the data directory of a stopped service into the first node of a cluster
    #[command(after_help = INIT_HELP)]
    Init(DirectoryFlags),
    /// Show the nodes as a running one sees them
    #[command(after_help = STATUS_HELP)]
    Status(ServiceArguments),
    /// Take the data directory of the last node out of its cluster, and end the cluster
    #[command(after_help = LEAVE_HELP)]
    Leave(DirectoryFlags),
}

pub(super) fn run(command: ClusterCommand, outer: SettingFlags) -> Result<(), CliError> {
    match command {
        ClusterCommand::Init(directory) => Ok(init(&directory.settings(outer)?)?),
        ClusterCommand::Status(service) => cluster_status::run(&service),
        ClusterCommand::Leave(directory) => Ok(leave(&directory.settings(outer)?)?),
    }
}

fn check_settings(settings: &Settings) -> anyhow::Result<()> {
    anyhow::ensure!(
        settings.cluster.is_member(),
        "cluster.engine is not set: name the servers of the engine, such as nats://a:4222,nats://b:4222,nats://c:4222"
    );
    existing_data_dir(settings).map(drop)
}

fn init(settings: &Settings) -> anyhow::Result<()> {
    check_settings(settings)?;
    init_cluster(settings, &Environment::system(), |log_id| create_engine(&settings.cluster, log_id))?;
    let text = format!(
        "{} is the first node of a cluster. Start it; then restore a backup of it on each other machine, and start these \
         with the same [cluster] settings.\n",
        settings.data_dir.display()
    );
    print(&text).context("cannot write to stdout")
}

fn leave(settings: &Settings) -> anyhow::Result<()> {
    check_settings(settings)?;
    leave_cluster(settings, &Environment::system(), |log_id| connect_engine(&settings.cluster, log_id))?;
    let text = format!(
        "{} is no node any more and has everything that the cluster recorded. Remove cluster.engine from its settings. The \
         other directories and the stream of the engine can be deleted.\n",
        settings.data_dir.display()
    );
    print(&text).context("cannot write to stdout")
}
