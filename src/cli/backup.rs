//! `mediary backup` and `mediary restore`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::audit::Outcome;
use super::progress::{Progress, Unit, size};
use super::{DirectoryFlags, Failure, SettingFlags, print};
use crate::backup::check::{Checked, check};
use crate::backup::manifest::Manifest;
use crate::backup::restore;
use crate::backup::take::{self, Taken};
use crate::clock::Surroundings;
use crate::domain::value::Timestamp;
use crate::proof::line;
use crate::words::count;

pub(super) const BACKUP_HELP: &str = "\
The backup is consistent at the log position that is printed. A repeated backup to the same directory
copies only new data; an interrupted one leaves the previous backup intact.

It contains the journal and its signing key, the secrets of the service, the keys of users, archives
and pictures, but not sled and stored responses, which the service recreates. Protect a backup like
the data directory.

Examples:
  mediary backup /mnt/backup/mediary
  mediary backup --verify /mnt/backup/mediary
  mediary --data-dir /srv/mediary backup /mnt/backup/mediary

Exit codes: 0 success, 1 damage or failure; with --verify: 0 intact, 1 damage found, 2 not verifiable.";

pub(super) const RESTORE_HELP: &str = "\
The command verifies the signed manifest, the hash of every file and the hash chain of the journal
before it writes anything. The data directory must be empty or missing; it is created completely or
not at all.

Examples:
  mediary restore /mnt/backup/mediary
  mediary --data-dir /srv/mediary restore /mnt/backup/mediary && mediary --data-dir /srv/mediary audit verify";

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// Backup directory; created if missing
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Verify the existing backup instead of creating one
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// Backup directory
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
        return outcome(&checked, "it cannot be restored; the next backup to this directory repairs it").tell(false);
    }
    let root = directory.settings(outer)?.data_dir;
    let mut progress = Progress::new("copying", Unit::Bytes);
    let mut reached = |done, total| progress.reached(done, Some(total));
    let taken = take::take(&root, &backup, &Surroundings::real(), &mut reached);
    let seconds = progress.end().as_secs_f64();
    let Taken { position, files, bytes, copied_files, copied_bytes, removed, findings, notes } =
        taken.map_err(anyhow::Error::from)?;
    let summary = format!(
        "backed up at position {position} in {seconds:.1} s: {}, {}; new: {}, {}; old ones removed: {removed}",
        count(files, "file"),
        size(bytes),
        count(copied_files, "file"),
        size(copied_bytes)
    );
    Outcome { json: json!({}), notes, findings, unverified: Vec::new(), summary }.tell(false)
}

pub(super) fn restore(arguments: Restore, outer: SettingFlags) -> Result<(), Failure> {
    let Restore { from: backup, directory } = arguments;
    let to = directory.settings(outer)?.data_dir;
    let mut progress = Progress::new("restoring", Unit::Bytes);
    let restored = restore::restore(&backup, &to, &mut |done, total| progress.reached(done, Some(total)));
    progress.end();
    let checked = restored.map_err(anyhow::Error::from)?;
    if !checked.findings.is_empty() {
        return outcome(&checked, "nothing was restored").tell(false);
    }
    let position = checked.manifest.checkpoint.checkpoint().head.position;
    let text = format!(
        "restored {} at position {position}: {}; the first start rebuilds the read models\n",
        to.display(),
        contents(&checked.manifest)
    );
    print(&text).context("cannot write to stdout")?;
    Ok(())
}

/// Describes the contents of a backup in the format of the summary of its creation.
fn contents(manifest: &Manifest) -> String {
    let bytes = manifest.files.iter().map(|entry| entry.bytes).sum();
    format!("{}, {}", count(manifest.files.len() as u64, "file"), size(bytes))
}

/// Outcome of the verification of a backup; `consequence` is printed for a damaged one.
fn outcome(checked: &Checked, consequence: &str) -> Outcome {
    let Checked { manifest, events, findings } = checked;
    let taken = manifest.checkpoint.checkpoint();
    let position = taken.head.position;
    let at = Timestamp::from_micros(taken.at_micros);
    let contents = contents(manifest);

    let summary = if findings.is_empty() {
        let events = count(*events, "event");
        format!("clean: a backup at position {position}, taken at {at}: {events}, {contents}")
    } else {
        let found = count(findings.len() as u64, "finding");
        format!("damaged: {found} in a backup of {contents}; {consequence}")
    };
    let findings = findings.iter().map(line).collect();
    Outcome { json: json!({}), notes: Vec::new(), findings, unverified: Vec::new(), summary }
}
