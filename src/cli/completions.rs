//! `mediary completions` and `mediary man`: shell completion scripts and manual pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use super::{CliError, print};

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  mediary completions bash > ~/.local/share/bash-completion/completions/mediary
  mediary completions zsh > ~/.zfunc/_mediary          # with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  mediary completions fish > ~/.config/fish/completions/mediary.fish
  mediary completions powershell >> $PROFILE

Create missing directories first. Shells that you start afterwards use the script, which calls this
program to complete commands and flags, and the ids of nodes, publishers, jobs and tasks of the service
of `mediary login` or MEDIARY_URL. Write the script again after an upgrade.";

/// Environment variable by which the completion script tells the program that it asks for candidates.
const VARIABLE: &str = "MEDIARY_COMPLETE";

pub(super) const MAN_HELP: &str = "\
Examples:
  mediary man ~/.cargo/share/man/man1 && man mediary-backup    # man searches there if ~/.cargo/bin is in PATH";

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// Shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// Directory for the pages; created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// If a completion script called the program, prints the candidates and exits.
pub(super) fn answer_completion_script() {
    CompleteEnv::with_factory(super::CliArguments::command).var(VARIABLE).bin("mediary").complete();
}

pub(super) fn completions(arguments: &CompletionsArguments) -> Result<(), CliError> {
    print(&script(arguments.shell)?).context("cannot write to stdout")?;
    Ok(())
}

/// Returns the script, which asks the program for candidates.
fn script(shell: Shell) -> anyhow::Result<String> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).context("this shell has no completions")?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "mediary", "mediary", "mediary", &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

pub(super) fn man(arguments: &ManArguments) -> Result<(), CliError> {
    let directory = &arguments.directory;
    let context = || format!("cannot write manual pages to {}", directory.display());
    fs::create_dir_all(directory).with_context(context)?;
    clap_mangen::generate_to(super::CliArguments::command(), directory).with_context(context)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::ValueEnum;

    use super::*;
    use crate::cli::CliArguments;

    #[test]
    fn the_script_of_every_shell_calls_the_program() {
        for shell in Shell::value_variants() {
            let script = script(*shell).unwrap();
            assert!(script.contains(VARIABLE) && script.contains("mediary"), "{shell}: {script}");
        }
    }

    fn candidates(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = ["mediary"].iter().chain(words).map(OsString::from).collect();
        let last = words.len() - 1;
        let found = clap_complete::engine::complete(&mut CliArguments::command(), words, last, None).unwrap();
        found.into_iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(candidates(&["back"]), ["backup"]);
        assert_eq!(candidates(&["audit", "as"]), ["as-of"]);
        assert_eq!(candidates(&["serve", "--data"]), ["--data-dir"]);
        assert!(candidates(&["serve", "--log-level", "d"]).contains(&"debug".to_owned()));
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        man(&ManArguments { directory: folder.path().join("man1") }).unwrap();
        for name in ["mediary", "mediary-serve", "mediary-audit-as-of", "mediary-backup"] {
            let page = fs::read_to_string(folder.path().join("man1").join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH NAME") && page.contains("Examples"), "{name}");
        }
    }
}
