//! Loading snapshots. One core hashes a group of chunks while the others decode it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::parts::SnapshotPart;
use super::{
    CHUNK_CRC_OFFSET, CHUNK_HEADER_BYTES, END_KIND, HASH_BYTES, HEADER_BYTES, SnapshotError, parse_header,
    snapshot_path,
};
use crate::events::journal::Anchor;
use crate::projections::node::view::Links;
use crate::projections::read_models::Models;
use crate::projections::version::Versions;

/// Chunks in memory at a time.
const CHUNKS_AT_ONCE: usize = 8;

/// An opened snapshot of this release whose contents are not yet read.
pub struct OpenedSnapshot {
    pub anchor: Anchor,
    path: PathBuf,
    file: File,
    header: [u8; HEADER_BYTES],
    /// Bytes left to read.
    remaining: u64,
}

/// A chunk of the file.
struct SnapshotChunk {
    kind: u8,
    /// Header and values.
    bytes: Vec<u8>,
}

impl SnapshotChunk {
    fn decode(&self) -> Result<SnapshotPart, String> {
        let values = &self.bytes[CHUNK_HEADER_BYTES..];
        if self.bytes[CHUNK_CRC_OFFSET..CHUNK_HEADER_BYTES] != crc32c::crc32c(values).to_le_bytes() {
            return Err("the checksum of a chunk is wrong".to_owned());
        }
        SnapshotPart::decode(self.kind, values).map_err(|error| error.to_string())
    }
}

impl OpenedSnapshot {
    /// Opens the snapshot, if any.
    ///
    /// # Errors
    /// If the snapshot cannot be used.
    pub fn open(directory: &Path) -> Result<Option<Self>, SnapshotError> {
        let path = snapshot_path(directory);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|error| SnapshotError::damaged(&path, &error))?,
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());

        let mut header = [0; HEADER_BYTES];
        file.read_exact(&mut header).map_err(|_| SnapshotError::damaged(&path, "it ends within its header"))?;
        let anchor = parse_header(&header, &path)?;
        Ok(Some(Self { anchor, path, file, header, remaining: length.saturating_sub(HEADER_BYTES as u64) }))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads the models.
    ///
    /// # Errors
    /// If the snapshot cannot be used.
    pub fn load(mut self, links: Links) -> Result<Models, SnapshotError> {
        let mut models = Models::new(links);
        let mut hash = Sha256::new_with_prefix(self.header);

        loop {
            let (chunks, is_last) = self.next_chunks().map_err(|error| SnapshotError::damaged(&self.path, &error))?;

            let update_hash = || chunks.iter().for_each(|chunk| hash.update(&chunk.bytes));
            let decode_chunks =
                || chunks.par_iter().map(SnapshotChunk::decode).collect::<Result<Vec<SnapshotPart>, String>>();
            let ((), parts) = rayon::join(update_hash, decode_chunks);
            for part in parts.map_err(|reason| SnapshotError::damaged(&self.path, &reason))? {
                part.restore(&mut models);
            }

            if is_last {
                break;
            }
        }

        let mut expected_hash = [0; HASH_BYTES];
        let is_complete = self.remaining == HASH_BYTES as u64 && self.file.read_exact(&mut expected_hash).is_ok();
        if !is_complete || expected_hash != *hash.finalize() {
            return Err(SnapshotError::damaged(&self.path, "the hash of its content is wrong"));
        }

        models.versions = Versions::from_nodes(&models.nodes);
        models.position = self.anchor.position;
        Ok(models)
    }

    /// Reads the next chunks; the flag is `true` after the last one.
    fn next_chunks(&mut self) -> io::Result<(Vec<SnapshotChunk>, bool)> {
        let mut chunks = Vec::with_capacity(CHUNKS_AT_ONCE);
        while chunks.len() < CHUNKS_AT_ONCE {
            let mut kind = [0];
            self.read(&mut kind)?;
            if kind == [END_KIND] {
                return Ok((chunks, true));
            }

            let mut header = [0; CHUNK_HEADER_BYTES];
            header[0] = kind[0];
            self.read(&mut header[1..])?;
            let length = header[1..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            if u64::from(length) > self.remaining {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }

            let mut bytes = vec![0; CHUNK_HEADER_BYTES + length as usize];
            bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&header);
            self.read(&mut bytes[CHUNK_HEADER_BYTES..])?;
            chunks.push(SnapshotChunk { kind: kind[0], bytes });
        }
        Ok((chunks, false))
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact(bytes)?;
        self.remaining = self.remaining.saturating_sub(bytes.len() as u64);
        Ok(())
    }
}
