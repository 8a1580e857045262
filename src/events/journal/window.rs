//! A segment read from front to back through a buffer, so that memory stays flat however large it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::error::OpenError;
use super::frame::{FRAME_BYTES, HEADER_BYTES, Header, RECORDS_START};
use super::segment::Segment;
use crate::events::chain::ChainHash;
use crate::events::log::COMMIT_BYTES_MAX;
use crate::events::stream::Position;

/// A record has at most so many bytes.
const RECORD_BYTES_MAX: usize = FRAME_BYTES + COMMIT_BYTES_MAX;
const WINDOW_BYTES: usize = 4 * RECORD_BYTES_MAX;
const BLANK_BYTES: usize = 256 * 1024;

/// A segment of which a part is in memory.
pub struct Window {
    pub path: PathBuf,
    pub header: Header,
    file: File,
    /// Bytes of the file.
    length: usize,
    /// Where in the file the buffer begins.
    start: usize,
    buffer: Vec<u8>,
}

impl Window {
    /// Opens a segment and checks its header. `expected` is the position that it should begin with.
    pub fn open(path: PathBuf, expected: u64) -> Result<Self, OpenError> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(OpenError::io("open", &path))?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; HEADER_BYTES.min(length)];
        file.read_exact_at(&mut bytes, 0).map_err(OpenError::io("read", &path))?;
        match Header::parse(&bytes) {
            Ok(header) => Ok(Self { path, header, file, length, start: 0, buffer: Vec::new() }),
            Err(reason) => Err(OpenError::Damaged {
                file: path,
                offset: 0,
                position: Position(expected),
                reason: reason.to_owned(),
            }),
        }
    }

    /// Checks that the segment goes on where the last one ended.
    pub fn check_continues(&self, position: u64, chain: ChainHash) -> Result<(), OpenError> {
        if self.header.first != position {
            let first = self.header.first;
            let reason = format!("the segment begins with position {first}: events are missing");
            return Err(self.damaged(0, position, reason));
        }
        if self.header.chain != chain {
            return Err(self.damaged(0, position, "the segment belongs to another history"));
        }
        Ok(())
    }

    /// Brings the record that begins at `offset` into memory, if the file holds one.
    pub fn fill(&mut self, offset: usize) -> Result<(), OpenError> {
        let wanted = offset.saturating_add(RECORD_BYTES_MAX).min(self.length);
        if self.start <= offset && wanted <= self.start + self.buffer.len() {
            return Ok(());
        }
        let kept = offset.checked_sub(self.start).filter(|skipped| *skipped <= self.buffer.len());
        match kept {
            Some(skipped) => drop(self.buffer.drain(..skipped)),
            None => self.buffer.clear(),
        }
        self.start = offset;
        let have = self.buffer.len();
        let end = offset.saturating_add(WINDOW_BYTES).min(self.length).saturating_sub(offset);
        self.buffer.resize(end.max(have), 0);
        let read = self.file.read_exact_at(&mut self.buffer[have..], (offset + have) as u64);
        read.map_err(OpenError::io("read", &self.path))
    }

    /// What is in memory from `offset` on: after [`Window::fill`] at least the record that begins there.
    pub fn from(&self, offset: usize) -> &[u8] {
        offset.checked_sub(self.start).and_then(|at| self.buffer.get(at..)).unwrap_or_default()
    }

    /// Whether nothing was written after `offset`.
    pub fn is_blank_from(&self, offset: usize) -> Result<bool, OpenError> {
        let mut bytes = vec![0; BLANK_BYTES];
        let mut at = offset;
        while at < self.length {
            let chunk = BLANK_BYTES.min(self.length - at);
            let read = self.file.read_exact_at(&mut bytes[..chunk], at as u64);
            read.map_err(OpenError::io("read", &self.path))?;
            if bytes[..chunk].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += chunk;
        }
        Ok(true)
    }

    /// Whether no record was ever written to it.
    pub fn is_unused(&self) -> Result<bool, OpenError> {
        self.is_blank_from(RECORDS_START)
    }

    /// All of it in memory.
    pub fn whole(&self) -> Result<Segment, OpenError> {
        Segment::load(self.path.clone(), self.header.first)
    }

    /// How long the file is.
    pub fn length(&self) -> u64 {
        self.length as u64
    }

    /// Damage in this segment.
    pub fn damaged(&self, offset: usize, position: u64, reason: impl Into<String>) -> OpenError {
        OpenError::Damaged {
            file: self.path.clone(),
            offset: offset as u64,
            position: Position(position),
            reason: reason.into(),
        }
    }
}
