//! Files that all nodes use: archives, media files and the keys of personal data. They are in a directory that every node
//! mounts, and the data directory has a link in the place of each tree, so all other code, backups too, finds them where
//! they are without a cluster.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::data_dir::{create_durably, sync_parent, write_private};

/// Trees of a data directory that the nodes share.
pub(super) const SHARED_TREES: [&str; 3] = ["archives", "media", "personal"];
/// File in the shared directory with the id of the log. Without it, the directory may be one that is not mounted.
const OWNER_FILE: &str = "log-id";

/// Reason why the trees of a data directory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum SharedFilesError {
    #[error("{path}: {reason}", path = .path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error("{link} leads to {found}, but cluster.files is {expected}: correct one of them", link = .link.display(), found = .found.display(), expected = .expected.display())]
    OtherLink { link: PathBuf, found: PathBuf, expected: PathBuf },
    #[error(
        "{} is not mounted, or is not the directory of a cluster: it has no file {OWNER_FILE}. Mount it, or \
         correct cluster.files",
        .0.display()
    )]
    NotMounted(PathBuf),
    #[error(
        "{path} has the files of the log {found}, but this node has the log {expected}: correct cluster.files",
        path = .path.display()
    )]
    OtherLog { path: PathBuf, found: String, expected: Uuid },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> SharedFilesError + use<> {
    let path = path.to_owned();
    move |reason| SharedFilesError::File { path, reason }
}

/// Copies the trees of the first node to the shared directory and replaces them by links.
///
/// # Errors
/// If the shared directory belongs to another log, or a file cannot be copied.
pub fn share(data_dir: &Path, shared_dir: &Path, log_id: Uuid) -> Result<(), SharedFilesError> {
    check_vacant(shared_dir, log_id)?;
    for tree in SHARED_TREES {
        let own = data_dir.join(tree);
        let shared = shared_dir.join(tree);
        if own.is_symlink() || !own.exists() {
            continue;
        }
        copy_missing(&own, &shared)?;
    }

    let owner = shared_dir.join(OWNER_FILE);
    write_private(&owner, log_id.to_string().as_bytes()).map_err(file_error(&owner))?;
    link(data_dir, shared_dir, log_id)
}

/// Checks that the shared directory belongs to no other log.
///
/// # Errors
/// If it does.
pub fn check_vacant(shared_dir: &Path, log_id: Uuid) -> Result<(), SharedFilesError> {
    match check_owner(shared_dir, log_id) {
        Err(SharedFilesError::NotMounted(_)) => Ok(()),
        checked => checked,
    }
}

fn check_owner(shared_dir: &Path, log_id: Uuid) -> Result<(), SharedFilesError> {
    let path = shared_dir.join(OWNER_FILE);
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == log_id.to_string() => Ok(()),
        Ok(found) => Err(SharedFilesError::OtherLog { path: shared_dir.to_owned(), found, expected: log_id }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(SharedFilesError::NotMounted(shared_dir.to_owned()))
        }
        Err(error) => Err(file_error(&path)(error)),
    }
}

/// Checks that the shared directory is that of the log, and that no tree of the node is linked elsewhere. Changes nothing.
///
/// # Errors
/// If the check fails.
pub fn check(data_dir: &Path, shared_dir: &Path, log_id: Uuid) -> Result<(), SharedFilesError> {
    check_owner(shared_dir, log_id)?;
    let shared_dir = shared_dir.canonicalize().map_err(file_error(shared_dir))?;
    let mut linked = SHARED_TREES.iter().filter(|tree| data_dir.join(tree).is_symlink());
    linked.try_for_each(|tree| check_link(data_dir.join(tree), shared_dir.join(tree)))
}

/// Links the trees of a node to the shared directory. A restored backup has copies of them, which may be older; they are
/// removed.
///
/// # Errors
/// If the shared directory is not that of the log, or a link leads elsewhere.
pub fn link(data_dir: &Path, shared_dir: &Path, log_id: Uuid) -> Result<(), SharedFilesError> {
    // All trees, before one of them is removed.
    check(data_dir, shared_dir, log_id)?;
    let shared_dir = shared_dir.canonicalize().map_err(file_error(shared_dir))?;
    for tree in SHARED_TREES {
        let own = data_dir.join(tree);
        let shared = shared_dir.join(tree);
        create_durably(&shared).map_err(file_error(&shared))?;
        if own.is_symlink() {
            continue;
        }
        if own.exists() {
            fs::remove_dir_all(&own).map_err(file_error(&own))?;
        }
        symlink(&shared, &own).and_then(|()| sync_parent(&own)).map_err(file_error(&own))?;
    }

    // Remove drafts of an interrupted `unshare`: the next one would restore files and users' keys from them, even those
    // that are removed in the meantime.
    for tree in SHARED_TREES {
        let draft = data_dir.join(draft_name(tree));
        if draft.exists() {
            fs::remove_dir_all(&draft).map_err(file_error(&draft))?;
        }
    }
    Ok(())
}

fn draft_name(tree: &str) -> String {
    format!("{tree}.draft")
}

/// Returns `true` if a tree of the data directory is still linked to the shared directory.
#[must_use]
pub fn is_linked(data_dir: &Path) -> bool {
    SHARED_TREES.iter().any(|tree| data_dir.join(tree).is_symlink())
}

/// Copies the shared trees back in place of the links.
///
/// # Errors
/// If a file cannot be copied.
pub fn unshare(data_dir: &Path) -> Result<(), SharedFilesError> {
    for tree in SHARED_TREES {
        let own = data_dir.join(tree);
        let draft = data_dir.join(draft_name(tree));
        if own.is_symlink() {
            copy_missing(&own, &draft)?;
            fs::remove_file(&own).map_err(file_error(&own))?;
        } else if own.exists() {
            continue;
        }
        // An attempt that was interrupted after it had removed the link continues here.
        fs::rename(&draft, &own).and_then(|()| sync_parent(&own)).map_err(file_error(&own))?;
    }
    Ok(())
}

/// Returns the names of the records in a directory below the shared one.
///
/// # Errors
/// If the shared directory is not that of the log, or cannot be read.
pub fn list_records(shared_dir: &Path, directory: &str, log_id: Uuid) -> Result<Vec<String>, SharedFilesError> {
    check_owner(shared_dir, log_id)?;
    let directory = shared_dir.join(directory);
    let entries = match fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file_error(&directory))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(file_error(&directory))?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Reads a record; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read.
pub fn read_record(path: &Path) -> Result<Option<Vec<u8>>, SharedFilesError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some).map_err(file_error(path)),
    }
}

/// Writes a record durably, unless it exists. `session` is an id that no other caller uses.
///
/// # Errors
/// If it cannot be written.
pub fn create_record(path: &Path, bytes: &[u8], session: Uuid) -> Result<(), SharedFilesError> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!("-{session}"));
    let draft = PathBuf::from(draft);
    let write = || {
        create_durably(path.parent().unwrap_or(path))?;
        write_private(&draft, bytes)?;
        // Unlike a rename, a link does not replace the file of another node.
        let linked = match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        };
        fs::remove_file(&draft)?;
        linked.and_then(|()| sync_parent(path))
    };
    write().map_err(file_error(path))
}

fn check_link(link: PathBuf, expected: PathBuf) -> Result<(), SharedFilesError> {
    let found = fs::read_link(&link).map_err(file_error(&link))?;
    if found == expected { Ok(()) } else { Err(SharedFilesError::OtherLink { link, found, expected }) }
}

/// Copies the files that another tree lacks, durably. Existing ones have the same content, because their names are their
/// hashes, or are keys that are never replaced.
fn copy_missing(from: &Path, to: &Path) -> Result<(), SharedFilesError> {
    create_durably(to).map_err(file_error(to))?;
    let permissions = fs::metadata(from).map_err(file_error(from))?.permissions();
    fs::set_permissions(to, permissions).map_err(file_error(to))?;
    for entry in fs::read_dir(from).map_err(file_error(from))? {
        let path = entry.map_err(file_error(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_missing(&path, &target)?;
        } else if !target.exists() {
            let draft = target.with_extension("copy.part");
            let copied = fs::copy(&path, &draft).and_then(|_| fs::File::open(&draft)?.sync_all());
            copied.and_then(|()| fs::rename(&draft, &target)).map_err(file_error(&target))?;
        }
    }
    fs::File::open(to).and_then(|directory| directory.sync_all()).map_err(file_error(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Uuid = Uuid::from_u128(1);

    fn write(root: &Path, file: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }

    #[test]
    fn the_files_of_the_first_node_are_those_of_all() {
        let [first, second, shared] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        for file in ["media/inputs/ab/ab.png", "personal/01/key"] {
            write(first.path(), file);
        }
        for _ in 0..2 {
            share(first.path(), shared.path(), LOG).unwrap();
        }

        // A restored backup has some of them, and some that have expired since.
        write(second.path(), "media/inputs/ab/ab.png");
        write(second.path(), "personal/02/erased");
        link(second.path(), shared.path(), LOG).unwrap();
        assert!(!second.path().join("personal/02/erased").exists());
        write(second.path(), "archives/cd/cd.zip");
        for node in [&first, &second] {
            for file in ["media/inputs/ab/ab.png", "personal/01/key", "archives/cd/cd.zip"] {
                assert_eq!(fs::read_to_string(node.path().join(file)).unwrap(), file);
            }
        }

        unshare(first.path()).unwrap();
        fs::rename(first.path().join("personal"), first.path().join("personal.draft")).unwrap();
        unshare(first.path()).unwrap();
        assert!(first.path().join("personal/01/key").exists(), "an interrupted attempt is completed");
        write(first.path(), "media/inputs/ef/ef.png");
        assert!(!shared.path().join("media/inputs/ef").exists());
        assert!(first.path().join("archives/cd/cd.zip").exists());
    }

    #[test]
    fn directories_of_others_are_refused_and_nothing_is_removed() {
        let [node, shared, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        write(node.path(), "archives/ab/ab.zip");
        assert!(matches!(link(node.path(), shared.path(), LOG), Err(SharedFilesError::NotMounted(_))));
        share(other.path(), shared.path(), Uuid::from_u128(2)).unwrap();
        assert!(matches!(share(node.path(), shared.path(), LOG), Err(SharedFilesError::OtherLog { .. })));
        assert!(matches!(link(node.path(), shared.path(), LOG), Err(SharedFilesError::OtherLog { .. })));
        assert!(node.path().join("archives/ab/ab.zip").exists());

        let [own, another] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        share(node.path(), own.path(), LOG).unwrap();
        fs::write(another.path().join(OWNER_FILE), LOG.to_string()).unwrap();
        assert!(matches!(link(node.path(), another.path(), LOG), Err(SharedFilesError::OtherLink { .. })));

        assert!(check(node.path(), own.path(), LOG).is_ok());
        assert!(matches!(check(node.path(), another.path(), LOG), Err(SharedFilesError::OtherLink { .. })));
        assert!(matches!(check(node.path(), shared.path(), LOG), Err(SharedFilesError::OtherLog { .. })));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(check(node.path(), empty.path(), LOG), Err(SharedFilesError::NotMounted(_))));
    }
}
