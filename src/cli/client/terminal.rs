//! Questions to the user, on stderr, so that stdout holds only results.

use std::io::{self, IsTerminal, Read};

use anyhow::Context;
use console::Term;

use crate::cli::CliError;

/// Maximum length of a token on stdin.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Returns `true` if stdin and stderr are terminals, so that the user can answer questions.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a line. Returns `default` if the user enters nothing.
///
/// # Errors
/// If the terminal cannot be read.
pub(super) fn ask(question: &str, default: &str) -> Result<String, CliError> {
    let hint = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    let answer = read_line(&format!("{question}{hint}: "), Term::read_line)?;
    let answer = answer.trim();
    Ok(if answer.is_empty() { default } else { answer }.to_owned())
}

/// Asks for a secret, which is not shown.
///
/// # Errors
/// If the terminal cannot be read.
pub(super) fn ask_secret(question: &str) -> Result<String, CliError> {
    Ok(read_line(&format!("{question}: "), Term::read_secure_line)?.trim().to_owned())
}

fn read_line(prompt: &str, read: fn(&Term) -> io::Result<String>) -> Result<String, CliError> {
    let terminal = Term::stderr();
    let line = terminal.write_str(prompt).and_then(|()| read(&terminal));
    line.context("cannot read from the terminal").map_err(CliError::CannotRun)
}

/// Reads a token from stdin, up to its end. The token is empty if stdin is.
///
/// # Errors
/// If stdin cannot be read or is not UTF-8.
pub(super) fn read_token() -> Result<String, CliError> {
    let mut token = String::new();
    let read = io::stdin().lock().take(TOKEN_BYTES_MAX).read_to_string(&mut token);
    read.context("cannot read the token from stdin").map_err(CliError::CannotRun)?;
    Ok(token.trim().to_owned())
}
