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

use header::Header;

use crate::domain::image::{INPUT_BYTES_MAX, ImageFormat};
use crate::domain::value::Invalid;

pub use super::field::Given;
pub use mediary_engine::{Decoded, Pixels};

use super::field::too_many_bytes;

mod convert;
mod header;
mod png;

/// Maximum size of a colour profile that is kept, in bytes; display profiles have a few hundred to a few thousand.
const PROFILE_BYTES_MAX: usize = 1 << 20;

/// Bytes that decoders may allocate beyond the estimate.
const DECODER_SLACK: u64 = 1 << 20;

/// Properties of an accepted picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
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
pub(super) struct Measured {
    codec: image::ImageFormat,
    header: Header,
}

impl Measured {
    /// Reads the header: format, size, orientation, and memory needed to decode. Allocates nothing.
    ///
    /// # Errors
    /// If there are too many bytes, the format is unknown, or the picture has no pixels or too many.
    pub fn read(bytes: &[u8]) -> Result<Self, Invalid> {
        if bytes.len() > INPUT_BYTES_MAX {
            return Err(too_many_bytes());
        }
        let (format, codec) = format_of(bytes)?;
        Ok(Self { codec, header: Header::read(format, bytes)? })
    }

    /// Returns format and size of the upright picture.
    pub fn inspected(&self) -> Inspected {
        let Header { format, width, height, .. } = self.header;
        let (width, height) = if self.header.is_turned() { (height, width) } else { (width, height) };
        Inspected { format, width, height }
    }

    /// Returns the peak memory of [`Measured::inspect`] in bytes.
    pub fn memory_to_inspect(&self) -> u64 {
        self.header.memory_to_inspect()
    }

    /// Returns the peak memory of [`Measured::decode`] in bytes.
    pub fn memory_to_decode(&self) -> u64 {
        self.header.memory_to_decode()
    }

    /// Checks that every pixel can be decoded.
    ///
    /// # Errors
    /// If the picture is truncated or damaged.
    pub fn inspect(&self, bytes: &[u8]) -> Result<(), Invalid> {
        guarded(|| match self.header.format {
            ImageFormat::Png => png::inspect(&self.header, bytes),
            _ => self.pixels(bytes, self.header.memory.source).map(drop),
        })
    }

    /// Decodes the picture and applies its orientation.
    ///
    /// # Errors
    /// As [`Measured::inspect`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Decoded, Invalid> {
        guarded(|| {
            let Header { width, height, memory, orientation, .. } = self.header;
            let SourcePixels { buffer, color, profile } = self.pixels(bytes, memory.source.max(memory.output))?;
            let pixels = convert::into_pixels(buffer, color, (width, height)).ok_or_else(contradiction)?;
            let profile = profile.filter(|profile| is_usable(profile));
            Ok(Decoded { pixels: upright(pixels, orientation), profile })
        })
    }

    /// Decodes into the end of a new buffer with `pixel_bytes` per pixel.
    fn pixels(&self, bytes: &[u8], pixel_bytes: u64) -> Result<SourcePixels, Invalid> {
        let length = usize::try_from(self.header.pixels() * pixel_bytes).map_err(|_| needs_too_much())?;
        if self.header.format == ImageFormat::Png {
            let mut buffer = vec![0; length];
            let (color, profile) = png::decode(&self.header, bytes, &mut buffer)?;
            return Ok(SourcePixels { buffer, color, profile });
        }

        if self.header.format == ImageFormat::Jpeg && !reaches_its_end(bytes) {
            return Err(Invalid::new("is a truncated picture: the JPEG ends before its end marker"));
        }
        let reader = ImageReader::with_format(Cursor::new(bytes), self.codec);
        let mut decoder = reader.into_decoder().map_err(|error| refusal(&error))?;
        // The memory estimate relies on this module's reading of the header.
        let Header { width, height, .. } = self.header;
        let source = decoder.total_bytes();
        if decoder.dimensions() != (width, height) || source > self.header.source_bytes() {
            return Err(contradiction());
        }
        let mut limits = Limits::default();
        limits.max_alloc = Some(self.header.memory.decoder + source + DECODER_SLACK);
        decoder.set_limits(limits).map_err(|error| refusal(&error))?;

        let color = decoder.color_type();
        let profile = decoder.icc_profile().ok().flatten();
        let mut buffer = vec![0; length];
        let start = usize::try_from(source).ok().and_then(|source| length.checked_sub(source));
        decoder.read_image(&mut buffer[start.ok_or_else(contradiction)?..]).map_err(|error| refusal(&error))?;
        Ok(SourcePixels { buffer, color, profile })
    }
}

fn upright(pixels: Pixels, orientation: Orientation) -> Pixels {
    let turned = |mut picture: DynamicImage| {
        picture.apply_orientation(orientation);
        picture
    };
    match pixels {
        Pixels::Opaque(pixels) => Pixels::Opaque(turned(pixels.into()).into_rgb8()),
        Pixels::Transparent(pixels) => Pixels::Transparent(turned(pixels.into()).into_rgba8()),
    }
}

/// Turns a panic of a decoder on malformed bytes into an error.
fn guarded<T>(read: impl FnOnce() -> Result<T, Invalid>) -> Result<T, Invalid> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Invalid::new("cannot be decoded: the file is damaged")))
}

fn format_of(bytes: &[u8]) -> Result<(ImageFormat, image::ImageFormat), Invalid> {
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
    format.zip(codec).ok_or_else(|| Invalid::new("must be a png, jpeg, webp, gif, bmp or tiff picture"))
}

fn refusal(error: &ImageError) -> Invalid {
    match error {
        ImageError::Limits(_) => needs_too_much(),
        ImageError::Unsupported(_) => Invalid::new(format!("cannot be decoded: {error}")),
        _ => truncated(error),
    }
}

fn needs_too_much() -> Invalid {
    Invalid::new("needs too much memory to be decoded")
}

fn truncated(reason: impl Display) -> Invalid {
    Invalid::new(format!("cannot be decoded, the file is damaged or truncated: {reason}"))
}

/// Returns the error for a header that the decoder reads differently.
fn contradiction() -> Invalid {
    truncated("its header contradicts itself")
}

/// Returns `true` if the profile is for RGB, like the decoded pixels.
fn is_usable(profile: &[u8]) -> bool {
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(b"RGB ")
}

/// Scans the segments of a JPEG for its end marker. The end marker of a thumbnail inside a segment does not count.
fn reaches_its_end(jpeg: &[u8]) -> bool {
    let mut at = 2;

    loop {
        let Some(offset) = jpeg.get(at..).and_then(|rest| rest.windows(2).position(is_marker)) else { return false };
        at += offset + 2;
        match jpeg[at - 1] {
            0xD9 => return true,
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
