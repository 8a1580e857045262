//! What is kept in files beside the log, and what a crash may have left of it.

use crate::data_dir::DataDir;
use crate::http::server::Keys;
use crate::media::archive::store::Archives;
use crate::personal::Keyring;
use crate::projections::read_models::Models;

/// Opens the archives, and removes those that no version names: their uploads ended between the file and the event.
pub(super) fn open_archives(data: &DataDir, models: &Models) -> std::io::Result<Archives> {
    let archives = Archives::open(&data.path("archives"))?;
    let removed = archives.sweep(&models.nodes.archives().map(|archive| archive.digest).collect())?;
    if removed > 0 {
        tracing::info!(removed, "archives that no version names were removed");
    }
    Ok(archives)
}

/// The keys of all users; of those who were erased what a crash left is destroyed now.
pub(super) fn open_keyring(data: &DataDir, models: &Models, keys: &Keys) -> Keyring {
    let keyring = Keyring::open(data.root());
    let erased: Vec<_> = models.users.erased().collect();
    if erased.iter().any(|user| keyring.has_key(*user)) {
        keys.forget_answers();
    }
    for user in erased {
        if let Err(failure) = keyring.forget(user) {
            tracing::error!(%user, %failure, "the key of a user who was erased is still there: remove the file");
        }
    }
    keyring
}
