//! The administrator's token for commands that ask a service.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use url::Url;

use crate::app::kept_address;
use crate::config::Configuration;
use crate::data_dir::{DataDir, read_private, to_help};

/// What is said of a file of the data directory that cannot be read.
pub(super) fn unreadable(file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("{} cannot be read: {error}{}", file.display(), to_help(file, error))
}

/// The token for the service at `base`: the one that was given, that of the environment, or, for the service that runs on the data
/// directory and nobody else, that of the settings file or the one which that service keeps in its directory.
///
/// # Errors
/// When there is none, with what to do, or when the file cannot be read.
pub(super) fn token_for(base: &str, given: Option<String>, configuration: &Configuration) -> anyhow::Result<String> {
    if let Some(token) = given {
        return Ok(token);
    }
    let (settings, own) = (&configuration.settings, is_own(base, configuration));
    let configured = settings.admin_token.as_ref();
    if let Some(token) = configured.filter(|_| own || configuration.is_from_environment("admin_token")) {
        return Ok(token.expose().to_owned());
    }
    ensure!(
        own,
        "no token for {base}: give --token or MEDIARY_ADMIN_TOKEN; that of {} is told only to its own service, {}",
        settings.data_dir.display(),
        reached(&settings.data_dir).map_or_else(|| "which does not run".to_owned(), |kept| format!("at {kept}"))
    );
    let file = settings.data_dir.join("admin-token");
    let kept = read_private(&file).map_err(|error| unreadable(&file, &error))?;
    let token = kept
        .with_context(|| format!("no token: give --token or MEDIARY_ADMIN_TOKEN ({} is not there)", file.display()))?;
    Ok(token.trim().to_owned())
}

/// Whether that is where the service that runs on the data directory says that it listens.
fn is_own(base: &str, configuration: &Configuration) -> bool {
    let origin = |text: &str| Url::parse(text).ok().map(|url| url.origin());
    reached(&configuration.settings.data_dir).is_some_and(|kept| origin(&kept) == origin(base))
}

/// Where the service that runs on the data directory says that it listens. The lock first: an address that is read before may have been
/// left by one that runs no more.
fn reached(data_dir: &Path) -> Option<String> {
    matches!(DataDir::is_in_service(data_dir), Ok(true)).then(|| kept_address(data_dir).ok().flatten())?
}
