//! `mediary config`: prints the settings that differ from the defaults, or all of them, with the source of each value,
//! or a reference of all settings.

use anyhow::Context;
use clap::Args;

use super::{CliError, SettingFlags, print};
use crate::config::{Configuration, reference};

#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    /// Print all settings, also those that have their default
    #[arg(long, conflicts_with = "reference")]
    all: bool,
    /// Print a reference of all settings as Markdown instead
    #[arg(long)]
    reference: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) fn run(arguments: ConfigArguments, outer: SettingFlags) -> Result<(), CliError> {
    let ConfigArguments { all, reference: is_reference, settings } = arguments;
    let text = if is_reference {
        reference()
    } else {
        let configuration = settings.or(outer).load()?;
        if all { configuration.to_string() } else { describe_changes(&configuration) }
    };
    print(&text).context("cannot write to stdout")?;
    Ok(())
}

/// Formats the settings that differ from the defaults, as a file of settings.
fn describe_changes(configuration: &Configuration) -> String {
    let changes = format!("{configuration:#}");
    let summary =
        if changes.is_empty() { "Every setting has its default." } else { "All other settings have their defaults." };
    let separator = if changes.is_empty() { "" } else { "\n" };
    format!("{}{separator}# {summary} `mediary config --all` prints them.\n", changes.trim_start())
}
