//! `mediary completions` and `mediary man`: shell completion scripts and manual pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{CliError, print};

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  mediary completions bash > ~/.local/share/bash-completion/completions/mediary
  mediary completions zsh > ~/.zfunc/_mediary          # with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  mediary completions fish > ~/.config/fish/completions/mediary.fish
  mediary completions powershell >> $PROFILE

Create missing directories first. New shells use the completions.";

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

pub(super) fn completions(arguments: &CompletionsArguments) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::CliArguments::command(), "mediary", &mut script);
    print(&String::from_utf8_lossy(&script)).context("cannot write to stdout")?;
    Ok(())
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
    use clap::ValueEnum;

    use super::*;
    use crate::cli::CliArguments;

    #[test]
    fn the_script_of_every_shell_has_the_commands() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut CliArguments::command(), "mediary", &mut script);
            let script = String::from_utf8(script).unwrap();
            for word in ["audit", "as-of", "data-dir", "backup", "completions"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
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
