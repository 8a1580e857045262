//! PNG decoding with the `png` crate: to 8 bits while reading, and with limits that apply before metadata is inflated.

use std::io::Cursor;

use image::ColorType;
use png::{DecodingError, Limits, Reader, Transformations};

use super::header::{PNG_METADATA_MAX, PictureHeader, line_bytes};
use super::{damaged_file_error, too_much_memory_error};
use crate::domain::value::InvalidValue;

type PngReader<'a> = Reader<Cursor<&'a [u8]>>;

fn open<'a>(header: &PictureHeader, bytes: &'a [u8]) -> Result<PngReader<'a>, InvalidValue> {
    let limit = PNG_METADATA_MAX as u64 + line_bytes(header.width);
    let limits = Limits { bytes: usize::try_from(limit).unwrap_or(usize::MAX) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.read_info().map_err(|error| decode_error(&error))
}

/// Decodes every row without keeping it.
pub(super) fn inspect(header: &PictureHeader, bytes: &[u8]) -> Result<(), InvalidValue> {
    let mut reader = open(header, bytes)?;
    while reader.next_interlaced_row().map_err(|error| decode_error(&error))?.is_some() {}
    Ok(())
}

/// Decodes the pixels into the end of `buffer`, which has at least the size from the header. Returns the colour type
/// and the colour profile.
pub(super) fn decode(
    header: &PictureHeader,
    bytes: &[u8],
    buffer: &mut [u8],
) -> Result<(ColorType, Option<Vec<u8>>), InvalidValue> {
    let mut reader = open(header, bytes)?;
    let color = match reader.output_color_type().0 {
        png::ColorType::Grayscale => ColorType::L8,
        png::ColorType::GrayscaleAlpha => ColorType::La8,
        png::ColorType::Rgb => ColorType::Rgb8,
        png::ColorType::Rgba => ColorType::Rgba8,
        png::ColorType::Indexed => return Err(damaged_file_error("its palette is missing")),
    };

    let length = reader.output_buffer_size().unwrap_or(usize::MAX);
    let start = buffer.len().checked_sub(length).ok_or_else(super::contradictory_header_error)?;
    reader.next_frame(&mut buffer[start..]).map_err(|error| decode_error(&error))?;
    Ok((color, reader.info().icc_profile.as_ref().map(|profile| profile.to_vec())))
}

fn decode_error(error: &DecodingError) -> InvalidValue {
    match error {
        DecodingError::LimitsExceeded => too_much_memory_error(),
        other => damaged_file_error(other),
    }
}
