//! Sequential reading of a segment, with a part of it in memory at a time.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::chain::ChainHash;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RECORDS_START, RecordFrame, SegmentHeader};
use crate::payload::PAYLOAD_BYTES_MAX;
use crate::segment::{LoadedSegment, damage_error};

/// Maximum size of a record in bytes.
const RECORD_BYTES_MAX: usize = FRAME_BYTES + PAYLOAD_BYTES_MAX;
/// Bytes read ahead beyond the largest record, so that the buffer is refilled, and its remaining bytes moved to the
/// front, only after this amount.
const AHEAD_BYTES: usize = 4 << 20;

/// A segment being read sequentially. Offsets are offsets in the file.
pub struct SegmentReader {
    pub path: PathBuf,
    pub header: SegmentHeader,
    file: File,
    /// Offset in the file of the part in memory.
    buffer_start: usize,
    buffer: Vec<u8>,
    /// `true` if the part extends to the end of the file.
    is_at_end: bool,
}

impl SegmentReader {
    /// Reads the header of a segment that should begin with position `expected`.
    pub fn open(path: PathBuf, expected: u64) -> Result<Self, JournalError> {
        let mut bytes = Vec::new();
        let opened = File::open(&path).and_then(|file| {
            (&file).take(RECORDS_START as u64).read_to_end(&mut bytes)?;
            Ok(file)
        });
        let file = opened.map_err(JournalError::io("read", &path))?;

        match SegmentHeader::parse(&bytes) {
            Ok(header) => Ok(Self { path, header, file, buffer_start: 0, buffer: bytes, is_at_end: false }),
            Err(reason) => Err(damage_error(&path, 0, expected, reason)),
        }
    }

    /// Loads the record that begins at `offset`, if there is one. Earlier bytes are dropped.
    pub fn load_record(&mut self, offset: usize) -> Result<(), JournalError> {
        let end = self.buffer_start + self.buffer.len();
        if self.is_at_end || (offset >= self.buffer_start && offset + RECORD_BYTES_MAX <= end) {
            return Ok(());
        }

        let buffered_from =
            if (self.buffer_start..end).contains(&offset) { offset - self.buffer_start } else { self.buffer.len() };
        self.buffer.drain(..buffered_from);
        self.buffer_start = offset;
        self.fill(RECORD_BYTES_MAX + AHEAD_BYTES).map_err(JournalError::io("read", &self.path))
    }

    /// Reads until `length` bytes are in memory, or the file ends.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        let buffered = self.buffer.len();
        self.buffer.resize(buffered.max(length), 0);
        let count = read_at(&self.file, &mut self.buffer[buffered..], self.buffer_start + buffered)?;
        self.buffer.truncate(buffered + count);
        self.is_at_end = self.buffer.len() < length;
        Ok(())
    }

    /// Returns the bytes in memory from an offset on.
    pub fn bytes_from(&self, offset: usize) -> &[u8] {
        offset.checked_sub(self.buffer_start).and_then(|from| self.buffer.get(from..)).unwrap_or_default()
    }

    /// Returns the record at `offset`, which must be loaded.
    ///
    /// # Errors
    /// Returns the reason if no intact record begins there.
    pub fn parse(&self, offset: usize) -> Result<RecordFrame, &'static str> {
        let frame = frame::parse(self.bytes_from(offset), 0)?;
        Ok(RecordFrame { payload: frame.payload.start + offset..frame.payload.end + offset, ..frame })
    }

    /// Returns the bytes of a range of offsets, or none if they are not all in memory.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        let from = range.start.checked_sub(self.buffer_start);
        from.and_then(|from| self.buffer.get(from..range.end - self.buffer_start)).unwrap_or_default()
    }

    /// Returns `true` if there are only zeros from `offset` on.
    pub fn is_blank_from(&self, offset: usize) -> Result<bool, JournalError> {
        let mut at = offset;
        let mut part = vec![0; AHEAD_BYTES];
        loop {
            let count = read_at(&self.file, &mut part, at).map_err(JournalError::io("read", &self.path))?;
            if part[..count].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            if count < part.len() {
                return Ok(true);
            }
            at += count;
        }
    }

    /// Checks that the segment continues where the previous one ended.
    pub fn check_continues(&self, position: u64, chain: ChainHash) -> Result<(), JournalError> {
        let SegmentHeader { first, chain: before, .. } = self.header;
        if first != position {
            let reason = format!("the segment begins with position {first}: events are missing");
            return Err(self.damage_error(0, position, reason));
        }
        if before != chain {
            return Err(self.damage_error(0, position, "the segment belongs to another history"));
        }
        Ok(())
    }

    /// Loads the whole segment.
    pub fn load_segment(self) -> Result<LoadedSegment, JournalError> {
        LoadedSegment::load(self.path, self.header.first)
    }

    /// Describes damage in this segment.
    pub fn damage_error(&self, offset: usize, position: u64, reason: impl Into<String>) -> JournalError {
        damage_error(&self.path, offset, position, reason)
    }
}

/// Fills `bytes` from an offset on; returns the number of bytes read.
pub fn read_at(file: &File, bytes: &mut [u8], from: usize) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], (from + filled) as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
