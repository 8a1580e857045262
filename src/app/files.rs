//! Files beside the log, and recovery of what a crash left of them.

use std::path::Path;
use std::sync::Arc;

use super::StartError;
use crate::data_dir::DataDir;
use crate::environment::Environment;
use crate::file_tree::FileTree;
use crate::http::server::{IdempotencyKeys, SnapshotRemover};
use crate::media::archive::store::{ArchiveStore, ArchiveSweepReport, ORPHANS};
use crate::media::decoders::PictureDecoders;
use crate::media::part_files::{FileSharing, PartFiles};
use crate::media::store::MediaStore;
use crate::outbound::signature::WebhookKey;
use crate::pii::Keyring;
use crate::pluralize::pluralize;
use crate::projections::read_models::Models;
use crate::projections::snapshot;

/// Opens the archives and moves unreferenced ones aside: their uploads were interrupted between file and event, or the
/// log is an older copy. Adds the result to `reports`.
pub(super) fn open_archives(
    files: &FileTree,
    models: &Models,
    part_files: PartFiles,
    environment: &Environment,
    reports: &mut Vec<String>,
) -> Result<ArchiveStore, StartError> {
    let tree = files.subtree("archives");
    let root = tree.root().to_owned();
    let sharing = part_files.sharing();
    let archives = ArchiveStore::open_with(tree, part_files)
        .map_err(|error| StartError::at_path("the archives", &root, &error))?
        .with_fail_points(environment.fail_points());
    if sharing == FileSharing::Shared {
        // An unreferenced archive may be one that another node is about to refer to.
        return Ok(archives);
    }

    match archives.sweep(&models.nodes.archives().map(|archive| archive.digest).collect()) {
        Ok(report) => reports.extend(describe_sweep(report, &root.join(ORPHANS))),
        // A full disk may prevent the rename too; the next start retries.
        Err(error) => tracing::warn!(%error, "orphaned archives not moved"),
    }

    Ok(archives)
}

fn describe_sweep(report: ArchiveSweepReport, orphans: &Path) -> Vec<String> {
    let ArchiveSweepReport { orphaned, restored } = report;
    let mut sentences = Vec::new();

    if orphaned > 0 {
        sentences.push(format!(
            "{} without a version, moved to {}: left by interrupted uploads, or the log is an older copy",
            pluralize(orphaned as u64, "archive"),
            orphans.display()
        ));
    }

    if restored > 0 {
        sentences.push(format!("{} restored from {}", pluralize(restored as u64, "archive"), orphans.display()));
    }
    for sentence in &sentences {
        tracing::warn!("{sentence}");
    }

    sentences
}

/// Opens the files of media tasks.
pub(super) fn open_store(
    files: &FileTree,
    part_files: PartFiles,
    environment: &Environment,
    decode_memory: u64,
) -> Result<MediaStore, StartError> {
    let tree = files.subtree("media");
    let root = tree.root().to_owned();
    let store = MediaStore::open_with(tree, part_files)
        .map_err(|error| StartError::at_path("the media store", &root, &error))?;
    Ok(store.with_environment(environment.clone()).with_decoders(PictureDecoders::new(decode_memory)))
}

/// Opens the key that signs webhooks; also returns its public half as text.
pub(super) fn open_webhook_key(data: &DataDir, environment: &Environment) -> Result<(WebhookKey, String), StartError> {
    let path = data.path("webhook-key");
    let existed = path.exists();
    let key = WebhookKey::load_or_create(&path, environment).map_err(|error| StartError::part("webhooks", &error))?;
    if !existed && was_used_before(data) {
        warn_secret_recreated("webhook-key");
    }
    let public_key = key.public_key();
    Ok((key, public_key))
}

/// Returns `true` if a service has run on this directory before. Must be called before the log is opened.
pub(super) fn was_used_before(data: &DataDir) -> bool {
    data.path("log").exists()
}

/// Logs that a missing secret was replaced, perhaps on purpose: no event records that.
pub(super) fn warn_secret_recreated(secret: &'static str) {
    tracing::warn!(secret, "secret was missing, created a new one: distribute it to its users");
}

/// Stores that may still hold data of an erased user after a crash.
pub(super) struct ErasureTargets<'a> {
    pub data: &'a DataDir,
    pub store: &'a MediaStore,
    pub keys: &'a IdempotencyKeys,
    pub keyring: &'a Keyring,
}

impl ErasureTargets<'_> {
    /// Completes erasures that a crash interrupted.
    pub(super) fn complete_erasures(&self, models: &Models) {
        let erased: Vec<_> = models.users.erased_ids().collect();
        for user in &erased {
            self.keyring.mark_erased(*user);
        }

        let unfinished = match self.keyring.unfinished_erasures(&erased) {
            Ok(unfinished) if unfinished.is_empty() => return,
            Ok(unfinished) => unfinished,
            Err(failure) => return tracing::error!(%failure, "unfinished erasures not found: restart later"),
        };

        // In the order of the request that erases (`http/api/erase.rs`). The key is removed last: as long as it exists,
        // the next start knows that the erasure is unfinished.
        let snapshots = snapshot::snapshot_dir(self.data.root());
        if let Err(error) = self.keys.purge_responses().and_then(|()| snapshot::remove_all(&snapshots)) {
            tracing::error!(%error, "erasure incomplete: remove stored answers and snapshots, then restart");
            return;
        }

        for user in unfinished {
            if let Err(error) = self.store.uploads().remove_all_of(user) {
                tracing::error!(%user, %error, "erasure incomplete: make the uploaded files removable, then restart");
                continue;
            }
            if let Err(failure) = self.keyring.destroy_key(user) {
                tracing::error!(%user, %failure, "erasure incomplete: remove the key file of the user");
            }
        }
    }
}

/// Returns a function that removes the snapshots of a data directory. A snapshot being written still appears.
pub(super) fn snapshot_remover(data: &DataDir) -> SnapshotRemover {
    let directory = snapshot::snapshot_dir(data.root());
    Arc::new(move || snapshot::remove_all(&directory))
}
