//! Picture headers, parsed without a decoder: size, orientation, and memory needed to decode.
//!
//! Decoders allocate what a header announces, some before a limit can be set. The header is therefore parsed here first
//! and compared with the decoder's reading; a file for which they differ is rejected.

use image::metadata::Orientation;

use super::damaged_file_error;
use crate::domain::image::{INPUT_PIXELS_MAX, ImageFormat};
use crate::domain::value::InvalidValue;

mod jpeg;
mod png;
mod tiff;
mod webp;

pub(super) use png::line_bytes;

/// Maximum number of metadata bytes (colour profile, EXIF) of a PNG that are kept or inflated.
pub(super) const PNG_METADATA_MAX: usize = 8 << 20;

/// Allocations of any decoder that do not depend on the picture: tables, windows, small buffers.
const FIXED_BYTES: u64 = 2 << 20;

/// Header fields that determine the memory needed to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PictureHeader {
    pub format: ImageFormat,
    /// Stored size, before the orientation is applied.
    pub width: u32,
    pub height: u32,
    pub orientation: Orientation,
    pub memory: DecodeMemory,
}

/// Memory needed to decode, beside the file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodeMemory {
    /// Allocations of the decoder, except the returned pixels.
    pub decoder: u64,
    /// Bytes per pixel returned by the decoder.
    pub source: u64,
    /// Bytes per pixel after conversion to RGB or RGBA.
    pub output: u64,
}

impl PictureHeader {
    /// Reads the header of a picture in a known format.
    ///
    /// # Errors
    /// If the header is damaged, or announces no pixels or too many.
    pub fn read(format: ImageFormat, bytes: &[u8]) -> Result<Self, InvalidValue> {
        let header = match format {
            ImageFormat::Png => png::read(bytes),
            ImageFormat::Jpeg => jpeg::read(bytes),
            ImageFormat::Webp => webp::read(bytes),
            ImageFormat::Gif => read_gif(bytes),
            ImageFormat::Bmp => read_bmp(bytes),
            ImageFormat::Tiff => tiff::read(bytes),
        };
        let header = header.ok_or_else(|| damaged_file_error("its header cannot be read"))?;
        check_pixels(header.width, header.height)?;
        Ok(header)
    }

    pub fn pixel_count(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// Returns `true` if the orientation swaps width and height.
    pub fn swaps_dimensions(&self) -> bool {
        use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
        matches!(self.orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
    }

    /// Returns the size of the decoded pixels in bytes.
    pub fn source_bytes(&self) -> u64 {
        self.pixel_count() * self.memory.source
    }

    /// Returns the peak memory of checking every pixel. The rows of a PNG are not kept.
    pub fn memory_to_inspect(&self) -> u64 {
        let pixels = if self.format == ImageFormat::Png { 0 } else { self.source_bytes() };
        FIXED_BYTES + self.memory.decoder + pixels
    }

    /// Returns the peak memory of decoding, converting to 8 bits and rotating.
    pub fn memory_to_decode(&self) -> u64 {
        let DecodeMemory { decoder, source, output } = self.memory;
        let decoding = decoder + self.pixel_count() * source.max(output);
        // Samples of more than 8 bits leave an oversized buffer, which is copied to shrink it.
        let shrinking = if source >= 2 * output { self.pixel_count() * (source + output) } else { 0 };
        let rotating = if self.swaps_dimensions() { self.pixel_count() * 2 * output } else { 0 };
        FIXED_BYTES + decoding.max(shrinking).max(rotating)
    }
}

fn check_pixels(width: u32, height: u32) -> Result<(), InvalidValue> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(InvalidValue::new("must have at least one pixel"));
    }
    if pixels > INPUT_PIXELS_MAX {
        let megapixels_max = INPUT_PIXELS_MAX / 1_000_000;
        return Err(InvalidValue::new(format!(
            "has {width}x{height} pixels; at most {megapixels_max} million are allowed"
        )));
    }
    Ok(())
}

fn u16_le(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u16_be(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the size of the colour table described by this byte, or 0 without one.
const fn colour_table_bytes(packed: u8) -> usize {
    if packed & 0x80 == 0 { 0 } else { 3 << ((packed & 7) + 1) }
}

/// Reads the logical screen and the first frame, which may be larger than the screen.
fn read_gif(bytes: &[u8]) -> Option<PictureHeader> {
    let width = u16_le(bytes, 6)?;
    let height = u16_le(bytes, 8)?;
    let mut at = 13 + colour_table_bytes(*bytes.get(10)?);

    loop {
        match bytes.get(at)? {
            // An extension: a label and blocks up to an empty one.
            0x21 => {
                at += 2;
                loop {
                    let length = usize::from(*bytes.get(at)?);
                    at += 1 + length;
                    if length == 0 {
                        break;
                    }
                }
            }
            // An image descriptor: the first frame.
            0x2C => break,
            _ => return None,
        }
    }

    let frame_width = u64::from(u16_le(bytes, at + 5)?);
    let frame_height = u64::from(u16_le(bytes, at + 7)?);
    let frame_pixels = frame_width * frame_height;
    if frame_pixels > INPUT_PIXELS_MAX {
        return None;
    }

    // The frame is decoded separately unless it has the width of the screen; extensions are copied.
    let memory = DecodeMemory { decoder: 4 * frame_pixels + bytes.len() as u64, source: 4, output: 4 };
    let width = width.into();
    let height = height.into();

    Some(PictureHeader { format: ImageFormat::Gif, width, height, orientation: Orientation::NoTransforms, memory })
}

fn read_bmp(bytes: &[u8]) -> Option<PictureHeader> {
    // The oldest info header, of 12 bytes, has sizes of 16 bits.
    let (width, height) = if u32_le(bytes, 14)? == 12 {
        (u16_le(bytes, 18)?.into(), u16_le(bytes, 20)?.into())
    } else {
        // Top-down rows are marked by a negative height.
        (u32_le(bytes, 18)?, u32_le(bytes, 22)?.cast_signed().unsigned_abs())
    };
    // Stored rows, and a copy of the colour profile.
    let decoder = u64::from(width) * 16 + bytes.len() as u64;
    let memory = DecodeMemory { decoder, source: 4, output: 4 };
    Some(PictureHeader { format: ImageFormat::Bmp, width, height, orientation: Orientation::NoTransforms, memory })
}
