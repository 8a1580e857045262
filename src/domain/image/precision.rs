//! `image-upscaler-precision-v2`: every parameter of the request except the picture and the webhook.

use serde::{Deserialize, Serialize};

use super::Percent;
use crate::domain::value::{InvalidValue, named_values};

named_values! {
    /// Kind of content to optimise for.
    PrecisionFlavor {
        /// Smooth gradients and clean lines, for drawn or generated pictures.
        Sublime = "sublime",
        /// The natural texture of a photograph.
        Photo = "photo",
        /// A photograph, denoised first.
        PhotoDenoiser = "photo_denoiser",
    }
}

/// Scale factor per side, 2 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PrecisionScaleFactor(u8);

impl PrecisionScaleFactor {
    /// Default factor (contract 6).
    pub const DEFAULT: Self = Self(2);

    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside 2 to 16.
    pub fn new(value: i64) -> Result<Self, InvalidValue> {
        match u8::try_from(value) {
            Ok(value @ 2..=16) => Ok(Self(value)),
            _ => Err(InvalidValue::new("must be an integer from 2 to 16")),
        }
    }

    /// Returns the factor as an integer.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the factor by which each side grows.
    #[must_use]
    pub const fn scale(self) -> u32 {
        self.0 as u32
    }
}

/// A precision-upscaler job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrecisionUpscaleJob {
    pub scale_factor: PrecisionScaleFactor,
    pub flavor: PrecisionFlavor,
    /// Strength of the edge sharpening.
    pub sharpen: Percent,
    /// Strength of the added fine grain.
    pub smart_grain: Percent,
    /// Amount of synthesized detail between the input pixels.
    pub ultra_detail: Percent,
}

impl Default for PrecisionUpscaleJob {
    /// Returns the defaults of contract 6.
    fn default() -> Self {
        Self {
            scale_factor: PrecisionScaleFactor::DEFAULT,
            flavor: PrecisionFlavor::Photo,
            sharpen: Percent::saturating(7),
            smart_grain: Percent::saturating(7),
            ultra_detail: Percent::saturating(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_2_to_16() {
        assert_eq!(
            [PrecisionScaleFactor::new(2), PrecisionScaleFactor::new(16)]
                .map(|factor| factor.map(PrecisionScaleFactor::scale)),
            [Ok(2), Ok(16)]
        );
        assert!([1, 17, -2, i64::MAX].into_iter().all(|value| PrecisionScaleFactor::new(value).is_err()));
    }
}
