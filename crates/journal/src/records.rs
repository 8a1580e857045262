//! Random access to the records of a journal that is being written.
//!
//! A record is checked by its own checksum and position. The hash chain is not followed: that is the task of
//! [`crate::JournalReader`], which reads a segment from its beginning.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::chain::ChainHash;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RECORDS_START, RecordFrame};
use crate::location::position_in_name;
use crate::payload::{PAYLOAD_BYTES_MAX, PayloadDecoder};
use crate::position::Position;
use crate::segment::{self, damage_error, segment_path};
use crate::segment_reader::read_at;

/// Bytes read for a single record. Most records fit.
const RECORD_READ_BYTES: usize = 4 * 1024;
/// Bytes read at a time during a walk.
const WALK_READ_BYTES: usize = 256 * 1024;
/// Minimum distance between remembered locations, in bytes.
const REMEMBERED_EVERY: u64 = 64 * 1024;
/// Number of segments that stay open.
const OPEN_SEGMENTS_MAX: usize = 8;

/// Location of a record, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLocation {
    /// The first position of the segment.
    pub segment: u64,
    /// Offset of the record in the segment.
    pub offset: u64,
    /// CRC32C of the record.
    pub checksum: u32,
}

/// A record found by a walk.
pub struct WalkedRecord<'r, D: PayloadDecoder> {
    /// The decoded payload.
    pub commit: D::Commit,
    /// Location of the record.
    pub location: RecordLocation,
    /// The bytes of the record: frame and payload.
    pub bytes: &'r [u8],
}

/// Start of a record: the position of its first event, its segment and its offset in the segment.
struct RecordStart {
    position: u64,
    segment: u64,
    offset: u64,
}

/// A record in a copy of a part of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedRecord<'c> {
    /// The position of its first event.
    pub position: Position,
    /// Hash of the record and everything before it.
    pub chain: ChainHash,
    /// The bytes that [`PayloadDecoder::decode`] reads.
    pub payload: &'c [u8],
}

/// Parses the consecutive records in `bytes`. Each record is checked by its checksum. An error is the last item.
pub fn parse_records(bytes: &[u8]) -> impl Iterator<Item = Result<CopiedRecord<'_>, &'static str>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        if offset >= bytes.len() {
            return None;
        }
        let parsed = frame::parse(bytes, offset);
        offset = parsed.as_ref().map_or(bytes.len(), |frame| frame.payload.end);
        Some(parsed.map(|RecordFrame { position, chain, payload, .. }| CopiedRecord {
            position: Position(position),
            chain,
            payload: &bytes[payload],
        }))
    })
}

/// Random access to the records of a journal, for any number of threads. The caller must only request durable records.
pub struct JournalRecords<D> {
    directory: PathBuf,
    /// Open segments by first position, the most recently used last.
    files: Mutex<Vec<(u64, Arc<File>)>>,
    /// Segment and offset of some records, by position. A walk begins at the nearest one.
    remembered: Mutex<BTreeMap<u64, (u64, u64)>>,
    decoder: PhantomData<fn() -> D>,
}

impl<D: PayloadDecoder> JournalRecords<D> {
    /// Gives access to the records of the log in `directory`.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        let directory = directory.join("journal");
        Self { directory, files: Mutex::default(), remembered: Mutex::default(), decoder: PhantomData }
    }

    /// Reads the record at a location.
    ///
    /// # Errors
    /// If another record or none is at the location, the record is damaged, or the file system fails.
    pub fn read(&self, position: Position, location: &RecordLocation) -> Result<D::Commit, JournalError> {
        let mut cursor = self.cursor(location.segment, location.offset, RECORD_READ_BYTES)?;
        let frame = cursor.load_frame(position.0)?;
        if frame.checksum != location.checksum {
            return Err(cursor.damage_error(position.0, "the checksum differs from the one in the index"));
        }
        cursor.decode::<D>(&frame, position.0)
    }

    /// Returns the chain hash of the record at a location; `None` if no record is there that begins with `position`.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn chain_at(&self, position: Position, location: &RecordLocation) -> Result<Option<ChainHash>, JournalError> {
        let cursor = self.cursor(location.segment, location.offset, RECORD_READ_BYTES);
        match cursor.and_then(|mut cursor| cursor.load_frame(position.0)) {
            Ok(frame) => Ok(Some(frame.chain).filter(|_| frame.position == position.0)),
            Err(JournalError::Io { reason, .. }) if reason.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(JournalError::Damaged { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Calls `each` with the records that hold events after `after`, up to `last`, which must be durable, until `each`
    /// returns `Break`.
    ///
    /// # Errors
    /// If a record is damaged, or the file system fails.
    pub fn walk(
        &self,
        after: Position,
        last: Position,
        mut each: impl FnMut(WalkedRecord<'_, D>) -> ControlFlow<()>,
    ) -> Result<(), JournalError> {
        if after >= last {
            return Ok(());
        }

        let RecordStart { position: mut next, segment, offset } = self.nearest_start(after.0 + 1)?;
        let mut cursor = self.cursor(segment, offset, WALK_READ_BYTES)?;
        let mut remembered_offset = offset;

        while next <= last.0 {
            let frame = match cursor.load_frame(next) {
                Ok(frame) => frame,
                // The segment is full, and the next one begins with this position.
                Err(_) if next > cursor.segment && segment_path(&self.directory, next).exists() => {
                    cursor = self.cursor(next, RECORDS_START as u64, WALK_READ_BYTES)?;
                    remembered_offset = cursor.offset;
                    continue;
                }
                Err(damage) => return Err(damage),
            };

            let commit = cursor.decode::<D>(&frame, next)?;
            if cursor.offset >= remembered_offset + REMEMBERED_EVERY {
                remembered_offset = cursor.offset;
                self.remember(next, cursor.segment, cursor.offset);
            }

            next += D::event_count(&commit);
            let location = RecordLocation { segment: cursor.segment, offset: cursor.offset, checksum: frame.checksum };
            let is_wanted = next > after.0 + 1;
            if is_wanted && each(WalkedRecord { commit, location, bytes: cursor.record(&frame) }).is_break() {
                return Ok(());
            }
            cursor.offset += frame.payload.end as u64;
        }
        Ok(())
    }

    fn remember(&self, position: u64, segment: u64, offset: u64) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(position, (segment, offset));
    }

    /// Returns the start of the nearest known record at or before position `wanted`.
    fn nearest_start(&self, wanted: u64) -> Result<RecordStart, JournalError> {
        let segments = segment::list(&self.directory).map_err(JournalError::io("list", &self.directory))?;
        let firsts = segments.iter().filter_map(|path| position_in_name(path));
        let first = firsts.filter(|first| *first <= wanted).max().unwrap_or(1);

        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let nearest = remembered.range(first..=wanted).next_back();
        Ok(nearest.map_or(
            RecordStart { position: first, segment: first, offset: RECORDS_START as u64 },
            |(position, (segment, offset))| RecordStart { position: *position, segment: *segment, offset: *offset },
        ))
    }

    /// Returns a cursor at a location, which reads at least `read_bytes` at a time. Keeps the file open.
    fn cursor(&self, segment: u64, offset: u64, read_bytes: usize) -> Result<Cursor, JournalError> {
        let path = segment_path(&self.directory, segment);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);

        let file = match files.iter().position(|(first, _)| *first == segment) {
            Some(at) => files.remove(at).1,
            None => Arc::new(File::open(&path).map_err(JournalError::io("read", &path))?),
        };
        files.push((segment, Arc::clone(&file)));
        if files.len() > OPEN_SEGMENTS_MAX {
            files.remove(0);
        }

        Ok(Cursor { path, segment, file, offset, buffer: Vec::new(), buffer_start: 0, read_bytes })
    }
}

/// A location in a segment, with a part of the segment in memory.
struct Cursor {
    path: PathBuf,
    segment: u64,
    file: Arc<File>,
    offset: u64,
    buffer: Vec<u8>,
    /// Offset of the buffer in the segment.
    buffer_start: u64,
    read_bytes: usize,
}

impl Cursor {
    /// Loads and checks the record at the cursor. The range of its payload is relative to the cursor.
    fn load_frame(&mut self, position: u64) -> Result<RecordFrame, JournalError> {
        self.load(FRAME_BYTES)?;
        let length = self.loaded().first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)) as usize;
        if length <= PAYLOAD_BYTES_MAX {
            self.load(FRAME_BYTES + length)?;
        }
        frame::parse(self.loaded(), 0).map_err(|flaw| self.damage_error(position, flaw))
    }

    /// Loads at least `bytes` bytes from the cursor on, or fewer if the file ends.
    fn load(&mut self, bytes: usize) -> Result<(), JournalError> {
        if self.loaded().len() >= bytes {
            return Ok(());
        }
        self.buffer.resize(bytes.max(self.read_bytes), 0);
        self.buffer_start = self.offset;
        let offset = usize::try_from(self.offset).map_err(io::Error::other);
        let read = offset.and_then(|offset| read_at(&self.file, &mut self.buffer, offset));
        self.buffer.truncate(read.map_err(JournalError::io("read", &self.path))?);
        Ok(())
    }

    /// Returns the part of the buffer from the cursor on.
    fn loaded(&self) -> &[u8] {
        let from = self.offset.checked_sub(self.buffer_start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.buffer.get(from..)).unwrap_or_default()
    }

    /// Returns the bytes of the loaded record.
    fn record(&self, frame: &RecordFrame) -> &[u8] {
        &self.loaded()[..frame.payload.end]
    }

    /// Decodes the loaded record, which must begin with `position`.
    fn decode<D: PayloadDecoder>(&self, frame: &RecordFrame, position: u64) -> Result<D::Commit, JournalError> {
        let commit = D::decode(&self.record(frame)[FRAME_BYTES..]);
        let commit = commit.map_err(|reason| self.damage_error(position, &reason))?;
        if frame.position == position && D::first_position(&commit).0 == position {
            Ok(commit)
        } else {
            Err(self.damage_error(position, &format!("the record has position {}", frame.position)))
        }
    }

    fn damage_error(&self, position: u64, reason: &str) -> JournalError {
        damage_error(&self.path, usize::try_from(self.offset).unwrap_or(usize::MAX), position, reason)
    }
}
