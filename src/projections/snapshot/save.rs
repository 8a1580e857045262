//! Saving snapshots: written to a draft file and synced, then renamed over the previous snapshot.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::parts::Kind;
use super::{CHUNK_BYTES, END, file_in, header};
use crate::clock::{Mishaps, Step};
use crate::data_dir::sync_parent;
use crate::events::codec::pack;
use crate::events::journal::Anchor;
use crate::projections::read_models::Models;

/// Saves `models`, folded up to `anchor`, in `directory`. The previous snapshot remains until this one is durable; a
/// failed draft is removed. Returns the size of the file in bytes.
///
/// # Errors
/// If the file system reports an error.
pub fn save(models: &Models, anchor: &Anchor, directory: &Path, mishaps: &Mishaps) -> io::Result<u64> {
    fs::create_dir_all(directory)?;
    let path = file_in(directory);
    let draft = draft_in(directory);
    let bytes = write_draft(models, anchor, &draft, mishaps).inspect_err(|_| {
        // Free the space of the failed draft.
        drop(fs::remove_file(&draft));
    })?;
    fs::rename(&draft, &path)?;
    mishaps.done(Step::SnapshotRenamed);
    sync_parent(&path)?;
    Ok(bytes)
}

/// Removes a draft left by a crash.
///
/// # Errors
/// If the file system reports an error.
pub fn remove_draft(directory: &Path) -> io::Result<()> {
    match fs::remove_file(draft_in(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn draft_in(directory: &Path) -> PathBuf {
    file_in(directory).with_extension("draft")
}

fn write_draft(models: &Models, anchor: &Anchor, draft: &Path, mishaps: &Mishaps) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    let mut out = Chunks { file, hash: Sha256::new(), bytes: 0, values: Vec::new() };
    out.write(&header(anchor))?;
    out.models(models)?;
    out.finish(mishaps)
}

/// The draft file.
struct Chunks {
    file: File,
    hash: Sha256,
    bytes: u64,
    /// Values of the open chunk.
    values: Vec<u8>,
}

impl Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn models(&mut self, models: &Models) -> io::Result<()> {
        self.values(Kind::Owners, models.nodes.saved_owners())?;
        self.values(Kind::Nodes, models.nodes.saved())?;
        self.values(Kind::Generation, [models.nodes.generation()])?;
        self.values(Kind::Users, models.users.saved())?;
        self.values(Kind::Publishers, models.publishers.saved())?;
        self.values(Kind::Tokens, models.tokens.saved())?;

        let (of_publishers, of_users) = models.tokens.saved_lists();
        self.values(Kind::TokensOfPublishers, of_publishers)?;
        self.values(Kind::TokensOfUsers, of_users)?;

        self.values(Kind::Tasks, [&models.tasks])?;
        let (owners, blocks, marks) = models.tasks.index.saved();
        self.values(Kind::TaskOwners, owners)?;
        self.values(Kind::TaskBlocks, blocks)?;
        self.values(Kind::TaskMarks, marks)?;

        self.values(Kind::Deliveries, [&models.deliveries])?;
        let (claims, order) = models.claims.saved();
        self.values(Kind::Claims, claims)?;
        self.values(Kind::ClaimOrder, order)?;
        self.values(Kind::Streams, models.streams.entries())
    }

    fn values<T: Serialize>(&mut self, kind: Kind, values: impl IntoIterator<Item = T>) -> io::Result<()> {
        for value in values {
            pack(&value, &mut self.values);
            if self.values.len() >= CHUNK_BYTES {
                self.end_chunk(kind)?;
            }
        }
        if self.values.is_empty() { Ok(()) } else { self.end_chunk(kind) }
    }

    fn end_chunk(&mut self, kind: Kind) -> io::Result<()> {
        let values = std::mem::take(&mut self.values);
        let length =
            u32::try_from(values.len()).map_err(|_| io::Error::other("a value is too large for a snapshot"))?;
        self.write(&[kind as u8])?;
        self.write(&length.to_le_bytes())?;
        self.write(&crc32c::crc32c(&values).to_le_bytes())?;
        self.write(&values)?;
        self.values = values;
        self.values.clear();
        Ok(())
    }

    /// Writes the end marker and the hash, and syncs the file.
    fn finish(mut self, mishaps: &Mishaps) -> io::Result<u64> {
        let hash = self.hash.finalize();
        self.file.write_all(&[END])?;
        self.file.write_all(&hash)?;
        mishaps.done(Step::SnapshotWritten);
        self.file.sync_all()?;
        mishaps.done(Step::SnapshotSynced);
        Ok(self.bytes + 1 + hash.len() as u64)
    }
}
