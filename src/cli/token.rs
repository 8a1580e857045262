//! The administrator's token for commands that ask a service on this machine.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};

use crate::config::Settings;
use crate::data_dir::{read_private, to_help};

/// What is said of a file of the data directory that cannot be read.
pub(super) fn unreadable(file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("{} cannot be read: {error}{}", file.display(), to_help(file, error))
}

/// The token of the settings, or the one that the service keeps in its data directory.
///
/// # Errors
/// When there is none, with what to do, or when the file cannot be read.
pub(super) fn kept_token(settings: &Settings) -> anyhow::Result<String> {
    if let Some(token) = &settings.admin_token {
        return Ok(token.expose().to_owned());
    }
    let file = settings.data_dir.join("admin-token");
    let kept = read_private(&file).map_err(|error| unreadable(&file, &error))?;
    let token = kept.with_context(|| {
        format!(
            "no token: give --token or MEDIARY_ADMIN_TOKEN, or start the service first ({} is not there)",
            file.display()
        )
    })?;
    Ok(token.trim().to_owned())
}
