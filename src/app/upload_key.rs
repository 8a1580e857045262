//! The key of the upload links. Account ids of an issuer's users are derived from it, so it is never replaced while
//! such accounts exist.

use std::path::{Path, PathBuf};

use super::StartError;
use super::bootstrap::BOOTSTRAP_ADMIN;
use super::files::tell_renewed;
use crate::clock::Surroundings;
use crate::data_dir::{DataDir, quoted};
use crate::domain::ids::UserId;
use crate::events::envelope::Actor;
use crate::events::log::{EventLog, LogFailure};
use crate::events::stream::{StreamId, Version};
use crate::media::archive::ticket::UploadKey;
use crate::projections::user::Users;

/// Error: the key is missing, and account ids were derived from it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the key {path} is missing, and ids of accounts of an issuer's people were made with it (user/{account} is one). With another \
     key each of them, banned or not, would come back as somebody new, so none is made. Put the file back: backups have it (restore \
     one into an empty directory with `mediary restore`, and copy url-key from there). If no copy is left anywhere, make another \
     by hand: `(umask 077; printf 'mduk_%s\\n' \"$(head -c 32 /dev/urandom | base64)\" > {quoted})`; then ban anew whom you want to \
     keep out, and give people their rights again",
    path = .path.display(), quoted = quoted(&.path.display().to_string())
)]
pub struct LostKey {
    path: PathBuf,
    account: UserId,
}

/// Returns the stored key; `None` if there is none.
pub(super) fn kept_upload_key(data: &DataDir) -> Result<Option<UploadKey>, StartError> {
    UploadKey::read(&place(data)).map_err(|error| StartError::part("the uploads", &error))
}

/// Creates a key, unless accounts of an issuer were created with a lost one.
pub(super) fn new_upload_key(
    data: &DataDir,
    log: &dyn EventLog,
    users: &Users,
    surroundings: &Surroundings,
) -> Result<UploadKey, StartError> {
    let path = place(data);
    check_unused(&path, log, users)?;

    let key = UploadKey::make(&path, surroundings).map_err(|error| StartError::part("the uploads", &error))?;

    // The first start creates that account last.
    if users.get(BOOTSTRAP_ADMIN).is_some() {
        tell_renewed("url-key");
    }

    Ok(key)
}

fn place(data: &DataDir) -> PathBuf {
    data.path("url-key")
}

/// Checks that no account depends on the lost key. Only the log shows who created an account, so it is read in this
/// case.
fn check_unused(path: &Path, log: &dyn EventLog, users: &Users) -> Result<(), StartError> {
    let everybody = users.present().map(|user| user.id).chain(users.erased());
    for account in everybody.filter(|user| *user != BOOTSTRAP_ADMIN) {
        if is_of_issuer(account, log).map_err(|failure| StartError::Log(failure.to_string()))? {
            return Err(LostKey { path: path.to_owned(), account }.into());
        }
    }
    Ok(())
}

/// Returns `true` if the service itself created the account, which it does only for users of an issuer.
fn is_of_issuer(account: UserId, log: &dyn EventLog) -> Result<bool, LogFailure> {
    let history = log.read_stream(&StreamId::from(&account), Version(0))?;
    Ok(history.first().is_some_and(|opened| opened.actor == Actor::System))
}
