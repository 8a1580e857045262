//! Where a journal is, for those who read it while it is written.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::error::OpenError;
use super::reader::JournalReader;
use super::segment::{self, Segment};
use crate::events::chain::ChainHash;
use crate::events::stream::Position;

/// A journal, for reading.
#[derive(Debug, Clone)]
pub struct Place {
    directory: PathBuf,
    log: Uuid,
}

impl Place {
    /// The journal of a log in its directory.
    pub(super) fn new(directory: PathBuf, log: Uuid) -> Self {
        Self { directory, log }
    }

    /// Reads the records that hold events after `after`, up to `until`, which must be durable; the first record may begin
    /// before `after`.
    ///
    /// # Errors
    /// When the file system refuses, or the segment to begin with is damaged.
    pub fn read(&self, after: Position, until: Position) -> Result<JournalReader, OpenError> {
        read_segments(&self.directory, after, Some(until), self.log)
    }

    /// Reads the records that hold events after `after`, to where nothing whole is left.
    ///
    /// # Errors
    /// As [`Place::read`].
    pub(super) fn read_on(&self, after: Position) -> Result<JournalReader, OpenError> {
        read_segments(&self.directory, after, None, self.log)
    }

    /// Where its segments are.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

fn read_segments(
    directory: &Path,
    after: Position,
    until: Option<Position>,
    log: Uuid,
) -> Result<JournalReader, OpenError> {
    let mut segments = segment::list(directory).map_err(OpenError::io("list", directory))?;
    let begins_after = |path: &PathBuf| first_position(path).is_none_or(|first| first > after.0 + 1);
    let skipped = segments.partition_point(|path| !begins_after(path)).saturating_sub(1);
    segments.drain(..skipped);
    let (next, chain) = match segments.first() {
        Some(path) if skipped > 0 => {
            let header = Segment::load(path.clone(), after.0 + 1)?.header;
            (header.first, header.chain)
        }
        _ => (1, ChainHash::genesis(log)),
    };
    Ok(JournalReader::new(segments, next, chain).between(after, until))
}

/// The position in the name of a segment.
pub(super) fn first_position(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}
