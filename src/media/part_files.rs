//! Names of unfinished files, and the removal of those that a crash left.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::environment::Environment;
use crate::file_tree::UNREFERENCED_AGE;

/// Suffix of unfinished files.
pub const PART_SUFFIX: &str = ".part";

/// Writers of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSharing {
    /// This process alone: at a start, every unfinished file is a leftover.
    Alone,
    /// Other nodes too, and any file may be one that they are about to use.
    Shared,
}

/// Creator of names for unfinished files. No two processes use the same name. Cheap to clone.
#[derive(Clone)]
pub struct PartFiles {
    sharing: FileSharing,
    /// Id of this run of the process.
    run: Uuid,
    counter: Arc<AtomicU64>,
    environment: Environment,
}

impl PartFiles {
    /// Returns the names of this run.
    #[must_use]
    pub fn new(sharing: FileSharing, environment: &Environment) -> Self {
        Self { sharing, run: environment.uuid(), counter: Arc::default(), environment: environment.clone() }
    }

    /// Returns the writers of the directory.
    #[must_use]
    pub fn sharing(&self) -> FileSharing {
        self.sharing
    }

    /// Returns an ending that no other unfinished file has.
    #[must_use]
    pub fn next_ending(&self) -> String {
        let sequence = self.counter.fetch_add(1, Ordering::Relaxed);
        format!("{}.{sequence}{PART_SUFFIX}", self.run.simple())
    }

    /// Returns `true` if a file that no event refers to may be removed: no other node can be about to use it.
    #[must_use]
    pub fn may_remove(&self, metadata: &fs::Metadata) -> bool {
        match self.sharing {
            FileSharing::Alone => true,
            FileSharing::Shared => {
                let modified = metadata.modified().ok();
                let age = modified.and_then(|modified| self.system_time().duration_since(modified).ok());
                age.is_some_and(|age| age >= UNREFERENCED_AGE)
            }
        }
    }

    /// Keeps other nodes from removing a file that an event is about to refer to.
    ///
    /// # Errors
    /// If the time of the file cannot be set.
    pub fn keep(&self, file: &Path) -> io::Result<()> {
        match self.sharing {
            FileSharing::Alone => Ok(()),
            FileSharing::Shared => File::options().write(true).open(file)?.set_modified(self.system_time()),
        }
    }

    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(u64::try_from(self.environment.now().micros()).unwrap_or(0))
    }

    /// Removes the unfinished files of a directory that a crash left.
    ///
    /// # Errors
    /// If the directory cannot be read or a file cannot be removed.
    pub fn remove_leftovers(&self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(PART_SUFFIX)
                && entry.metadata().is_ok_and(|metadata| self.may_remove(&metadata))
            {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_other_nodes_stay_for_a_day() {
        let environment = Environment::system();
        let [alone, shared] =
            [FileSharing::Alone, FileSharing::Shared].map(|sharing| PartFiles::new(sharing, &environment));
        assert_ne!(alone.next_ending(), shared.next_ending());

        let directory = tempfile::tempdir().unwrap();
        let [new, old] = [shared.next_ending(), shared.next_ending()].map(|name| directory.path().join(name));
        for path in [&new, &old] {
            fs::write(path, b"x").unwrap();
        }
        let two_days_ago = shared.system_time() - 2 * UNREFERENCED_AGE;
        File::options().write(true).open(&old).unwrap().set_modified(two_days_ago).unwrap();

        shared.remove_leftovers(directory.path()).unwrap();
        assert_eq!([&new, &old].map(|path| path.exists()), [true, false]);

        File::options().write(true).open(&new).unwrap().set_modified(two_days_ago).unwrap();
        shared.keep(&new).unwrap();
        shared.remove_leftovers(directory.path()).unwrap();
        assert!(new.exists());
        alone.remove_leftovers(directory.path()).unwrap();
        assert!(!new.exists());
    }
}
