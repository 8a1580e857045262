//! `mediary audit verify`, `checkpoint` and `export`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use super::target::ServiceClient;
use super::verify;
use crate::cli::atomic_file::AtomicFile;
use crate::cli::progress::{ProgressLine, ProgressUnit};
use crate::cli::token::NamedService;
use crate::cli::{CliError, DirectoryFlags, SettingFlags, existing_data_dir, print};
use crate::data_dir::write_atomically;
use crate::environment::Environment;
use crate::events::journal::SignedCheckpoint;
use crate::pluralize::pluralize;
use crate::verification::export;

const CHECKPOINT_HELP: &str = "\
Keep checkpoints where the operator of the service cannot change them. `mediary audit verify --since`
checks later that the history still contains them. A checkpoint contains hashes only.

Examples:
  mediary audit checkpoint --out 2026-11-21.checkpoint
  MEDIARY_TOKEN=... mediary audit checkpoint --url https://registry.example.org
  mediary audit verify --since 2026-11-21.checkpoint";

const EXPORT_HELP: &str = "\
The export is JSON Lines: a header, one line per commit with its events and the bytes that the hash
chain covers, and signed checkpoints in between. It contains the whole log and can be checked on any
machine with `mediary audit verify --file`.

Examples:
  mediary audit export log.jsonl
  mediary audit export - | zstd > log.jsonl.zst
  mediary audit verify --file log.jsonl --key 3b6a…

An existing file is replaced only after the export is complete and on disk.";

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AuditIntegrityCommand {
    /// Verify the log and all its files, and report any damage
    #[command(after_help = verify::HELP)]
    Verify(verify::VerifyArguments),
    /// Print a signed checkpoint of the log, to be kept elsewhere
    #[command(after_help = CHECKPOINT_HELP)]
    Checkpoint(CheckpointArguments),
    /// Export the whole log as JSON Lines, verifiable with the public key alone
    #[command(after_help = EXPORT_HELP)]
    Export(ExportArguments),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckpointArguments {
    /// File to write instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// URL of a running service to query instead of the data directory [default: `MEDIARY_URL` unless --data-dir is
    /// given]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Administrator token for that service [default: `MEDIARY_TOKEN`, otherwise `MEDIARY_ADMIN_TOKEN`; for the service of
    /// the data directory also the settings file or the file admin-token in that directory]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    directory: DirectoryFlags,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArguments {
    /// File to write; - is stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    directory: DirectoryFlags,
}

pub(in crate::cli) fn run(command: AuditIntegrityCommand, outer: SettingFlags) -> Result<(), CliError> {
    match command {
        AuditIntegrityCommand::Verify(arguments) => verify::run(arguments, outer),
        AuditIntegrityCommand::Checkpoint(arguments) => checkpoint(arguments, outer),
        AuditIntegrityCommand::Export(arguments) => export(arguments, outer),
    }
}

fn checkpoint(arguments: CheckpointArguments, outer: SettingFlags) -> Result<(), CliError> {
    let CheckpointArguments { out, url, token, directory } = arguments;
    let NamedService { url, token } = NamedService::new(url, token, directory.names_data_dir(&outer));
    let configuration = directory.configuration(outer)?;
    let signed = if let Some(url) = url {
        let reply = ServiceClient::new(&url, token, &configuration)?.get("/admin/checkpoint")?;
        SignedCheckpoint::from_json(&reply).context("the service returned no valid checkpoint")?
    } else {
        let log = existing_data_dir(&configuration.settings)?.join("log");
        export::sign_checkpoint(&log, &Environment::system()).map_err(anyhow::Error::from)?
    };
    let text = format!("{}\n", verify::export_format().line(&signed.to_json()));
    match out {
        Some(file) => write_atomically(&file, 0o644, text.as_bytes()).with_context(|| write_context(&file))?,
        None => print(&text).context("cannot write to stdout")?,
    }
    Ok(())
}

fn export(arguments: ExportArguments, outer: SettingFlags) -> Result<(), CliError> {
    let ExportArguments { file, directory } = arguments;
    let log = existing_data_dir(&directory.settings(outer)?)?.join("log");
    let environment = Environment::system();
    let progress = ProgressLine::new("exporting", ProgressUnit::Events);
    let mut on_progress = |done, total| progress.update(done, Some(total));
    let mut write =
        |out: &mut dyn Write| export::export(&log, verify::export_format(), &environment, out, &mut on_progress);

    if file == Path::new("-") {
        let result = write(&mut BufWriter::new(io::stdout().lock()));
        progress.finish();
        result.map_err(anyhow::Error::from)?;
        return Ok(());
    }

    let mut draft = AtomicFile::create(&file, environment.random_uuid()).with_context(|| write_context(&file))?;
    let result = write(&mut draft);
    progress.finish();
    let position = result.map_err(anyhow::Error::from)?.checkpoint().head.position;
    draft.commit().with_context(|| write_context(&file))?;

    let events = pluralize(position.0, "event");
    print(&format!("{events} exported to {}, one line per commit\n", file.display()))
        .context("cannot write to stdout")?;
    Ok(())
}

fn write_context(file: &Path) -> String {
    format!("{} cannot be written", file.display())
}
