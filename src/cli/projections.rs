//! `mediary projections rebuild`: deletes all derived data and rebuilds it from the journal.
//!
//! The derived data on disk are the snapshots of the read models and sled, the index of the log. They are deleted only
//! after the whole journal has been verified, because they are rebuilt from it. The next start rebuilds the read
//! models.

use anyhow::Context;
use clap::Subcommand;

use super::progress::{ProgressLine, ProgressUnit};
use super::{CliError, DirectoryFlags, SettingFlags, existing_data_dir, print};
use crate::app::{SnapshotPolicy, log_options, open_data_dir};
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::log::EventLog;
use crate::events::sled_log::{OpenReport, SledLog};
use crate::pluralize::pluralize;
use crate::projections::read_models::Models;
use crate::projections::snapshot;

pub(super) const HELP: &str = "\
Examples:
  mediary projections rebuild";

const REBUILD_HELP: &str = "\
Examples:
  mediary projections rebuild
  mediary --data-dir /srv/mediary projections rebuild";

#[derive(Debug, Subcommand)]
pub(super) enum ProjectionsCommand {
    /// Delete the index and the snapshots, and rebuild the index from the journal; the service must be stopped
    #[command(after_help = REBUILD_HELP)]
    Rebuild(DirectoryFlags),
}

pub(super) fn run(command: ProjectionsCommand, outer: SettingFlags) -> Result<(), CliError> {
    let ProjectionsCommand::Rebuild(directory) = command;
    Ok(rebuild(&directory.settings(outer)?)?)
}

fn rebuild(settings: &Settings) -> anyhow::Result<()> {
    let data = open_data_dir(existing_data_dir(settings)?)?;
    let options = log_options(data.root(), settings);
    let environment = Environment::system();

    let progress = ProgressLine::new("replaying", ProgressUnit::Events);
    let mut models = Models::default();
    let opened = SledLog::open(&options, &environment, |commit| {
        for event in commit.iter() {
            models.apply(event);
        }
        progress.update(models.position.0, None);
    });
    let (log, report) = opened.context("the journal cannot be used")?;
    print_repairs(&report)?;

    // A snapshot beyond the end of the log shows that the log is an older copy; nothing is deleted then. `whole_below`
    // matters only at a start.
    let snapshots = SnapshotPolicy { directory: snapshot::snapshot_dir(data.root()), whole_below: 0 };
    snapshots.check_log_covers_snapshot(&log)?;
    snapshot::remove_all(&snapshots.directory).context("cannot remove the snapshots")?;

    log.rebuild_index()?;
    log.close()?;
    anyhow::ensure!(log.indexed_position() == log.head(), "the index could not be written: the next start fills it");

    let seconds = progress.finish().as_secs_f64();
    let events = pluralize(report.head.0, "event");
    print(&format!("{events} replayed in {seconds:.1} s; the index was rebuilt\n"))?;
    Ok(())
}

/// Prints what opening the log found and repaired.
fn print_repairs(report: &OpenReport) -> anyhow::Result<()> {
    for message in report.messages() {
        print(&format!("found {message}\n")).context("cannot write to stdout")?;
    }
    Ok(())
}
