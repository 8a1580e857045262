//! `mediary projections rebuild`: everything that is only read is dropped and made anew from the journal.
//!
//! The read models live in memory, so every start makes them anew; what is kept on disk to be read is sled's copy of the
//! log. It is dropped only after the journal has been read whole and found sound: the journal is what it is made of.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Subcommand;

use super::{Failure, SettingFlags, print};
use crate::app::{log_options, snapshot_directory};
use crate::clock::Surroundings;
use crate::config::Settings;
use crate::data_dir::DataDir;
use crate::events::sled_log::{SledLog, distrust_sled};
use crate::projections::read_models::Models;
use crate::projections::snapshot;

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Drop everything that is only read, and make it anew from the log; the service must not be running
    Rebuild(SettingFlags),
}

pub(super) fn run(command: Command) -> Result<(), Failure> {
    let Command::Rebuild(settings) = command;
    let settings = settings.load()?.settings;
    Ok(rebuild(&settings)?)
}

fn rebuild(settings: &Settings) -> anyhow::Result<()> {
    anyhow::ensure!(settings.data_dir.is_dir(), "there is no data directory at {}", settings.data_dir.display());
    let data = DataDir::open(&settings.data_dir)?;
    let options = log_options(data.root(), settings);
    let surroundings = Surroundings::real();

    let (checked, _) = SledLog::open(&options, &surroundings, |_| {}).context("the journal cannot be used")?;
    checked.close()?;
    distrust_sled(&options, "a rebuild was asked for").context("cannot ask for a rebuild")?;
    snapshot::remove(&snapshot_directory(data.root())).context("cannot remove the snapshots")?;

    let started = Instant::now();
    let mut progress = Progress::default();
    let mut models = Models::default();
    let (log, report) = SledLog::open(&options, &surroundings, |commit| {
        for event in commit.iter() {
            models.apply(event);
        }
        progress.reached(models.position.0);
    })?;
    log.close()?;
    progress.end();
    let seconds = started.elapsed().as_secs_f64();
    print(&format!("{} events replayed in {seconds:.1} s; everything that is read was made anew\n", report.head))?;
    Ok(())
}

/// A line on stderr that says how far the replay is; nothing when no person is watching.
#[derive(Default)]
struct Progress {
    shown: Option<Instant>,
}

impl Progress {
    fn reached(&mut self, position: u64) {
        if self.shown.is_none_or(|shown| shown.elapsed() >= SHOW_EVERY) && io::stderr().is_terminal() {
            self.shown = Some(Instant::now());
            // Whoever watches may go away.
            let _ = write!(io::stderr(), "\r{position} events …");
        }
    }

    fn end(self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
