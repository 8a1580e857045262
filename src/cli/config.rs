//! `mediary config`: the effective configuration, each value with where it came from; or what every setting means.

use anyhow::Context;
use clap::Args;

use super::{Failure, SettingFlags, print};
use crate::config::reference;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print what every setting means in place of what is in effect, as Markdown
    #[arg(long)]
    reference: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) fn run(arguments: Arguments, outer: SettingFlags) -> Result<(), Failure> {
    let Arguments { reference: is_reference, settings } = arguments;
    let text = if is_reference { reference() } else { settings.or(outer).load()?.to_string() };
    print(&text).context("cannot write to stdout")?;
    Ok(())
}
