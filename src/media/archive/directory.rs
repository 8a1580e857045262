//! Strict parser of the zip central directory: its offset, the number of entries, and their headers.
//!
//! Tools differ on ambiguous zips, so only an unambiguous one is accepted: its last record ends the file, and the
//! directory lies directly before it and matches the record. Its size is checked before it is read, so that a small
//! file cannot use much memory.

use std::io::{self, Read, Seek, SeekFrom};

/// Maximum number of entries, far more than the files of any node (limits of archives: contract 10).
pub const ENTRIES_MAX: u64 = 10_000;
/// Maximum size of the directory in bytes.
const DIRECTORY_MAX: u64 = 16 << 20;

const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const COMMENT_MAX: usize = 0xffff;
const LOCATOR_MAGIC: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_BYTES: u64 = 20;
const END64_MAGIC: [u8; 4] = *b"PK\x06\x06";
const END64_BYTES: usize = 56;
const HEADER_MAGIC: [u8; 4] = *b"PK\x01\x02";
const HEADER_BYTES: usize = 46;

/// Central directory of a zip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZipDirectory {
    /// Offset in the file.
    pub start: u64,
    /// Headers of the entries, in the order of the file.
    pub headers: Vec<ZipHeader>,
}

/// Fields of an entry's header that are needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZipHeader {
    /// Offset of the header in the file.
    pub offset: u64,
    pub flags: u16,
    pub method: u16,
    /// The upper half is the Unix mode of the file.
    pub attributes: u32,
    /// Raw name, in any encoding.
    pub name: Vec<u8>,
}

/// Reason why the directory cannot be used.
#[derive(Debug)]
pub enum ZipDirectoryError {
    /// The file is not a zip, or not an acceptable one. Contains the reason as a sentence.
    Invalid(String),
    /// The file cannot be read.
    Io(io::Error),
}

impl From<io::Error> for ZipDirectoryError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => invalid("the archive is truncated"),
            _ => Self::Io(error),
        }
    }
}

fn invalid(sentence: impl Into<String>) -> ZipDirectoryError {
    ZipDirectoryError::Invalid(sentence.into())
}

/// Byte range and number of entries of a directory, from its end record.
#[derive(Debug, Clone, Copy)]
struct ZipDirectoryExtent {
    start: u64,
    bytes: u64,
    entries: u64,
    /// Offset of the end record.
    end: u64,
}

/// Reads the directory of a zip.
///
/// # Errors
/// Returns [`ZipDirectoryError::Invalid`] if the file is not an acceptable zip, [`ZipDirectoryError::Io`] if it cannot
/// be read.
pub fn read(file: &mut (impl Read + Seek)) -> Result<ZipDirectory, ZipDirectoryError> {
    let extent = find_extent(file)?;
    if extent.start.checked_add(extent.bytes) != Some(extent.end) {
        return Err(invalid(
            "the archive is truncated or has extra data: its central directory is not at the declared offset",
        ));
    }
    if extent.entries == 0 {
        return Err(invalid("the archive is empty"));
    }
    if extent.entries > ENTRIES_MAX {
        return Err(invalid(format!("the archive has {} entries; at most {ENTRIES_MAX} are allowed", extent.entries)));
    }
    if extent.bytes > DIRECTORY_MAX {
        return Err(invalid(format!("the central directory is larger than {DIRECTORY_MAX} bytes")));
    }

    let bytes = read_at(file, extent.start, usize::try_from(extent.bytes).unwrap_or(usize::MAX))?;
    parse_headers(&bytes, extent).map(|headers| ZipDirectory { start: extent.start, headers })
}

fn find_extent(file: &mut (impl Read + Seek)) -> Result<ZipDirectoryExtent, ZipDirectoryError> {
    let not_a_zip = || invalid("the file is not a zip archive");
    let length = file.seek(SeekFrom::End(0))?;
    let tail_length = usize::try_from(length).unwrap_or(usize::MAX).min(END_BYTES + COMMENT_MAX);
    let tail_at = length - tail_length as u64;
    let tail = read_at(file, tail_at, tail_length)?;

    let record_at = tail.windows(END_MAGIC.len()).rposition(|window| window == END_MAGIC).ok_or_else(not_a_zip)?;
    let record = &tail[record_at..];
    // The record ends with a comment, whose length it states.
    let ends_the_file = record.len() >= END_BYTES && record.len() == END_BYTES + usize::from(u16_at(record, 20));
    if !ends_the_file {
        return Err(invalid("the archive does not end at the declared offset"));
    }

    let end = tail_at + record_at as u64;
    if let Some(extent) = find_zip64_extent(file, end)? {
        return Ok(extent);
    }
    check_single_disk([u16_at(record, 4), u16_at(record, 6)].map(u32::from), u16_at(record, 8) == u16_at(record, 10))?;

    let entries = u16_at(record, 10).into();
    let bytes = u32_at(record, 12).into();
    let start = u32_at(record, 16).into();
    Ok(ZipDirectoryExtent { start, bytes, entries, end })
}

/// Returns the extent from the zip64 record, if its locator precedes the plain record.
fn find_zip64_extent(file: &mut (impl Read + Seek), end: u64) -> Result<Option<ZipDirectoryExtent>, ZipDirectoryError> {
    let Some(locator_at) = end.checked_sub(LOCATOR_BYTES) else { return Ok(None) };
    let locator = read_at(file, locator_at, usize::try_from(LOCATOR_BYTES).unwrap_or_default())?;
    if locator[..4] != LOCATOR_MAGIC {
        return Ok(None);
    }

    let record_at = u64_at(&locator, 8);
    let is_in_bounds = record_at.checked_add(END64_BYTES as u64).is_some_and(|after| after <= locator_at);
    let record = if is_in_bounds { read_at(file, record_at, END64_BYTES)? } else { Vec::new() };
    if !record.starts_with(&END64_MAGIC) || record_at.checked_add(12 + u64_at(&record, 4)) != Some(locator_at) {
        return Err(invalid("the archive does not end at the declared offset"));
    }
    check_single_disk([u32_at(&record, 16), u32_at(&record, 20)], u64_at(&record, 24) == u64_at(&record, 32))?;

    let entries = u64_at(&record, 32);
    let bytes = u64_at(&record, 40);
    let start = u64_at(&record, 48);
    Ok(Some(ZipDirectoryExtent { start, bytes, entries, end: record_at }))
}

fn check_single_disk(disks: [u32; 2], is_complete: bool) -> Result<(), ZipDirectoryError> {
    if disks == [0, 0] && is_complete { Ok(()) } else { Err(invalid("the archive is split into several files")) }
}

fn parse_headers(bytes: &[u8], extent: ZipDirectoryExtent) -> Result<Vec<ZipHeader>, ZipDirectoryError> {
    let mut headers = Vec::new();
    let mut remaining = bytes;
    while !remaining.is_empty() {
        let at = extent.start + (bytes.len() - remaining.len()) as u64;
        let (header, length) =
            parse_header(remaining, at).ok_or_else(|| invalid("the central directory is damaged"))?;
        headers.push(header);
        remaining = &remaining[length..];
    }
    if headers.len() as u64 == extent.entries {
        return Ok(headers);
    }
    Err(invalid(format!("the archive declares {} entries but has {}", extent.entries, headers.len())))
}

/// Parses the header at the beginning of `bytes`; also returns its length.
fn parse_header(bytes: &[u8], at: u64) -> Option<(ZipHeader, usize)> {
    let fixed = bytes.get(..HEADER_BYTES).filter(|fixed| fixed.starts_with(&HEADER_MAGIC))?;
    let [name_length, extra_length, comment_length] = [28, 30, 32].map(|at| usize::from(u16_at(fixed, at)));
    let length = HEADER_BYTES + name_length + extra_length + comment_length;
    let name = bytes.get(..length)?[HEADER_BYTES..HEADER_BYTES + name_length].to_vec();
    let header = ZipHeader {
        offset: at,
        flags: u16_at(fixed, 8),
        method: u16_at(fixed, 10),
        attributes: u32_at(fixed, 38),
        name,
    };
    Some((header, length))
}

fn read_at(file: &mut (impl Read + Seek), at: u64, length: usize) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
