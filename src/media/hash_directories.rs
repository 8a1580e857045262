//! Directories `00` to `ff` below a root, each for the files whose hash begins with these two digits. A directory is
//! created when its first file is stored: creating all of them would take most of the first start.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::data_dir::{create_durably, sync_parent};

/// The directories of one root. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct HashDirectories {
    root: PathBuf,
    /// Directories whose names this process has made durable.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
}

impl HashDirectories {
    /// Opens or creates the root.
    ///
    /// # Errors
    /// If it cannot be created or synced.
    pub fn open(root: PathBuf) -> io::Result<Self> {
        create_durably(&root)?;
        Ok(Self { root, durable: Arc::default() })
    }

    /// Returns the path of a file. `file_name` must begin with the hexadecimal digits of its hash.
    pub fn path_of(&self, file_name: &str) -> PathBuf {
        self.root.join(&file_name[..2]).join(file_name)
    }

    /// Creates the directory of a file, durable when this returns.
    ///
    /// # Errors
    /// If it cannot be created, or the root does not exist or cannot be synced.
    pub fn create_for(&self, file: &Path) -> io::Result<()> {
        let directory = file.parent().unwrap_or(&self.root);
        // Held while syncing, so that no other thread puts a file into a directory that is not durable yet.
        let mut durable = self.durable.lock();
        if !durable.contains(directory) {
            // Not its parents: if the root is an unmounted mount point, nothing may be stored below it.
            match DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            // Even if it existed: the process that created it may have been killed before it synced the root.
            sync_parent(directory)?;
            durable.insert(directory.to_owned());
        }
        Ok(())
    }

    /// Returns the directories that exist, sorted.
    ///
    /// # Errors
    /// If the root cannot be read.
    pub fn list(&self) -> io::Result<Vec<PathBuf>> {
        let mut directories = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path.file_name().and_then(|name| name.to_str()).is_some_and(is_prefix) && path.is_dir() {
                directories.push(path);
            }
        }
        directories.sort();
        Ok(directories)
    }
}

fn is_prefix(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_created_for_the_first_file() {
        let temporary = tempfile::tempdir().unwrap();
        let directories = HashDirectories::open(temporary.path().join("results")).unwrap();
        assert!(directories.list().unwrap().is_empty(), "nothing is created in advance");

        for name in ["ab01.png", "abff.png", "07aa.png"] {
            let file = directories.path_of(name);
            directories.create_for(&file).unwrap();
            fs::write(&file, b"x").unwrap();
        }
        let [first, second] = ["results/07", "results/ab"].map(|directory| temporary.path().join(directory));
        assert_eq!(directories.list().unwrap(), [first, second]);
    }

    #[test]
    fn a_removed_root_is_not_created_again() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("results");
        let directories = HashDirectories::open(root.clone()).unwrap();
        fs::remove_dir(&root).unwrap();

        let error = directories.create_for(&directories.path_of("ab01.png")).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!root.exists());
    }

    #[test]
    fn other_names_are_not_listed() {
        let temporary = tempfile::tempdir().unwrap();
        let directories = HashDirectories::open(temporary.path().to_owned()).unwrap();
        for name in ["incoming", "AB", "0", "abc"] {
            fs::create_dir(temporary.path().join(name)).unwrap();
        }
        fs::write(temporary.path().join("cd"), b"a file").unwrap();
        assert!(directories.list().unwrap().is_empty());
    }
}
