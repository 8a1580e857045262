//! Detection of a used data directory without its log, which must not be taken for a new directory.
//!
//! The first start creates the log before anything that only a used service has. A start killed early thus leaves at
//! most secrets and empty directories, and can be repeated.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories, relative to the data directory, in which a used service has files.
const USED_DIRECTORIES: [&str; 5] = ["archives", "personal", "media", "snapshots", "answers"];

/// Error: the log of a used data directory is missing.
#[derive(Debug, thiserror::Error)]
#[error(
    "the event log is missing: {journal} has no segments, but this directory was in use ({found}). Put {log} back, or \
     restore a backup into an empty directory (mediary restore); to start over, move the other files away first",
    journal = .root.join("log/journal").display(),
    log = .root.join("log").display(),
    found = .found.join(", ")
)]
pub struct MissingLog {
    root: PathBuf,
    /// One file of each kind that exists.
    found: Vec<String>,
}

/// Checks that the log of a data directory can be opened or created. Changes nothing.
///
/// # Errors
/// Returns [`MissingLog`] if there is no log, and other files show that there was one.
pub(super) fn check_log_exists(root: &Path) -> Result<(), MissingLog> {
    let journal = root.join("log/journal");
    // An incomplete journal is reported when it is opened.
    let log_exists = journal.join("HEAD").exists() || entries(&journal).any(|path| has_extension(&path, "seg"));
    if log_exists {
        return Ok(());
    }
    let found: Vec<_> = USED_DIRECTORIES.iter().filter_map(|directory| first_file(&root.join(directory))).collect();
    if found.is_empty() {
        return Ok(());
    }
    let found = found.iter().map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string()).collect();
    Err(MissingLog { root: root.to_owned(), found })
}

/// Returns any file below a directory, except unfinished ones.
fn first_file(directory: &Path) -> Option<PathBuf> {
    entries(directory).find_map(|path| {
        if path.is_dir() {
            return first_file(&path);
        }
        (!has_extension(&path, "part") && !has_extension(&path, "draft")).then_some(path)
    })
}

/// Returns the entries of a directory; none if it does not exist.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|actual| actual == extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_file(root: &Path, file: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }

    #[test]
    fn the_files_of_a_killed_first_start_do_not_count_as_use() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check_log_exists(dir.path()).is_ok());
        for file in ["admin-token", "lock", "webhook-key", "log/signing.key", "log/sled/db", "archives/incoming/1.part"]
        {
            write_file(dir.path(), file);
        }
        fs::create_dir_all(dir.path().join("media/results/ab")).unwrap();
        assert!(check_log_exists(dir.path()).is_ok());
    }

    #[test]
    fn the_files_of_a_used_service_are_reported() {
        let used_files = [
            "archives/ab/x.zip",
            "archives/orphans/x.zip",
            "personal/ab/x",
            "media/inputs/ab/x.png",
            "snapshots/models",
        ];

        for file in used_files {
            let dir = tempfile::tempdir().unwrap();
            for name in [file, "log/signing.key"] {
                write_file(dir.path(), name);
            }
            let message = check_log_exists(dir.path()).unwrap_err().to_string();
            assert!(
                message.contains(file) && message.contains("log/journal") && message.contains("restore"),
                "{message}"
            );
            write_file(dir.path(), "log/journal/00000000000000000001.seg");
            assert!(check_log_exists(dir.path()).is_ok());
        }
    }
}
