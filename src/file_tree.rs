//! Files that all nodes of a cluster use. Without a bucket they are the files of a directory. With one, the bucket has all
//! files, and the directory is a cache: a file is written to both before it counts as stored, and a file that the
//! directory lacks is fetched when it is read.
//!
//! The key of an object is the path of the file in the data directory. All calls block.

mod bucket;

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::data_dir::give_to_owner;
use crate::domain::value::{Digest, Timestamp};
use crate::environment::Environment;

pub use self::bucket::{Bucket, BucketEntry, BucketUnavailable, CallTimes, TRANSFERS_MAX, is_outage, is_unavailable};

/// Age from which an object that no event refers to may be removed. A node may be about to refer to a younger one.
pub const UNREFERENCED_AGE: Duration = Duration::from_hours(24);
/// Age from which an object that is stored again is replaced, so that it does not reach [`UNREFERENCED_AGE`].
const REFRESH_AGE: Duration = Duration::from_hours(12);

/// Directory of the keys of users.
const KEYS: &str = "personal";
/// Directory of the bucket with a mark for each user whose erasure has begun.
const MARKS: &str = "erasing";

/// Maximum wait for another thread that fetches the same file.
const FETCH_WAIT_MAX: Duration = Duration::from_secs(15);
/// Maximum number of threads that wait for others.
const FETCH_WAITERS_MAX: usize = 64;

/// Maximum number of files that a command transfers at the same time.
const WORKERS_MAX: usize = 8;

/// Directory of files, and the bucket that has them if there is one. Cheap to clone.
#[derive(Clone)]
pub struct FileTree {
    root: Arc<Path>,
    remote: Option<RemoteTree>,
}

#[derive(Clone)]
struct RemoteTree {
    bucket: Arc<Bucket>,
    data_dir: Arc<Path>,
    /// Prefix of the keys of this tree: the path of its root in the data directory.
    prefix: Arc<str>,
    fetches: Arc<FetchesInProgress>,
    environment: Environment,
}

/// Files that are being fetched, so that each is fetched once, and directories that are being listed.
#[derive(Default)]
struct FetchesInProgress {
    state: Mutex<FetchState>,
    ended: Condvar,
}

#[derive(Default)]
struct FetchState {
    paths: HashSet<PathBuf>,
    waiters: usize,
}

impl FileTree {
    /// Returns the files of a directory without a bucket.
    #[must_use]
    pub fn local(root: &Path) -> Self {
        Self { root: root.into(), remote: None }
    }

    /// Returns the files of a data directory that a bucket has.
    #[must_use]
    pub fn with_bucket(root: &Path, bucket: Arc<Bucket>, environment: &Environment) -> Self {
        let root: Arc<Path> = root.into();
        let remote = RemoteTree {
            bucket,
            data_dir: Arc::clone(&root),
            prefix: "".into(),
            fetches: Arc::default(),
            environment: environment.clone(),
        };
        Self { root, remote: Some(remote) }
    }

    /// Returns the files of a directory in this one.
    #[must_use]
    pub fn subtree(&self, name: &str) -> Self {
        let remote = self.remote.clone().map(|remote| RemoteTree { prefix: remote.key(name).into(), ..remote });
        Self { root: self.root.join(name).into(), remote }
    }

    /// Returns the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the bucket.
    #[must_use]
    pub fn bucket(&self) -> Option<&Bucket> {
        self.remote.as_ref().map(|remote| &*remote.bucket)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `NotFound` if there is none. If it cannot be read, or has to be fetched and cannot be.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.remote.is_some() => {
                self.fetch(path)?;
                fs::read(path)
            }
            result => result,
        }
    }

    /// Opens a file for reading, as [`FileTree::read`].
    ///
    /// # Errors
    /// Same as [`FileTree::read`].
    pub fn open(&self, path: &Path) -> io::Result<File> {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.remote.is_some() => {
                self.fetch(path)?;
                File::open(path)
            }
            result => result,
        }
    }

    /// Fetches a file from the bucket, unless the directory has it. The content must have the hash in the name.
    ///
    /// # Errors
    /// `NotFound` if neither has it, `InvalidData` if the object is damaged. If it cannot be fetched or written.
    pub fn fetch(&self, path: &Path) -> io::Result<()> {
        if path.try_exists()? {
            return Ok(());
        }
        let Some(remote) = &self.remote else { return Err(io::ErrorKind::NotFound.into()) };
        let key = self.key_of(path)?;

        let _fetch = remote.begin(path)?;
        if path.try_exists()? {
            return Ok(());
        }
        if let Some(directory) = path.parent() {
            self.create_directory(directory)?;
            // Even if it existed: a command of root may have been killed before it did so.
            self.give_to_owner(directory)?;
        }
        let part = path.with_extension(format!("{}.part", remote.environment.uuid().simple()));
        let fetched = remote.download(&key, path, &part);
        if fetched.is_err() {
            let _ = fs::remove_file(&part);
        }
        fetched
    }

    /// Waits until no other thread lists a directory of the bucket. The listing ends when the guard is dropped. `None` without
    /// a bucket.
    ///
    /// # Errors
    /// If it takes too long.
    pub fn begin_listing(&self, directory: &Path) -> io::Result<Option<FetchGuard<'_>>> {
        self.remote.as_ref().map(|remote| remote.begin(directory)).transpose()
    }

    /// Returns the length of a file in the bucket; `None` if it has none, or there is no bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn remote_length(&self, path: &Path) -> io::Result<Option<u64>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        Ok(remote.bucket.head(&self.key_of(path)?)?.map(|found| found.bytes))
    }

    /// Stores a complete local file in the bucket under the name that it will have here. An object of the same name has the
    /// same content, because names contain hashes.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket cannot be used.
    pub fn publish(&self, file: &Path, path: &Path) -> io::Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        let key = self.key_of(path)?;
        if fs::metadata(file)?.len() <= bucket::PART_BYTES && remote.bucket.create_from_file(&key, file)? {
            return Ok(());
        }
        self.republish(file, path)
    }

    /// Makes sure that the bucket has a file that is here already, and that no sweep is about to remove it.
    ///
    /// # Errors
    /// Same as [`FileTree::publish`].
    pub fn republish(&self, file: &Path, path: &Path) -> io::Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        let key = self.key_of(path)?;
        let length = fs::metadata(file)?.len();
        match remote.bucket.head(&key)? {
            Some(found) if found.bytes == length && remote.age(&found) < REFRESH_AGE => Ok(()),
            _ => remote.bucket.upload(&key, file),
        }
    }

    /// Stores a secret in the bucket, unless it has one under this name. Returns the one that it has; `None` without a
    /// bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn create_secret(&self, path: &Path, secret: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let key = self.key_of(path)?;
        if remote.bucket.create(&key, secret.to_vec().into())? {
            return Ok(Some(secret.to_vec()));
        }
        remote.bucket.get(&key)?.map(|found| Some(found.to_vec())).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Reads a secret from the bucket; `None` if it has none, or there is no bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn read_secret(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        Ok(remote.bucket.get(&self.key_of(path)?)?.map(|found| found.to_vec()))
    }

    /// Removes a file from the bucket, then from the directory.
    ///
    /// # Errors
    /// If one of them has it and it cannot be removed.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.remove_remote(path)?;
        ignore_not_found(fs::remove_file(path))
    }

    /// Removes a file from the bucket, if there is one.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn remove_remote(&self, path: &Path) -> io::Result<()> {
        let Some(remote) = &self.remote else { return Ok(()) };
        remote.bucket.delete(&self.key_of(path)?)
    }

    /// Returns the files in the bucket below a directory, with their paths here; `None` without a bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used.
    pub fn list_remote(&self, directory: &Path) -> io::Result<Option<Vec<RemoteFile>>> {
        let Some(remote) = &self.remote else { return Ok(None) };
        let directory = if directory == &*self.root { remote.prefix.to_string() } else { self.key_of(directory)? };
        let files = remote.bucket.list(&directory)?.into_iter().filter_map(|entry| {
            let below = entry.key.strip_prefix(&*remote.prefix)?.trim_start_matches('/');
            Some(RemoteFile { path: self.root.join(below), bytes: entry.bytes, modified: entry.modified })
        });
        Ok(Some(files.collect()))
    }

    /// Removes an object that no event refers to, unless a node has just stored it again. Returns `true` if it did.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_unreferenced(&self, path: &Path) -> io::Result<bool> {
        let Some(remote) = &self.remote else { return Ok(false) };
        match remote.bucket.head(&self.key_of(path)?)? {
            Some(found) if remote.age(&found) >= UNREFERENCED_AGE => self.remove(path).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Fetches every file of a directory that is only in the bucket.
    ///
    /// # Errors
    /// If the bucket cannot be used, or a file cannot be fetched.
    pub fn fetch_all(&self, directory: &Path, keys: KeysOfMarkedUsers) -> io::Result<()> {
        let mut missing = Vec::new();
        for RemoteFile { path, .. } in self.list_remote(directory)?.unwrap_or_default() {
            if !path.try_exists()? {
                missing.push(path);
            }
        }
        in_parallel(&missing, |path| {
            if keys == KeysOfMarkedUsers::Fetch {
                return ignore_not_found(self.fetch(path));
            }
            if self.is_marked(path)? {
                return Ok(());
            }
            ignore_not_found(self.fetch(path))?;
            // The service on this directory may have removed its copies of the user's files before this one was there. The
            // mark is removed after the key, so it is read first.
            let is_removed = self.is_marked(path)? || self.bucket_lacks(path)?;
            if is_removed { ignore_not_found(fs::remove_file(path)) } else { Ok(()) }
        })
    }

    fn bucket_lacks(&self, path: &Path) -> io::Result<bool> {
        let Some(remote) = &self.remote else { return Ok(false) };
        Ok(remote.bucket.head(&self.key_of(path)?)?.is_none())
    }

    /// Returns `true` for the key of a user whose erasure has begun.
    fn is_marked(&self, path: &Path) -> io::Result<bool> {
        let Some(remote) = &self.remote else { return Ok(false) };
        let key = self.key_of(path)?;
        match (key.split_once('/'), path.file_name().and_then(|name| name.to_str())) {
            (Some((KEYS, _)), Some(user)) => Ok(remote.bucket.head(&format!("{MARKS}/{user}"))?.is_some()),
            _ => Ok(false),
        }
    }

    /// Gives a file that this process has created to the owner of the data directory, if root has created it.
    ///
    /// # Errors
    /// If the owner cannot be changed.
    pub fn give_to_owner(&self, path: &Path) -> io::Result<()> {
        self.remote.as_ref().map_or(Ok(()), |remote| give_to_owner(&remote.data_dir, path))
    }

    /// Creates a directory and its parents. Returns those that did not exist, the innermost first.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub fn create_directory(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let missing = directory.ancestors().take_while(|directory| !directory.exists());
        let missing: Vec<_> = missing.map(Path::to_owned).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        missing.iter().try_for_each(|directory| self.give_to_owner(directory))?;
        Ok(missing)
    }

    fn key_of(&self, path: &Path) -> io::Result<String> {
        let below = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
        let below = below.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file of this tree"))?;
        Ok(self.remote.as_ref().map_or_else(|| below.to_owned(), |remote| remote.key(below)))
    }
}

/// Treatment of the keys of users whose erasure has begun, by a command that fetches keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysOfMarkedUsers {
    /// Fetch them for a copy that may become the last one: an erasure may have failed before its event was recorded. If
    /// the event was recorded, the next start destroys the key.
    Fetch,
    /// Skip them: a running service may have removed its copies already.
    Skip,
}

/// A file in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Path in the directory, which may lack it.
    pub path: PathBuf,
    pub bytes: u64,
    pub modified: Timestamp,
}

impl RemoteTree {
    fn key(&self, below: &str) -> String {
        if self.prefix.is_empty() { below.to_owned() } else { format!("{}/{below}", self.prefix) }
    }

    fn begin(&self, path: &Path) -> io::Result<FetchGuard<'_>> {
        let guard = self.fetches.begin(path, FETCH_WAIT_MAX);
        guard.ok_or_else(|| self.bucket.unavailable("another request for the same takes too long"))
    }

    fn age(&self, entry: &BucketEntry) -> Duration {
        self.environment.now().since(entry.modified)
    }

    fn download(&self, key: &str, path: &Path, part: &Path) -> io::Result<()> {
        let found = self.bucket.download(key, part)?;
        if digest_in(path).is_some_and(|expected| expected != found) {
            let reason =
                format!("the object {key} in {} is damaged: its hash differs from its name", self.bucket.name());
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        give_to_owner(&self.data_dir, part)?;
        fs::rename(part, path)
    }
}

/// Does work that mostly waits for the bucket, for each item; ends with the first failure.
///
/// # Errors
/// That of an item.
pub fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> io::Result<()> + Sync) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    let workers = WORKERS_MAX.min(items.len());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(run)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Returns the hash in the name of a file.
fn digest_in(path: &Path) -> Option<Digest> {
    path.file_name()?.to_str()?.split('.').find_map(|part| Digest::parse(part).ok())
}

fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

impl FetchesInProgress {
    /// Waits until no other thread fetches this file; `None` if that takes longer than `wait`, or too many threads wait. The
    /// fetch ends when the guard is dropped.
    fn begin(&self, path: &Path, wait: Duration) -> Option<FetchGuard<'_>> {
        let deadline = Instant::now() + wait;
        let mut state = self.state.lock();
        while state.paths.contains(path) {
            if state.waiters >= FETCH_WAITERS_MAX {
                return None;
            }
            state.waiters += 1;
            let waited = self.ended.wait_until(&mut state, deadline);
            state.waiters -= 1;
            if waited.timed_out() {
                return None;
            }
        }
        state.paths.insert(path.to_owned());
        Some(FetchGuard { fetches: self, path: path.to_owned() })
    }
}

/// Fetch or listing that others wait for.
pub struct FetchGuard<'f> {
    fetches: &'f FetchesInProgress,
    path: PathBuf,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        self.fetches.state.lock().paths.remove(&self.path);
        self.fetches.ended.notify_all();
    }
}

#[cfg(test)]
mod tests;
