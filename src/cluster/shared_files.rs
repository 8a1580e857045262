//! Files that all nodes use: archives, media files and the keys of personal data. They are in a directory that every node
//! mounts, and the data directory has a link in the place of each tree, so all other code, backups too, finds them where
//! they are without a cluster.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::data_dir::{create_durably, sync_parent};

/// Trees of a data directory that the nodes share.
const SHARED_TREES: [&str; 3] = ["archives", "media", "personal"];

/// Reason why the trees of a data directory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum SharedFilesError {
    #[error("{path}: {reason}", path = .path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error("{link} leads to {found}, but cluster.files is {expected}: correct one of them", link = .link.display(), found = .found.display(), expected = .expected.display())]
    OtherLink { link: PathBuf, found: PathBuf, expected: PathBuf },
    #[error(
        "{own} has files that {shared} lacks, for example {example}: copy them there, then remove {own}", own = .own.display(),
        shared = .shared.display(), example = .example.display()
    )]
    NotShared { own: PathBuf, shared: PathBuf, example: PathBuf },
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> SharedFilesError + use<> {
    let path = path.to_owned();
    move |reason| SharedFilesError::File { path, reason }
}

/// Moves the trees of the first node to the shared directory, and links them.
///
/// # Errors
/// If the shared directory has other files, or a file cannot be moved.
pub fn share(data_dir: &Path, shared_dir: &Path) -> Result<(), SharedFilesError> {
    for tree in SHARED_TREES {
        let (own, shared) = (data_dir.join(tree), shared_dir.join(tree));
        if own.is_symlink() || !own.exists() {
            continue;
        }
        copy_missing(&own, &shared)?;
    }
    link(data_dir, shared_dir)
}

/// Links the trees of a node to the shared directory. A restored backup has copies of them; they are removed.
///
/// # Errors
/// If a tree has files that the shared one lacks, or a link leads elsewhere.
pub fn link(data_dir: &Path, shared_dir: &Path) -> Result<(), SharedFilesError> {
    let shared_dir = shared_dir.canonicalize().map_err(file_error(shared_dir))?;
    for tree in SHARED_TREES {
        let (own, shared) = (data_dir.join(tree), shared_dir.join(tree));
        create_durably(&shared).map_err(file_error(&shared))?;
        if own.is_symlink() {
            check_link(own, shared)?;
            continue;
        }
        if own.exists() {
            if let Some(example) = find_missing(&own, &shared)? {
                return Err(SharedFilesError::NotShared { own, shared, example });
            }
            fs::remove_dir_all(&own).map_err(file_error(&own))?;
        }
        symlink(&shared, &own).and_then(|()| sync_parent(&own)).map_err(file_error(&own))?;
    }
    Ok(())
}

/// Copies the shared trees back in place of the links.
///
/// # Errors
/// If a file cannot be copied.
pub fn unshare(data_dir: &Path) -> Result<(), SharedFilesError> {
    for tree in SHARED_TREES {
        let own = data_dir.join(tree);
        if !own.is_symlink() {
            continue;
        }
        let draft = data_dir.join(format!("{tree}.draft"));
        copy_missing(&own, &draft)?;
        fs::remove_file(&own).map_err(file_error(&own))?;
        fs::rename(&draft, &own).and_then(|()| sync_parent(&own)).map_err(file_error(&own))?;
    }
    Ok(())
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

/// Returns a file that another tree lacks.
fn find_missing(from: &Path, to: &Path) -> Result<Option<PathBuf>, SharedFilesError> {
    for entry in fs::read_dir(from).map_err(file_error(from))? {
        let path = entry.map_err(file_error(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        let missing = if path.is_dir() { find_missing(&path, &target)? } else { (!target.exists()).then_some(path) };
        if missing.is_some() {
            return Ok(missing);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        share(first.path(), shared.path()).unwrap();
        share(first.path(), shared.path()).unwrap();

        // A restored backup has some of them.
        write(second.path(), "media/inputs/ab/ab.png");
        link(second.path(), shared.path()).unwrap();
        write(second.path(), "archives/cd/cd.zip");
        for node in [&first, &second] {
            for file in ["media/inputs/ab/ab.png", "personal/01/key", "archives/cd/cd.zip"] {
                assert_eq!(fs::read_to_string(node.path().join(file)).unwrap(), file);
            }
        }

        unshare(first.path()).unwrap();
        write(first.path(), "media/inputs/ef/ef.png");
        assert!(!shared.path().join("media/inputs/ef").exists());
        assert!(first.path().join("archives/cd/cd.zip").exists());
    }

    #[test]
    fn files_that_would_be_lost_and_other_links_are_refused() {
        let [node, shared, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        write(node.path(), "archives/ab/ab.zip");
        let refused = link(node.path(), shared.path()).unwrap_err().to_string();
        assert!(refused.contains("ab.zip"), "{refused}");
        assert!(node.path().join("archives/ab/ab.zip").exists());

        share(node.path(), shared.path()).unwrap();
        assert!(matches!(link(node.path(), other.path()), Err(SharedFilesError::OtherLink { .. })));
    }
}
