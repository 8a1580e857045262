//! `mediary audit verify`: verifies a data directory or an export. Exit codes: 0 clean, 1 damage, 2 incomplete.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::cli::progress::{Progress, Unit};
use crate::cli::{DirectoryFlags, Failure, SettingFlags, print};
use crate::clock::Surroundings;
use crate::events::journal::{SignedCheckpoint, hex};
use crate::proof::export::Style;
use crate::proof::exported::{self, Known};
use crate::proof::{directory, line};

pub(super) const HELP: &str = "\
Checks a data directory without changing it:
  - every journal record: checksum, position, hash chain, format, stream version; the signed HEAD
  - sled against the journal, on a temporary copy (TMPDIR)
  - the snapshot of the read models against a replay of the journal
  - every file against the hash in its name, and the archive of every version
  - the key of every user against the data encrypted with it
While a service runs on the directory, the journal is checked up to its signed HEAD, and sled is not
checked.

Examples:
  mediary audit verify
  mediary audit verify --since 2026-11-21.checkpoint
  mediary audit verify --file log.jsonl --key 3b6a…

Exit codes: 0 clean, 1 damage found (one line each), 2 verification incomplete. Without --key or
--since, an export exits with 2, because nothing proves its origin.";

#[derive(Debug, Args)]
pub(in crate::cli) struct Arguments {
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

/// Format of events and JSON in exports.
pub(super) fn style() -> Style {
    Style::default()
}

pub(super) fn run(arguments: Arguments, outer: SettingFlags) -> Result<(), Failure> {
    let Arguments { file, key, since, json, directory } = arguments;
    let since = since.as_deref().map(read_checkpoint).transpose().map_err(Failure::Unable)?;
    let outcome = match file {
        Some(file) => verify_file(&file, key.as_deref(), since.as_ref()).map_err(Failure::Unable)?,
        None => verify_directory(&directory.settings(outer)?.data_dir, since.as_ref()).map_err(Failure::Unable)?,
    };
    outcome.tell(json)
}

fn read_checkpoint(file: &Path) -> anyhow::Result<SignedCheckpoint> {
    let text = fs::read_to_string(file).with_context(|| format!("the checkpoint {}", file.display()))?;
    SignedCheckpoint::parse(&text).with_context(|| format!("{} is not a valid checkpoint", file.display()))
}

/// Result of a verification, independent of the output format.
pub(in crate::cli) struct Outcome {
    pub(in crate::cli) json: Value,
    pub(in crate::cli) notes: Vec<String>,
    pub(in crate::cli) findings: Vec<String>,
    /// Parts that could not be verified.
    pub(in crate::cli) unverified: Vec<String>,
    pub(in crate::cli) summary: String,
}

impl Outcome {
    /// Prints notes and findings, one per line, and the summary last.
    pub(in crate::cli) fn tell(self, json: bool) -> Result<(), Failure> {
        let Self { json: object, notes, findings, unverified, summary } = self;
        let (damaged, whole) = (!findings.is_empty(), unverified.is_empty());
        let text = if json {
            format!("{object}\n")
        } else {
            let notes = notes.into_iter().map(|note| format!("note: {note}\n"));
            let findings = findings.into_iter().map(|finding| format!("found: {finding}\n"));
            let unverified = unverified.into_iter().map(|what| format!("not verified: {what}\n"));
            notes.chain(unverified).chain(findings).chain([format!("{summary}\n")]).collect()
        };
        print(&text).context("cannot write to stdout").map_err(Failure::Unable)?;
        match (damaged, whole) {
            (true, _) => Err(Failure::Damage),
            (false, true) => Ok(()),
            (false, false) => Err(Failure::Unable(anyhow::anyhow!("not everything could be verified"))),
        }
    }
}

fn verify_directory(root: &Path, since: Option<&SignedCheckpoint>) -> anyhow::Result<Outcome> {
    let mut progress = Progress::new("verifying", Unit::Bytes);
    let mut reached = |done, total| progress.reached(done, Some(total));
    let report = directory::verify(root, since, &Surroundings::real(), &mut reached);
    progress.end();
    let report = report?;
    Ok(Outcome {
        json: report.to_json(),
        summary: report.summary(),
        findings: report.findings.iter().map(line).collect(),
        unverified: report.unverified,
        notes: report.notes,
    })
}

fn verify_file(file: &Path, key: Option<&str>, since: Option<&SignedCheckpoint>) -> anyhow::Result<Outcome> {
    let key = key.map(|key| hex::decode(key).context("--key: must be 64 lower case hexadecimal digits")).transpose()?;
    let known = match (key, since) {
        (Some(key), _) => Known::Key(key),
        (None, Some(since)) => Known::Since(since),
        (None, None) => Known::Nothing,
    };
    let (input, total): (Box<dyn Read>, _) = if file == Path::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let opened = File::open(file).with_context(|| format!("the export {}", file.display()))?;
        let total = opened.metadata().map(|metadata| metadata.len()).ok();
        (Box::new(opened), total)
    };
    let mut progress = Progress::new("verifying", Unit::Bytes);
    let mut done = 0;
    let report = exported::verify(input, style(), known, &mut |bytes| {
        done += bytes;
        progress.reached(done, total);
    });
    progress.end();
    let report = report.with_context(|| format!("the export {}", file.display()))?;
    let findings = report.findings.iter().map(|finding| format!("line {}: {}", finding.line, finding.what));
    Ok(Outcome {
        json: report.to_json(),
        summary: report.summary(),
        findings: findings.collect(),
        unverified: report.unverified.clone(),
        notes: report.notes.clone(),
    })
}
