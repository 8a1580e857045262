//! `image-upscaler-precision-v2`: every parameter of the seed but the picture and the webhook.

use serde::{Deserialize, Serialize};

use super::Percent;
use crate::domain::value::{Invalid, named_values};

named_values! {
    /// What the enlargement is to keep and to mend.
    PrecisionFlavor {
        /// Smooth gradients and clean lines, for pictures that were drawn or generated.
        Sublime = "sublime",
        /// The natural texture of a photograph.
        Photo = "photo",
        /// A photograph whose noise is taken out first.
        PhotoDenoiser = "photo_denoiser",
    }
}

/// How much larger the output is than the input, per side: 2 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Factor(u8);

impl Factor {
    /// What is used when none is given (contract 6).
    pub const DEFAULT: Self = Self(2);

    /// Checks the range.
    ///
    /// # Errors
    /// When the value is outside 2 to 16.
    pub fn new(value: i64) -> Result<Self, Invalid> {
        match u8::try_from(value) {
            Ok(value @ 2..=16) => Ok(Self(value)),
            _ => Err(Invalid::new("must be an integer from 2 to 16")),
        }
    }

    /// The factor as it was given.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The factor by which each side grows.
    #[must_use]
    pub const fn times(self) -> u32 {
        self.0 as u32
    }
}

/// A precision-upscaler job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpscalePrecision {
    pub scale_factor: Factor,
    pub flavor: PrecisionFlavor,
    /// How much edges gain.
    pub sharpen: Percent,
    /// How much fine grain is laid over.
    pub smart_grain: Percent,
    /// How much detail is made up between the pixels of the input.
    pub ultra_detail: Percent,
}

impl Default for UpscalePrecision {
    /// Contract 6.
    fn default() -> Self {
        Self {
            scale_factor: Factor::DEFAULT,
            flavor: PrecisionFlavor::Photo,
            sharpen: Percent::of(7),
            smart_grain: Percent::of(7),
            ultra_detail: Percent::of(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_reach_from_2_to_16() {
        assert_eq!([Factor::new(2), Factor::new(16)].map(|factor| factor.map(Factor::times)), [Ok(2), Ok(16)]);
        assert!([1, 17, -2, i64::MAX].into_iter().all(|value| Factor::new(value).is_err()));
    }
}
