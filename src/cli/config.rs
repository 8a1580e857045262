//! `mediary config`: the effective configuration, each value with where it came from.

use anyhow::Context;

use super::{Failure, SettingFlags, print};

pub(super) fn run(settings: SettingFlags) -> Result<(), Failure> {
    let configuration = settings.load()?;
    print(&configuration.to_string()).context("cannot write to stdout")?;
    Ok(())
}
