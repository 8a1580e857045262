//! Snapshots of the read models, so that a start need not replay the whole log (ADR 10).
//!
//! A snapshot is a cache. If it is damaged or belongs to another release or log, it is ignored and the log is replayed.
//! It consists of chunks with a checksum each, so that writing and reading need little memory, and ends with a SHA-256
//! of the whole file.
//!
//! ```text
//! magic 8 │ format 4 │ fingerprint of this release's shapes 8 │ anchor in the journal 72 │ crc32c 4
//! chunk:   kind 1 │ length 4 │ crc32c 4 │ values one after the other
//! end:     kind 0 │ SHA-256 32 of all bytes before this chunk's kind
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

mod load;
mod parts;
mod save;

#[cfg(test)]
mod tests;

pub use load::OpenedSnapshot;
pub use save::{remove_draft, save};

use crate::events::journal::Anchor;

const MAGIC: &[u8; 8] = b"MDYSNAP1";
const FORMAT: u32 = 1;
/// Offsets of the parts of the header that follow the magic.
const FORMAT_OFFSET: usize = MAGIC.len();
const FINGERPRINT_OFFSET: usize = FORMAT_OFFSET + 4;
const ANCHOR_OFFSET: usize = FINGERPRINT_OFFSET + 8;
const CRC_OFFSET: usize = ANCHOR_OFFSET + Anchor::BYTES;
const HEADER_BYTES: usize = CRC_OFFSET + 4;
/// Offset of a chunk's checksum, which follows its kind and length.
const CHUNK_CRC_OFFSET: usize = 1 + 4;
/// Bytes of a chunk before its values.
const CHUNK_HEADER_BYTES: usize = CHUNK_CRC_OFFSET + 4;
const HASH_BYTES: usize = 32;
/// Size at which a chunk is written.
const CHUNK_BYTES: usize = 512 * 1024;
/// Kind of the end marker.
const END_KIND: u8 = 0;

/// Reason why a snapshot is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Another release wrote it with other data structures.
    #[error("{}: written by another release", .0.display())]
    OtherRelease(PathBuf),
    /// The file is damaged.
    #[error("{}: {reason}", .file.display())]
    Damaged { file: PathBuf, reason: String },
}

impl SnapshotError {
    fn damaged(file: &Path, reason: &(impl ToString + ?Sized)) -> Self {
        Self::Damaged { file: file.to_owned(), reason: reason.to_string() }
    }
}

/// Returns the snapshot directory of a data directory.
#[must_use]
pub fn snapshot_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("snapshots")
}

/// Returns the snapshot file in the snapshot directory.
#[must_use]
pub fn snapshot_path(directory: &Path) -> PathBuf {
    directory.join("models")
}

/// Deletes all snapshots.
///
/// # Errors
/// If the file system reports an error.
pub fn remove_all(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the fingerprint of this build's data structures (`build.rs`).
fn fingerprint() -> u64 {
    env!("MODELS_FINGERPRINT").parse().unwrap_or_default()
}

fn header(anchor: &Anchor) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..FORMAT_OFFSET].copy_from_slice(MAGIC);
    bytes[FORMAT_OFFSET..FINGERPRINT_OFFSET].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[FINGERPRINT_OFFSET..ANCHOR_OFFSET].copy_from_slice(&fingerprint().to_le_bytes());
    bytes[ANCHOR_OFFSET..CRC_OFFSET].copy_from_slice(&anchor.to_bytes());

    let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
    bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Parses the anchor from the header of a file.
fn parse_header(bytes: &[u8; HEADER_BYTES], file: &Path) -> Result<Anchor, SnapshotError> {
    let u32_at = |offset: usize| bytes[offset..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    if !bytes.starts_with(MAGIC) {
        return Err(SnapshotError::damaged(file, "it is not a snapshot"));
    }
    if u32_at(CRC_OFFSET) != crc32c::crc32c(&bytes[..CRC_OFFSET]) {
        return Err(SnapshotError::damaged(file, "the checksum of its header is wrong"));
    }
    if u32_at(FORMAT_OFFSET) != FORMAT || bytes[FINGERPRINT_OFFSET..ANCHOR_OFFSET] != fingerprint().to_le_bytes() {
        return Err(SnapshotError::OtherRelease(file.to_owned()));
    }

    let anchor = bytes[ANCHOR_OFFSET..].first_chunk().map(Anchor::from_bytes);
    anchor.ok_or_else(|| SnapshotError::damaged(file, "it is too short"))
}
