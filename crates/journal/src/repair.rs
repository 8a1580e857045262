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

use crate::chain::{ChainHash, HeadFile, JournalHead};
use crate::environment::Environment;
use crate::error::JournalError;
use crate::frame::{self, FRAME_BYTES, RECORDS_START, SegmentHeader};
use crate::journal::JournalOptions;
use crate::location::position_in_name;
use crate::payload::PayloadDecoder;
use crate::position::Position;
use crate::reader::JournalReader;
use crate::segment::{self, LoadedSegment, SegmentPreparation};
use crate::segment_reader::SegmentReader;

/// Number of positions before a record that are tried as the beginning of its group.
const GROUP_SEARCH_POSITIONS: u64 = 1024;

/// Returns the payload of the commit that begins at a position, if there is a copy.
pub type CopySource<'c> = dyn FnMut(Position) -> Option<Vec<u8>> + 'c;

/// A repaired part of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRepair {
    /// The repaired or recreated file.
    pub file: PathBuf,
    /// Offset of the damaged part.
    pub offset: u64,
    /// The first affected position.
    pub position: Position,
    /// Kind and size of the part.
    pub part: RepairedPart,
}

/// Kind of repaired part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairedPart {
    /// Consecutive records, with their number.
    Records(usize),
    /// The header of a segment.
    Header,
    /// A whole missing file, with the number of its records.
    Segment(usize),
    /// Bytes after the last record of a full segment.
    Padding,
}

/// Repairs the damage at which a reader stops.
pub struct JournalRepairer<'c> {
    pub options: &'c JournalOptions,
    pub environment: &'c Arc<dyn Environment>,
    pub log: Uuid,
    /// The signed HEAD.
    pub head: JournalHead,
    pub copies: &'c mut CopySource<'c>,
    pub repairs: Vec<JournalRepair>,
}

/// A copied record.
struct RecordCopy {
    payload: Vec<u8>,
    position: u64,
    chain: ChainHash,
}

/// End of a run of copies.
struct RunEnd {
    /// Offsets of the beginning and the end of its last record, relative to the run.
    at: usize,
    end: usize,
    /// The position after the run.
    next: u64,
    chain: ChainHash,
}

impl JournalRepairer<'_> {
    /// Repairs the damage at the reader's offset. Returns `false` if nothing proves what was there.
    ///
    /// # Errors
    /// If the file system fails, or does not keep what is written.
    pub fn repair<D: PayloadDecoder>(&mut self, reader: &mut JournalReader<D>) -> Result<bool, JournalError> {
        match reader.segment.take() {
            Some(segment) => self.repair_records(reader, segment.load_segment()?),
            None => match reader.next_segment().map(Path::to_owned) {
                Some(path) => self.repair_segment_start(reader, path),
                None => Ok(false),
            },
        }
    }

    /// Repairs the records from the reader's offset on, or the rest of a full segment.
    fn repair_records<D: PayloadDecoder>(
        &mut self,
        reader: &mut JournalReader<D>,
        segment: LoadedSegment,
    ) -> Result<bool, JournalError> {
        let offset = reader.offset;
        let next = reader.next;
        let chain = reader.chain;
        let following = reader.next_segment().and_then(|path| segment::read_header(path, next).ok());
        if following.is_some_and(|header| header.first == next && header.chain == chain) {
            let zeros = vec![0; segment.bytes.len() - offset];
            reader.segment = Some(rewrite_and_verify(&segment, offset, &zeros)?);
            self.record_repair(&segment.path, offset, next, RepairedPart::Padding);
            return Ok(true);
        }

        let Some(run) = self.find_run_in_segment::<D>(&segment, offset, (next, chain), following) else {
            reader.segment = Some(SegmentReader::open(segment.path, segment.header.first)?);
            return Ok(false);
        };

        let bytes = encode_run(&run, segment.bytes.get(offset..).unwrap_or_default());
        reader.segment = Some(rewrite_and_verify(&segment, offset, &bytes)?);
        self.record_repair(&segment.path, offset, next, RepairedPart::Records(run.len()));
        Ok(true)
    }

    /// Repairs the header of the next segment, or recreates a segment that is missing before it.
    fn repair_segment_start<D: PayloadDecoder>(
        &mut self,
        reader: &mut JournalReader<D>,
        path: PathBuf,
    ) -> Result<bool, JournalError> {
        let next = reader.next;
        let chain = reader.chain;
        let mut bytes = fs::read(&path).map_err(JournalError::io("read", &path))?;
        let header = SegmentHeader { log: self.log, first: next, chain };

        match SegmentHeader::parse(&bytes) {
            Ok(later) if later.log == self.log && later.first > next => {
                let can_continue = |run_end: &RunEnd| run_end.next < later.first;
                let is_proven = |run_end: &RunEnd| run_end.next == later.first && run_end.chain == later.chain;
                let Some(run) = self.find_proven_run::<D>((next, chain), can_continue, is_proven) else {
                    return Ok(false);
                };

                let segment = self.recreate_segment(&header, &run)?;
                self.record_repair(&segment, 0, next, RepairedPart::Segment(run.len()));
                reader.insert_segment(segment);
                Ok(true)
            }
            Err(_) if position_in_name(&path) == Some(next) && bytes.len() > RECORDS_START => {
                bytes[..RECORDS_START].fill(0);
                bytes[..header.to_bytes().len()].copy_from_slice(&header.to_bytes());
                let candidate = LoadedSegment { path, bytes, header };
                let follows = frame::parse(&candidate.bytes, RECORDS_START).is_ok_and(|first| {
                    first.position == next && first.chain == chain.next(&candidate.bytes[first.payload])
                });

                let is_proven = follows
                    || candidate.has_no_records()
                    || self.find_run_in_segment::<D>(&candidate, RECORDS_START, (next, chain), None).is_some();

                if is_proven {
                    rewrite_and_verify(&candidate, 0, &candidate.bytes[..RECORDS_START])?;
                    self.record_repair(&candidate.path, 0, next, RepairedPart::Header);
                }
                Ok(is_proven)
            }
            _ => Ok(false),
        }
    }

    /// Collects proven copies for the records at `offset` of a segment.
    fn find_run_in_segment<D: PayloadDecoder>(
        &mut self,
        segment: &LoadedSegment,
        offset: usize,
        start: (u64, ChainHash),
        following: Option<SegmentHeader>,
    ) -> Option<Vec<RecordCopy>> {
        let head = self.head;
        let bytes = segment.bytes.get(offset..).unwrap_or_default();
        let is_proven = |run_end: &RunEnd| {
            let chain = bytes.get(run_end.at..).and_then(frame::parse_chain_hash);
            let after = frame::parse(bytes, run_end.end).ok();
            chain == Some(run_end.chain)
                || after.is_some_and(|after| {
                    after.position == run_end.next && after.chain == run_end.chain.next(&bytes[after.payload])
                })
                || following.is_some_and(|header| header.first == run_end.next && header.chain == run_end.chain)
                || (head.position.0 + 1 == run_end.next && head.chain == run_end.chain)
        };

        let can_continue = |run_end: &RunEnd| match following {
            Some(header) => run_end.next < header.first,
            None => run_end.end < bytes.len() || run_end.next <= head.position.0,
        };

        self.find_proven_run::<D>(start, can_continue, is_proven)
    }

    /// Collects copies from a position on until `is_proven` accepts the end of their run; `None` once a copy is missing
    /// or `can_continue` rejects the end.
    fn find_proven_run<D: PayloadDecoder>(
        &mut self,
        (mut next, mut chain): (u64, ChainHash),
        can_continue: impl Fn(&RunEnd) -> bool,
        is_proven: impl Fn(&RunEnd) -> bool,
    ) -> Option<Vec<RecordCopy>> {
        let mut run = Vec::new();
        let mut at = 0;
        loop {
            let position = next;
            let payload = (self.copies)(Position(position))?;
            let commit = D::decode(&payload).ok().filter(|commit| D::first_position(commit).0 == position)?;

            chain = chain.next(&payload);
            next += D::event_count(&commit);
            let end = at + FRAME_BYTES + payload.len();

            run.push(RecordCopy { payload, position, chain });
            let run_end = RunEnd { at, end, next, chain };
            if is_proven(&run_end) {
                return Some(run);
            }

            if !can_continue(&run_end) {
                return None;
            }
            at = end;
        }
    }

    fn recreate_segment(&self, header: &SegmentHeader, run: &[RecordCopy]) -> Result<PathBuf, JournalError> {
        let directory = self.options.journal_directory();
        let records = encode_run(run, &[]);
        let length = self.options.segment_bytes.max((RECORDS_START + records.len()) as u64);
        let create = || -> io::Result<PathBuf> {
            let file = SegmentPreparation::start(&directory, length, self.environment).finish()?;
            file.write_all_at(&records, RECORDS_START as u64)?;
            segment::activate(&directory, &file, header, self.environment.as_ref())
        };
        create().map_err(JournalError::io("recreate a segment in", &directory))
    }

    fn record_repair(&mut self, file: &Path, offset: usize, position: u64, part: RepairedPart) {
        let file = file.to_owned();
        let offset = offset as u64;
        let position = Position(position);
        self.repairs.push(JournalRepair { file, offset, position, part });
    }
}

/// Repairs the header of the first segment from the signed HEAD, if the segment has the expected name.
///
/// # Errors
/// Returns `damage` if HEAD is unusable, or the file system error.
pub fn repair_first_header(
    path: &Path,
    head: &Path,
    key: &SigningKey,
    damage: JournalError,
) -> Result<(SegmentReader, JournalRepair), JournalError> {
    let log = HeadFile::read_log_id(head, key).filter(|_| position_in_name(path) == Some(1));
    let Some(log) = log else { return Err(damage) };

    let bytes = fs::read(path).map_err(JournalError::io("read", path))?;
    let header = SegmentHeader { log, first: 1, chain: ChainHash::genesis(log) };
    if SegmentHeader::parse(&bytes).is_ok() || bytes.len() < RECORDS_START {
        return Err(damage);
    }

    let segment = LoadedSegment { path: path.to_owned(), bytes, header };
    let reader = rewrite_and_verify(&segment, 0, &header.to_bytes())?;
    let repair = JournalRepair { file: path.to_owned(), offset: 0, position: Position(1), part: RepairedPart::Header };
    Ok((reader, repair))
}

/// Rewrites the records that no signed HEAD covers. If the disk refused them earlier, they may exist only in the page
/// cache, where a later sync would not write them again.
pub fn rewrite_unsigned(file: &File, from: usize, to: usize) -> io::Result<()> {
    if from < to {
        let mut records = vec![0; to - from];
        file.read_exact_at(&mut records, from as u64)?;
        file.write_all_at(&records, from as u64)?;
    }
    file.sync_all()
}

/// Writes into a segment durably and reads it back.
fn rewrite_and_verify(segment: &LoadedSegment, offset: usize, bytes: &[u8]) -> Result<SegmentReader, JournalError> {
    let write = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&segment.path)?;
        file.write_all_at(bytes, offset as u64)?;
        file.sync_all()
    };

    write().map_err(JournalError::io("repair", &segment.path))?;
    let rewritten = LoadedSegment::load(segment.path.clone(), segment.header.first)?;
    if rewritten.bytes.get(offset..offset + bytes.len()) != Some(bytes) {
        return Err(segment.damage_error(offset, segment.header.first, "the disk does not retain writes"));
    }
    SegmentReader::open(rewritten.path, rewritten.header.first)
}

/// Encodes the records of a run with their frames. An intact checksum in `present_bytes`, which are to be replaced,
/// identifies the group of its record.
fn encode_run(run: &[RecordCopy], present_bytes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for RecordCopy { payload, position, chain } in run {
        let start = bytes.len();
        let mut record = vec![0; FRAME_BYTES];
        record.extend_from_slice(payload);

        let checksum = present_bytes.get(start + 4..start + 8);
        let oldest = position.saturating_sub(GROUP_SEARCH_POSITIONS).max(1);
        let group = (oldest..=*position).rev().find(|group| {
            frame::write_frame(&mut record, *position, *group, chain);
            Some(&record[4..8]) == checksum
        });

        // Without a match, the record begins a group of its own, which states that everything before it was
        // acknowledged.
        frame::write_frame(&mut record, *position, group.unwrap_or(*position), chain);
        bytes.extend_from_slice(&record);
    }
    bytes
}
