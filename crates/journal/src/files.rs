//! Files and directories whose names survive a power cut.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a directory that only its owner may enter. Its name, and those of created parents, survive a power cut.
///
/// # Errors
/// If the directory cannot be created, or its parent cannot be synced.
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

/// Writes a file that only its owner may read, with [`write_atomically`].
///
/// # Errors
/// If the file cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically(path, 0o600, bytes)
}

/// Writes a small file atomically, even across a power cut: writes it under a temporary name, syncs and renames it, and
/// syncs the directory.
///
/// # Errors
/// If the file cannot be written.
pub fn write_atomically(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };

    write().inspect_err(|_| {
        // Removes the partial file, which also frees its space on a full disk.
        let _ = fs::remove_file(&draft);
    })?;
    sync_parent(path)
}

/// Makes the name of a file durable.
///
/// # Errors
/// If the file's directory cannot be synced.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn created_files_are_readable_by_their_owner_only() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        create_durably(&directory).unwrap();
        assert_eq!(mode(&directory), 0o700);

        write_private(&directory.join("key"), b"secret").unwrap();
        assert_eq!(mode(&directory.join("key")), 0o600);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_draft() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_private(&path, b"old").unwrap();

        // A directory in the place of the draft makes the write fail.
        fs::create_dir(directory.path().join("file.draft")).unwrap();
        assert!(write_private(&path, b"new").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
