//! PNG decoding with the `png` crate: to 8 bits while reading, and with limits that apply before metadata is inflated.

use std::io::Cursor;

use image::ColorType;
use png::{DecodingError, Limits, Reader, Transformations};

use super::header::{Header, PNG_METADATA_MAX, line_bytes};
use super::{needs_too_much, truncated};
use crate::domain::value::Invalid;

type PngReader<'a> = Reader<Cursor<&'a [u8]>>;

fn open<'a>(header: &Header, bytes: &'a [u8]) -> Result<PngReader<'a>, Invalid> {
    let limit = PNG_METADATA_MAX as u64 + line_bytes(header.width);
    let limits = Limits { bytes: usize::try_from(limit).unwrap_or(usize::MAX) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.read_info().map_err(|error| refusal(&error))
}

/// Decodes every row without keeping it.
pub(super) fn inspect(header: &Header, bytes: &[u8]) -> Result<(), Invalid> {
    let mut reader = open(header, bytes)?;
    while reader.next_interlaced_row().map_err(|error| refusal(&error))?.is_some() {}
    Ok(())
}

/// Decodes the pixels into the end of `buffer`, which has at least the size from the header. Returns the colour type
/// and the colour profile.
pub(super) fn decode(
    header: &Header,
    bytes: &[u8],
    buffer: &mut [u8],
) -> Result<(ColorType, Option<Vec<u8>>), Invalid> {
    let mut reader = open(header, bytes)?;
    let color = match reader.output_color_type().0 {
        png::ColorType::Grayscale => ColorType::L8,
        png::ColorType::GrayscaleAlpha => ColorType::La8,
        png::ColorType::Rgb => ColorType::Rgb8,
        png::ColorType::Rgba => ColorType::Rgba8,
        png::ColorType::Indexed => return Err(truncated("its palette is missing")),
    };

    let length = reader.output_buffer_size().unwrap_or(usize::MAX);
    let start = buffer.len().checked_sub(length).ok_or_else(super::contradiction)?;
    reader.next_frame(&mut buffer[start..]).map_err(|error| refusal(&error))?;
    Ok((color, reader.info().icc_profile.as_ref().map(|profile| profile.to_vec())))
}

fn refusal(error: &DecodingError) -> Invalid {
    match error {
        DecodingError::LimitsExceeded => needs_too_much(),
        other => truncated(other),
    }
}
