//! Pictures sent by clients: validation and decoding.
//!
//! Rules:
//! - The bytes determine the format, not a data URI or a name.
//! - The size is checked from the header before any pixel is decoded. Then the whole picture is decoded within a memory
//!   limit, so that an accepted picture can be processed later. A JPEG must contain its end marker, because the decoder
//!   would fill a truncated one with grey.
//! - The EXIF orientation is applied: width and height are those of the upright picture.
//! - Only the first frame of an animation and the first page of a TIFF are used.
//! - 16-bit and floating-point channels become 8 bits; grey becomes RGB; CMYK becomes RGB by the decoder's simple
//!   formula.
//! - Transparency is kept if any pixel has it; an RGB colour profile is kept beside the pixels.
//!
//! Reading a header allocates nothing. Decoding blocks the thread and allocates what the header announces, so it goes
//! through [`super::decoders`], which limits the memory of all decoders together.

use std::fmt::Display;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageReader, Limits};

use header::PictureHeader;

use crate::domain::image::{INPUT_BYTES_MAX, ImageFormat};
use crate::domain::value::InvalidValue;

pub use super::picture_input::PictureInput;
pub use mediary_engine::{DecodedPicture, Pixels};

use super::picture_input::too_many_bytes_error;

mod convert;
mod header;
mod png;

/// Maximum size of a colour profile that is kept, in bytes; display profiles have a few hundred to a few thousand.
const PROFILE_BYTES_MAX: usize = 1 << 20;

/// Bytes that decoders may allocate beyond the estimate.
const DECODER_SLACK: u64 = 1 << 20;

/// Properties of an accepted picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureInfo {
    pub format: ImageFormat,
    /// Width of the upright picture in pixels.
    pub width: u32,
    /// Height of the upright picture in pixels.
    pub height: u32,
}

/// Pixels as decoded, at the end of a buffer that may be larger.
struct SourcePixels {
    buffer: Vec<u8>,
    color: ColorType,
    /// Colour profile of the file.
    profile: Option<Vec<u8>>,
}

/// Header of a picture whose size is allowed.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeasuredPicture {
    codec: image::ImageFormat,
    header: PictureHeader,
}

impl MeasuredPicture {
    /// Reads the header: format, size, orientation, and memory needed to decode. Allocates nothing.
    ///
    /// # Errors
    /// If there are too many bytes, the format is unknown, or the picture has no pixels or too many.
    pub fn read(bytes: &[u8]) -> Result<Self, InvalidValue> {
        if bytes.len() > INPUT_BYTES_MAX {
            return Err(too_many_bytes_error());
        }
        let (format, codec) = detect_format(bytes)?;
        Ok(Self { codec, header: PictureHeader::read(format, bytes)? })
    }

    /// Returns format and size of the upright picture.
    pub fn info(&self) -> PictureInfo {
        let PictureHeader { format, width, height, .. } = self.header;
        let (width, height) = if self.header.swaps_dimensions() { (height, width) } else { (width, height) };
        PictureInfo { format, width, height }
    }

    /// Returns the peak memory of [`MeasuredPicture::inspect`] in bytes.
    pub fn memory_to_inspect(&self) -> u64 {
        self.header.memory_to_inspect()
    }

    /// Returns the peak memory of [`MeasuredPicture::decode`] in bytes.
    pub fn memory_to_decode(&self) -> u64 {
        self.header.memory_to_decode()
    }

    /// Checks that every pixel can be decoded.
    ///
    /// # Errors
    /// If the picture is truncated or damaged.
    pub fn inspect(&self, bytes: &[u8]) -> Result<(), InvalidValue> {
        catch_decoder_panic(|| match self.header.format {
            ImageFormat::Png => png::inspect(&self.header, bytes),
            _ => self.decode_pixels(bytes, self.header.memory.source).map(drop),
        })
    }

    /// Decodes the picture and applies its orientation.
    ///
    /// # Errors
    /// Same as [`MeasuredPicture::inspect`].
    pub fn decode(&self, bytes: &[u8]) -> Result<DecodedPicture, InvalidValue> {
        catch_decoder_panic(|| {
            let PictureHeader { width, height, memory, orientation, .. } = self.header;
            let SourcePixels { buffer, color, profile } =
                self.decode_pixels(bytes, memory.source.max(memory.output))?;
            let pixels = convert::into_pixels(buffer, color, (width, height)).ok_or_else(contradictory_header_error)?;
            let profile = profile.filter(|profile| is_usable_profile(profile));
            Ok(DecodedPicture { pixels: apply_orientation(pixels, orientation), profile })
        })
    }

    /// Decodes into the end of a new buffer with `pixel_bytes` per pixel.
    fn decode_pixels(&self, bytes: &[u8], pixel_bytes: u64) -> Result<SourcePixels, InvalidValue> {
        let length = usize::try_from(self.header.pixel_count() * pixel_bytes).map_err(|_| too_much_memory_error())?;
        if self.header.format == ImageFormat::Png {
            let mut buffer = vec![0; length];
            let (color, profile) = png::decode(&self.header, bytes, &mut buffer)?;
            return Ok(SourcePixels { buffer, color, profile });
        }

        if self.header.format == ImageFormat::Jpeg && !has_end_marker(bytes) {
            return Err(InvalidValue::new("is a truncated picture: the JPEG ends before its end marker"));
        }

        let reader = ImageReader::with_format(Cursor::new(bytes), self.codec);
        let mut decoder = reader.into_decoder().map_err(|error| decode_error(&error))?;
        // The memory estimate relies on this module's reading of the header.
        let PictureHeader { width, height, .. } = self.header;
        let source = decoder.total_bytes();
        if decoder.dimensions() != (width, height) || source > self.header.source_bytes() {
            return Err(contradictory_header_error());
        }

        let mut limits = Limits::default();
        limits.max_alloc = Some(self.header.memory.decoder + source + DECODER_SLACK);
        decoder.set_limits(limits).map_err(|error| decode_error(&error))?;

        let color = decoder.color_type();
        let profile = decoder.icc_profile().ok().flatten();
        let mut buffer = vec![0; length];
        let start = usize::try_from(source).ok().and_then(|source| length.checked_sub(source));
        decoder
            .read_image(&mut buffer[start.ok_or_else(contradictory_header_error)?..])
            .map_err(|error| decode_error(&error))?;
        Ok(SourcePixels { buffer, color, profile })
    }
}

fn apply_orientation(pixels: Pixels, orientation: Orientation) -> Pixels {
    let oriented = |mut picture: DynamicImage| {
        picture.apply_orientation(orientation);
        picture
    };
    match pixels {
        Pixels::Opaque(pixels) => Pixels::Opaque(oriented(pixels.into()).into_rgb8()),
        Pixels::Transparent(pixels) => Pixels::Transparent(oriented(pixels.into()).into_rgba8()),
    }
}

/// Turns a panic of a decoder on malformed bytes into an error.
fn catch_decoder_panic<T>(decode: impl FnOnce() -> Result<T, InvalidValue>) -> Result<T, InvalidValue> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(InvalidValue::new("cannot be decoded: the file is damaged")))
}

/// Detects the format of a picture from its first bytes.
pub(super) fn detect_picture(head: &[u8]) -> Option<ImageFormat> {
    detect_format(head).map(|(format, _)| format).ok()
}

fn detect_format(bytes: &[u8]) -> Result<(ImageFormat, image::ImageFormat), InvalidValue> {
    let codec = image::guess_format(bytes).ok();
    let format = match codec {
        Some(image::ImageFormat::Png) => Some(ImageFormat::Png),
        Some(image::ImageFormat::Jpeg) => Some(ImageFormat::Jpeg),
        Some(image::ImageFormat::WebP) => Some(ImageFormat::Webp),
        Some(image::ImageFormat::Gif) => Some(ImageFormat::Gif),
        Some(image::ImageFormat::Bmp) => Some(ImageFormat::Bmp),
        Some(image::ImageFormat::Tiff) => Some(ImageFormat::Tiff),
        _ => None,
    };
    format.zip(codec).ok_or_else(|| InvalidValue::new("must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture"))
}

fn decode_error(error: &ImageError) -> InvalidValue {
    match error {
        ImageError::Limits(_) => too_much_memory_error(),
        ImageError::Unsupported(_) => InvalidValue::new(format!("cannot be decoded: {error}")),
        _ => damaged_file_error(error),
    }
}

fn too_much_memory_error() -> InvalidValue {
    InvalidValue::new("requires too much memory to decode")
}

fn damaged_file_error(reason: impl Display) -> InvalidValue {
    InvalidValue::new(format!("cannot be decoded: the file is damaged or truncated: {reason}"))
}

/// Returns the error for a header that the decoder reads differently.
fn contradictory_header_error() -> InvalidValue {
    damaged_file_error("its header is inconsistent")
}

/// Returns `true` if the profile is for RGB, like the decoded pixels.
fn is_usable_profile(profile: &[u8]) -> bool {
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(b"RGB ")
}

/// Scans the segments of a JPEG for its end marker. The end marker of a thumbnail inside a segment does not count.
fn has_end_marker(jpeg: &[u8]) -> bool {
    let mut at = 2;

    loop {
        let Some(offset) = jpeg.get(at..).and_then(|remaining| remaining.windows(2).position(is_marker)) else {
            return false;
        };
        at += offset + 2;
        match jpeg[at - 1] {
            // End of image.
            0xD9 => return true,
            // The temporary marker has no segment.
            0x01 => {}
            _ => match jpeg.get(at..at + 2) {
                Some(length) => at += usize::from(u16::from_be_bytes([length[0], length[1]])),
                None => return false,
            },
        }
    }
}

/// Stuffed zeros, fill bytes and restart markers occur in compressed data and begin no segment.
fn is_marker(pair: &[u8]) -> bool {
    pair[0] == 0xFF && !matches!(pair[1], 0x00 | 0xFF | 0xD0..=0xD7)
}

#[cfg(test)]
mod tests;
