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

/// A chunk: its name, its content, and the offset of the next one.
type WebpChunk<'a> = (&'a [u8], &'a [u8], usize);

fn read_chunk(bytes: &[u8], at: usize) -> Option<WebpChunk<'_>> {
    let name = bytes.get(at..at + 4)?;
    let length = u32_le(bytes, at + 4)? as usize;
    let end = (at + 8).checked_add(length)?;
    let content = bytes.get(at + 8..end.min(bytes.len()))?;
    Some((name, content, end.checked_add(length % 2)?))
}

fn u24(bytes: &[u8], at: usize) -> Option<u64> {
    let [a, b, c] = *bytes.get(at..)?.first_chunk()?;
    Some(u64::from(u32::from_le_bytes([a, b, c, 0])))
}

pub(super) fn read(bytes: &[u8]) -> Option<PictureHeader> {
    let (name, content, next) = read_chunk(bytes, 12)?;
    if name == b"VP8X" {
        return read_extended(bytes, content, next);
    }
    let frame = read_bitstream(name, content)?;
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

fn read_bitstream(name: &[u8], content: &[u8]) -> Option<WebpBitstream> {
    let length = content.len() as u64;

    match name {
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

/// Reads a picture with a canvas. Like the decoder, it uses the first chunk of each kind.
fn read_extended(bytes: &[u8], info: &[u8], first: usize) -> Option<PictureHeader> {
    let flags = *info.first()?;
    let canvas = (u24(info, 4)? + 1, u24(info, 7)? + 1);
    let canvas_pixels = canvas.0 * canvas.1;
    let is_animated = flags & 0x02 != 0;
    let has_alpha = flags & 0x10 != 0;
    let find_chunk = |tag: &[u8]| {
        let mut at = first;
        while let Some((name, content, next)) = read_chunk(bytes, at) {
            if name == tag {
                return Some(content);
            }
            at = next;
        }
        None
    };

    if canvas_pixels > INPUT_PIXELS_MAX {
        return build_header(bytes, canvas, has_alpha, 0);
    }

    let decoder = if is_animated {
        let frame = find_chunk(b"ANMF")?;
        let size = (u24(frame, 6)? + 1, u24(frame, 9)? + 1);
        4 * canvas_pixels + animation_frame_memory(frame, 16, size, true)?
    } else if let Some(content) = find_chunk(b"VP8L") {
        let frame = read_bitstream(b"VP8L", content)?;
        (canvas == (frame.width, frame.height)).then_some(())?;
        frame.decoder + if has_alpha { 0 } else { 4 * canvas_pixels }
    } else {
        let frame = read_bitstream(b"VP8 ", find_chunk(b"VP8 ")?)?;
        (canvas == (frame.width, frame.height)).then_some(())?;
        let alpha = find_chunk(b"ALPH").filter(|_| has_alpha);
        frame.decoder + alpha.map_or(0, |content| alpha_memory(canvas_pixels, content.len() as u64))
    };
    build_header(bytes, canvas, has_alpha, decoder)
}

/// Returns the memory of an animation frame, including its pixels.
fn animation_frame_memory(frame: &[u8], at: usize, size: (u64, u64), may_have_alpha: bool) -> Option<u64> {
    let (name, content, next) = read_chunk(frame, at)?;
    let pixels = size.0 * size.1;
    if name == b"ALPH" && may_have_alpha {
        return Some(alpha_memory(pixels, content.len() as u64) + animation_frame_memory(frame, next, size, false)?);
    }
    let inner = read_bitstream(name, content)?;
    (size == (inner.width, inner.height)).then_some(())?;
    Some(inner.decoder + 4 * pixels)
}

/// Returns the first EXIF chunk.
fn find_exif(bytes: &[u8]) -> Option<&[u8]> {
    let (name, _, mut at) = read_chunk(bytes, 12)?;
    if name != b"VP8X" {
        return None;
    }
    while let Some((name, content, next)) = read_chunk(bytes, at) {
        if name == b"EXIF" {
            return Some(content);
        }
        at = next;
    }
    None
}
