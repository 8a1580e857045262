//! The one directory where everything is kept: its lock, and files that only its owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use owner::{as_owner, own_id, user};
pub use owner::{quoted, to_help};

mod owner;

/// How often a start looks again whether the directory is free, and how long it rests in between: whoever only wants to know whether a
/// service runs on it holds it for a moment.
const LOOKS: u32 = 5;
const REST: Duration = Duration::from_millis(40);

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
    #[error("the data directory {} is in use by a running service, or a `mediary audit verify`: stop that or let it end, or name another directory with --data-dir", .0.display())]
    InUse(PathBuf),
    /// It belongs to another user, who could not use the files that would be made in it now.
    #[error(
        "the data directory {} belongs to {}, and files that {} made in it could not be used any more: run this as its owner, {}",
        path.display(), user(*owner), user(own_id()), as_owner(path, *owner, *group)
    )]
    Foreign { path: PathBuf, owner: u32, group: u32 },
    /// It cannot be made or locked.
    #[error("the data directory {path} cannot be used: {reason}{}", to_help(path, reason) + elsewhere(reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
}

fn elsewhere(reason: &io::Error) -> &'static str {
    if reason.kind() == io::ErrorKind::PermissionDenied { "; or name another directory with --data-dir" } else { "" }
}

impl DataDir {
    /// Makes the directory if it is not there, and locks it until this value is dropped or the process ends, however it ends.
    ///
    /// # Errors
    /// [`DataDirError`] when it cannot be made, or is in use for longer than a moment.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        Self::open_resting(root, || thread::sleep(REST))
    }

    fn open_resting(root: &Path, mut rest: impl FnMut()) -> Result<Self, DataDirError> {
        let failed = |reason| DataDirError::File { path: root.to_owned(), reason };
        refuse_foreign(root)?;
        create_durably(root).map_err(failed)?;
        let lock = open_lock(root).map_err(failed)?;
        for _ in 1..LOOKS {
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) => rest(),
                tried => return Self::locked(root, lock, tried),
            }
        }
        let tried = lock.try_lock();
        Self::locked(root, lock, tried)
    }

    /// Keeps services away from a directory that is there, and changes nothing in it: others may do the same meanwhile. One in which no
    /// service ever ran has no lock to take.
    ///
    /// # Errors
    /// [`DataDirError`] when it cannot be locked, or a service holds it.
    pub fn hold(root: &Path) -> Result<Self, DataDirError> {
        match File::open(root.join("lock")) {
            Ok(lock) => {
                let tried = lock.try_lock_shared();
                Self::locked(root, lock, tried)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { root: root.to_owned(), _lock: None }),
            Err(reason) => Err(DataDirError::File { path: root.to_owned(), reason }),
        }
    }

    /// Whether a service holds a directory. A start meanwhile is not turned away: it looks again.
    ///
    /// # Errors
    /// [`DataDirError`] when that cannot be told.
    pub fn is_in_service(root: &Path) -> Result<bool, DataDirError> {
        match Self::hold(root) {
            Ok(_) => Ok(false),
            Err(DataDirError::InUse(_)) => Ok(true),
            Err(other) => Err(other),
        }
    }

    fn locked(root: &Path, lock: File, tried: Result<(), TryLockError>) -> Result<Self, DataDirError> {
        match tried {
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

    /// The command that closes the parts of it which others may enter or read, as an older release or the one who made it left them;
    /// `None` when there are none. Where the directory is a volume that is somebody else's, its group is how the service gets in, and
    /// not counted.
    #[must_use]
    pub fn to_close(&self) -> Option<String> {
        let found = |path: &Path| fs::metadata(path).ok();
        let is_own = found(&self.root).is_some_and(|root| root.uid() == own_id());
        let (others, who) = if is_own { (0o077, "go") } else { (0o007, "o") };
        let is_open = |path: &Path| found(path).is_some_and(|found| found.permissions().mode() & others != 0);
        let parts = ["log", "archives", "media", "personal"].map(|part| self.path(part));
        let open = parts.iter().filter(|part| is_open(&self.root) && is_open(part));
        let open: Vec<_> = open.map(|part| quoted(&part.display().to_string())).collect();
        (!open.is_empty()).then(|| format!("chmod -R {who}= {}", open.join(" ")))
    }

    /// A place in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// The file that is locked: its owner's alone, for whoever can open it can keep the service away.
fn open_lock(root: &Path) -> io::Result<File> {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(root.join("lock"))?;
    if lock.metadata()?.permissions().mode() & 0o077 != 0 {
        // As older releases left it. A file system without modes is no reason not to start.
        let _ = lock.set_permissions(Permissions::from_mode(0o600));
    }
    Ok(lock)
}

/// Whoever runs a command as root in the directory of a service would leave files there that the service cannot open. Whose the
/// directory is, its lock tells: the directory itself may be a volume that belongs to root.
fn refuse_foreign(root: &Path) -> Result<(), DataDirError> {
    // Others than root are refused by the file system, where it knows owners at all.
    let found = fs::metadata(root.join("lock")).or_else(|_| fs::metadata(root)).ok();
    match found.filter(|found| own_id() == 0 && found.uid() != 0) {
        Some(found) => Err(DataDirError::Foreign { path: root.to_owned(), owner: found.uid(), group: found.gid() }),
        None => Ok(()),
    }
}

/// Whether a directory is there.
///
/// # Errors
/// When who asks may not even see that.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Err(_) => Ok(false),
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
    match fs::read_to_string(path) {
        Ok(text) => {
            if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
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
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // Nothing half done stays, also on a full disk.
        let _ = fs::remove_file(&draft);
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
mod tests;
