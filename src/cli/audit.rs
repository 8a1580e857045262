//! `mediary audit`: what the log tells, and the proof that it is whole.

mod proof;
mod verify;

use clap::Subcommand;

pub(super) use self::verify::Outcome;

use super::{Failure, SettingFlags};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    #[command(flatten)]
    Proof(proof::Command),
}

pub(super) fn run(command: Command, outer: SettingFlags) -> Result<(), Failure> {
    match command {
        Command::Proof(command) => proof::run(command, outer),
    }
}
