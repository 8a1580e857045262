//! WebP header: the canvas, and the first frame, which may have another size.

use image::metadata::Orientation;

use super::{DecodeMemory, PictureHeader, u16_le, u32_le};
use crate::domain::image::{INPUT_PIXELS_MAX, ImageFormat};

/// Properties of the bitstream of a frame.
#[derive(Clone, Copy)]
struct WebpBitstream {
    width: u64,
    height: u64,
    /// Memory to decode it, without the resulting pixels.
    decoder: u64,
    has_alpha: bool,
    is_lossless: bool,
}

/// A chunk of a RIFF file.
struct WebpChunk<'a> {
    name: &'a [u8],
    content: &'a [u8],
    /// Offset of the next chunk.
    next: usize,
}

/// Bytes of the RIFF header, before the first chunk.
const RIFF_HEADER_BYTES: usize = 12;
/// Bytes of an animation frame before its chunks.
const FRAME_HEADER_BYTES: usize = 16;
/// Flag of an extended file: it is an animation.
const ANIMATION_FLAG: u8 = 0x02;
/// Flag of an extended file: its pixels have alpha.
const ALPHA_FLAG: u8 = 0x10;

fn read_chunk(bytes: &[u8], at: usize) -> Option<WebpChunk<'_>> {
    let name = bytes.get(at..at + 4)?;
    let length = u32_le(bytes, at + 4)? as usize;
    let end = (at + 8).checked_add(length)?;
    let content = bytes.get(at + 8..end.min(bytes.len()))?;
    // Chunks are padded to an even length.
    Some(WebpChunk { name, content, next: end.checked_add(length % 2)? })
}

/// Reads a little-endian number of three bytes.
fn u24_le(bytes: &[u8], at: usize) -> Option<u64> {
    let [a, b, c] = *bytes.get(at..)?.first_chunk()?;
    Some(u64::from(u32::from_le_bytes([a, b, c, 0])))
}

pub(super) fn read(bytes: &[u8]) -> Option<PictureHeader> {
    let chunk = read_chunk(bytes, RIFF_HEADER_BYTES)?;
    if chunk.name == b"VP8X" {
        return read_extended(bytes, chunk.content, chunk.next);
    }
    let frame = read_bitstream(&chunk)?;
    build_header(bytes, (frame.width, frame.height), frame.has_alpha, frame.separate_pixel_bytes() + frame.decoder)
}

impl WebpBitstream {
    /// Returns the size of a separate pixel buffer: lossless pixels are decoded as RGBA, those without alpha
    /// separately.
    fn separate_pixel_bytes(&self) -> u64 {
        if self.is_lossless && !self.has_alpha { 4 * self.width * self.height } else { 0 }
    }
}

fn build_header(bytes: &[u8], (width, height): (u64, u64), has_alpha: bool, decoder: u64) -> Option<PictureHeader> {
    let channels = if has_alpha { 4 } else { 3 };
    let memory = DecodeMemory { decoder: decoder + bytes.len() as u64, source: channels, output: channels };
    let orientation = find_exif(bytes).and_then(Orientation::from_exif_chunk).unwrap_or(Orientation::NoTransforms);
    let width = u32::try_from(width).ok()?;
    let height = u32::try_from(height).ok()?;
    Some(PictureHeader { format: ImageFormat::Webp, width, height, orientation, memory })
}

/// Reads the header of the bitstream in a chunk; `None` if the chunk contains no bitstream.
fn read_bitstream(chunk: &WebpChunk<'_>) -> Option<WebpBitstream> {
    let content = chunk.content;
    let length = content.len() as u64;

    match chunk.name {
        b"VP8 " => {
            let [width, height] = [u16_le(content, 6)?, u16_le(content, 8)?].map(|side| u64::from(side & 0x3FFF));
            // Whole blocks of luma and chroma, the state of a row of blocks, and copies of the compressed data.
            let decoder = (width + 16) * (height + 16) * 3 / 2 + 64 * width + 3 * length;
            Some(WebpBitstream { width, height, decoder, has_alpha: false, is_lossless: false })
        }
        b"VP8L" => {
            let packed = u32_le(content, 1)?;
            let [width, height] = [packed, packed >> 14].map(|side| u64::from(side & 0x3FFF) + 1);
            let has_alpha = packed & (1 << 28) != 0;
            let decoder = lossless_memory(width * height, length);
            Some(WebpBitstream { width, height, decoder, has_alpha, is_lossless: true })
        }
        _ => None,
    }
}

/// Returns the memory of transforms and code selection, in blocks of at least 4 by 4 pixels, and of code tables.
const fn lossless_memory(pixels: u64, length: u64) -> u64 {
    pixels + 8 * length
}

/// Returns the memory of a compressed alpha channel, which is decoded as RGBA with alpha in green.
const fn alpha_memory(pixels: u64, length: u64) -> u64 {
    5 * pixels + lossless_memory(pixels, length)
}

/// Returns the first chunk with a name, from offset `at` on.
fn find_chunk<'a>(bytes: &'a [u8], mut at: usize, name: &[u8]) -> Option<WebpChunk<'a>> {
    while let Some(chunk) = read_chunk(bytes, at) {
        if chunk.name == name {
            return Some(chunk);
        }
        at = chunk.next;
    }
    None
}

/// Reads a picture with a canvas, whose properties are in `info`. Like the decoder, it uses the first chunk of each
/// kind, from offset `first` on.
fn read_extended(bytes: &[u8], info: &[u8], first: usize) -> Option<PictureHeader> {
    let flags = *info.first()?;
    let canvas = (u24_le(info, 4)? + 1, u24_le(info, 7)? + 1);
    let canvas_pixels = canvas.0 * canvas.1;
    let is_animated = flags & ANIMATION_FLAG != 0;
    let has_alpha = flags & ALPHA_FLAG != 0;

    if canvas_pixels > INPUT_PIXELS_MAX {
        return build_header(bytes, canvas, has_alpha, 0);
    }

    let decoder = if is_animated {
        let frame = find_chunk(bytes, first, b"ANMF")?.content;
        let size = (u24_le(frame, 6)? + 1, u24_le(frame, 9)? + 1);
        4 * canvas_pixels + animation_frame_memory(frame, size)?
    } else if let Some(lossless) = find_chunk(bytes, first, b"VP8L") {
        let frame = read_bitstream(&lossless)?;
        if canvas != (frame.width, frame.height) {
            return None;
        }
        frame.decoder + if has_alpha { 0 } else { 4 * canvas_pixels }
    } else {
        let frame = read_bitstream(&find_chunk(bytes, first, b"VP8 ")?)?;
        if canvas != (frame.width, frame.height) {
            return None;
        }
        let alpha = find_chunk(bytes, first, b"ALPH").filter(|_| has_alpha);
        frame.decoder + alpha.map_or(0, |alpha| alpha_memory(canvas_pixels, alpha.content.len() as u64))
    };
    build_header(bytes, canvas, has_alpha, decoder)
}

/// Returns the memory of an animation frame, including its pixels. An alpha chunk may precede the bitstream.
fn animation_frame_memory(frame: &[u8], size: (u64, u64)) -> Option<u64> {
    let first = read_chunk(frame, FRAME_HEADER_BYTES)?;
    if first.name != b"ALPH" {
        return frame_bitstream_memory(&first, size);
    }
    let bitstream = frame_bitstream_memory(&read_chunk(frame, first.next)?, size)?;
    Some(alpha_memory(size.0 * size.1, first.content.len() as u64) + bitstream)
}

/// Returns the memory of the bitstream of an animation frame, including its pixels; `None` if it has another size.
fn frame_bitstream_memory(chunk: &WebpChunk<'_>, size: (u64, u64)) -> Option<u64> {
    let bitstream = read_bitstream(chunk)?;
    (size == (bitstream.width, bitstream.height)).then_some(bitstream.decoder + 4 * size.0 * size.1)
}

/// Returns the content of the first EXIF chunk.
fn find_exif(bytes: &[u8]) -> Option<&[u8]> {
    let first = read_chunk(bytes, RIFF_HEADER_BYTES)?;
    if first.name != b"VP8X" {
        return None;
    }
    find_chunk(bytes, first.next, b"EXIF").map(|chunk| chunk.content)
}
