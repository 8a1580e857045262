//! TIFF header: the tags of the first page.

use image::metadata::Orientation;

use super::{DecodeMemory, PictureHeader, jpeg, u16_be, u16_le, u32_be, u32_le};
use crate::domain::image::ImageFormat;

const IMAGE_WIDTH: u16 = 256;
const IMAGE_LENGTH: u16 = 257;
const BITS_PER_SAMPLE: u16 = 258;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const ORIENTATION: u16 = 274;
const SAMPLES_PER_PIXEL: u16 = 277;
/// Type of 16-bit values; the values of the tags above have 16 or 32 bits.
const SHORT: u16 = 3;
/// Memory of the decoder per value of a tag, in bytes: as read and as stored.
const MEMORY_PER_VALUE: u64 = 64;
/// Compression with embedded JPEG streams as in TIFF 6.0.
const OLD_JPEG: u32 = 6;
/// Compression with embedded JPEG streams as in the technical note that replaced it.
const JPEG: u32 = 7;
/// Photometric interpretation of CMYK pictures.
const CMYK: u32 = 5;
/// Metadata tags that do not count towards the memory of the decoder: XMP, IPTC, Photoshop (two) and EXIF.
const SKIPPED_TAGS: [u16; 5] = [700, 33723, 34377, 34665, 37724];

/// Reads numbers in the byte order of the file.
struct TiffReader<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl TiffReader<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        if self.is_big_endian { u16_be(self.bytes, at) } else { u16_le(self.bytes, at) }
    }

    fn u32(&self, at: usize) -> Option<u32> {
        if self.is_big_endian { u32_be(self.bytes, at) } else { u32_le(self.bytes, at) }
    }

    /// Returns the first value of the 12-byte tag at `at`.
    fn value(&self, at: usize) -> Option<u32> {
        let kind = self.u16(at + 2)?;
        let count = self.u32(at + 4)?;
        let bytes = if kind == SHORT { 2 } else { 4 };
        let offset = if count.checked_mul(bytes)? <= 4 { at + 8 } else { self.u32(at + 8)? as usize };
        if kind == SHORT { self.u16(offset).map(u32::from) } else { self.u32(offset) }
    }
}

pub(super) fn read(bytes: &[u8]) -> Option<PictureHeader> {
    let reader = TiffReader { bytes, is_big_endian: bytes.first()? == &b'M' };
    // The file header ends with the offset of the first page's tags.
    let page = reader.u32(4)? as usize;
    let mut width = 0;
    let mut height = 0;
    let mut bits = 1;
    let mut samples = 1;
    let mut photometric = 1;
    let mut compression = 1;
    let mut orientation = Orientation::NoTransforms;
    let mut value_count = 0_u64;

    for entry in 0..usize::from(reader.u16(page)?) {
        let at = page.checked_add(2 + 12 * entry)?;
        let tag = reader.u16(at)?;
        if SKIPPED_TAGS.contains(&tag) {
            continue;
        }

        value_count += u64::from(reader.u32(at + 4)?);
        let value = reader.value(at);
        match tag {
            IMAGE_WIDTH => width = value?,
            IMAGE_LENGTH => height = value?,
            BITS_PER_SAMPLE => bits = value?,
            COMPRESSION => compression = value?,
            PHOTOMETRIC => photometric = value?,
            ORIENTATION => {
                let parsed = value.and_then(|value| Orientation::from_exif(u8::try_from(value).ok()?));
                orientation = parsed.unwrap_or(Orientation::NoTransforms);
            }
            SAMPLES_PER_PIXEL => samples = value?,
            _ => {}
        }
    }

    let sample_bytes = u64::from(bits).div_ceil(8).clamp(1, 8);
    let stored_pixel_bytes = u64::from(samples).clamp(1, 16) * sample_bytes;
    // The decoder returns CMYK as RGB.
    let is_cmyk = photometric == CMYK;
    let source = if is_cmyk { 3 * sample_bytes } else { stored_pixel_bytes };
    let has_alpha = !is_cmyk && matches!(samples, 2 | 4);

    let buffer = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(stored_pixel_bytes);
    // JPEG streams are copied and decoded completely; they may be larger than their strip.
    let embedded_memory = if matches!(compression, OLD_JPEG | JPEG) { jpeg::embedded_decode_memory(bytes) } else { 0 };
    // The stored picture, its JPEG streams, and the values of the tags.
    let decoder = buffer.saturating_add(embedded_memory).saturating_add(MEMORY_PER_VALUE.saturating_mul(value_count));
    let memory = DecodeMemory { decoder, source, output: if has_alpha { 4 } else { 3 } };
    Some(PictureHeader { format: ImageFormat::Tiff, width, height, orientation, memory })
}
