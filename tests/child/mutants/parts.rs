//! Parts of a file by its format, as far as it parses: chunks of PNG and WebP, boxes of MP4, segments of JPEG.

use std::ops::Range;

/// Format of a file's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    Png,
    Riff,
    Mp4,
    Jpeg,
    Other,
}

/// Boxes that contain boxes.
const CONTAINERS: [&[u8]; 11] =
    [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"edts", b"mvex", b"moof", b"traf", b"udta"];

impl FileFormat {
    /// Returns the format that the first bytes indicate.
    pub fn detect(file: &[u8]) -> Self {
        match file {
            [0x89, b'P', b'N', b'G', ..] => Self::Png,
            [b'R', b'I', b'F', b'F', ..] => Self::Riff,
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Self::Mp4,
            [0xFF, 0xD8, ..] => Self::Jpeg,
            _ => Self::Other,
        }
    }

    /// Returns the offset of the length field within a part.
    pub fn length_offset(self) -> usize {
        match self {
            Self::Png | Self::Mp4 | Self::Other => 0,
            Self::Riff => 4,
            Self::Jpeg => 2,
        }
    }
}

/// Returns the parts up to the first that does not parse. A box of MP4 comes after the boxes that it contains.
pub fn parts(file: &[u8], format: FileFormat) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    match format {
        FileFormat::Png => add_parts(&mut parts, file, 8..file.len(), |at| read_u32_be(file, at)?.checked_add(12)),
        FileFormat::Riff => add_parts(&mut parts, file, 12..file.len(), |at| {
            let length = read_u32_le(file, at + 4)?;
            length.checked_add(8 + length % 2)
        }),
        FileFormat::Mp4 => add_boxes(&mut parts, file, 0..file.len()),
        FileFormat::Jpeg => add_parts(&mut parts, file, 2..file.len(), |at| {
            let [0xFF, marker, high, low] = *file.get(at..at + 4)? else { return None };
            let length = usize::from(u16::from_be_bytes([high, low])) + 2;
            // The data of a scan, whose marker is 0xDA, has no length: it is taken to reach to the end of the file.
            Some(if marker == 0xDA { file.len() - at } else { length })
        }),
        FileFormat::Other => {}
    }
    parts
}

fn read_u32_be(file: &[u8], at: usize) -> Option<usize> {
    let bytes = file.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

fn read_u32_le(file: &[u8], at: usize) -> Option<usize> {
    let bytes = file.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

/// Adds the parts in `range` up to the first that does not fit the file. `length` returns the length of the part at an
/// offset.
fn add_parts(parts: &mut Vec<Range<usize>>, file: &[u8], range: Range<usize>, length: impl Fn(usize) -> Option<usize>) {
    let mut at = range.start;
    while at < range.end {
        let Some(end) = length(at).and_then(|length| at.checked_add(length)) else { return };
        if end <= at || end > file.len() {
            return;
        }
        parts.push(at..end);
        at = end;
    }
}

/// Adds the boxes of MP4 in `range`, with the boxes that they contain.
fn add_boxes(parts: &mut Vec<Range<usize>>, file: &[u8], range: Range<usize>) {
    let mut siblings = Vec::new();
    add_parts(&mut siblings, &file[..range.end], range, |at| read_u32_be(file, at).filter(|length| *length >= 8));
    for part in siblings {
        if CONTAINERS.contains(&&file[part.start + 4..part.start + 8]) {
            add_boxes(parts, file, part.start + 8..part.end);
        }
        parts.push(part);
    }
}

/// Corrects the fields that decoders check first: the checksums of PNG, and the length of RIFF.
pub fn correct_checks(file: &mut [u8], format: FileFormat) {
    match format {
        FileFormat::Png => {
            for part in parts(file, format) {
                let mut crc = flate2::Crc::new();
                crc.update(&file[part.start + 4..part.end - 4]);
                file[part.end - 4..part.end].copy_from_slice(&crc.sum().to_be_bytes());
            }
        }
        FileFormat::Riff if file.len() >= 8 => {
            let length = u32::try_from(file.len() - 8).expect("a small file");
            file[4..8].copy_from_slice(&length.to_le_bytes());
        }
        _ => {}
    }
}
