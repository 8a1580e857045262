//! URL and administrator token of commands for operators that call a service.

use std::path::{self, Path};
use std::{env, io};

use anyhow::{Context, anyhow, ensure};

use crate::app::read_address_file;
use crate::config::{Configuration, TOKEN_VARIABLE, URL_VARIABLE};
use crate::data_dir::{DataDir, read_private, to_help};
use crate::outbound::api_client::is_same_origin;

/// Returns the error for an unreadable file of the data directory.
pub(super) fn read_error(file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("{} cannot be read: {error}{}", file.display(), to_help(file, error))
}

/// Returns the value of an environment variable; `None` if it is not set or empty.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Service that the command line or the environment names.
pub(super) struct NamedService {
    pub(super) url: Option<String>,
    pub(super) token: Option<String>,
}

impl NamedService {
    /// Fills missing arguments from `MEDIARY_URL` and `MEDIARY_TOKEN`. `MEDIARY_URL` does not apply if the command line
    /// names a data directory. `MEDIARY_TOKEN` applies only if there is a URL, because the service of a data directory
    /// has a token of its own ([`token_for`]).
    pub(super) fn new(url: Option<String>, token: Option<String>, has_data_dir_flag: bool) -> Self {
        let url = url.or_else(|| variable(URL_VARIABLE).filter(|_| !has_data_dir_flag));
        let token = token.or_else(|| variable(TOKEN_VARIABLE).filter(|_| url.is_some()));
        Self { url, token }
    }
}

/// Returns the administrator token for the service at `base`: `explicit_token`, or the token of the environment. The
/// settings file and the `admin-token` file are used only for the service that runs on the data directory.
///
/// # Errors
/// If there is no token (the message says what to do) or the file cannot be read.
pub(super) fn token_for(
    base: &str,
    explicit_token: Option<String>,
    configuration: &Configuration,
) -> anyhow::Result<String> {
    if let Some(token) = explicit_token {
        return Ok(token);
    }

    let settings = &configuration.settings;
    let service_address = running_address(&settings.data_dir);
    let is_own_service = service_address
        .as_ref()
        .is_ok_and(|address| address.as_deref().is_some_and(|address| is_same_origin(address, base)));
    let configured = settings.admin_token.as_ref();
    if let Some(token) = configured.filter(|_| is_own_service || configuration.is_from_environment("admin_token")) {
        return Ok(token.expose().to_owned());
    }

    if let Some(token) = variable(TOKEN_VARIABLE).filter(|_| !is_own_service) {
        return Ok(token);
    }

    ensure!(
        is_own_service,
        "no token for {base}: give --token or {TOKEN_VARIABLE}, or name the data directory of that service with --data-dir; {}",
        withheld_token_reason(&settings.data_dir, &service_address)
    );

    let file = settings.data_dir.join("admin-token");
    let stored = read_private(&file).map_err(|error| read_error(&file, &error))?;
    let token = stored
        .with_context(|| format!("no token: give --token or {TOKEN_VARIABLE} ({} does not exist)", file.display()))?;
    Ok(token.trim().to_owned())
}

/// Returns the reason why the token of the data directory is not used for a service at another address.
fn withheld_token_reason(data_dir: &Path, service_address: &anyhow::Result<Option<String>>) -> String {
    let path = path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let path = path.display();
    match service_address {
        Ok(Some(address)) => format!("the token of {path} is sent only to its own service, at {address}"),
        Ok(None) if !data_dir.exists() => format!("{path} does not exist"),
        Ok(None) if DataDir::is_in_use(data_dir).unwrap_or(false) => {
            format!("the token of {path} is sent only to its own service, which is starting; try again soon")
        }
        Ok(None) => format!("the token of {path} is sent only to its own service, which is not running"),
        Err(error) => {
            format!("the token of {path} is sent only to its own service, whose state is unknown: {error:#}")
        }
    }
}

/// Returns the recorded address of the service that runs on the data directory, if any. Checks the lock first, because
/// a stopped service may have left its address behind.
fn running_address(data_dir: &Path) -> anyhow::Result<Option<String>> {
    if DataDir::is_in_use(data_dir)? { read_address_file(data_dir) } else { Ok(None) }
}
