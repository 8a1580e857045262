//! PNG header: the chunks before the pixels.

use image::metadata::Orientation;

use super::{DecodeMemory, PNG_METADATA_MAX, PictureHeader, u32_be};
use crate::domain::image::ImageFormat;

const SIGNATURE_BYTES: usize = 8;
/// Length, name and checksum around the content of a chunk.
const CHUNK_OVERHEAD: usize = 12;

/// Reads the header and the other chunks before the pixels.
pub(super) fn read(bytes: &[u8]) -> Option<PictureHeader> {
    let ihdr = SIGNATURE_BYTES + 8;
    if bytes.get(SIGNATURE_BYTES + 4..ihdr)? != b"IHDR" {
        return None;
    }
    let width = u32_be(bytes, ihdr)?;
    let height = u32_be(bytes, ihdr + 4)?;
    let depth = u64::from(*bytes.get(ihdr + 8)?);
    let colour_type = *bytes.get(ihdr + 9)?;
    let has_palette = colour_type == 3;
    // Grey or palette, RGB, grey with alpha, RGB with alpha.
    let stored_channels = match colour_type {
        0 | 3 => 1,
        2 => 3,
        4 => 2,
        6 => 4,
        _ => return None,
    };

    let chunks = PngChunks::scan(bytes);
    let channels = if has_palette { 3 } else { stored_channels } + u64::from(chunks.has_transparency);
    let source = channels.min(4);
    let output = if matches!(source, 2 | 4) { 4 } else { 3 };

    let row_bytes = (u64::from(width) * depth * stored_channels).div_ceil(8) + 1;
    // Some rows wait to be unfiltered, in a buffer that grows by doubling, and one row is converted.
    let pending_bytes = (12 * row_bytes).min((3 * row_bytes).saturating_mul(height.into())) + (1 << 19);
    let decoder = pending_bytes + line_bytes(width) + 2 * PNG_METADATA_MAX as u64;
    let memory = DecodeMemory { decoder, source, output };
    Some(PictureHeader { format: ImageFormat::Png, width, height, orientation: chunks.orientation, memory })
}

/// Returns the maximum size of a converted row in bytes.
pub(in crate::media::input) fn line_bytes(width: u32) -> u64 {
    8 * u64::from(width)
}

/// Information from the chunks before the pixels.
struct PngChunks {
    has_transparency: bool,
    orientation: Orientation,
}

impl PngChunks {
    fn scan(bytes: &[u8]) -> Self {
        let mut chunks = Self { has_transparency: false, orientation: Orientation::NoTransforms };
        let mut at = SIGNATURE_BYTES;

        while let Some((length, name)) = u32_be(bytes, at).zip(bytes.get(at + 4..at + 8)) {
            let end = (at + CHUNK_OVERHEAD).saturating_add(length as usize);
            match name {
                b"tRNS" => chunks.has_transparency = true,
                b"eXIf" => {
                    let exif = bytes.get(at + 8..end - 4).unwrap_or_default();
                    chunks.orientation = Orientation::from_exif_chunk(exif).unwrap_or(Orientation::NoTransforms);
                }
                b"IDAT" => break,
                _ => {}
            }
            at = end;
        }

        chunks
    }
}
