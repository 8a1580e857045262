//! The key of the upload links. Account ids of an issuer's users are derived from it, so it is never replaced while
//! such accounts exist.

use std::path::{Path, PathBuf};

use super::StartError;
use super::bootstrap::BOOTSTRAP_ADMIN;
use super::files::warn_secret_recreated;
use crate::data_dir::{DataDir, shell_quote};
use crate::domain::ids::UserId;
use crate::environment::Environment;
use crate::events::envelope::Actor;
use crate::events::log::{EventLog, LogFailure};
use crate::events::stream::{StreamId, Version};
use crate::media::archive::upload_token::UploadKey;
use crate::projections::user::Users;

/// Error: the key is missing, and account ids were derived from it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the key {path} is missing, and account ids of OIDC users were derived from it (for example user/{account}). A new \
     key would give each of them a new account, banned or not, so none is created. Restore the file from a backup \
     (restore one into an empty directory with `mediary restore`, and copy url-key from there). If there is no copy, \
     create a new key: `(umask 077; printf 'mduk_%s\\n' \"$(head -c 32 /dev/urandom | base64)\" > {quoted})`; then \
     repeat bans and grant rights again",
    path = .path.display(), quoted = shell_quote(&.path.display().to_string())
)]
pub struct MissingUploadKey {
    path: PathBuf,
    account: UserId,
}

/// Returns the stored key, if any.
pub(super) fn read_upload_key(data: &DataDir) -> Result<Option<UploadKey>, StartError> {
    UploadKey::read(&key_path(data)).map_err(|error| StartError::part("upload links", &error))
}

/// Creates a key, unless accounts of an issuer were created with a lost one.
pub(super) fn create_upload_key(
    data: &DataDir,
    log: &dyn EventLog,
    users: &Users,
    environment: &Environment,
) -> Result<UploadKey, StartError> {
    let path = key_path(data);
    check_unused(&path, log, users)?;

    let key = UploadKey::generate(&path, environment).map_err(|error| StartError::part("upload links", &error))?;

    // The first start creates this account last, so the data directory was used before if it exists.
    if users.get(BOOTSTRAP_ADMIN).is_some() {
        warn_secret_recreated("url-key");
    }

    Ok(key)
}

fn key_path(data: &DataDir) -> PathBuf {
    data.path("url-key")
}

/// Checks that no account depends on the lost key. Only the log shows who created an account, so it is read in this
/// case.
fn check_unused(path: &Path, log: &dyn EventLog, users: &Users) -> Result<(), StartError> {
    let accounts = users.profiles().map(|user| user.id).chain(users.erased_ids());
    for account in accounts.filter(|user| *user != BOOTSTRAP_ADMIN) {
        if is_issuer_account(account, log).map_err(|failure| StartError::Log(failure.to_string()))? {
            return Err(MissingUploadKey { path: path.to_owned(), account }.into());
        }
    }
    Ok(())
}

/// Returns `true` if the service itself created the account, which it does only for users of an issuer.
fn is_issuer_account(account: UserId, log: &dyn EventLog) -> Result<bool, LogFailure> {
    let history = log.read_stream(&StreamId::from(&account), Version(0))?;
    Ok(history.first().is_some_and(|first_event| first_event.actor == Actor::System))
}
