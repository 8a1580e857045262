//! What can be asked of the image engine, with the ranges and defaults of the interface.

use serde::{Deserialize, Serialize};

use super::value::{Digest, Invalid, Text, named_values};

mod job;
mod parameters;
mod precision;
mod relight;
mod skin;
mod style;
mod upscale;

pub use job::{ImageFamily, ImageJob, ImageWork, Source};
pub use precision::{Factor, PrecisionFlavor, UpscalePrecision};
pub use relight::{LightSettings, LightSource, Relight, RelightEngine, RelightStyle, TransferLightA, TransferLightB};
pub use skin::{SkinEnhance, SkinFocus, SkinMode};
pub use style::{Portrait, PortraitBeautifier, PortraitStyle, StyleEngine, StyleFlavor, StyleTransfer};
pub use upscale::{Dial, OptimizedFor, ScaleFactor, Upscale, UpscaleEngine};

/// Most pixels that an upscaled picture may have (seed, Limits).
pub const OUTPUT_PIXELS_MAX: u64 = 25_300_000;
/// Most bytes of an input picture, decoded from base64 (contract 6).
pub const INPUT_BYTES_MAX: usize = 50 * 1_000_000;
/// Most pixels of an input picture (contract 6).
pub const INPUT_PIXELS_MAX: u64 = 100_000_000;

/// Guidance for the engine.
pub type Prompt = Text<2000>;

/// A share from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Percent(u8);

impl Percent {
    /// A share known to be in range; above 100 is 100.
    #[must_use]
    pub const fn of(value: u8) -> Self {
        Self(if value > 100 { 100 } else { value })
    }

    /// Checks the range.
    ///
    /// # Errors
    /// When the value is outside 0 to 100.
    pub fn new(value: i64) -> Result<Self, Invalid> {
        match u8::try_from(value) {
            Ok(value @ 0..=100) => Ok(Self(value)),
            _ => Err(Invalid::new("must be an integer from 0 to 100")),
        }
    }

    /// The share as an integer.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The share from 0.0 to 1.0.
    #[must_use]
    pub fn ratio(self) -> f32 {
        f32::from(self.0) / 100.0
    }
}

named_values! {
    /// The file formats that pictures come in and go out as, by file extension.
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
    /// The media type for Content-Type.
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

/// A picture kept outside the log, by the hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Picture {
    pub digest: Digest,
    pub format: ImageFormat,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl Picture {
    /// The name under which the file is stored and served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.digest, self.format.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_reach_from_0_to_100() {
        assert_eq!([Percent::new(0), Percent::new(100)].map(|share| share.map(Percent::get)), [Ok(0), Ok(100)]);
        assert!([-1, 101, i64::MIN].into_iter().all(|value| Percent::new(value).is_err()));
        assert_eq!(Percent::of(250).ratio().to_bits(), 1.0_f32.to_bits());
    }
}
