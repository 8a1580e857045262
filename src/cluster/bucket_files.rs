//! Files that all nodes use, in a bucket: its owner, its suitability, and how files get into and out of it. Nodes use
//! the files through [`FileTree`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::shared_files::SHARED_TREES;
use crate::data_dir::{sync_parent, write_private};
use crate::environment::Environment;
use crate::file_tree::{Bucket, FileTree, KeysOfMarkedUsers, in_parallel, is_outage};

/// Object that names the log whose files the bucket has.
const OWNER_OBJECT: &str = "log-id";
/// File in a data directory whose trees are copies of the files in a bucket. Not part of backups, so a restored
/// directory lacks it.
pub const CACHE_FILE: &str = "bucket-cache";
/// Directory of the objects that checks write.
const CHECK_DIRECTORY: &str = "check";
/// Directory of unfinished uploads of clients.
const INCOMING: &str = "incoming";

/// Reason why a bucket cannot have the files of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum BucketFilesError {
    #[error("{path}: {reason}", path = .path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error(transparent)]
    Bucket(io::Error),
    #[error(
        "{bucket} is not the bucket of a cluster: it has no object {OWNER_OBJECT}. Correct cluster.files, or run \
         `mediary cluster init` on the first node"
    )]
    NoOwner { bucket: String },
    #[error(
        "{bucket} has the files of the log {found}, but this node has the log {expected}: choose another bucket or prefix in \
         cluster.files"
    )]
    OtherLog { bucket: String, found: Uuid, expected: Uuid },
    #[error("{bucket} does not have all files yet: run `mediary cluster init` again on the first node")]
    Incomplete { bucket: String },
    #[error(
        "{bucket} has the files of an earlier cluster of this log, including keys of users who may have been erased \
         since, and this directory is not a node of it: choose another bucket or prefix in cluster.files, and empty \
         the earlier one once nothing is missing"
    )]
    EarlierCluster { bucket: String },
    #[error("{bucket} is not empty: choose an empty bucket, or a prefix such as {bucket}/mediary, in cluster.files")]
    NotEmpty { bucket: String },
    #[error("{bucket} {reason}")]
    Unsuitable { bucket: String, reason: String },
    #[error(
        "cluster.files is a bucket, but {link} is a link to {target}: if a cluster with a directory was dissolved, replace the \
         link by a copy of what it leads to", link = .link.display(), target = .target.display()
    )]
    Link { link: PathBuf, target: PathBuf },
}

impl BucketFilesError {
    /// Returns `true` if the bucket does not respond as it should, so that nothing is known about it.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Bucket(error) if is_outage(error))
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> BucketFilesError + use<> {
    let path = path.to_owned();
    move |reason| BucketFilesError::File { path, reason }
}

/// Content of the object that names the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BucketOwner {
    log_id: Uuid,
    /// `true` once the bucket has all files.
    complete: bool,
}

fn read_owner(bucket: &Bucket) -> Result<Option<BucketOwner>, BucketFilesError> {
    let Some(bytes) = bucket.get(OWNER_OBJECT).map_err(BucketFilesError::Bucket)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let reason = format!("has an object {OWNER_OBJECT} that is not from a cluster: {error}");
        BucketFilesError::Unsuitable { bucket: bucket.name().to_owned(), reason }
    })
}

/// Returns the owner of a bucket.
fn owner_of(bucket: &Bucket, log_id: Uuid) -> Result<BucketOwner, BucketFilesError> {
    let bucket_name = || bucket.name().to_owned();
    let owner = read_owner(bucket)?.ok_or_else(|| BucketFilesError::NoOwner { bucket: bucket_name() })?;
    if owner.log_id != log_id {
        return Err(BucketFilesError::OtherLog { bucket: bucket_name(), found: owner.log_id, expected: log_id });
    }
    Ok(owner)
}

/// Checks that the bucket has the files of a log.
///
/// # Errors
/// If the check fails, or the bucket cannot be used.
pub fn check_owner(bucket: &Bucket, log_id: Uuid) -> Result<(), BucketFilesError> {
    if owner_of(bucket, log_id)?.complete {
        return Ok(());
    }
    Err(BucketFilesError::Incomplete { bucket: bucket.name().to_owned() })
}

/// Checks that the first node may upload its files to the bucket: the bucket is suitable, and it is empty, has only the
/// objects of an interrupted attempt, or the directory has copies of all objects. Writes an object and removes it.
///
/// # Errors
/// If the check fails, or the bucket cannot be used.
pub fn check_vacant(
    data_dir: &Path,
    bucket: &Bucket,
    log_id: Uuid,
    environment: &Environment,
) -> Result<(), BucketFilesError> {
    check_no_links(data_dir)?;
    check_suitable(bucket, environment)?;
    let bucket_name = || bucket.name().to_owned();
    match owner_of(bucket, log_id) {
        Err(BucketFilesError::NoOwner { .. }) if is_unused(bucket).map_err(BucketFilesError::Bucket)? => Ok(()),
        Err(BucketFilesError::NoOwner { .. }) => Err(BucketFilesError::NotEmpty { bucket: bucket_name() }),
        // The directory may be an old backup, and the bucket may have newer keys, which must not be removed.
        Ok(owner) if owner.complete && !is_cache_of(data_dir, bucket)? => {
            Err(BucketFilesError::EarlierCluster { bucket: bucket_name() })
        }
        owner => owner.map(drop),
    }
}

/// Checks that a bucket supports everything that the files require, by writing, reading and removing an object.
///
/// # Errors
/// If the bucket cannot be used, keeps versions, or does not support what is needed.
pub fn check_suitable(bucket: &Bucket, environment: &Environment) -> Result<(), BucketFilesError> {
    let key = format!("{CHECK_DIRECTORY}/{}", environment.uuid().simple());
    let checked = check_object(bucket, &key);
    let removed = bucket.delete(&key).map_err(BucketFilesError::Bucket);
    let problem = checked?;
    removed?;

    let still_exists = bucket.get(&key).map_err(BucketFilesError::Bucket)?.is_some();
    match problem.or_else(|| still_exists.then_some("has an object that was removed a moment ago")) {
        Some(reason) => {
            Err(BucketFilesError::Unsuitable { bucket: bucket.name().to_owned(), reason: reason.to_owned() })
        }
        None => Ok(()),
    }
}

/// Writes and reads an object. Returns the reason why the bucket is not suitable.
fn check_object(bucket: &Bucket, key: &str) -> Result<Option<&'static str>, BucketFilesError> {
    let [first, second, third] = ["1", "2", "3"].map(str::as_bytes);
    let is_created = bucket.create(key, first.into()).map_err(BucketFilesError::Bucket)?;
    if !is_created || bucket.create(key, second.into()).map_err(BucketFilesError::Bucket)? {
        return Ok(Some(
            "does not refuse to replace an object (If-None-Match), so nodes could overwrite each other's keys: use another \
             server",
        ));
    }
    if bucket.put(key, third.into()).map_err(BucketFilesError::Bucket)?.is_some() {
        return Ok(Some(
            "keeps versions of objects, so keys of erased users would remain: suspend versioning and remove old versions, or \
             choose another bucket",
        ));
    }
    let found = bucket.get(key).map_err(BucketFilesError::Bucket)?;
    Ok((found.as_deref() != Some(third)).then_some("does not return what was just written"))
}

/// Checks that no tree of a data directory is a link into a mounted directory.
fn check_no_links(data_dir: &Path) -> Result<(), BucketFilesError> {
    let mut trees = SHARED_TREES.iter().map(|tree| data_dir.join(tree));
    let Some(link) = trees.find(|tree| tree.is_symlink()) else { return Ok(()) };
    let target = fs::read_link(&link).map_err(file_error(&link))?;
    Err(BucketFilesError::Link { link, target })
}

/// Uploads the files of the first node. Run again, it continues an interrupted attempt; a directory that has copies of a
/// complete bucket has nothing to upload.
///
/// # Errors
/// If the bucket is not suitable, has other files, or cannot be used.
pub fn share(
    files: &FileTree,
    bucket: &Bucket,
    log_id: Uuid,
    environment: &Environment,
) -> Result<(), BucketFilesError> {
    check_vacant(files.root(), bucket, log_id, environment)?;
    if claim(bucket, log_id)?.complete {
        return Ok(());
    }

    let mut local = Vec::new();
    for tree in SHARED_TREES {
        list_local(&files.root().join(tree), &mut local)?;
    }
    in_parallel(&local, |path| upload(files, bucket, path)).map_err(BucketFilesError::Bucket)?;
    remove_other_keys(files)?;

    // Mark the directory before the bucket is marked as complete: otherwise an attempt that is interrupted in between
    // could not continue.
    mark_cache(files.root(), bucket)?;
    bucket
        .put(OWNER_OBJECT, encode(&BucketOwner { log_id, complete: true }))
        .map(drop)
        .map_err(BucketFilesError::Bucket)
}

/// Makes a log the owner of a vacant bucket. Returns the owner, which an interrupted attempt may have made.
fn claim(bucket: &Bucket, log_id: Uuid) -> Result<BucketOwner, BucketFilesError> {
    match owner_of(bucket, log_id) {
        Err(BucketFilesError::NoOwner { .. }) => {}
        owner => return owner,
    }
    let claimed = BucketOwner { log_id, complete: false };
    if bucket.create(OWNER_OBJECT, encode(&claimed)).map_err(BucketFilesError::Bucket)? {
        return Ok(claimed);
    }
    let reason = "was just claimed by another command: run this one again".to_owned();
    Err(BucketFilesError::Unsuitable { bucket: bucket.name().to_owned(), reason })
}

/// Returns `true` if there is no object, except those that an interrupted check left.
fn is_unused(bucket: &Bucket) -> io::Result<bool> {
    if bucket.is_empty()? {
        return Ok(true);
    }
    // Lists a bucket with other objects only if it has such a directory too.
    let has_checks = !bucket.list(CHECK_DIRECTORY)?.is_empty();
    let is_check = |key: &str| key.strip_prefix(CHECK_DIRECTORY).is_some_and(|below| below.starts_with('/'));
    Ok(has_checks && bucket.list("")?.iter().all(|entry| is_check(&entry.key)))
}

fn encode(owner: &BucketOwner) -> bytes::Bytes {
    serde_json::to_vec(owner).expect("a struct of strings and numbers can be written as JSON").into()
}

/// Lists the complete files of a tree.
fn list_local(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), BucketFilesError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(file_error(directory))?,
    };
    for entry in entries {
        let path = entry.map_err(file_error(directory))?.path();
        let is_unfinished = path.extension().is_some_and(|extension| extension == "part" || extension == "draft");
        if path.is_dir() && path.file_name().is_none_or(|name| name != INCOMING) {
            list_local(&path, found)?;
        } else if path.is_file() && !is_unfinished {
            found.push(path);
        }
    }
    Ok(())
}

fn upload(files: &FileTree, bucket: &Bucket, path: &Path) -> io::Result<()> {
    let root = files.root();
    if !path.starts_with(root.join("personal")) {
        return files.republish(path, path);
    }
    // The path is the mark of an erasure or the draft of a key.
    if let Some(extension) = path.extension() {
        let mark = root.join("erasing").join(path.file_stem().unwrap_or_default());
        return if extension == "erasing" { files.create_secret(&mark, b"").map(drop) } else { Ok(()) };
    }

    let secret = fs::read(path)?;
    if files.create_secret(path, &secret)?.is_some_and(|found| found == secret) {
        return Ok(());
    }
    let reason = format!("{} has another key for {}: empty it and run this again", bucket.name(), path.display());
    Err(io::Error::other(reason))
}

/// Removes the keys that the first node no longer has: they are from an interrupted upload, and their users have
/// been erased since.
fn remove_other_keys(files: &FileTree) -> Result<(), BucketFilesError> {
    let listed = files.list_remote(&files.root().join("personal")).map_err(BucketFilesError::Bucket)?;
    let others: Vec<_> = listed.unwrap_or_default().into_iter().filter(|key| !key.path.exists()).collect();
    in_parallel(&others, |key| files.remove_remote(&key.path)).map_err(BucketFilesError::Bucket)
}

/// Returns the names of the records in a directory of the bucket.
///
/// # Errors
/// If the bucket is not that of the log, or cannot be used.
pub fn list_records(bucket: &Bucket, directory: &str, log_id: Uuid) -> Result<Vec<String>, BucketFilesError> {
    // `check_owner` would reject an interrupted `init`, which reads the records as well.
    owner_of(bucket, log_id)?;
    let entries = bucket.list(directory).map_err(BucketFilesError::Bucket)?;
    Ok(entries.into_iter().filter_map(|entry| entry.key.rsplit('/').next().map(str::to_owned)).collect())
}

/// Prepares the data directory of a node whose files are in a bucket. Copies of media files in a restored backup may have
/// expired since, so they are removed.
///
/// # Errors
/// If the bucket is not that of the log, or not suitable. If it cannot be used, unless the node has used it before.
pub fn prepare(
    data_dir: &Path,
    bucket: &Bucket,
    log_id: Uuid,
    environment: &Environment,
) -> Result<(), BucketFilesError> {
    check_no_links(data_dir)?;
    let used_before = used_bucket(data_dir)?;

    let checked = check_owner(bucket, log_id).and_then(|()| check_suitable(bucket, environment));
    match checked {
        Err(error) if error.is_outage() && used_before.as_deref() == Some(bucket.name()) => {
            tracing::warn!(%error, "bucket not checked");
        }
        checked => checked?,
    }

    let media = data_dir.join("media");
    if used_before.is_none() && media.exists() {
        fs::remove_dir_all(&media).map_err(file_error(&media))?;
    }
    mark_cache(data_dir, bucket)
}

/// Returns the name of the bucket that a data directory is a cache of.
pub(super) fn used_bucket(data_dir: &Path) -> Result<Option<String>, BucketFilesError> {
    let path = data_dir.join(CACHE_FILE);
    match fs::read_to_string(&path) {
        Ok(name) => Ok(Some(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(&path)(error)),
    }
}

fn is_cache_of(data_dir: &Path, bucket: &Bucket) -> Result<bool, BucketFilesError> {
    Ok(used_bucket(data_dir)?.as_deref() == Some(bucket.name()))
}

fn mark_cache(data_dir: &Path, bucket: &Bucket) -> Result<(), BucketFilesError> {
    let path = data_dir.join(CACHE_FILE);
    write_private(&path, bucket.name().as_bytes()).map_err(file_error(&path))
}

/// Fetches all files that the data directory lacks, durably.
///
/// # Errors
/// If the bucket cannot be used, or a file cannot be written.
pub fn unshare(files: &FileTree) -> Result<(), BucketFilesError> {
    for tree in SHARED_TREES {
        let directory = files.root().join(tree);
        files.fetch_all(&directory, KeysOfMarkedUsers::Fetch).map_err(BucketFilesError::Bucket)?;
        if directory.exists() {
            sync_directories(&directory).map_err(file_error(&directory))?;
        }
    }
    forget_bucket(files.root())
}

/// Records that a data directory is not a cache of a bucket: it left the cluster, or serves alone after an interrupted
/// `mediary cluster init`, so its files change without the bucket.
///
/// # Errors
/// If the file cannot be removed.
pub fn forget_bucket(data_dir: &Path) -> Result<(), BucketFilesError> {
    let path = data_dir.join(CACHE_FILE);
    match fs::remove_file(&path).and_then(|()| sync_parent(&path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(&path)(error)),
        _ => Ok(()),
    }
}

fn sync_directories(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_directories(&entry.path())?;
        }
    }
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LOG: Uuid = Uuid::from_u128(7);

    struct TestNode {
        directory: tempfile::TempDir,
        bucket: Arc<Bucket>,
    }

    impl TestNode {
        fn new(bucket: &Arc<Bucket>, files: &[&str]) -> Self {
            let node = Self { directory: tempfile::tempdir().unwrap(), bucket: Arc::clone(bucket) };
            for name in files {
                let path = node.directory.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, [1; 32]).unwrap();
            }
            node
        }

        fn share(&self) -> Result<(), String> {
            let environment = Environment::system();
            let files = FileTree::with_bucket(self.directory.path(), Arc::clone(&self.bucket), &environment);
            share(&files, &self.bucket, LOG, &environment).map_err(|error| error.to_string())
        }

        fn keys(&self) -> Vec<String> {
            self.bucket.list("personal").unwrap().into_iter().map(|entry| entry.key).collect()
        }
    }

    #[test]
    fn a_repeated_init_keeps_the_files_that_only_the_bucket_has() {
        // Given a first node, and a file of which it has no copy
        let node = TestNode::new(&Bucket::in_memory(), &["personal/01/1"]);
        node.share().unwrap();
        node.bucket.put("personal/02/2", vec![2; 32].into()).unwrap();

        // When `init` runs again on its directory
        node.share().unwrap();

        // Then the bucket has both
        assert_eq!(node.keys(), ["personal/01/1", "personal/02/2"]);
        check_owner(&node.bucket, LOG).unwrap();
    }

    #[test]
    fn an_old_backup_takes_nothing_from_a_bucket_in_use() {
        // Given a cluster that has a key which a backup from before `init` lacks
        let bucket = Bucket::in_memory();
        TestNode::new(&bucket, &["personal/01/1"]).share().unwrap();
        bucket.put("personal/02/2", vec![2; 32].into()).unwrap();
        let backup = TestNode::new(&bucket, &["personal/01/1"]);

        // When the backup becomes the first node again
        let refused = backup.share().unwrap_err();

        // Then it is refused, and the cluster keeps its keys
        assert!(refused.contains("earlier cluster") && refused.contains("choose another"), "{refused}");
        assert_eq!(backup.keys(), ["personal/01/1", "personal/02/2"]);
        check_owner(&bucket, LOG).unwrap();
    }

    #[test]
    fn objects_of_an_interrupted_check_do_not_count() {
        let node = TestNode::new(&Bucket::in_memory(), &[]);
        node.bucket.put("check/0123", b"1".as_slice().into()).unwrap();
        node.share().unwrap();

        let other = TestNode::new(&Bucket::in_memory(), &[]);
        for key in ["check/0123", "checked"] {
            other.bucket.put(key, b"1".as_slice().into()).unwrap();
        }
        assert!(other.share().unwrap_err().contains("is not empty"));
    }
}
