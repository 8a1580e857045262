//! The data directory: its lock, and files that only their owner may read.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use mediary_journal::files::{create_durably, sync_parent, write_atomically, write_private};
use owner::{command_as_owner, describe_user, own_id, owner_of};
pub use owner::{give_to_owner, shell_quote, to_help};

mod owner;

/// Number of attempts to lock the directory. A command that only checks for a running service holds the lock for a
/// moment.
const LOCK_ATTEMPTS: u32 = 5;
/// Pause between these attempts.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(40);

/// The locked data directory. A second service cannot open it.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    /// `None` if the directory has no lock file.
    _lock: Option<DataDirLock>,
}

/// Lock that is released on drop. Closing the file is not enough: a process that another thread is just starting holds
/// a copy of the file descriptor, and with it the lock, for a moment.
#[derive(Debug)]
struct DataDirLock(File);

impl Drop for DataDirLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "data directory not unlocked");
        }
    }
}

/// Reason why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process holds the lock.
    #[error(
        "the data directory {} is in use by a running service or by `mediary audit verify`: stop it, or name another \
         directory with --data-dir",
        .0.display()
    )]
    InUse(PathBuf),
    /// The directory belongs to another user, who could not use files created in it now.
    #[error(
        "the data directory {} belongs to {}, who could not use files created by {}: run this as its owner, {}",
        path.display(), describe_user(*owner), describe_user(own_id()), command_as_owner(path, *owner, *group)
    )]
    OwnedByOther { path: PathBuf, owner: u32, group: u32 },
    /// The directory cannot be created or locked.
    #[error("the data directory {path} cannot be used: {reason}{}", to_help(path, reason) + other_dir_hint(reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
}

fn other_dir_hint(reason: &io::Error) -> &'static str {
    if reason.kind() == io::ErrorKind::PermissionDenied { "; or name another directory with --data-dir" } else { "" }
}

impl DataDir {
    /// Creates the directory if necessary, and locks it until this value is dropped or the process ends for any reason.
    ///
    /// # Errors
    /// Returns [`DataDirError`] if the directory cannot be created, or stays locked after all attempts.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        Self::open_with_wait(root, || thread::sleep(LOCK_RETRY_DELAY))
    }

    fn open_with_wait(root: &Path, mut sleep: impl FnMut()) -> Result<Self, DataDirError> {
        let file_error = |reason| DataDirError::File { path: root.to_owned(), reason };
        check_owner(root)?;
        create_durably(root).map_err(file_error)?;
        let lock = open_lock(root).map_err(file_error)?;

        for _ in 1..LOCK_ATTEMPTS {
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) => sleep(),
                result => return Self::from_lock_result(root, lock, result),
            }
        }

        let result = lock.try_lock();
        Self::from_lock_result(root, lock, result)
    }

    /// Takes a shared lock, which keeps services out and admits other shared locks. Writes nothing. A directory in
    /// which no service ever ran has no lock file, so no lock is taken.
    ///
    /// # Errors
    /// Returns [`DataDirError`] if the lock cannot be opened or taken, or a service holds it.
    pub fn open_shared(root: &Path) -> Result<Self, DataDirError> {
        match File::open(root.join("lock")) {
            Ok(lock) => {
                let result = lock.try_lock_shared();
                Self::from_lock_result(root, lock, result)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { root: root.to_owned(), _lock: None }),
            Err(reason) => Err(DataDirError::File { path: root.to_owned(), reason }),
        }
    }

    /// Returns `true` if a service holds the directory. The check does not prevent a service from starting, because a
    /// start retries the lock.
    ///
    /// # Errors
    /// Returns [`DataDirError`] if the lock cannot be opened or taken.
    pub fn is_in_use(root: &Path) -> Result<bool, DataDirError> {
        match Self::open_shared(root) {
            Ok(_) => Ok(false),
            Err(DataDirError::InUse(_)) => Ok(true),
            Err(other) => Err(other),
        }
    }

    fn from_lock_result(root: &Path, lock: File, result: Result<(), TryLockError>) -> Result<Self, DataDirError> {
        match result {
            Ok(()) => Ok(Self { root: root.to_owned(), _lock: Some(DataDirLock(lock)) }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(root.to_owned())),
            Err(TryLockError::Error(reason)) => Err(DataDirError::File { path: root.to_owned(), reason }),
        }
    }

    /// Returns the directory's path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the `chmod` command that removes the access of other users to parts of the directory; `None` if they
    /// have none. An older release, or the creator of the directory, may have left parts open. If the directory is a
    /// volume of another owner, group permissions are ignored, because the service has its access through the group.
    #[must_use]
    pub fn chmod_advice(&self) -> Option<String> {
        let metadata = |path: &Path| fs::metadata(path).ok();
        let is_own = metadata(&self.root).is_some_and(|root| root.uid() == own_id());
        let (other_bits, classes) = if is_own { (0o077, "go") } else { (0o007, "o") };
        let is_accessible =
            |path: &Path| metadata(path).is_some_and(|metadata| metadata.permissions().mode() & other_bits != 0);

        let parts = ["log", "archives", "media", "personal"].map(|name| self.path(name));
        let accessible = parts.iter().filter(|part| is_accessible(&self.root) && is_accessible(part));
        let accessible: Vec<_> = accessible.map(|part| shell_quote(&part.display().to_string())).collect();

        (!accessible.is_empty()).then(|| format!("chmod -R {classes}= {}", accessible.join(" ")))
    }

    /// Returns the path of a file or directory in the data directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Opens the lock file, readable by its owner only: any user who can open the file can lock the service out.
fn open_lock(root: &Path) -> io::Result<File> {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(root.join("lock"))?;
    if lock.metadata()?.permissions().mode() & 0o077 != 0 {
        // Older releases created it readable by all. A file system without modes must not prevent the start.
        let _ = lock.set_permissions(Permissions::from_mode(0o600));
    }
    Ok(lock)
}

/// Rejects a directory of another user if the process runs as root, which would leave files there that the service
/// cannot open. The owner of the lock counts, because the directory itself may be a volume that belongs to root.
fn check_owner(root: &Path) -> Result<(), DataDirError> {
    // The file system rejects other users itself, if it supports owners.
    match owner_of(root).ok().filter(|metadata| own_id() == 0 && metadata.uid() != 0) {
        Some(metadata) => {
            Err(DataDirError::OwnedByOther { path: root.to_owned(), owner: metadata.uid(), group: metadata.gid() })
        }
        None => Ok(()),
    }
}

/// Returns `true` if the path is a directory.
///
/// # Errors
/// If the caller lacks the permission to check.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Err(_) => Ok(false),
    }
}

/// Reads a file meant for its owner only, and warns if others can read it; `None` if it does not exist.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn read_private(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
                tracing::warn!(path = %path.display(), "secret readable by other users, chmod 600 it");
            }
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
