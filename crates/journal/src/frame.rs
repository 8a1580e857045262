//! Binary format of a segment: one header, then one frame per commit.
//!
//! ```text
//! header:  magic 8 │ format 4 │ log id 16 │ first position 8 │ chain hash before it 32 │ crc32c 4
//! frame:   payload length 4 │ crc32c 4 │ position 8 │ group 8 │ chain hash 32 │ payload
//! ```
//!
//! `group` is the position of the first event that was synced together with this record. It classifies a bad record
//! that is followed by an intact one. If both belong to one group, the group was never acknowledged, because a disk may
//! write its pages in any order. If the intact record is of a later group, the bad record was acknowledged, and the
//! journal is damaged.

use std::ops::Range;

use uuid::Uuid;

use crate::chain::ChainHash;
use crate::payload::PAYLOAD_BYTES_MAX;

const MAGIC: &[u8; 8] = b"MDYJRNL1";
const FORMAT: u32 = 1;
/// Bytes of the header of a segment.
pub const HEADER_BYTES: usize = 72;
/// Offset of the first record of a segment. Appends never touch the sector of the header.
pub const RECORDS_START: usize = 512;
/// Bytes of a frame before its payload.
pub const FRAME_BYTES: usize = 56;

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    pub log: Uuid,
    /// The position of the first event in the segment.
    pub first: u64,
    /// Chain hash of the last record of the previous segment.
    pub chain: ChainHash,
}

impl SegmentHeader {
    /// Encodes the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..28].copy_from_slice(self.log.as_bytes());
        bytes[28..36].copy_from_slice(&self.first.to_le_bytes());
        bytes[36..68].copy_from_slice(&self.chain.0);
        let crc = crc32c::crc32c(&bytes[..68]);
        bytes[68..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// Describes the defect.
    pub fn parse(segment: &[u8]) -> Result<Self, &'static str> {
        let bytes = segment.first_chunk::<HEADER_BYTES>().ok_or("the segment is shorter than its header")?;

        if !bytes.starts_with(MAGIC) {
            return Err("this is not a journal segment");
        }
        if u32_at(bytes, 68) != crc32c::crc32c(&bytes[..68]) {
            return Err("the checksum of the segment header is wrong");
        }
        if u32_at(bytes, 8) != FORMAT {
            return Err("the segment has an unknown format");
        }

        let log = Uuid::from_slice(&bytes[12..28]).unwrap_or_default();
        Ok(Self { log, first: u64_at(bytes, 28), chain: chain_at(bytes, 36) })
    }
}

/// An intact record, whose checksum matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFrame {
    /// The position of the first event.
    pub position: u64,
    pub checksum: u32,
    /// The position of the first event that was synced together with the record.
    pub group: u64,
    pub chain: ChainHash,
    /// Range of the payload in the segment. The record ends with the payload.
    pub payload: Range<usize>,
}

/// Fills in the frame of `record`, whose payload is already in place. Returns the checksum.
pub fn write_frame(record: &mut [u8], position: u64, group: u64, chain: &ChainHash) -> u32 {
    let length = u32::try_from(record.len() - FRAME_BYTES).unwrap_or(u32::MAX);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[8..16].copy_from_slice(&position.to_le_bytes());
    record[16..24].copy_from_slice(&group.to_le_bytes());
    record[24..FRAME_BYTES].copy_from_slice(&chain.0);
    let checksum = record_checksum(record);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// Returns the checksum of everything except the checksum itself.
fn record_checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..])
}

/// Decodes the record at `offset`.
///
/// # Errors
/// Returns the reason if no intact record begins there.
pub fn parse(segment: &[u8], offset: usize) -> Result<RecordFrame, &'static str> {
    let remaining = segment.get(offset..).unwrap_or_default();
    let frame = remaining.first_chunk::<FRAME_BYTES>().ok_or("the file ends within a record")?;

    let length = u32_at(frame, 0) as usize;
    if length == 0 || length > PAYLOAD_BYTES_MAX {
        return Err("the record has an invalid length");
    }

    let record = remaining.get(..FRAME_BYTES + length).ok_or("the file ends within a record")?;
    let checksum = u32_at(frame, 4);
    if checksum != record_checksum(record) {
        return Err("the checksum of the record is wrong");
    }

    Ok(RecordFrame {
        position: u64_at(frame, 8),
        checksum,
        group: u64_at(frame, 16),
        chain: chain_at(frame, 24),
        payload: offset + FRAME_BYTES..offset + record.len(),
    })
}

/// Returns the chain hash in the frame of a record, intact or not.
#[must_use]
pub fn parse_chain_hash(record: &[u8]) -> Option<ChainHash> {
    record.first_chunk::<FRAME_BYTES>().map(|frame| chain_at(frame, 24))
}

/// Returns the offset and the frame of an intact record after `offset` that was synced after `position`. Such a record
/// proves that the bad bytes at `offset` were acknowledged.
#[must_use]
pub fn find_later_group(segment: &[u8], offset: usize, position: u64) -> Option<(usize, RecordFrame)> {
    let mut at = offset + 1;
    while at + FRAME_BYTES <= segment.len() {
        // Cheap checks reject zeros and random bytes before a checksum is computed.
        let is_plausible = segment[at..at + 4] != [0; 4] && u64_at(&segment[at..], 8) > position;
        match is_plausible.then(|| parse(segment, at)) {
            Some(Ok(frame)) if frame.group > position && frame.group <= frame.position => return Some((at, frame)),
            Some(Ok(frame)) => at = frame.payload.end,
            _ => at += 1,
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn chain_at(bytes: &[u8], at: usize) -> ChainHash {
    ChainHash(bytes[at..].first_chunk().map_or([0; 32], |bytes| *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(position: u64, group: u64, payload: &[u8]) -> Vec<u8> {
        let mut record = vec![0; FRAME_BYTES];
        record.extend_from_slice(payload);
        write_frame(&mut record, position, group, &ChainHash([3; 32]));
        record
    }

    #[test]
    fn headers_round_trip_and_detect_every_flipped_bit() {
        let header = SegmentHeader { log: Uuid::max(), first: 77, chain: ChainHash([5; 32]) };
        let bytes = header.to_bytes();
        assert_eq!(SegmentHeader::parse(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::parse(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn records_round_trip_and_detect_every_flipped_bit() {
        let bytes = record(5, 4, b"payload");
        let frame = parse(&bytes, 0).unwrap();
        assert_eq!((frame.position, frame.group, &bytes[frame.payload]), (5, 4, &b"payload"[..]));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped, 0).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_later_group_is_distinguished_from_the_remains_of_one() {
        let bad = [0xffu8; 90];
        let remains = [&bad[..], &record(6, 4, b"same group"), &[0; 64]].concat();
        assert_eq!(find_later_group(&remains, 0, 5), None);
        let damage = [&remains[..], &record(8, 7, b"another"), &[0; 64]].concat();
        assert_eq!(find_later_group(&damage, 0, 5).map(|(at, frame)| (at, frame.position)), Some((remains.len(), 8)));
    }
}
