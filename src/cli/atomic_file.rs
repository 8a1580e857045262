//! Atomically written file: complete under its final name, or absent. An existing file stays until the new one is
//! complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::data_dir::sync_parent;

/// File that is written under a temporary name beside its target. Dropping it deletes the temporary file.
pub(super) struct AtomicFile {
    out: BufWriter<File>,
    /// Temporary and final path; `None` when writing directly to a pipe or device.
    paths: Option<(PathBuf, PathBuf)>,
}

impl AtomicFile {
    /// Creates the temporary file for `target`; `id` distinguishes concurrent writers.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(super) fn create(target: &Path, id: Uuid) -> io::Result<Self> {
        let existing = fs::metadata(target).ok();
        if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            let out = BufWriter::new(OpenOptions::new().write(true).open(target)?);
            return Ok(Self { out, paths: None });
        }
        // Write through symbolic links instead of replacing them.
        let target = if existing.is_some() { fs::canonicalize(target)? } else { target.to_owned() };
        let mut name = target.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!(".{id}.draft"));
        let draft = target.with_file_name(name);
        let out = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&draft)?);
        let file = Self { out, paths: Some((draft, target)) };
        if let Some(metadata) = existing {
            file.out.get_ref().set_permissions(metadata.permissions())?;
        }
        Ok(file)
    }

    /// Moves the file to its final name, durably.
    ///
    /// # Errors
    /// If the file cannot be made durable; the previous file may still be in place.
    pub(super) fn commit(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some((draft, target)) = &self.paths else { return Ok(()) };
        self.out.get_ref().sync_all()?;
        fs::rename(draft, target)?;
        sync_parent(target)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some((draft, _)) = &self.paths {
            // The temporary file no longer exists after `commit`.
            let _ = fs::remove_file(draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_names(folder: &Path) -> Vec<OsString> {
        let mut file_names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        file_names.sort();
        file_names
    }

    #[test]
    fn the_previous_file_stays_until_the_draft_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("log.jsonl");
        let link = folder.path().join("newest");
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink("log.jsonl", &link).unwrap();

        // Dropped without a commit
        let mut draft = AtomicFile::create(&target, Uuid::from_u128(1)).unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(file_names(folder.path()).len(), 3, "the target, the link and the draft");
        drop(draft);
        assert_eq!(file_names(folder.path()), ["log.jsonl", "newest"]);
        assert_eq!(fs::read(&target).unwrap(), b"before");

        // Committed, through a link
        let mut draft = AtomicFile::create(&link, Uuid::from_u128(2)).unwrap();
        draft.write_all(b"after").unwrap();
        draft.commit().unwrap();
        assert_eq!(file_names(folder.path()), ["log.jsonl", "newest"]);
        assert_eq!(fs::read(&target).unwrap(), b"after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_device_is_written_directly() {
        let mut draft = AtomicFile::create(Path::new("/dev/null"), Uuid::from_u128(1)).unwrap();
        draft.write_all(b"nothing").unwrap();
        draft.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
