//! Anchors: the position in the journal at which a cache was made, with enough data to find the position again and to
//! verify that the history is the same.

use std::fs::File;
use std::path::PathBuf;

use uuid::Uuid;

use crate::chain::{ChainHash, JournalHead};
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RECORDS_START, RecordFrame, SegmentHeader};
use crate::journal::JournalOptions;
use crate::location::{open_reader, position_in_name};
use crate::payload::{PAYLOAD_BYTES_MAX, PayloadDecoder};
use crate::position::Position;
use crate::reader::JournalReader;
use crate::segment;
use crate::segment_reader::read_at;

/// A record of the journal: its position, chain hash and location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The id of the log.
    pub log: Uuid,
    /// Position of the record's last event.
    pub position: Position,
    /// Chain hash of the record.
    pub chain: ChainHash,
    /// The first position of the record's segment.
    pub segment: u64,
    /// Offset of the record in the segment.
    pub offset: u64,
}

impl Anchor {
    /// Size of an encoded anchor in bytes.
    pub const BYTES: usize = 72;

    /// Encodes the anchor.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(self.log.as_bytes());
        bytes[16..24].copy_from_slice(&self.position.0.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.chain.0);
        bytes[56..64].copy_from_slice(&self.segment.to_le_bytes());
        bytes[64..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Decodes an anchor.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let u64_at = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self {
            log: Uuid::from_slice(&bytes[..16]).unwrap_or_default(),
            position: Position(u64_at(16)),
            chain: ChainHash(bytes[24..].first_chunk().map_or([0; 32], |chain| *chain)),
            segment: u64_at(56),
            offset: u64_at(64),
        }
    }

    /// Returns the end of the journal up to and including the record.
    #[must_use]
    pub fn head(&self) -> JournalHead {
        JournalHead { position: self.position, chain: self.chain }
    }

    /// Verifies that the journal holds this record at this offset. Returns the number of bytes of the journal before
    /// the record.
    ///
    /// # Errors
    /// Returns the reason if the journal does not hold the record.
    pub fn check<D: PayloadDecoder>(&self, options: &JournalOptions) -> Result<u64, String> {
        let directory = options.journal_directory();
        let segments = segment::list(&directory).map_err(|error| error.to_string())?;

        let earlier =
            segments.iter().take_while(|path| position_in_name(path).is_some_and(|first| first < self.segment));
        let earlier_bytes: u64 = earlier.filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum();

        let path = segments.iter().find(|path| position_in_name(path) == Some(self.segment));
        let path =
            path.ok_or_else(|| format!("the journal has no segment that begins with position {}", self.segment))?;
        let header = segment::read_header(path, self.segment).map_err(|error| error.to_string())?;

        let mut record = vec![0; FRAME_BYTES + PAYLOAD_BYTES_MAX];
        let file = File::open(path).map_err(|error| error.to_string())?;
        // Half of the maximum, so that adding the length of a record cannot overflow.
        let from = usize::try_from(self.offset).unwrap_or(usize::MAX / 2);
        let count = read_at(&file, &mut record, from).map_err(|error| error.to_string())?;

        self.parse_record::<D>(&header, &record[..count])?;
        Ok(earlier_bytes + self.offset.saturating_sub(RECORDS_START as u64))
    }

    /// Parses the anchor's record, which must be at the beginning of `bytes`, from a segment with this header.
    pub(crate) fn parse_record<D: PayloadDecoder>(
        &self,
        header: &SegmentHeader,
        bytes: &[u8],
    ) -> Result<RecordFrame, String> {
        if header.log != self.log || header.first != self.segment {
            return Err("the journal belongs to another log".to_owned());
        }
        let frame = frame::parse(bytes, 0)?;
        let commit = D::decode(&bytes[frame.payload.clone()])?;
        if frame.chain == self.chain && frame.position + D::event_count(&commit) == self.position.0 + 1 {
            Ok(frame)
        } else {
            Err(format!("the journal has another history up to position {}", self.position))
        }
    }
}

/// Returns a reader of the records after `from`. It begins after the anchor; or, if `from` is earlier, at the segment
/// that holds the events after `from`.
pub(crate) fn reader_from<D: PayloadDecoder>(
    segments: Vec<PathBuf>,
    anchor: &Anchor,
    from: Position,
) -> Result<JournalReader<D>, JournalError> {
    if from < anchor.position {
        return open_reader(segments, from, None, anchor.log);
    }
    let file = segments.last().cloned().unwrap_or_default();
    JournalReader::from_anchor(segments, anchor).map_err(|reason| JournalError::Unverifiable { file, reason })
}
