//! The one directory where everything is kept: its lock, and files that only its owner may read.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory, locked: a second service that opens it is turned away.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    /// None when nobody ever made one.
    _lock: Option<Lock>,
}

/// A lock that is given back when this is dropped. Closing the file would not do: a process that another thread is just starting
/// has a copy of it for a moment, and would hold the lock as long.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the lock of the data directory could not be given back");
        }
    }
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// Another process holds the lock.
    #[error("the data directory {} is in use by another running service: stop that one (or let a `mediary audit verify` come to its end), or give this one a data_dir of its own", .0.display())]
    InUse(PathBuf),
    /// It cannot be made or locked.
    #[error("the data directory {path}: {reason}", path = path.display())]
    File { path: PathBuf, reason: io::Error },
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it until this value is dropped or the process ends, however it ends.
    ///
    /// # Errors
    /// [`DataDirError`] when it cannot be made, or is in use.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        let failed = |reason| DataDirError::File { path: root.to_owned(), reason };
        create_durably(root).map_err(failed)?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(root.join("lock")).map_err(failed)?;
        Self::locked(root, lock)
    }

    /// Locks a directory that is there, and changes nothing in it. One in which no service ever ran has no lock to take.
    ///
    /// # Errors
    /// [`DataDirError`] when it cannot be locked, or is in use.
    pub fn hold(root: &Path) -> Result<Self, DataDirError> {
        match File::open(root.join("lock")) {
            Ok(lock) => Self::locked(root, lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { root: root.to_owned(), _lock: None }),
            Err(reason) => Err(DataDirError::File { path: root.to_owned(), reason }),
        }
    }

    fn locked(root: &Path, lock: File) -> Result<Self, DataDirError> {
        match lock.try_lock() {
            Ok(()) => Ok(Self { root: root.to_owned(), _lock: Some(Lock(lock)) }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(root.to_owned())),
            Err(TryLockError::Error(reason)) => Err(DataDirError::File { path: root.to_owned(), reason }),
        }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A place in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// Makes a directory for its owner alone whose name, and the names of the parents that had to be made, survive a power cut.
///
/// # Errors
/// When it cannot be made, or its parent not be synced.
pub fn create_durably(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_durably(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_parent(directory),
    }
}

/// Reads a file that should be its owner's alone, and warns when it is not; `None` when there is none.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read_private(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            if std::fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
                tracing::warn!(path = %path.display(), "others can read this secret: chmod 600");
            }
            Ok(Some(text))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file that only its owner may read, as [`write_whole`] does.
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole(path, 0o600, bytes)
}

/// Writes a small file that appears whole or not at all, also across a power cut: under another name, synced, renamed, and
/// the directory synced.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // Nothing half done stays, also on a full disk.
        let _ = std::fs::remove_file(&draft);
    })?;
    sync_parent(path)
}

/// Makes the name of a file durable.
///
/// # Errors
/// When its directory cannot be synced.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("a/b");
        let first = DataDir::open(&root).unwrap();
        assert!(matches!(DataDir::open(&root), Err(DataDirError::InUse(path)) if path == root));
        drop(first);
        assert!(DataDir::open(&root).is_ok());
    }

    #[test]
    #[expect(clippy::used_underscore_binding, reason = "held for being dropped, and looked at here alone")]
    fn a_copy_of_the_file_that_a_new_process_has_does_not_hold_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::open(folder.path()).unwrap();
        let copy = first._lock.as_ref().map(|lock| lock.0.try_clone().unwrap());
        drop(first);
        assert!(copy.is_some() && DataDir::open(folder.path()).is_ok());
    }

    #[test]
    fn directories_that_are_made_are_their_owners_alone() {
        let parent = tempfile::tempdir().unwrap();
        create_durably(&parent.path().join("a/b")).unwrap();
        for name in ["a", "a/b"] {
            let mode = std::fs::metadata(parent.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{name}");
        }
    }

    #[test]
    fn private_files_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert_eq!(read_private(&path).unwrap(), None);
        write_private(&path, b"first").unwrap();
        write_private(&path, b"second").unwrap();
        assert_eq!(read_private(&path).unwrap().as_deref(), Some("second"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
