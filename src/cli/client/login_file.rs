//! File with the service and the token of `mediary login`, which only its owner can read.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use crate::cli::CliError;
use crate::data_dir::{create_durably, read_private, write_private};

/// Name of the file in the configuration directory.
const FILE: &str = "mediary/login.toml";
const HEAD: &str = "# Written by `mediary login`, removed by `mediary logout`. The token is a secret.\n";

/// Service and token of a user.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    pub(super) url: String,
    pub(super) token: String,
}

impl StoredLogin {
    /// Reads the login; `None` if the user is not signed in.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(super) fn read() -> Result<Option<Self>, CliError> {
        login_path().map_or(Ok(None), |path| Self::read_from(&path)).map_err(CliError::CannotRun)
    }

    fn read_from(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = read_private(path).with_context(|| format!("cannot read {}", path.display()))?;
        text.map(|text| {
            // The message of the parser would quote the line, which may be the token.
            toml::from_str(&text).map_err(|_| {
                anyhow!("{} is not a login of this program: remove it, or run `mediary login` again", path.display())
            })
        })
        .transpose()
    }

    /// Stores the login, replacing an earlier one, and returns the path of its file.
    ///
    /// # Errors
    /// If there is no configuration directory, or the file cannot be written.
    pub(super) fn write(&self) -> Result<PathBuf, CliError> {
        let path = login_path().ok_or_else(|| CliError::CannotRun(anyhow!("no configuration directory: set HOME")))?;
        let text = toml::to_string(self).map_err(anyhow::Error::from)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let written = create_durably(directory).and_then(|()| write_private(&path, format!("{HEAD}{text}").as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display())).map_err(CliError::CannotRun)?;
        Ok(path)
    }

    /// Removes the login. Returns `false` if there was none.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) fn remove() -> Result<bool, CliError> {
        let Some(path) = login_path() else { return Ok(false) };
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CliError::CannotRun(anyhow!("cannot remove {}: {error}", path.display()))),
        }
    }
}

/// Returns the path of the file, by the XDG base directory specification.
fn login_path() -> Option<PathBuf> {
    let configured = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = configured.or_else(|| Some(env::home_dir()?.join(".config")))?;
    Some(directory.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_an_error_that_does_not_quote_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login.toml");
        assert_eq!(StoredLogin::read_from(&path).unwrap(), None);

        fs::write(&path, "token = mdu_secret").unwrap();
        let error = format!("{:#}", StoredLogin::read_from(&path).unwrap_err());

        assert!(error.contains("login.toml is not a login") && !error.contains("mdu_secret"), "{error}");
    }
}
