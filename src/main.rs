//! The program: see [`mediary::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    mediary::cli::run()
}
