//! Decoded pictures.

use image::{RgbImage, RgbaImage};

/// Pixels, with the EXIF orientation already applied.
#[derive(Debug, Clone, PartialEq)]
pub enum Pixels {
    /// No pixel is transparent.
    Opaque(RgbImage),
    /// At least one pixel is transparent; alpha is not premultiplied.
    Transparent(RgbaImage),
}

/// A decoded picture.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedPicture {
    /// Pixels in RGB or RGBA.
    pub pixels: Pixels,
    /// The ICC profile; sRGB if `None`.
    pub profile: Option<Vec<u8>>,
}

impl DecodedPicture {
    /// Returns width and height in pixels.
    #[must_use]
    pub fn dimensions(&self) -> (u32, u32) {
        match &self.pixels {
            Pixels::Opaque(pixels) => pixels.dimensions(),
            Pixels::Transparent(pixels) => pixels.dimensions(),
        }
    }
}
