//! Repair of a damaged journal in place, during startup, from an index that holds a copy of every record.
//!
//! A copy is written back only if the hash chain proves it. The hash of everything before it, continued with the copy
//! or with copies of consecutive records, must match a hash that the damage did not reach:
//! - the chain hash in the damaged record's own frame,
//! - the chain hash of the intact record after it,
//! - the header of the next segment, which holds the hash of the last record before it,
//! - the signed HEAD.
//!
//! The header of a segment follows from the log's id and the previous record. After the last record of a full segment
//! there are zeros. Any other damage is left unchanged and prevents the start.
//!
//! An interrupted repair leaves damage that the next start repairs, because the same hashes prove the same copies.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use uuid::Uuid;

use crate::chain::{ChainHash, Head, HeadFile};
use crate::environment::Environment;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, Header, RECORDS_START};
use crate::journal::JournalOptions;
use crate::passing::Passing;
use crate::payload::PayloadDecoder;
use crate::place::first_position;
use crate::position::Position;
use crate::reader::JournalReader;
use crate::segment::{self, Preparation, Segment};

/// Maximum distance of a record from the beginning of its group.
const GROUP_MAX: u64 = 1024;

/// Returns the payload of the commit that begins at a position, if there is a copy.
pub type Copies<'c> = dyn FnMut(Position) -> Option<Vec<u8>> + 'c;

/// A repaired part of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    /// The repaired or recreated file.
    pub file: PathBuf,
    /// Offset of the damaged part.
    pub offset: u64,
    /// The first affected position.
    pub position: Position,
    /// Kind and size of the part.
    pub part: MendedPart,
}

/// Kind of repaired part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MendedPart {
    /// This many records.
    Records(usize),
    /// The header of a segment.
    Header,
    /// A whole missing file with this many records.
    Segment(usize),
    /// Bytes after the last record of a full segment.
    Rest,
}

/// Repairs the damage at which a reader stops.
pub struct Healer<'c> {
    pub options: &'c JournalOptions,
    pub environment: &'c Arc<dyn Environment>,
    pub log: Uuid,
    /// The signed HEAD.
    pub head: Head,
    pub copies: &'c mut Copies<'c>,
    pub mended: Vec<Mended>,
}

/// A record from the copy.
struct Piece {
    payload: Vec<u8>,
    position: u64,
    chain: ChainHash,
}

/// End of a run of copies.
struct Reached {
    /// Offsets of the beginning and the end of its last record, relative to the run.
    at: usize,
    end: usize,
    /// The position after the run.
    next: u64,
    chain: ChainHash,
}

impl Healer<'_> {
    /// Repairs the damage at the reader's place. Returns `false` if nothing proves what was there.
    ///
    /// # Errors
    /// If the file system fails, or does not keep what is written.
    pub fn mend<D: PayloadDecoder>(&mut self, reader: &mut JournalReader<D>) -> Result<bool, JournalError> {
        match reader.segment.take() {
            Some(passing) => self.mend_records(reader, passing.whole()?),
            None => match reader.upcoming().map(Path::to_owned) {
                Some(path) => self.mend_beginning(reader, path),
                None => Ok(false),
            },
        }
    }

    /// Repairs the records from the reader's place on, or the rest of a full segment.
    fn mend_records<D: PayloadDecoder>(
        &mut self,
        reader: &mut JournalReader<D>,
        segment: Segment,
    ) -> Result<bool, JournalError> {
        let offset = reader.offset;
        let next = reader.next;
        let chain = reader.chain;
        let following = reader.upcoming().and_then(header_of);
        if following.is_some_and(|header| header.first == next && header.chain == chain) {
            let rest = vec![0; segment.bytes.len() - offset];
            reader.segment = Some(rewritten(&segment, offset, &rest)?);
            self.note(&segment.path, offset, next, MendedPart::Rest);
            return Ok(true);
        }

        let Some(run) = self.run_in::<D>(&segment, offset, (next, chain), following) else {
            reader.segment = Some(Passing::open(segment.path, segment.header.first)?);
            return Ok(false);
        };

        let bytes = sealed(&run, segment.bytes.get(offset..).unwrap_or_default());
        reader.segment = Some(rewritten(&segment, offset, &bytes)?);
        self.note(&segment.path, offset, next, MendedPart::Records(run.len()));
        Ok(true)
    }

    /// Repairs the header of the next segment, or recreates a segment that is missing before it.
    fn mend_beginning<D: PayloadDecoder>(
        &mut self,
        reader: &mut JournalReader<D>,
        path: PathBuf,
    ) -> Result<bool, JournalError> {
        let next = reader.next;
        let chain = reader.chain;
        let mut bytes = fs::read(&path).map_err(JournalError::io("read", &path))?;
        let header = Header { log: self.log, first: next, chain };

        match Header::parse(&bytes) {
            Ok(found) if found.log == self.log && found.first > next => {
                let fits = |reached: &Reached| reached.next < found.first;
                let proven = |reached: &Reached| reached.next == found.first && reached.chain == found.chain;
                let Some(run) = self.run::<D>((next, chain), fits, proven) else { return Ok(false) };

                let made = self.make_segment(&header, &run)?;
                self.note(&made, 0, next, MendedPart::Segment(run.len()));
                reader.insert(made);
                Ok(true)
            }
            Err(_) if first_position(&path) == Some(next) && bytes.len() > RECORDS_START => {
                bytes[..RECORDS_START].fill(0);
                bytes[..header.to_bytes().len()].copy_from_slice(&header.to_bytes());
                let candidate = Segment { path, bytes, header };
                let follows = frame::parse(&candidate.bytes, RECORDS_START).is_ok_and(|first| {
                    first.position == next && first.chain == chain.next(&candidate.bytes[first.payload])
                });

                let proven = follows
                    || candidate.is_unused()
                    || self.run_in::<D>(&candidate, RECORDS_START, (next, chain), None).is_some();

                if proven {
                    rewritten(&candidate, 0, &candidate.bytes[..RECORDS_START])?;
                    self.note(&candidate.path, 0, next, MendedPart::Header);
                }
                Ok(proven)
            }
            _ => Ok(false),
        }
    }

    /// Collects proven copies for the records at `offset` of a segment.
    fn run_in<D: PayloadDecoder>(
        &mut self,
        segment: &Segment,
        offset: usize,
        start: (u64, ChainHash),
        following: Option<Header>,
    ) -> Option<Vec<Piece>> {
        let head = self.head;
        let bytes = segment.bytes.get(offset..).unwrap_or_default();
        let proven = |reached: &Reached| {
            let own = bytes.get(reached.at..).and_then(frame::chain_in);
            let after = frame::parse(bytes, reached.end).ok();
            own == Some(reached.chain)
                || after.is_some_and(|after| {
                    after.position == reached.next && after.chain == reached.chain.next(&bytes[after.payload])
                })
                || following.is_some_and(|header| header.first == reached.next && header.chain == reached.chain)
                || (head.position.0 + 1 == reached.next && head.chain == reached.chain)
        };

        let fits = |reached: &Reached| match following {
            Some(header) => reached.next < header.first,
            None => reached.end < bytes.len() || reached.next <= head.position.0,
        };

        self.run::<D>(start, fits, proven)
    }

    /// Collects copies from a position on, until they are proven.
    fn run<D: PayloadDecoder>(
        &mut self,
        (mut next, mut chain): (u64, ChainHash),
        fits: impl Fn(&Reached) -> bool,
        proven: impl Fn(&Reached) -> bool,
    ) -> Option<Vec<Piece>> {
        let mut run = Vec::new();
        let mut at = 0;
        loop {
            let position = next;
            let payload = (self.copies)(Position(position))?;
            let commit = D::decode(&payload).ok().filter(|commit| D::first_position(commit).0 == position)?;

            chain = chain.next(&payload);
            next += D::event_count(&commit);
            let end = at + FRAME_BYTES + payload.len();

            run.push(Piece { payload, position, chain });
            let reached = Reached { at, end, next, chain };
            if proven(&reached) {
                return Some(run);
            }

            if !fits(&reached) {
                return None;
            }
            at = end;
        }
    }

    fn make_segment(&self, header: &Header, run: &[Piece]) -> Result<PathBuf, JournalError> {
        let directory = self.options.journal_directory();
        let records = sealed(run, &[]);
        let length = self.options.segment_bytes.max((RECORDS_START + records.len()) as u64);
        let make = || -> io::Result<PathBuf> {
            let file = Preparation::start(&directory, length, self.environment).finish()?;
            file.write_all_at(&records, RECORDS_START as u64)?;
            segment::put_to_use(&directory, &file, header, self.environment.as_ref())
        };
        make().map_err(JournalError::io("make a segment anew in", &directory))
    }

    fn note(&mut self, file: &Path, offset: usize, position: u64, part: MendedPart) {
        let file = file.to_owned();
        let offset = offset as u64;
        let position = Position(position);
        self.mended.push(Mended { file, offset, position, part });
    }
}

/// Repairs the header of the first segment from the signed HEAD, if the segment has the expected name.
///
/// # Errors
/// Returns `damage` if HEAD is unusable, or the file system error.
pub fn mend_first_header(
    path: &Path,
    head: &Path,
    key: &SigningKey,
    damage: JournalError,
) -> Result<(Passing, Mended), JournalError> {
    let log = HeadFile::log_of(head, key).filter(|_| first_position(path) == Some(1));
    let Some(log) = log else { return Err(damage) };

    let bytes = fs::read(path).map_err(JournalError::io("read", path))?;
    let header = Header { log, first: 1, chain: ChainHash::genesis(log) };
    if Header::parse(&bytes).is_ok() || bytes.len() < RECORDS_START {
        return Err(damage);
    }

    let segment = Segment { path: path.to_owned(), bytes, header };
    let healed = rewritten(&segment, 0, &header.to_bytes())?;
    let mended = Mended { file: path.to_owned(), offset: 0, position: Position(1), part: MendedPart::Header };
    Ok((healed, mended))
}

/// Rewrites the records that no signed HEAD covers. If the disk refused them earlier, they may exist only in the page
/// cache, where a later sync would not write them again.
pub fn write_again(file: &File, from: usize, to: usize) -> io::Result<()> {
    if from < to {
        let mut records = vec![0; to - from];
        file.read_exact_at(&mut records, from as u64)?;
        file.write_all_at(&records, from as u64)?;
    }
    file.sync_all()
}

/// The header of a segment, if intact.
fn header_of(path: &Path) -> Option<Header> {
    let mut bytes = [0; RECORDS_START];
    File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0)).ok()?;
    Header::parse(&bytes).ok()
}

/// Writes into a segment durably, and reads it back.
fn rewritten(segment: &Segment, offset: usize, bytes: &[u8]) -> Result<Passing, JournalError> {
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&segment.path)?;
        file.write_all_at(bytes, offset as u64)?;
        file.sync_all()
    };

    write().map_err(JournalError::io("heal", &segment.path))?;
    let healed = Segment::load(segment.path.clone(), segment.header.first)?;
    if healed.bytes.get(offset..offset + bytes.len()) != Some(bytes) {
        return Err(segment.damaged(offset, segment.header.first, "the disk does not keep what is written"));
    }
    Passing::open(healed.path, healed.header.first)
}

/// Encodes the records of a run with their frames. `found` holds the present bytes; an intact checksum in them
/// identifies the group of its record.
fn sealed(run: &[Piece], found: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Piece { payload, position, chain } in run {
        let start = bytes.len();
        let mut record = vec![0; FRAME_BYTES];
        record.extend_from_slice(payload);

        let checksum = found.get(start + 4..start + 8);
        let oldest = position.saturating_sub(GROUP_MAX).max(1);
        let group = (oldest..=*position).rev().find(|group| {
            frame::seal(&mut record, *position, *group, chain);
            Some(&record[4..8]) == checksum
        });

        // A proven record was acknowledged, which a group that begins with the record states.
        frame::seal(&mut record, *position, group.unwrap_or(*position), chain);
        bytes.extend_from_slice(&record);
    }
    bytes
}
