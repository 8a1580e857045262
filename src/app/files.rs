//! Files beside the log, and recovery of what a crash left of them.

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

/// Opens the archives and moves unreferenced ones aside: their uploads were interrupted between file and event, or the
/// log is an older copy. Adds the result to `reports`.
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
        // A full disk may prevent the rename too; the next start retries.
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

/// Opens the files of media tasks.
pub(super) fn open_store(data: &DataDir, surroundings: &Surroundings, decode_memory: u64) -> Result<Store, StartError> {
    let root = data.path("media");
    let store = Store::open(&root).map_err(|error| StartError::at("the media store", &root, &error))?;
    Ok(store.in_surroundings(surroundings.clone()).with_decoders(Decoders::new(decode_memory)))
}

/// Opens the key that signs webhooks; also returns its public half as text.
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

/// Returns `true` if a service has run on this directory before. Must be called before the log is opened.
pub(super) fn has_served(data: &DataDir) -> bool {
    data.path("log").exists()
}

/// Logs that a missing secret was replaced, perhaps on purpose: no event records that.
pub(super) fn tell_renewed(secret: &'static str) {
    tracing::warn!(
        secret,
        "the file of a secret was not there: a new one was made; whoever uses the old one must be given it"
    );
}

/// Opens the keys of all users, and completes erasures that a crash interrupted.
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

    // The key is removed last: as long as it exists, the next start knows that the erasure is unfinished.
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

/// Returns a function that removes the snapshots of a data directory. A snapshot being written still appears.
pub(super) fn snapshot_remover(data: &DataDir) -> SnapshotRemover {
    let directory = snapshot::directory_in(data.root());
    Arc::new(move || snapshot::remove(&directory))
}
