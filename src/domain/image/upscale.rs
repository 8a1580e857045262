//! `image-upscaler`: every parameter of the request except the picture and the webhook.

use serde::{Deserialize, Serialize};

use super::ImagePrompt;
use crate::domain::value::{InvalidValue, named_values};

named_values! {
    /// Scale factor per side.
    ScaleFactor { X2 = "2x", X4 = "4x", X8 = "8x", X16 = "16x" }
}

impl ScaleFactor {
    /// Returns the factor by which each side grows.
    #[must_use]
    pub const fn scale(self) -> u32 {
        match self {
            Self::X2 => 2,
            Self::X4 => 4,
            Self::X8 => 8,
            Self::X16 => 16,
        }
    }
}

named_values! {
    /// Character of the sharpening: `illusio` is soft and painterly, `sharpy` crisp, `sparkle` between both with
    /// highlights.
    UpscaleEngine {
        Automatic = "automatic",
        Illusio = "premium_illusio",
        Sharpy = "premium_sharpy",
        Sparkle = "premium_sparkle",
    }
}

named_values! {
    /// Kind of picture to optimise for.
    OptimizedFor {
        Standard = "standard",
        SoftPortraits = "soft_portraits",
        HardPortraits = "hard_portraits",
        ArtNIllustration = "art_n_illustration",
        VideogameAssets = "videogame_assets",
        NatureNLandscapes = "nature_n_landscapes",
        FilmsNPhotography = "films_n_photography",
        Renders3d = "3d_renders",
        ScienceFictionNHorror = "science_fiction_n_horror",
    }
}

/// A strength from -10 to 10; 0 by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SignedStrength(i8);

impl SignedStrength {
    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside -10 to 10.
    pub fn new(value: i64) -> Result<Self, InvalidValue> {
        match i8::try_from(value) {
            Ok(value @ -10..=10) => Ok(Self(value)),
            _ => Err(InvalidValue::new("must be an integer from -10 to 10")),
        }
    }

    /// Returns the strength as an integer.
    #[must_use]
    pub const fn get(self) -> i8 {
        self.0
    }

    /// Returns the strength as a fraction from -1.0 to 1.0.
    #[must_use]
    pub fn fraction(self) -> f32 {
        f32::from(self.0) / 10.0
    }
}

/// An image-upscaler job: every parameter of the request except the picture and the webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpscaleJob {
    pub scale_factor: ScaleFactor,
    pub engine: UpscaleEngine,
    pub optimized_for: OptimizedFor,
    pub creativity: SignedStrength,
    pub fractality: SignedStrength,
    pub hdr: SignedStrength,
    pub resemblance: SignedStrength,
    pub prompt: Option<ImagePrompt>,
}

impl Default for UpscaleJob {
    /// Returns a job that doubles the size without further processing (seed specification).
    fn default() -> Self {
        let neutral = SignedStrength::default();
        Self {
            scale_factor: ScaleFactor::X2,
            engine: UpscaleEngine::Automatic,
            optimized_for: OptimizedFor::Standard,
            creativity: neutral,
            fractality: neutral,
            hdr: neutral,
            resemblance: neutral,
            prompt: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strengths_are_minus_10_to_10() {
        assert_eq!(SignedStrength::new(-10).map(SignedStrength::get), Ok(-10));
        assert_eq!(SignedStrength::new(10).map(SignedStrength::get), Ok(10));
        assert!(
            SignedStrength::new(11).is_err()
                && SignedStrength::new(-11).is_err()
                && SignedStrength::new(i64::MAX).is_err()
        );
    }

    #[test]
    fn an_unknown_name_is_rejected_with_the_allowed_names() {
        assert_eq!(ScaleFactor::parse("3x").unwrap_err().to_string(), "must be one of 2x 4x 8x 16x");
    }
}
