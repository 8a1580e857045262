//! `mediary audit verify`: verifies a data directory or an export. Exit codes: 0 clean, 1 damage, 2 incomplete.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::app::files_of;
use crate::cli::progress::{ProgressLine, ProgressUnit};
use crate::cli::{CliError, DirectoryFlags, SettingFlags, print};
use crate::config::Settings;
use crate::environment::Environment;
use crate::events::journal::{SignedCheckpoint, hex};
use crate::file_tree::KeysOfMarkedUsers;
use crate::verification::export::ExportFormat;
use crate::verification::export_check::{self, ExportTrust};
use crate::verification::{directory, format_finding};

pub(super) const HELP: &str = "\
Checks a data directory and repairs nothing:
  - every journal record: checksum, position, hash chain, format, stream version; the signed HEAD
  - sled against the journal, on a temporary copy (TMPDIR)
  - the snapshot of the read models against a replay of the journal
  - every file against the hash in its name, and the archive of every version
  - the key of every user against the data encrypted with it
While a service runs on the directory, the journal is checked up to its signed HEAD, and sled is not
checked. In a cluster with a bucket, archives and keys that only the bucket has are first fetched
into the directory.

Examples:
  mediary audit verify
  mediary audit verify --since 2026-11-21.checkpoint
  mediary audit verify --file log.jsonl --key 3b6a…

Exit codes: 0 clean, 1 damage found (one line each), 2 verification incomplete. Without --key or
--since, an export exits with 2, because nothing proves its origin.";

#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArguments {
    /// Export to verify instead of a data directory; - is stdin
    #[arg(long, value_name = "EXPORT")]
    file: Option<PathBuf>,
    /// Public key that must have signed the export, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "file", conflicts_with = "since")]
    key: Option<String>,
    /// Earlier checkpoint that the history must contain
    #[arg(long, value_name = "CHECKPOINT")]
    since: Option<PathBuf>,
    /// Print the result as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: DirectoryFlags,
}

/// Returns the format of events and JSON in exports.
pub(super) fn export_format() -> ExportFormat {
    ExportFormat::default()
}

pub(super) fn run(arguments: VerifyArguments, outer: SettingFlags) -> Result<(), CliError> {
    let VerifyArguments { file, key, since, json, directory } = arguments;
    let since = since.as_deref().map(read_checkpoint).transpose().map_err(CliError::VerificationIncomplete)?;
    let outcome = match file {
        Some(file) => verify_file(&file, key.as_deref(), since.as_ref()).map_err(CliError::VerificationIncomplete)?,
        None => {
            verify_directory(&directory.settings(outer)?, since.as_ref()).map_err(CliError::VerificationIncomplete)?
        }
    };
    outcome.report(json)
}

fn read_checkpoint(file: &Path) -> anyhow::Result<SignedCheckpoint> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the checkpoint {}", file.display()))?;
    SignedCheckpoint::parse(&text).with_context(|| format!("{} is not a valid checkpoint", file.display()))
}

/// Result of a verification, independent of the output format.
pub(in crate::cli) struct VerificationOutcome {
    pub(in crate::cli) json: Value,
    pub(in crate::cli) notes: Vec<String>,
    pub(in crate::cli) findings: Vec<String>,
    /// Parts that could not be verified.
    pub(in crate::cli) unverified: Vec<String>,
    pub(in crate::cli) summary: String,
}

impl VerificationOutcome {
    /// Prints notes and findings, one per line, and the summary last.
    pub(in crate::cli) fn report(self, json: bool) -> Result<(), CliError> {
        let Self { json: object, notes, findings, unverified, summary } = self;
        let is_damaged = !findings.is_empty();
        let is_complete = unverified.is_empty();

        let text = if json {
            format!("{object}\n")
        } else {
            let notes = notes.into_iter().map(|note| format!("note: {note}\n"));
            let findings = findings.into_iter().map(|finding| format!("found: {finding}\n"));
            let unverified = unverified.into_iter().map(|item| format!("not verified: {item}\n"));
            notes.chain(unverified).chain(findings).chain([format!("{summary}\n")]).collect()
        };

        print(&text).context("cannot write to stdout").map_err(CliError::VerificationIncomplete)?;
        match (is_damaged, is_complete) {
            (true, _) => Err(CliError::DamageFound),
            (false, true) => Ok(()),
            (false, false) => {
                Err(CliError::VerificationIncomplete(anyhow::anyhow!("not everything could be verified")))
            }
        }
    }
}

fn verify_directory(settings: &Settings, since: Option<&SignedCheckpoint>) -> anyhow::Result<VerificationOutcome> {
    let root = &settings.data_dir;
    let environment = Environment::system();
    let data = files_of(root, &settings.cluster, &environment)?;
    for tree in ["archives", "personal"] {
        let fetched = data.fetch_all(&root.join(tree), KeysOfMarkedUsers::Skip);
        fetched.context("cannot fetch what only the bucket has")?;
    }

    let progress = ProgressLine::new("verifying", ProgressUnit::Bytes);
    let mut on_progress = |done, total| progress.update(done, Some(total));
    let report = directory::verify(root, since, &environment, &mut on_progress);
    progress.finish();
    let report = report?;
    Ok(VerificationOutcome {
        json: report.to_json(),
        summary: report.summary(),
        findings: report.findings.iter().map(format_finding).collect(),
        unverified: report.unverified,
        notes: report.notes,
    })
}

fn verify_file(
    file: &Path,
    key: Option<&str>,
    since: Option<&SignedCheckpoint>,
) -> anyhow::Result<VerificationOutcome> {
    let key = key.map(|key| hex::decode(key).context("--key: must be 64 lower case hexadecimal digits")).transpose()?;
    let trust = match (key, since) {
        (Some(key), _) => ExportTrust::Key(key),
        (None, Some(since)) => ExportTrust::Checkpoint(since),
        (None, None) => ExportTrust::Untrusted,
    };
    let (input, total): (Box<dyn Read>, _) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let opened = File::open(file).with_context(|| format!("cannot read the export {}", file.display()))?;
        let total = opened.metadata().map(|metadata| metadata.len()).ok();
        (Box::new(opened), total)
    };

    let progress = ProgressLine::new("verifying", ProgressUnit::Bytes);
    let mut done = 0;
    let report = export_check::verify(input, export_format(), trust, &mut |bytes| {
        done += bytes;
        progress.update(done, total);
    });
    progress.finish();

    let report = report.with_context(|| format!("cannot verify the export {}", file.display()))?;
    let findings = report.findings.iter().map(|finding| format!("line {}: {}", finding.line, finding.problem));
    Ok(VerificationOutcome {
        json: report.to_json(),
        summary: report.summary(),
        findings: findings.collect(),
        unverified: report.unverified.clone(),
        notes: report.notes.clone(),
    })
}
