//! The files of a backup: each is named by the SHA-256 of its bytes, is complete or absent, and is private to its
//! owner.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::data_dir::sync_parent;
use crate::domain::value::Digest;
use crate::media::content_check;

/// Extension of incomplete files.
const UNFINISHED: &str = "part";
const CHUNK_BYTES: usize = 1 << 18;

/// Files of a backup, while it is created.
pub struct BackupFilePool {
    root: PathBuf,
    /// Number of files written since the pool was opened.
    pub written_files: u64,
    /// Total size of those files.
    pub written_bytes: u64,
    /// Files that existed with damaged content and were rewritten.
    pub repaired: HashSet<Digest>,
    /// Files that did not exist before.
    added: Vec<Digest>,
}

impl BackupFilePool {
    pub fn open(backup: &Path) -> Self {
        Self {
            root: backup.join("files"),
            written_files: 0,
            written_bytes: 0,
            repaired: HashSet::new(),
            added: Vec::new(),
        }
    }

    pub fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join(&name[..2]).join(name)
    }

    /// Returns the size of a file if its content matches its hash. Reads the whole file, so that bit rot in a backup is
    /// found while the original still exists.
    pub fn size_if_intact(&self, digest: &Digest) -> Option<u64> {
        let (actual, bytes) = content_check::digest_of(&self.path(digest), &mut |_| {}).ok()?;
        (actual == *digest).then_some(bytes)
    }

    /// Stores bytes unless the pool has them intact; returns their hash.
    pub fn store(&mut self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest(Sha256::digest(bytes).into());
        if self.size_if_intact(&digest).is_none() {
            self.write(&mut &bytes[..], None)?;
        }
        Ok(digest)
    }

    /// Copies a file into the pool, replacing a damaged copy; returns its hash and size. Stores nothing if the hash is
    /// not `expected`.
    pub fn copy(&mut self, file: &Path, expected: Option<Digest>) -> io::Result<(Digest, u64)> {
        self.write(&mut File::open(file)?, expected)
    }

    fn write(&mut self, from: &mut dyn Read, expected: Option<Digest>) -> io::Result<(Digest, u64)> {
        create_private_directory(&self.root)?;
        let draft = self.root.join(format!("next.{UNFINISHED}"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut bytes = 0;
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            file.write_all(&buffer[..count])?;
            bytes += count as u64;
        }

        // The file gets its name only once it is complete and durable.
        let digest = Digest(hash.finalize().into());
        if expected.is_none_or(|expected| expected == digest) {
            file.sync_all()?;
            let path = self.path(&digest);
            create_private_directory(path.parent().unwrap_or(&self.root))?;

            if path.exists() {
                self.repaired.insert(digest);
            } else {
                self.added.push(digest);
            }

            fs::rename(&draft, &path)?;
            sync_parent(&path)?;
            self.written_files += 1;
            self.written_bytes += bytes;
        } else {
            fs::remove_file(&draft)?;
        }

        Ok((digest, bytes))
    }

    /// Removes the files added since the pool was opened, which restores the previous backup. The next backup removes
    /// files that cannot be removed now.
    pub fn remove_added(&mut self) {
        for digest in std::mem::take(&mut self.added) {
            let _ = fs::remove_file(self.path(&digest));
        }
    }

    /// Removes unfinished files and those that are not in `listed`; returns the number of the latter.
    pub fn remove_unlisted(&self, listed: &HashSet<Digest>) -> io::Result<u64> {
        let mut removed = 0;
        for folder in fs::read_dir(&self.root)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                fs::remove_file(folder.path())?;
                continue;
            }

            for file in fs::read_dir(folder.path())? {
                let path = file?.path();
                let digest = path.file_name().and_then(|name| Digest::parse(name.to_str()?).ok());
                if digest.is_none_or(|digest| !listed.contains(&digest)) {
                    fs::remove_file(&path)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

/// Creates a directory that only its owner can access, and syncs its parent.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    sync_parent(path)
}
