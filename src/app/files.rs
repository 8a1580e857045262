//! Files beside the log, and recovery of what a crash left of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::StartError;
use crate::data_dir::DataDir;
use crate::domain::ids::UserId;
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
#[derive(Clone)]
pub(super) struct ErasureTargets {
    /// Directory of the snapshots.
    pub snapshots: PathBuf,
    pub store: MediaStore,
    pub keys: IdempotencyKeys,
    pub keyring: Keyring,
}

impl ErasureTargets {
    /// Completes erasures that a crash, or the bucket, interrupted.
    pub(super) fn complete_erasures(&self) {
        if self.store.tree().bucket().is_some() {
            self.destroy_copies();
        }

        let unfinished = match self.keyring.unfinished_erasures(&self.keyring.erased_users()) {
            Ok(unfinished) if unfinished.is_empty() => return,
            Ok(unfinished) => unfinished,
            Err(failure) => return tracing::warn!(%failure, "unfinished erasures not found, will be retried"),
        };

        // In the order of the request that erases (`http/api/erase.rs`). The key is removed last: as long as it exists,
        // the next start knows that the erasure is unfinished.
        if let Err(error) = self.remove_derived() {
            tracing::error!(%error, "erasure incomplete: remove stored responses and snapshots, then restart");
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

    /// Removes the stored responses and the snapshots.
    pub(super) fn remove_derived(&self) -> io::Result<()> {
        self.keys.purge_responses()?;
        snapshot::remove_all(&self.snapshots)
    }

    /// Removes the copies that this node has of files of erased users, even if the bucket cannot be used.
    fn destroy_copies(&self) {
        if let Err(failure) = self.keyring.destroy_copies_of_erased() {
            tracing::error!(%failure, "erasure incomplete: remove the key file of the user");
        }
        let uploads = self.store.uploads();
        for directory in fs::read_dir(self.store.tree().root().join("uploads")).into_iter().flatten().flatten() {
            let owner = directory.file_name().to_str().and_then(|name| UserId::parse(name).ok());
            if let Some(owner) = owner.filter(|owner| self.keyring.is_erased(*owner)) {
                uploads.remove_copies_of(owner);
            }
        }
    }
}

/// Returns a function that removes the snapshots of a data directory. A snapshot being written still appears.
pub(super) fn snapshot_remover(data: &DataDir) -> SnapshotRemover {
    let directory = snapshot::snapshot_dir(data.root());
    Arc::new(move || snapshot::remove_all(&directory))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::personal::{PersonalField, PersonalValue};
    use crate::file_tree::Bucket;
    use crate::outbound::bucket_client::{BucketCredentials, BucketEndpoint, open_bucket};
    use crate::pii::KEY_BYTES;

    /// Returns a bucket of a server that is not running.
    fn unreachable_bucket() -> Arc<Bucket> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let key = || "x".to_owned();
        let credentials = BucketCredentials { key_id: key(), secret_key: key(), session_token: None };
        let endpoint = Some(format!("http://127.0.0.1:{port}"));
        let endpoint = BucketEndpoint { bucket: key(), region: key(), endpoint, credentials };
        Arc::new(Bucket::new(open_bucket(&endpoint).unwrap(), "", key()).unwrap())
    }

    fn targets(data: &DataDir, bucket: &Arc<Bucket>) -> ErasureTargets {
        let environment = Environment::system();
        let files = FileTree::with_bucket(data.root(), Arc::clone(bucket), &environment);
        let part_files = PartFiles::new(FileSharing::Shared, &environment);
        ErasureTargets {
            snapshots: data.path("snapshots"),
            store: MediaStore::open_with(files.subtree("media"), part_files).unwrap(),
            keys: IdempotencyKeys::open(data, &environment).unwrap(),
            keyring: Keyring::open_with(&files),
        }
    }

    fn seal(keyring: &Keyring, user: UserId) -> Vec<PersonalValue> {
        keyring.seal(user, Some([1; KEY_BYTES]), [(PersonalField::Name, "Ada")]).unwrap()
    }

    #[test]
    fn an_erasure_removes_copies_while_the_bucket_is_unreachable_and_the_rest_later() {
        // Given copies of a key and of an uploaded file, whose user has been erased
        let directory = tempfile::tempdir().unwrap();
        let data = DataDir::open(directory.path()).unwrap();
        let bucket = Bucket::in_memory();
        let [erased, other] = [1, 2].map(|number| UserId(Uuid::from_u128(number)));
        for user in [erased, other] {
            seal(&targets(&data, &bucket).keyring, user);
        }
        let upload = data.path(&format!("media/uploads/{erased}"));
        let name = format!("{}.1.{}.png", Uuid::from_u128(3), "0".repeat(64));
        fs::create_dir_all(&upload).unwrap();
        fs::write(upload.join(&name), b"x").unwrap();

        // When a node without the bucket starts
        let unreachable = targets(&data, &unreachable_bucket());
        unreachable.keyring.mark_erased(erased);
        unreachable.complete_erasures();

        // Then it has no copies of files of this user, and those of the other one
        assert!(!upload.exists());
        assert!(!unreachable.keyring.has_key(erased) && unreachable.keyring.has_key(other));
        assert_eq!(bucket.list("personal").unwrap().len(), 2);

        // And when the bucket is back, the key is removed there too
        let reachable = targets(&data, &bucket);
        reachable.keyring.mark_erased(erased);
        reachable.complete_erasures();
        let keys: Vec<_> = bucket.list("").unwrap().into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, [format!("personal/02/{other}")]);
        assert!(reachable.keyring.unfinished_erasures(&[erased]).unwrap().is_empty());
    }
}
