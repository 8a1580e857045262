//! `mediary backup` and `mediary restore`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::audit::VerificationOutcome;
use super::progress::{ProgressLine, ProgressUnit, format_mib};
use super::{CliError, DirectoryFlags, SettingFlags, print};
use crate::app::files_of;
use crate::backup::check::{BackupCheckReport, check};
use crate::backup::create::{self, BackupReport};
use crate::backup::manifest::Manifest;
use crate::backup::restore;
use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::pluralize::pluralize;
use crate::verification::format_finding;

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
pub(super) struct BackupArguments {
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
pub(super) struct RestoreArguments {
    /// Backup directory
    #[arg(value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(super) fn backup(arguments: BackupArguments, outer: SettingFlags) -> Result<(), CliError> {
    let BackupArguments { to: backup, verify, directory } = arguments;
    if verify {
        let progress = ProgressLine::new("verifying", ProgressUnit::Bytes);
        let report = check(&backup, &mut |done, total| progress.update(done, Some(total)));
        progress.finish();
        let report = report.map_err(|error| CliError::VerificationIncomplete(error.into()))?;
        let consequence = "this backup cannot be restored; the next backup to this directory repairs it";
        return verification_outcome(&report, consequence).report(false);
    }

    let settings = directory.settings(outer)?;
    let environment = Environment::system();
    let data = files_of(&settings.data_dir, &settings.cluster, &environment)?;
    let progress = ProgressLine::new("copying", ProgressUnit::Bytes);
    let mut on_progress = |done, total| progress.update(done, Some(total));
    let result = create::create(&data, &backup, &environment, &mut on_progress);
    let seconds = progress.finish().as_secs_f64();

    let BackupReport { position, files, bytes, copied_files, copied_bytes, removed, findings, notes } =
        result.map_err(anyhow::Error::from)?;
    let summary = format!(
        "backed up at position {position} in {seconds:.1} s: {}, {}; copied: {}, {}; removed: {removed}",
        pluralize(files, "file"),
        format_mib(bytes),
        pluralize(copied_files, "file"),
        format_mib(copied_bytes)
    );
    VerificationOutcome { json: json!({}), notes, findings, unverified: Vec::new(), summary }.report(false)
}

pub(super) fn restore(arguments: RestoreArguments, outer: SettingFlags) -> Result<(), CliError> {
    let RestoreArguments { from: backup, directory } = arguments;
    let to = directory.settings(outer)?.data_dir;
    let progress = ProgressLine::new("restoring", ProgressUnit::Bytes);
    let restored = restore::restore(&backup, &to, &mut |done, total| progress.update(done, Some(total)));
    progress.finish();

    let report = restored.map_err(anyhow::Error::from)?;
    if !report.findings.is_empty() {
        return verification_outcome(&report, "nothing was restored").report(false);
    }
    let position = report.manifest.checkpoint.checkpoint().head.position;
    let text = format!(
        "restored {} at position {position}: {}; the first start rebuilds the read models\n",
        to.display(),
        describe_contents(&report.manifest)
    );
    print(&text).context("cannot write to stdout")?;
    Ok(())
}

/// Describes the contents of a backup in the format of the summary of its creation.
fn describe_contents(manifest: &Manifest) -> String {
    let bytes = manifest.files.iter().map(|entry| entry.bytes).sum();
    format!("{}, {}", pluralize(manifest.files.len() as u64, "file"), format_mib(bytes))
}

/// Returns the outcome of the verification of a backup; `consequence` is printed for a damaged one.
fn verification_outcome(report: &BackupCheckReport, consequence: &str) -> VerificationOutcome {
    let BackupCheckReport { manifest, events, findings } = report;
    let checkpoint = manifest.checkpoint.checkpoint();
    let position = checkpoint.head.position;
    let at = Timestamp::from_micros(checkpoint.at_micros);
    let contents = describe_contents(manifest);

    let summary = if findings.is_empty() {
        let events = pluralize(*events, "event");
        format!("clean: a backup at position {position}, taken at {at}: {events}, {contents}")
    } else {
        let found = pluralize(findings.len() as u64, "finding");
        format!("damaged: {found} in a backup of {contents}; {consequence}")
    };
    let findings = findings.iter().map(format_finding).collect();
    VerificationOutcome { json: json!({}), notes: Vec::new(), findings, unverified: Vec::new(), summary }
}
