//! Parameters of image jobs, with the ranges and defaults of the API.

use serde::{Deserialize, Serialize};

use super::value::{Digest, InvalidValue, Text, named_values};

mod job;
mod parameters;
mod precision;
mod relight;
mod skin;
mod style;
mod upscale;

pub use job::{ImageFamily, ImageJob, ImageWork, PictureSource};
pub use precision::{PrecisionFlavor, PrecisionScaleFactor, PrecisionUpscaleJob};
pub use relight::{
    LightSettings, LightSource, RelightEngine, RelightJob, RelightStyle, TransferLightA, TransferLightB,
};
pub use skin::{SkinEnhanceJob, SkinFocus, SkinMode};
pub use style::{PortraitBeautifier, PortraitSettings, PortraitStyle, StyleEngine, StyleFlavor, StyleTransferJob};
pub use upscale::{OptimizedFor, ScaleFactor, SignedStrength, UpscaleEngine, UpscaleJob};

/// Maximum pixels of an upscaled picture (seed specification, Limits).
pub const OUTPUT_PIXELS_MAX: u64 = 25_300_000;
/// Maximum bytes of an input picture after base64 decoding (contract 6).
pub const INPUT_BYTES_MAX: usize = 50 * 1_000_000;
/// Maximum pixels of an input picture (contract 6).
pub const INPUT_PIXELS_MAX: u64 = 100_000_000;

/// Prompt of an image job.
pub type ImagePrompt = Text<10_000>;

/// A percentage from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Percent(u8);

impl Percent {
    /// Creates a percentage; values above 100 become 100.
    #[must_use]
    pub const fn saturating(value: u8) -> Self {
        Self(if value > 100 { 100 } else { value })
    }

    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside 0 to 100.
    pub fn new(value: i64) -> Result<Self, InvalidValue> {
        match u8::try_from(value) {
            Ok(value @ 0..=100) => Ok(Self(value)),
            _ => Err(InvalidValue::new("must be an integer from 0 to 100")),
        }
    }

    /// Returns the percentage as an integer.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the percentage as a fraction from 0.0 to 1.0.
    #[must_use]
    pub fn fraction(self) -> f32 {
        f32::from(self.0) / 100.0
    }
}

named_values! {
    /// File formats of input and output pictures, by file extension.
    ImageFormat {
        Png = "png",
        Jpeg = "jpg",
        Webp = "webp",
        Gif = "gif",
        Bmp = "bmp",
        Tiff = "tiff",
    }
}

impl ImageFormat {
    /// Returns the media type for `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
            Self::Tiff => "image/tiff",
        }
    }
}

/// A picture in the media store, named by the hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Picture {
    pub digest: Digest,
    pub format: ImageFormat,
    /// File size in bytes.
    pub bytes: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl Picture {
    /// Returns the name under which the file is stored and served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.digest, self.format.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_0_to_100() {
        assert_eq!([Percent::new(0), Percent::new(100)].map(|percent| percent.map(Percent::get)), [Ok(0), Ok(100)]);
        assert!([-1, 101, i64::MIN].into_iter().all(|value| Percent::new(value).is_err()));
        assert_eq!(Percent::saturating(250).fraction().to_bits(), 1.0_f32.to_bits());
    }
}
