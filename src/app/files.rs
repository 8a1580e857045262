//! What is kept in files beside the log, and what a crash may have left of it.

use std::path::Path;
use std::sync::Arc;

use super::StartError;
use crate::clock::Surroundings;
use crate::data_dir::DataDir;
use crate::http::server::{Keys, SnapshotRemover};
use crate::media::archive::store::{Archives, ORPHANS, Swept};
use crate::media::decoders::Decoders;
use crate::media::store::Store;
use crate::outbound::signature::WebhookKey;
use crate::personal::Keyring;
use crate::projections::read_models::Models;
use crate::projections::snapshot;
use crate::words::count;

/// Opens the archives, and sets aside those that no version names: their uploads ended between the file and the event, or the log
/// is an older copy. What was done is added to `reports`.
pub(super) fn open_archives(
    data: &DataDir,
    models: &Models,
    surroundings: &Surroundings,
    reports: &mut Vec<String>,
) -> Result<Archives, StartError> {
    let root = data.path("archives");
    let archives = Archives::open(&root).map_err(|error| StartError::at("the archives", &root, &error))?;
    match archives.sweep(&models.nodes.archives().map(|archive| archive.digest).collect()) {
        Ok(swept) => reports.extend(swept_sentences(swept, &root.join(ORPHANS))),
        // A full disk has no room for another name either; the next start tries again.
        Err(error) => tracing::warn!(%error, "archives that no version names could not be set aside"),
    }
    Ok(archives.with_mishaps(surroundings.mishaps()))
}

fn swept_sentences(swept: Swept, orphans: &Path) -> Vec<String> {
    let Swept { set_aside, brought_back } = swept;
    let mut sentences = Vec::new();
    if set_aside > 0 {
        sentences.push(format!(
            "{} that no version names, moved to {}: of interrupted uploads, or the log is an older copy",
            count(set_aside as u64, "archive"),
            orphans.display()
        ));
    }
    if brought_back > 0 {
        sentences.push(format!("{}, brought back from {}", count(brought_back as u64, "archive"), orphans.display()));
    }
    for sentence in &sentences {
        tracing::warn!("{sentence}");
    }
    sentences
}

/// The files of media tasks.
pub(super) fn open_store(data: &DataDir, surroundings: &Surroundings, decode_memory: u64) -> Result<Store, StartError> {
    let root = data.path("media");
    let store = Store::open(&root).map_err(|error| StartError::at("the media store", &root, &error))?;
    Ok(store.in_surroundings(surroundings.clone()).with_decoders(Decoders::new(decode_memory)))
}

/// The key that signs callbacks, and its public half as text.
pub(super) fn open_webhook_key(
    data: &DataDir,
    surroundings: &Surroundings,
) -> Result<(WebhookKey, String), StartError> {
    let path = data.path("webhook-key");
    let is_there = path.exists();
    let key = WebhookKey::open(&path, surroundings).map_err(|error| StartError::part("the callbacks", &error))?;
    if !is_there && has_served(data) {
        tell_renewed("webhook-key");
    }
    let public = key.public_key();
    Ok((key, public))
}

/// Whether a service has run on the directory before the log of this one is opened.
pub(super) fn has_served(data: &DataDir) -> bool {
    data.path("log").exists()
}

/// A secret that an earlier start had is gone, be it to change it: no event tells of that, so a line in the log does.
pub(super) fn tell_renewed(secret: &'static str) {
    tracing::warn!(
        secret,
        "the file of a secret was not there: a new one was made; whoever uses the old one must be given it"
    );
}

/// The keys of all users; of those who were erased what a crash left is destroyed now.
pub(super) fn open_keyring(data: &DataDir, models: &Models, keys: &Keys) -> Keyring {
    let keyring = Keyring::open(data.root());
    let erased: Vec<_> = models.users.erased().collect();
    for user in &erased {
        keyring.mark_erased(*user);
    }
    let unfinished: Vec<_> = erased.into_iter().filter(|user| keyring.is_unfinished(*user)).collect();
    if unfinished.is_empty() {
        return keyring;
    }
    // The key goes last: that it is there tells the next start that this is unfinished.
    if let Err(error) = keys.forget_answers().and_then(|()| snapshot::remove(&snapshot::directory_in(data.root()))) {
        tracing::error!(%error, "what shows users who were erased is still there: remove it, and start again");
        return keyring;
    }
    for user in unfinished {
        if let Err(failure) = keyring.forget(user) {
            tracing::error!(%user, %failure, "the key of a user who was erased is still there: remove the file");
        }
    }
    keyring
}

/// Removes the snapshots of a data directory. One that is being written meanwhile appears all the same.
pub(super) fn snapshot_remover(data: &DataDir) -> SnapshotRemover {
    let directory = snapshot::directory_in(data.root());
    Arc::new(move || snapshot::remove(&directory))
}
