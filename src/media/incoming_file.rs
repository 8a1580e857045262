//! File that a client is sending: written in chunks and hashed, then renamed to its place by one of the stores.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::domain::value::Digest;

/// Number of bytes at the beginning that are kept in memory, enough to detect every accepted format.
const HEAD_BYTES: usize = 64;

/// An upload in progress; removed on drop unless a store renamed it.
#[derive(Debug)]
pub struct IncomingFile {
    file: File,
    path: PathBuf,
    hash: Sha256,
    bytes: u64,
    head: Vec<u8>,
}

impl IncomingFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If the file exists or cannot be created.
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { file, path, hash: Sha256::new(), bytes: 0, head: Vec::new() })
    }

    /// Appends a chunk.
    ///
    /// # Errors
    /// If it cannot be written, for example because the disk is full.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        let missing = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        Ok(())
    }

    /// Makes the content durable, though not yet the name.
    ///
    /// # Errors
    /// If it cannot be synced.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Returns the SHA-256 of the bytes so far.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }

    /// Returns the number of bytes so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first bytes.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the temporary path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file, positioned at its beginning.
    ///
    /// # Errors
    /// If the position cannot be set.
    pub fn reader(&mut self) -> io::Result<&mut File> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        // A stored file no longer has this name.
        let _ = fs::remove_file(&self.path);
    }
}
