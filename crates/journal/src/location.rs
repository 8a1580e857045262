//! Location of a journal, for reading it while it is written.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::chain::ChainHash;
use crate::error::JournalError;
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::reader::JournalReader;
use crate::segment;

/// Directory and log id of a journal, for reading it.
#[derive(Debug, Clone)]
pub struct JournalLocation {
    directory: PathBuf,
    log: Uuid,
}

impl JournalLocation {
    /// Returns the journal of a log in its directory.
    pub(crate) fn new(directory: PathBuf, log: Uuid) -> Self {
        Self { directory, log }
    }

    /// Reads the records that hold events after `after`, up to `until`, which must be durable. The first record may
    /// begin before `after`.
    ///
    /// # Errors
    /// If the file system fails, or the first segment to read is damaged.
    pub fn read<D: PayloadDecoder>(&self, after: Position, until: Position) -> Result<JournalReader<D>, JournalError> {
        let segments = list_segments(&self.directory)?;
        open_reader(segments, after, Some(until), self.log)
    }

    /// Reads the records that hold events after `after`, up to the last intact one.
    ///
    /// # Errors
    /// See [`JournalLocation::read`].
    pub(crate) fn read_to_end<D: PayloadDecoder>(&self, after: Position) -> Result<JournalReader<D>, JournalError> {
        open_reader(list_segments(&self.directory)?, after, None, self.log)
    }

    /// Returns the directory of the segments.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

fn list_segments(directory: &Path) -> Result<Vec<PathBuf>, JournalError> {
    segment::list(directory).map_err(JournalError::io("list", directory))
}

/// Returns a reader of the records that hold events after `after`.
pub(crate) fn open_reader<D: PayloadDecoder>(
    mut segments: Vec<PathBuf>,
    after: Position,
    until: Option<Position>,
    log: Uuid,
) -> Result<JournalReader<D>, JournalError> {
    let begins_after = |path: &PathBuf| position_in_name(path).is_none_or(|first| first > after.0 + 1);
    let skipped = segments.partition_point(|path| !begins_after(path)).saturating_sub(1);
    segments.drain(..skipped);

    let (next, chain) = match segments.first() {
        Some(path) if skipped > 0 => {
            let header = segment::read_header(path, after.0 + 1)?;
            (header.first, header.chain)
        }
        _ => (1, ChainHash::genesis(log)),
    };

    Ok(JournalReader::new(segments, next, chain).with_bounds(after, until))
}

/// Returns the position in the name of a segment.
pub(crate) fn position_in_name(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}
