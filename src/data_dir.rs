//! The one directory where everything is kept: its lock, and files that only its owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

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
    #[error("the data directory {} is in use by another running service: stop that one (or let a `mediary audit verify` come to its end), or give this one a data_dir of its own", .0.display())]
    InUse(PathBuf),
    /// It belongs to another user, who could not use the files that would be made in it now.
    #[error(
        "the data directory {} belongs to {}, and files that {} made in it could not be used any more: run this as its owner, {}",
        path.display(), user(*owner), user(own_id()), as_owner(path, *owner, *group)
    )]
    Foreign { path: PathBuf, owner: u32, group: u32 },
    /// It cannot be made or locked.
    #[error("the data directory {path} cannot be used: {reason}{}", to_help(path, reason), path = path.display())]
    File { path: PathBuf, reason: io::Error },
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
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(root.join("lock")).map_err(failed)?;
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

    /// A place in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
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

/// What helps whoever may not use a path; nothing where the reason is another one.
#[must_use]
pub fn to_help(path: &Path, reason: &io::Error) -> String {
    if reason.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return "; name a directory that can be written to with --data-dir".to_owned();
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|path| Some((path, fs::metadata(path).ok()?)));
    let Some((there, found)) = there.filter(|_| reason.kind() == io::ErrorKind::PermissionDenied) else {
        return String::new();
    };
    let make = if there == path { "chown -R" } else { "install -d -m 0700 -o" };
    let given = format!("{make} {} {}", own_id(), path.display());
    format!(
        "; {} belongs to {}, and this is {}: give it that directory as root (`{given}`), or name another one with --data-dir",
        there.display(),
        user(found.uid()),
        user(own_id())
    )
}

fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of a user, where the machine's own list has one: those that a service manager makes up are not in it.
fn name_of(id: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut users = users.lines().map(|line| line.split(':'));
    users.find_map(|mut user| {
        let (name, known) = (user.next()?, user.nth(1)?);
        (known == id.to_string()).then(|| name.to_owned())
    })
}

fn user(id: u32) -> String {
    name_of(id).map_or_else(|| format!("user {id}"), |name| format!("user {id} ({name})"))
}

/// How root runs a command as the owner of a directory.
fn as_owner(path: &Path, id: u32, group: u32) -> String {
    // Behind this one nobody comes but root, and a unit to which the service manager gives it.
    let private = fs::canonicalize(path).ok().filter(|path| path.starts_with("/var/lib/private"));
    if let Some(unit) = private.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
        return format!(
            "`systemd-run --pipe --wait -p DynamicUser=yes -p User={unit} -p StateDirectory={unit} mediary --data-dir /var/lib/{unit} …`"
        );
    }
    match name_of(id) {
        Some(name) => format!("`runuser -u {name} -- mediary …`"),
        None => format!("`setpriv --reuid {id} --regid {group} --clear-groups mediary …`"),
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
    fn who_looks_whether_a_service_runs_turns_none_away() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!DataDir::is_in_service(folder.path()).unwrap());
        drop(DataDir::open(folder.path()).unwrap());
        // Given somebody who is just looking, and another one
        let mut looking = Some(DataDir::hold(folder.path()).unwrap());
        assert!(!DataDir::is_in_service(folder.path()).unwrap());
        // When a service comes, then it waits that moment
        let service = DataDir::open_resting(folder.path(), || looking = None).unwrap();
        assert!(DataDir::is_in_service(folder.path()).unwrap());
        drop(service);
        // And whoever holds it for longer keeps it away
        let _verifying = DataDir::hold(folder.path()).unwrap();
        assert!(matches!(DataDir::open_resting(folder.path(), || ()), Err(DataDirError::InUse(_))));
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
            let mode = fs::metadata(parent.path().join(name)).unwrap().permissions().mode();
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
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_of_another_user_is_left_alone_and_its_owner_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = || DataDir::open(folder.path()).err().map(|error| error.to_string());
        if std::os::unix::fs::chown(folder.path(), Some(61_184), Some(61_185)).is_err() {
            eprintln!("not tried: only root gives a directory away");
            return;
        }
        // Given an empty directory, then nothing is made in it
        let told = refusal().expect("it is refused");
        for word in ["belongs to user 61184,", "setpriv --reuid 61184 --regid 61185 --clear-groups mediary"] {
            assert!(told.contains(word), "{word} is not in: {told}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        // Given a used one, then its lock counts: the directory may be a volume that belongs to root
        fs::write(folder.path().join("lock"), "").unwrap();
        assert_eq!(refusal(), None);
        std::os::unix::fs::chown(folder.path().join("lock"), Some(61_184), None).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).unwrap();
        assert!(refusal().expect("it is refused").contains("belongs to user 61184,"));
    }

    #[test]
    fn who_may_not_use_a_directory_is_told_whose_it_is_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let denied = |path: &Path| {
            let reason = io::ErrorKind::PermissionDenied.into();
            DataDirError::File { path: path.to_owned(), reason }.to_string()
        };
        let (own, there) = (own_id(), folder.path().display().to_string());
        let told = denied(folder.path());
        assert!(told.contains(&format!("{there} belongs to user {own}")), "{told}");
        assert!(told.contains(&format!("`chown -R {own} {there}`")) && told.contains("--data-dir"), "{told}");
        // One that is not there yet is made by whoever may
        let told = denied(&folder.path().join("a"));
        assert!(told.contains(&format!("`install -d -m 0700 -o {own} {there}/a`")), "{told}");
        assert_eq!(to_help(folder.path(), &io::ErrorKind::StorageFull.into()), "");
    }
}
