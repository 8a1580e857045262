//! Parameters of video jobs, with the ranges and defaults of the API (seed specification; contract 7).

use serde::{Deserialize, Serialize};

use super::value::{InvalidValue, Text, named_values};

mod extend;
mod file;
mod generate;
mod job;
mod multiframe;
mod parameters;
mod price;

pub use extend::{ExtendJob, ExtendModel, ExtendResolution};
pub use file::{Clip, Creation, VendorCreationId, VideoFormat};
pub use generate::{AudioType, GenerateJob, MovementAmplitude, Resolution, VideoModel, VideoStyle, Watermark};
pub use job::{AttachedDocument, Footage, VideoJob, VideoWork};
pub use multiframe::{KeyFrame, MultiframeJob};
pub use price::{Credits, MusicPrice, Price, PriceItem, PriceList, Tariff};

/// Prompt of a video job.
pub type VideoPrompt = Text<2000>;

/// Maximum characters of a payload, which is returned to the caller unchanged (seed specification).
pub const PAYLOAD_CHARS_MAX: usize = 1_048_576;

/// A length in whole seconds, 1 to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VideoSeconds(u8);

impl VideoSeconds {
    /// Maximum length of any model (seed specification).
    pub const MAX: u8 = 16;
    /// Default length (contract 7).
    pub const DEFAULT: Self = Self(5);

    /// Validates that a length is at least 1 and at most `max`, which is capped at [`VideoSeconds::MAX`].
    ///
    /// # Errors
    /// If the value is outside this range.
    pub fn with_max(value: i64, max: u8) -> Result<Self, InvalidValue> {
        let max = max.min(Self::MAX);
        let seconds = u8::try_from(value).ok().filter(|seconds| (1..=max).contains(seconds));
        seconds.map(Self).ok_or_else(|| InvalidValue::new(format!("must be an integer from 1 to {max} (seconds)")))
    }

    /// Returns the length in seconds.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Seed of the random numbers: 0 to 2147483647 (contract 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(u32);

impl Seed {
    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside 0 to 2147483647.
    pub fn new(value: i64) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::new("must be an integer from 0 to 2147483647");
        i32::try_from(value).ok().and_then(|value| u32::try_from(value).ok()).map(Self).ok_or_else(invalid)
    }

    /// Creates a seed from a random number.
    #[must_use]
    pub const fn from_random(value: u32) -> Self {
        Self(value & 0x7fff_ffff)
    }

    /// Returns the seed as an integer.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Ratio of width to height, such as 16:9: two numbers from 1 to 999, neither more than four times the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AspectRatio {
    width: u16,
    height: u16,
}

impl AspectRatio {
    /// Default ratio, used without a requested ratio or an input picture (contract 7).
    pub const DEFAULT: Self = Self { width: 16, height: 9 };

    /// Maximum of each number. The size of the video follows from its resolution.
    pub const SIDE_MAX: u16 = 999;

    /// Parses `W:H`.
    ///
    /// # Errors
    /// If the text has another form, or one side is more than four times the other.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let sides = text.split_once(':').and_then(|(width, height)| Some((parse_side(width)?, parse_side(height)?)));
        let allowed = sides.filter(|(width, height)| *width.max(height) <= 4 * *width.min(height));

        let invalid = || {
            let side_max = Self::SIDE_MAX;
            InvalidValue::new(format!(
                "must be width:height such as 16:9, 9:16 or 1:1, each side from 1 to {side_max}, at most 4:1 or 1:4"
            ))
        };
        allowed.map(|(width, height)| Self { width, height }).ok_or_else(invalid)
    }

    /// Returns width and height as written.
    #[must_use]
    pub const fn sides(self) -> (u16, u16) {
        (self.width, self.height)
    }
}

/// Parses one side of a ratio: digits only, at most [`AspectRatio::SIDE_MAX`].
fn parse_side(text: &str) -> Option<u16> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|side| (1..=AspectRatio::SIDE_MAX).contains(side))
}

/// Formats the ratio as written.
impl std::fmt::Display for AspectRatio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.width, self.height)
    }
}

named_values! {
    /// Corner of the watermark, by its API number.
    WatermarkPosition {
        TopLeft = "1",
        TopRight = "2",
        BottomRight = "3",
        BottomLeft = "4",
    }
}

impl WatermarkPosition {
    /// Parses the API number.
    ///
    /// # Errors
    /// If the number is not from 1 to 4.
    pub fn from_number(value: i64) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::new("must be 1 (top left), 2 (top right), 3 (bottom right) or 4 (bottom left)");
        Self::parse(&value.to_string()).map_err(|_| invalid())
    }

    /// Returns the API number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::TopLeft => 1,
            Self::TopRight => 2,
            Self::BottomRight => 3,
            Self::BottomLeft => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_two_sides_of_at_most_4_to_1() {
        for good in ["16:9", "9:16", "1:1", "4:1", "25:100", "21:9", "239:100", "999:999", "999:250"] {
            assert_eq!(AspectRatio::parse(good).map(|ratio| ratio.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "", ":", "16", "16:", "0:1", "1000:999", "999:249", "5:1", "1:5", "16:9:1", "+4:3", "16 : 9", "-1:1",
            "1.5:1",
        ] {
            assert!(AspectRatio::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_are_non_negative_signed_32_bit_integers() {
        assert_eq!(Seed::new(2_147_483_647).map(Seed::get), Ok(2_147_483_647));
        assert!([-1, 2_147_483_648, i64::MIN, i64::MAX].into_iter().all(|value| Seed::new(value).is_err()));
        assert_eq!(Seed::from_random(u32::MAX).get(), 2_147_483_647);
    }

    #[test]
    fn lengths_are_1_second_to_the_given_maximum() {
        assert_eq!(VideoSeconds::with_max(8, 8).map(VideoSeconds::get), Ok(8));
        assert!([0, 9, -1, 256 + 3].into_iter().all(|value| VideoSeconds::with_max(value, 8).is_err()));
        assert_eq!(
            VideoSeconds::with_max(17, 200).unwrap_err().to_string(),
            "must be an integer from 1 to 16 (seconds)"
        );
    }

    #[test]
    fn corners_have_numbers() {
        for corner in WatermarkPosition::ALL {
            assert_eq!(WatermarkPosition::from_number(corner.number().into()), Ok(*corner));
        }
        assert!([0, 5, -3].into_iter().all(|value| WatermarkPosition::from_number(value).is_err()));
    }
}
