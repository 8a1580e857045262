//! Saving snapshots: written to a draft file and synced, then renamed over the previous snapshot.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::parts::SnapshotPartKind;
use super::{CHUNK_BYTES, END_KIND, header, snapshot_path};
use crate::data_dir::sync_parent;
use crate::environment::{CommitStep, FailPoints};
use crate::events::codec::pack;
use crate::events::journal::Anchor;
use crate::projections::read_models::Models;

/// Saves `models`, folded up to `anchor`, in `directory`. The previous snapshot remains until this one is durable; a
/// failed draft is removed. Returns the size of the file in bytes.
///
/// # Errors
/// If the file system reports an error.
pub fn save(models: &Models, anchor: &Anchor, directory: &Path, fail_points: &FailPoints) -> io::Result<u64> {
    fs::create_dir_all(directory)?;
    let path = snapshot_path(directory);
    let draft = draft_path(directory);
    let bytes = write_draft(models, anchor, &draft, fail_points).inspect_err(|_| {
        // Free the space of the failed draft.
        drop(fs::remove_file(&draft));
    })?;

    fs::rename(&draft, &path)?;
    fail_points.hit_after(CommitStep::SnapshotRenamed);
    sync_parent(&path)?;
    Ok(bytes)
}

/// Removes a draft left by a crash.
///
/// # Errors
/// If the file system reports an error.
pub fn remove_draft(directory: &Path) -> io::Result<()> {
    match fs::remove_file(draft_path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn draft_path(directory: &Path) -> PathBuf {
    snapshot_path(directory).with_extension("draft")
}

fn write_draft(models: &Models, anchor: &Anchor, draft: &Path, fail_points: &FailPoints) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    let mut writer = SnapshotWriter { file, hash: Sha256::new(), bytes: 0, values: Vec::new() };
    writer.write(&header(anchor))?;
    writer.write_models(models)?;
    writer.finish(fail_points)
}

/// The draft file.
struct SnapshotWriter {
    file: File,
    hash: Sha256,
    bytes: u64,
    /// Values of the open chunk.
    values: Vec<u8>,
}

impl SnapshotWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn write_models(&mut self, models: &Models) -> io::Result<()> {
        self.write_values(SnapshotPartKind::Owners, models.nodes.owner_rows())?;
        self.write_values(SnapshotPartKind::Nodes, models.nodes.node_rows())?;
        self.write_values(SnapshotPartKind::Generation, [models.nodes.generation()])?;
        self.write_values(SnapshotPartKind::Users, models.users.snapshot_entries())?;
        self.write_values(SnapshotPartKind::Publishers, models.publishers.snapshot_entries())?;
        self.write_values(SnapshotPartKind::Tokens, models.tokens.snapshot_entries())?;

        let (publisher_tokens, user_tokens) = models.tokens.snapshot_lists();
        self.write_values(SnapshotPartKind::TokensOfPublishers, publisher_tokens)?;
        self.write_values(SnapshotPartKind::TokensOfUsers, user_tokens)?;

        self.write_values(SnapshotPartKind::Tasks, [&models.tasks])?;
        let (owners, blocks, marks) = models.tasks.index.snapshot_parts();
        self.write_values(SnapshotPartKind::TaskOwners, owners)?;
        self.write_values(SnapshotPartKind::TaskBlocks, blocks)?;
        self.write_values(SnapshotPartKind::TaskMarks, marks)?;

        let (payers, vendors) = models.tasks.index.snapshot_tables();
        self.write_values(SnapshotPartKind::TaskPayers, payers)?;
        self.write_values(SnapshotPartKind::TaskVendors, vendors)?;

        self.write_values(SnapshotPartKind::Deliveries, [&models.deliveries])?;

        let (claims, order) = models.claims.snapshot_entries();
        self.write_values(SnapshotPartKind::Claims, claims)?;
        self.write_values(SnapshotPartKind::ClaimOrder, order)?;
        self.write_values(SnapshotPartKind::Budgets, models.budgets.iter())?;
        self.write_values(SnapshotPartKind::Streams, models.streams.entries())
    }

    fn write_values<T: Serialize>(
        &mut self,
        kind: SnapshotPartKind,
        values: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        for value in values {
            pack(&value, &mut self.values);
            if self.values.len() >= CHUNK_BYTES {
                self.end_chunk(kind)?;
            }
        }
        if self.values.is_empty() { Ok(()) } else { self.end_chunk(kind) }
    }

    fn end_chunk(&mut self, kind: SnapshotPartKind) -> io::Result<()> {
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
    fn finish(mut self, fail_points: &FailPoints) -> io::Result<u64> {
        let hash = self.hash.finalize();
        self.file.write_all(&[END_KIND])?;
        self.file.write_all(&hash)?;
        fail_points.hit_after(CommitStep::SnapshotWritten);
        self.file.sync_all()?;
        fail_points.hit_after(CommitStep::SnapshotSynced);
        Ok(self.bytes + 1 + hash.len() as u64)
    }
}
