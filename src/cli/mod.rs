//! Command line. Without a command, `mediary` runs `serve`.
//!
//! Exit codes: 0 success or stopped on request; 1 failure (port taken, data directory in use, damaged log); 2 wrong
//! usage or configuration. Commands of `client` exit with 1 if the service refused or the task failed, with 2 if they
//! could not run, and with 130 if the user interrupted them. Verification commands exit with 1 for damage and 2 if the
//! verification is incomplete.

mod atomic_file;
mod audit;
mod backup;
mod client;
mod cluster;
mod completions;
mod config;
mod demo;
mod health;
mod job_inputs;
mod music_stream;
mod openapi;
mod progress;
mod projections;
mod reference;
mod serve;
mod suggestions;
mod table;
mod task_events;
mod token;
mod vendors;

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use rustix::fs::Mode;

use self::suggestions::SuggestedValues;
use crate::config::{CommandLine, ConfigProblems, Configuration, Flag, Settings};
use crate::data_dir::is_directory;

const AFTER_HELP: &str = "\
Examples:
  mediary
  mediary --listen 127.0.0.1:9090 --data-dir /srv/mediary
  mediary demo
  mediary login
  mediary install face-tools
  mediary run image-upscaler photo.jpg -s scale_factor=4x
  mediary audit log --stream node/face-tools --from 2026-11-20
  mediary backup /mnt/backup/mediary
  mediary config --config /etc/mediary.toml

The help of each command has more examples: `mediary backup --help`.

Settings come from mediary.toml, from environment variables (MEDIARY_LISTEN,
MEDIARY_TASKS__DEADLINE) and, for the most common ones, from flags before or after the command; the
last of these takes precedence. `mediary config --all` lists all settings with their values.

Exit codes: 0 success or stopped on request, 1 failure, 2 wrong usage or configuration. Commands for
users of a service: 0 success, 1 the service refused or the task failed, 2 wrong usage, or the command
could not run, 130 interrupted.
`audit verify` and `backup --verify`: 0 clean, 1 damage found, 2 verification incomplete.";

const SERVE_HELP: &str = "\
Examples:
  mediary serve
  mediary serve --listen 0.0.0.0:8080 --public-url https://media.example.org --log-format json
  mediary serve --config /etc/mediary.toml

SIGTERM and SIGINT stop the service gracefully: it finishes requests in flight for up to 10 s and
running jobs for up to 5 s. Unfinished jobs continue after the next start.

`mediary config --reference` describes every setting, `mediary config` prints the ones that you changed.";

const CONFIG_HELP: &str = "\
Examples:
  mediary config
  mediary config --config /etc/mediary.toml
  mediary config --all
  mediary config --reference | less";

const OPENAPI_HELP: &str = "\
Examples:
  mediary openapi > openapi.json";

/// Node registry and media generation gateway with an embedded event log
#[derive(Debug, Parser)]
#[command(name = "mediary", version = env!("BUILD_VERSION"), after_help = AFTER_HELP)]
struct CliArguments {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the service (default)
    #[command(after_help = SERVE_HELP)]
    Serve(SettingFlags),
    /// Print the settings that differ from the defaults, or all, with their sources; secrets are masked
    #[command(after_help = CONFIG_HELP)]
    Config(config::ConfigArguments),
    /// Print the OpenAPI 3.1 document of the service
    #[command(after_help = OPENAPI_HELP)]
    Openapi,
    /// Check whether a running service is ready
    #[command(after_help = health::HELP)]
    Health(health::HealthArguments),
    /// Load a sample registry into a running service and generate a picture, a video and a piece of music
    #[command(after_help = demo::HELP)]
    Demo(demo::DemoArguments),
    /// Print a shell completion script
    #[command(after_help = completions::COMPLETIONS_HELP)]
    Completions(completions::CompletionsArguments),
    /// Write manual pages, one per command
    #[command(after_help = completions::MAN_HELP)]
    Man(completions::ManArguments),
    /// Print a generated page of the documentation
    #[command(hide = true, after_help = reference::HELP)]
    Reference(reference::ReferenceArguments),
    /// Manage read models and the index of the log
    #[command(subcommand, after_help = projections::HELP)]
    Projections(projections::ProjectionsCommand),
    /// List and check vendor profiles, show the requests of a job, and send one
    #[command(subcommand, after_help = vendors::HELP)]
    Vendors(vendors::VendorsCommand),
    /// Query, verify and export the audit log
    #[command(subcommand, after_help = audit::HELP)]
    Audit(audit::AuditCommand),
    #[command(flatten)]
    Client(client::ClientCommand),
    /// Make a cluster of services with one log, show its nodes, and leave it
    #[command(subcommand, after_help = cluster::HELP)]
    Cluster(cluster::ClusterCommand),
    /// Back up log and files to a directory, also while the service runs, or verify a backup
    #[command(after_help = backup::BACKUP_HELP)]
    Backup(backup::BackupArguments),
    /// Verify a backup and restore it to a data directory
    #[command(after_help = backup::RESTORE_HELP)]
    Restore(backup::RestoreArguments),
}

/// Flags of commands that work on a data directory without serving.
#[derive(Debug, Default, Args)]
struct DirectoryFlags {
    /// Settings file to use instead of mediary.toml in the working directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
}

impl DirectoryFlags {
    /// Returns `true` if the command line names a data directory; `outer` are the flags before the command.
    fn names_data_dir(&self, outer: &SettingFlags) -> bool {
        self.data_dir.is_some() || outer.data_dir.is_some()
    }

    /// Loads the settings; `outer` are the flags before the command.
    fn settings(self, outer: SettingFlags) -> Result<Settings, ConfigProblems> {
        Ok(self.configuration(outer)?.settings)
    }

    /// Loads the settings with the source of each value.
    fn configuration(self, outer: SettingFlags) -> Result<Configuration, ConfigProblems> {
        let flags = SettingFlags { config: self.config, data_dir: self.data_dir, ..SettingFlags::default() };
        flags.or(outer).load()
    }
}

/// Returns the data directory of the settings.
///
/// # Errors
/// If the directory does not exist.
fn existing_data_dir(settings: &Settings) -> anyhow::Result<&Path> {
    let root = settings.data_dir.as_path();
    let exists = is_directory(root).map_err(|error| token::read_error(root, &error))?;
    anyhow::ensure!(exists, "there is no data directory at {}: name one with --data-dir", root.display());
    Ok(root)
}

// Flags for common settings. They can stand before and after the command.
#[derive(Debug, Default, Args)]
struct SettingFlags {
    /// Settings file to use instead of mediary.toml in the working directory
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on, such as 127.0.0.1:8080; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Data directory with the event log, read models and media files
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Base of all URLs that the service returns
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Number of HTTP worker threads; 0 means one per core
    #[arg(long, value_name = "COUNT")]
    workers: Option<String>,
    /// Log level: off, error, warn, info, debug or trace; per target as in `info,mediary::http=debug`
    #[arg(long, value_name = "LEVEL", value_parser = SuggestedValues(&["off", "error", "warn", "info", "debug", "trace"]), hide_possible_values = true)]
    log_level: Option<String>,
    /// Log format: text or json
    #[arg(long, value_name = "FORMAT", value_parser = SuggestedValues(&["text", "json"]), hide_possible_values = true)]
    log_format: Option<String>,
    /// Engine of a cluster: URLs of NATS servers, separated by commas, or of a PostgreSQL database
    #[arg(long, value_name = "URLS")]
    engine: Option<String>,
}

impl SettingFlags {
    /// Fills missing values from `outer`, the flags before the command.
    fn or(self, outer: Self) -> Self {
        Self {
            config: self.config.or(outer.config),
            listen: self.listen.or(outer.listen),
            data_dir: self.data_dir.or(outer.data_dir),
            public_url: self.public_url.or(outer.public_url),
            workers: self.workers.or(outer.workers),
            log_level: self.log_level.or(outer.log_level),
            log_format: self.log_format.or(outer.log_format),
            engine: self.engine.or(outer.engine),
        }
    }

    fn load(self) -> Result<Configuration, ConfigProblems> {
        Configuration::load(self.command_line())
    }

    fn command_line(self) -> CommandLine {
        let flags = [
            ("listen", "--listen", self.listen),
            ("data_dir", "--data-dir", self.data_dir),
            ("public_url", "--public-url", self.public_url),
            ("workers", "--workers", self.workers),
            ("log.level", "--log-level", self.log_level),
            ("log.format", "--log-format", self.log_format),
            ("cluster.engine", "--engine", self.engine),
        ];
        let flags = flags.into_iter().filter_map(|(key, name, text)| Some(Flag { key, name, text: text? })).collect();
        CommandLine { file: self.config, flags }
    }
}

/// Exit code of an interrupted command, as shells report it: 128 plus the number of SIGINT.
const INTERRUPTED: u8 = 128 + 2;

/// Failure of a command.
#[derive(Debug)]
enum CliError {
    Configuration(ConfigProblems),
    /// Invalid arguments.
    Usage(String),
    Runtime(anyhow::Error),
    /// A command could not run: no connection, no token, or a local file that cannot be read or written.
    CannotRun(anyhow::Error),
    /// The user interrupted the command.
    Interrupted(String),
    /// A verification found damage, which has been printed.
    DamageFound,
    /// A check failed; its result has been printed.
    CheckFailed,
    /// A verification could not be completed.
    VerificationIncomplete(anyhow::Error),
}

impl CliError {
    /// Prefixes the message of a failure with what the command was doing. Leaves other errors unchanged.
    fn context(self, context: String) -> Self {
        match self {
            Self::Runtime(error) => Self::Runtime(error.context(context)),
            Self::CannotRun(error) => Self::CannotRun(error.context(context)),
            other => other,
        }
    }

    fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Runtime(_) | Self::DamageFound | Self::CheckFailed => 1,
            Self::Configuration(_) | Self::Usage(_) | Self::CannotRun(_) | Self::VerificationIncomplete(_) => 2,
            Self::Interrupted(_) => INTERRUPTED,
        })
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(problems) => problems.fmt(f),
            Self::Usage(message) | Self::Interrupted(message) => message.fmt(f),
            Self::Runtime(error) | Self::CannotRun(error) | Self::VerificationIncomplete(error) => {
                write!(f, "{error:#}")
            }
            Self::DamageFound => f.write_str("damage was found"),
            Self::CheckFailed => f.write_str("a check failed"),
        }
    }
}

impl From<ConfigProblems> for CliError {
    fn from(problems: ConfigProblems) -> Self {
        Self::Configuration(problems)
    }
}

impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self::Runtime(error)
    }
}

impl CliCommand {
    /// Returns `true` if the command writes private files of the service: the data directory or a copy of it. Other
    /// commands write files that are meant to be shared.
    fn writes_private_files(&self) -> bool {
        match self {
            Self::Serve(_) | Self::Projections(_) | Self::Cluster(_) | Self::Backup(_) | Self::Restore(_) => true,
            Self::Config(_)
            | Self::Openapi
            | Self::Health(_)
            | Self::Demo(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Reference(_)
            | Self::Vendors(_)
            | Self::Client(_)
            | Self::Audit(_) => false,
        }
    }
}

/// Runs the command line. On wrong usage, prints the usage to stderr and exits.
#[must_use]
pub fn run() -> ExitCode {
    completions::answer_completion_script();
    let arguments =
        CliArguments::try_parse().unwrap_or_else(|error| suggestions::with_suggestions::<CliArguments>(error).exit());
    let outer = arguments.settings;
    let command = arguments.command.unwrap_or(CliCommand::Serve(SettingFlags::default()));

    if command.writes_private_files() {
        // Covers files that libraries create, even if the data directory is a volume that other users can enter.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }

    let result = match command {
        CliCommand::Serve(settings) => serve::run(settings.or(outer)),
        CliCommand::Config(arguments) => config::run(arguments, outer),
        CliCommand::Openapi => openapi::run(),
        CliCommand::Health(arguments) => health::run(arguments, outer),
        CliCommand::Demo(arguments) => demo::run(arguments, outer),
        CliCommand::Completions(arguments) => completions::completions(&arguments),
        CliCommand::Man(arguments) => completions::man(&arguments),
        CliCommand::Reference(arguments) => reference::run(&arguments),
        CliCommand::Projections(command) => projections::run(command, outer),
        CliCommand::Vendors(command) => vendors::run(command, outer),
        CliCommand::Audit(command) => audit::run(command, outer),
        CliCommand::Client(command) => client::run(command),
        CliCommand::Cluster(command) => cluster::run(command, outer),
        CliCommand::Backup(arguments) => backup::backup(arguments, outer),
        CliCommand::Restore(arguments) => backup::restore(arguments, outer),
    };

    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ (CliError::DamageFound | CliError::CheckFailed)) => failure.exit_code(),
        Err(failure) => {
            // stderr may be closed; the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "mediary: {failure}");
            failure.exit_code()
        }
    }
}

/// Prints the result of a command to stdout.
fn print_text(text: &str) -> Result<(), CliError> {
    print(text).map_err(|error| CliError::CannotRun(anyhow::anyhow!("cannot write to stdout: {error}")))
}

/// Writes to stdout and flushes. A closed pipe is not an error: `mediary config | head -1`.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::config::{ConfigProblem, SettingSource};

    #[test]
    fn the_command_line_is_consistent() {
        CliArguments::command().debug_assert();
    }

    /// Returns a command and all its subcommands with their full names.
    fn commands(command: &clap::Command, words: &str) -> Vec<(String, clap::Command)> {
        let nested =
            command.get_subcommands().flat_map(|inner| commands(inner, &format!("{words} {}", inner.get_name())));
        [(words.to_owned(), command.clone())].into_iter().chain(nested).collect()
    }

    #[test]
    fn every_command_has_valid_examples() {
        for (words, command) in commands(&CliArguments::command(), "mediary") {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().skip_while(|line| *line != "Examples:").map_while(|line| {
                let line = line.trim();
                (!line.is_empty()).then(|| line.to_owned())
            });
            let lines: Vec<_> = examples.filter(|line| line.starts_with("mediary")).collect();
            assert!(lines.iter().any(|line| line.starts_with(&words)), "{words}: {help}");
            for line in lines {
                let parts = line.split(['|', '<', '>', '&']).next().unwrap_or_default();
                let parsed = CliArguments::try_parse_from(parts.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn without_a_command_the_flags_are_those_of_serve() {
        let bare = CliArguments::try_parse_from(["mediary", "--listen", "127.0.0.1:0"]).unwrap();
        let explicit = CliArguments::try_parse_from(["mediary", "serve", "--listen", "127.0.0.1:0"]).unwrap();

        assert_eq!(bare.settings.listen.as_deref(), Some("127.0.0.1:0"));
        assert!(bare.command.is_none());
        assert!(matches!(explicit.command, Some(CliCommand::Serve(flags)) if flags.listen == bare.settings.listen));
    }

    #[test]
    fn flags_are_accepted_before_and_after_the_command() {
        let parse = |words: &[&str]| CliArguments::try_parse_from([&["mediary"], words].concat()).unwrap();
        let before = parse(&["--data-dir", "a", "--listen", "x", "serve"]);
        let Some(CliCommand::Serve(flags)) = before.command else { panic!() };
        let merged = flags.or(before.settings);
        assert_eq!((merged.data_dir.as_deref(), merged.listen.as_deref()), (Some("a"), Some("x")));
        let both = parse(&["--data-dir", "a", "serve", "--data-dir", "b"]);
        let Some(CliCommand::Serve(flags)) = both.command else { panic!() };
        assert_eq!(flags.or(both.settings).data_dir.as_deref(), Some("b"));
    }

    #[test]
    fn every_flag_except_the_file_is_a_setting() {
        let names: Vec<_> = CliArguments::command()
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .filter(|name| !["config", "help", "version"].contains(name))
            .map(|name| format!("--{name}"))
            .collect();
        let arguments = ["mediary".to_owned()].into_iter().chain(names.iter().map(|name| format!("{name}=x")));

        let flags = CliArguments::try_parse_from(arguments).unwrap().settings.command_line().flags;

        assert_eq!(flags.iter().map(|flag| flag.name).collect::<Vec<_>>(), names);
        let ConfigProblems(problems) = Configuration::load(CommandLine { file: None, flags }).unwrap_err();
        let unknown = |problem: &&ConfigProblem| {
            matches!(problem, ConfigProblem::Unknown { from: SettingSource::Flag { .. }, .. })
        };
        assert_eq!(problems.iter().find(unknown), None);
    }

    #[test]
    fn configuration_errors_and_failures_have_different_exit_codes() {
        assert_eq!(CliError::from(ConfigProblems(Vec::new())).exit_code(), ExitCode::from(2));
        assert_eq!(CliError::from(anyhow::anyhow!("the port is taken")).exit_code(), ExitCode::from(1));
    }
}
