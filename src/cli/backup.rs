//! `mediary backup` and `mediary restore`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::audit::Outcome;
use super::progress::{Progress, Unit};
use super::{DirectoryFlags, Failure, SettingFlags, print};
use crate::backup::check::{Checked, check};
use crate::backup::restore;
use crate::backup::take::{self, Taken};
use crate::clock::Surroundings;
use crate::proof::line;

pub(super) const BACKUP_HELP: &str = "\
The backup is consistent at the position that is printed. Run again with the same directory it copies what is new; killed half way it
leaves the backup before. In it: the journal and its signing key, secrets of the service, keys of users, archives, pictures. Not in it:
what is made anew (sled, kept answers). Whoever holds it holds all of that: keep it as you keep the data directory.

Examples:
  mediary backup /mnt/backup/mediary
  mediary backup --verify /mnt/backup/mediary
  mediary --data-dir /srv/mediary backup /mnt/backup/mediary

Exit codes: 0 done, 1 damaged or could not run; with --verify 0 whole, 1 damage was found, 2 it could not be verified.";

pub(super) const RESTORE_HELP: &str = "\
Everything is verified before anything is written: the signed manifest, the hash of every file, the journal with its chain. The data
directory must be empty or not there; it appears whole or not at all.

Examples:
  mediary restore /mnt/backup/mediary
  mediary --data-dir /srv/mediary restore /mnt/backup/mediary && mediary --data-dir /srv/mediary audit verify";

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The backup directory; made when it is not there
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Verify the backup that is there, and take none
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The backup directory
    #[arg(value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn backup(arguments: Backup, outer: SettingFlags) -> Result<(), Failure> {
    let Backup { to: backup, verify, directory } = arguments;
    if verify {
        let mut progress = Progress::new("verifying", Unit::Bytes);
        let checked = check(&backup, &mut |done, total| progress.reached(done, Some(total)));
        progress.end();
        let checked = checked.map_err(|error| Failure::Unable(error.into()))?;
        return outcome(&checked, "a restore would refuse it, the next backup to this directory mends it").tell(false);
    }
    let root = directory.settings(outer)?.data_dir;
    let mut progress = Progress::new("copying", Unit::Bytes);
    let mut reached = |done, total| progress.reached(done, Some(total));
    let taken = take::take(&root, &backup, &Surroundings::real(), &mut reached);
    let seconds = progress.end().as_secs_f64();
    let Taken { position, files, bytes, copied_files, copied_bytes, removed, findings, notes } =
        taken.map_err(anyhow::Error::from)?;
    let size = |bytes: u64| format!("{:.1} MiB", mebibytes(bytes));
    let summary = format!(
        "backed up at position {position} in {seconds:.1} s: {files} files, {}; {copied_files} files, {} were new, {removed} old ones removed",
        size(bytes),
        size(copied_bytes)
    );
    Outcome { json: json!({}), notes, findings, unverified: Vec::new(), summary }.tell(false)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(super) fn restore(arguments: Restore, outer: SettingFlags) -> Result<(), Failure> {
    let Restore { from: backup, directory } = arguments;
    let to = directory.settings(outer)?.data_dir;
    let mut progress = Progress::new("restoring", Unit::Bytes);
    let restored = restore::restore(&backup, &to, &mut |done, total| progress.reached(done, Some(total)));
    progress.end();
    let checked = restored.map_err(anyhow::Error::from)?;
    if !checked.findings.is_empty() {
        return outcome(&checked, "nothing was put back").tell(false);
    }
    let position = checked.manifest.checkpoint.checkpoint().head.position;
    let text = format!(
        "restored {} at position {position}: {} files; the first start makes what is read from the journal\n",
        to.display(),
        checked.manifest.files.len()
    );
    print(&text).context("cannot write to stdout")?;
    Ok(())
}

/// What a backup turned out to be; `consequence` says what comes of it where it is damaged.
fn outcome(checked: &Checked, consequence: &str) -> Outcome {
    let Checked { manifest, events, findings } = checked;
    let taken = manifest.checkpoint.checkpoint();
    let (position, at, files) = (taken.head.position, taken.at, manifest.files.len());
    let summary = if findings.is_empty() {
        format!("clean: a backup at position {position}, taken at {at}: {events} events, {files} files")
    } else {
        let plural = if findings.len() == 1 { "" } else { "s" };
        format!("damaged: {} finding{plural} in a backup of {files} files; {consequence}", findings.len())
    };
    let findings = findings.iter().map(line).collect();
    Outcome { json: json!({}), notes: Vec::new(), findings, unverified: Vec::new(), summary }
}
