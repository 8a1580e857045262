//! Sequential reading of the journal. Checks the checksum, position, chain and shape of every record.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::anchor::Anchor;
use crate::chain::{ChainHash, JournalHead};
use crate::error::JournalError;
use crate::frame::{RECORDS_START, RecordFrame};
use crate::location::position_in_name;
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::records::RecordLocation;
use crate::segment_reader::SegmentReader;

/// One record of the journal.
pub struct JournalRecord<'r, D: PayloadDecoder> {
    /// The decoded payload.
    pub commit: D::Commit,
    /// The bytes that [`PayloadDecoder::decode`] reads.
    pub payload: &'r [u8],
    /// Location of the record.
    pub location: RecordLocation,
}

/// Place where a reader without a bound has ended.
pub(crate) struct ReaderEnd {
    /// The last segment.
    pub segment: SegmentReader,
    /// Offset after the last intact record.
    pub offset: usize,
    /// Defect at that offset; empty if there is none.
    pub flaw: String,
}

/// A sequential pass over the journal.
pub struct JournalReader<D> {
    /// The segments after the current one.
    paths: std::vec::IntoIter<PathBuf>,
    pub(crate) segment: Option<SegmentReader>,
    pub(crate) offset: usize,
    /// Offset of the last record read.
    last: usize,
    /// The next position.
    pub(crate) next: u64,
    pub(crate) chain: ChainHash,
    /// Records that end at or before this position are checked but not returned.
    after: Position,
    /// The last position to read; `None` to read up to the last intact record.
    until: Option<Position>,
    /// Head that the history must contain.
    signed_head: Option<JournalHead>,
    decoder: PhantomData<fn() -> D>,
}

impl<D: PayloadDecoder> JournalReader<D> {
    /// Reads all of `paths`; the first begins at `next` after `chain`.
    pub(crate) fn new(paths: Vec<PathBuf>, next: u64, chain: ChainHash) -> Self {
        Self {
            paths: paths.into_iter(),
            segment: None,
            offset: RECORDS_START,
            last: RECORDS_START,
            next,
            chain,
            after: Position(0),
            until: None,
            signed_head: None,
            decoder: PhantomData,
        }
    }

    /// Reads what comes after an anchor.
    ///
    /// # Errors
    /// Returns the reason if the anchor is not in these segments.
    pub(crate) fn from_anchor(mut paths: Vec<PathBuf>, anchor: &Anchor) -> Result<Self, String> {
        let missing = || format!("the journal has no segment that begins with position {}", anchor.segment);
        let at = paths.iter().position(|path| position_in_name(path) == Some(anchor.segment)).ok_or_else(missing)?;
        let path = paths.drain(..=at).next_back().ok_or_else(missing)?;

        let mut segment = SegmentReader::open(path, anchor.segment).map_err(|error| error.to_string())?;
        // Half of the maximum, so that adding the length of a record cannot overflow.
        let last = usize::try_from(anchor.offset).unwrap_or(usize::MAX / 2);
        segment.load_record(last).map_err(|error| error.to_string())?;
        let frame = anchor.parse_record::<D>(&segment.header, segment.bytes_from(last))?;

        let mut reader = Self::new(paths, anchor.position.0 + 1, anchor.chain);
        reader.segment = Some(segment);
        reader.last = last;
        reader.offset = last + frame.payload.end;
        Ok(reader)
    }

    /// Limits the result to the records that hold events after `after`, up to `until` if it is `Some`.
    pub(crate) fn with_bounds(self, after: Position, until: Option<Position>) -> Self {
        Self { after, until, ..self }
    }

    /// Makes the reader fail at the position of the signed head if the history does not contain it.
    pub(crate) fn with_signed_head(self, head: JournalHead) -> Self {
        Self { signed_head: Some(head), ..self }
    }

    /// Reads up to `until`.
    #[must_use]
    pub fn with_end(self, until: Position) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Returns the anchor of the last record read.
    #[must_use]
    pub fn anchor(&self) -> Option<Anchor> {
        let header = &self.segment.as_ref()?.header;
        let log = header.log;
        let segment = header.first;
        let offset = self.last as u64;
        Some(Anchor { log, position: Position(self.next - 1), chain: self.chain, segment, offset })
    }

    /// Returns the anchor of the next record; `None` unless it ends at `position`.
    ///
    /// # Errors
    /// See [`JournalReader::next_record`].
    pub fn anchor_at(mut self, position: Position) -> Result<Option<Anchor>, JournalError> {
        let has_record = self.next_record()?.is_some();
        Ok(self.anchor().filter(|anchor| has_record && anchor.position == position))
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// If the journal is damaged here. Nothing can be read after that.
    pub fn next_record(&mut self) -> Result<Option<JournalRecord<'_, D>>, JournalError> {
        while self.until.is_none_or(|until| self.next <= until.0) {
            let Some((frame, commit)) = self.advance()? else { break };
            if self.next > self.after.0 + 1 {
                let location = RecordLocation {
                    segment: self.segment_start(),
                    offset: self.last as u64,
                    checksum: frame.checksum,
                };
                let payload = self.segment.as_ref().map_or(&[][..], |segment| segment.bytes(frame.payload));
                return Ok(Some(JournalRecord { commit, payload, location }));
            }
        }
        Ok(None)
    }

    /// Reads and checks the next record, if necessary from the next segment; `None` at the end.
    fn advance(&mut self) -> Result<Option<(RecordFrame, D::Commit)>, JournalError> {
        loop {
            let Some(segment) = &mut self.segment else {
                let Some(path) = self.next_segment() else { return Ok(None) };
                let segment = SegmentReader::open(path.to_owned(), self.next)?;
                segment.check_continues(self.next, self.chain)?;

                // The header states the end of the previous segment, which may be the signed head.
                self.check_signed(self.last_record(), self.last_record())
                    .map_err(|flaw| segment.damage_error(RECORDS_START, self.next, flaw))?;

                self.paths.next();
                self.offset = RECORDS_START;
                self.segment = Some(segment);
                continue;
            };

            segment.load_record(self.offset)?;
            let Some(segment) = &self.segment else { continue };
            match self.check_record(segment) {
                Ok((frame, commit)) => {
                    let next = self.next + D::event_count(&commit);
                    let position = Position(next - 1);
                    self.check_signed(self.last_record(), JournalHead { position, chain: frame.chain })
                        .map_err(|flaw| segment.damage_error(self.offset, self.next, flaw))?;
                    self.last = self.offset;
                    self.offset = frame.payload.end;
                    self.chain = frame.chain;
                    self.next = next;
                    return Ok(Some((frame, commit)));
                }
                Err(_) if self.paths.len() == 0 && self.until.is_none() => return Ok(None),
                Err(_) if self.paths.len() > 0 && segment.is_blank_from(self.offset)? => self.segment = None,
                Err(flaw) => return Err(segment.damage_error(self.offset, self.next, flaw)),
            }
        }
    }

    /// Checks the record at the current offset; returns the defect if it is bad.
    fn check_record(&self, segment: &SegmentReader) -> Result<(RecordFrame, D::Commit), String> {
        let frame = segment.parse(self.offset)?;
        let payload = segment.bytes(frame.payload.clone());

        if frame.position != self.next {
            return Err(format!("the record has position {}", frame.position));
        }
        if frame.chain != self.chain.next(payload) {
            return Err("the record does not follow from the one before it (hash chain)".to_owned());
        }

        let commit = D::decode(payload)?;
        let first = D::first_position(&commit);
        if first.0 != self.next {
            return Err(format!("the record holds position {first}"));
        }
        Ok((frame, commit))
    }

    /// Checks the signed head against two consecutive record ends: if its position lies between theirs or equals one of
    /// them, it must be one of them.
    fn check_signed(&self, before: JournalHead, end: JournalHead) -> Result<(), String> {
        let is_within = |head: &JournalHead| (before.position..=end.position).contains(&head.position);
        match self.signed_head.filter(is_within) {
            Some(head) if head != before && head != end => {
                Err(format!("HEAD was signed for another history up to position {}", head.position))
            }
            _ => Ok(()),
        }
    }

    /// Returns the segment after the current one, or the first segment if it could not be opened.
    pub(crate) fn next_segment(&self) -> Option<&Path> {
        self.paths.as_slice().first().map(PathBuf::as_path)
    }

    /// Inserts a segment before the remaining ones.
    pub(crate) fn insert_segment(&mut self, segment: PathBuf) {
        let segments: Vec<_> = std::iter::once(segment).chain(self.paths.by_ref()).collect();
        self.paths = segments.into_iter();
    }

    /// Returns the chain hash of the last record read.
    #[must_use]
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// Returns the position after the last record read.
    #[must_use]
    pub fn next_position(&self) -> Position {
        Position(self.next)
    }

    /// Returns the offset of the next record in its segment.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the last record read.
    pub(crate) fn last_record(&self) -> JournalHead {
        JournalHead { position: Position(self.next - 1), chain: self.chain }
    }

    /// Returns the first position of the current segment.
    pub(crate) fn segment_start(&self) -> u64 {
        self.segment.as_ref().map_or(1, |segment| segment.header.first)
    }

    /// Returns the place where the reader has ended; `None` without segments. Must be called only after a reader
    /// without a bound has returned `None`.
    pub(crate) fn into_end(mut self) -> Option<ReaderEnd> {
        let loaded = self.segment.as_mut().map_or(Ok(()), |segment| segment.load_record(self.offset));
        let flaw = loaded.map_err(|error| error.to_string()).and_then(|()| {
            let segment = self.segment.as_ref();
            segment.map_or(Ok(()), |segment| self.check_record(segment).map(drop))
        });

        let flaw = flaw.err().unwrap_or_default();
        let offset = self.offset;
        self.segment.map(|segment| ReaderEnd { segment, offset, flaw })
    }
}
