//! `mediary config`: prints the effective configuration with the source of each value, or a reference of all settings.

use anyhow::Context;
use clap::Args;

use super::{CliError, SettingFlags, print};
use crate::config::reference;

#[derive(Debug, Args)]
pub(super) struct ConfigArguments {
    /// Print a reference of all settings as Markdown instead
    #[arg(long)]
    reference: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) fn run(arguments: ConfigArguments, outer: SettingFlags) -> Result<(), CliError> {
    let ConfigArguments { reference: is_reference, settings } = arguments;
    let text = if is_reference { reference() } else { settings.or(outer).load()?.to_string() };
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
