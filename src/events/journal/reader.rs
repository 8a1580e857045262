//! Reading the journal from front to back, every record checked: checksum, position, chain and shape.

use std::ops::Range;
use std::path::PathBuf;

use super::error::OpenError;
use super::frame::{self, Frame, RECORDS_START};
use super::window::Window;
use super::{Anchor, first_position};
use crate::events::chain::ChainHash;
use crate::events::codec;
use crate::events::envelope::Commit;
use crate::events::stream::Position;

/// One record of the journal.
pub struct Record<'r> {
    pub commit: Commit,
    /// The bytes that [`codec::decode`] reads.
    pub payload: &'r [u8],
}

/// A pass over the journal.
pub struct JournalReader {
    paths: std::vec::IntoIter<PathBuf>,
    segment: Option<Window>,
    offset: usize,
    /// Where the last record begins.
    last: usize,
    /// The position that comes next.
    next: u64,
    chain: ChainHash,
    /// Records that end here or before are checked, but not handed out.
    after: Position,
    /// The last position to read; none to read on to where nothing whole is left.
    until: Option<Position>,
}

impl JournalReader {
    /// Over all of `paths`, of which the first begins at `next` after `chain`.
    pub(super) fn new(paths: Vec<PathBuf>, next: u64, chain: ChainHash) -> Self {
        let (paths, segment, offset) = (paths.into_iter(), None, RECORDS_START);
        Self { paths, segment, offset, last: offset, next, chain, after: Position(0), until: None }
    }

    /// Over what comes after an anchor.
    ///
    /// # Errors
    /// Why the anchor is not in these segments.
    pub(super) fn resume(mut paths: Vec<PathBuf>, anchor: &Anchor) -> Result<Self, String> {
        let missing = || format!("the journal has no segment that begins with position {}", anchor.segment);
        let at = paths.iter().position(|path| first_position(path) == Some(anchor.segment)).ok_or_else(missing)?;
        let path = paths.drain(..=at).next_back().ok_or_else(missing)?;
        let mut segment = Window::open(path, anchor.segment).map_err(|error| error.to_string())?;
        if segment.header.log != anchor.log || segment.header.first != anchor.segment {
            return Err("the journal is that of another log".to_owned());
        }
        let offset = usize::try_from(anchor.offset).unwrap_or(usize::MAX);
        segment.fill(offset).map_err(|error| error.to_string())?;
        let bytes = segment.from(offset);
        let frame = frame::parse(bytes, 0)?;
        let commit = codec::decode(&bytes[frame.payload.clone()]).map_err(|error| error.to_string())?;
        if frame.chain != anchor.chain || frame.position + commit.len() as u64 != anchor.position.0 + 1 {
            return Err(format!("the journal has another history up to position {}", anchor.position));
        }
        let mut reader = Self::new(paths, anchor.position.0 + 1, anchor.chain);
        (reader.segment, reader.last, reader.offset) = (Some(segment), offset, offset + frame.payload.end);
        Ok(reader)
    }

    /// Hands out only the records that hold events after `after`.
    pub(super) fn after(self, after: Position) -> Self {
        Self { after, ..self }
    }

    /// Reads up to `until`.
    #[must_use]
    pub fn until(self, until: Position) -> Self {
        Self { until: Some(until), ..self }
    }

    /// The last record that was read, to be found again.
    #[must_use]
    pub fn anchor(&self) -> Option<Anchor> {
        let header = &self.segment.as_ref()?.header;
        let (log, segment, offset) = (header.log, header.first, self.last as u64);
        Some(Anchor { log, position: Position(self.next - 1), chain: self.chain, segment, offset })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When the journal is damaged here; there is nothing to be read after that.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, OpenError> {
        while self.until.is_none_or(|until| self.next <= until.0) {
            let Some((payload, commit)) = self.advance()? else { break };
            if self.next > self.after.0 + 1 {
                let segment = self.segment.as_ref();
                let payload = segment.map_or(&[][..], |segment| &segment.from(payload.start)[..payload.len()]);
                return Ok(Some(Record { commit, payload }));
            }
        }
        Ok(None)
    }

    /// The place of the next payload in its segment, and the commit.
    fn advance(&mut self) -> Result<Option<(Range<usize>, Commit)>, OpenError> {
        loop {
            let Some(segment) = &mut self.segment else {
                let Some(path) = self.paths.next() else { return Ok(None) };
                let segment = Window::open(path, self.next)?;
                segment.check_continues(self.next, self.chain)?;
                self.offset = RECORDS_START;
                self.segment = Some(segment);
                continue;
            };
            segment.fill(self.offset)?;
            let segment = &*segment;
            match check(segment, self.offset, self.next, self.chain) {
                Ok((frame, commit)) => {
                    let payload = self.offset + frame.payload.start..self.offset + frame.payload.end;
                    (self.last, self.offset, self.chain) = (self.offset, payload.end, frame.chain);
                    self.next += commit.len() as u64;
                    return Ok(Some((payload, commit)));
                }
                Err(_) if self.paths.len() == 0 && self.until.is_none() => return Ok(None),
                Err(_) if self.paths.len() > 0 && segment.is_blank_from(self.offset)? => self.segment = None,
                Err(flaw) => return Err(segment.damaged(self.offset, self.next, flaw)),
            }
        }
    }

    /// The hash of the last record that was read.
    #[must_use]
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// The position after the last record that was read.
    #[must_use]
    pub fn next_position(&self) -> Position {
        Position(self.next)
    }

    /// The last segment and the place in it where nothing whole is left, once `None` was read without a bound; with what
    /// is wrong at that place.
    pub(super) fn into_end(self) -> Option<(Window, usize, String)> {
        let flaw = self.segment.as_ref().and_then(|segment| check(segment, self.offset, self.next, self.chain).err());
        let offset = self.offset;
        self.segment.map(|segment| (segment, offset, flaw.unwrap_or_default()))
    }
}

/// The record at `offset`, which should be the one of position `next` and follow from `chain`; or what is wrong with it.
fn check(segment: &Window, offset: usize, next: u64, chain: ChainHash) -> Result<(Frame, Commit), String> {
    let bytes = segment.from(offset);
    let frame = frame::parse(bytes, 0)?;
    let payload = &bytes[frame.payload.clone()];
    if frame.position != next {
        return Err(format!("the record has position {}", frame.position));
    }
    if frame.chain != chain.next(payload) {
        return Err("the record does not follow from the one before it (hash chain)".to_owned());
    }
    let commit = codec::decode(payload).map_err(|error| error.to_string())?;
    if commit[0].position.0 != next {
        return Err(format!("the record holds position {}", commit[0].position));
    }
    Ok((frame, commit))
}
