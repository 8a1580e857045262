//! What can be asked of the music gateway (contract 7), and what is recorded of a stream.

use serde::{Deserialize, Serialize};

use super::value::{Invalid, Text};

/// What is to be heard: 1 to 2000 characters, white space at the ends aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MusicPrompt(Text<2000>);

impl MusicPrompt {
    /// Checks the length of what is left when white space is cut off at both ends.
    ///
    /// # Errors
    /// When that is nothing, more than 2000 characters, or holds control characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let trimmed = Some(text.trim()).filter(|text| !text.is_empty());
        let checked = trimmed.and_then(|text| Text::parse(text).ok()).map(Self);
        checked.ok_or_else(|| {
            Invalid::new(
                "must have 1 to 2000 characters, white space at its ends aside, and no control characters other than tabs \
                 and line breaks",
            )
        })
    }

    /// A prompt that was checked when it was recorded.
    #[must_use]
    pub fn recorded(text: String) -> Self {
        Self(Text::recorded(text))
    }

    /// The prompt.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A length in whole seconds, 1 to 360.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MusicSeconds(u16);

impl MusicSeconds {
    /// The longest piece (contract 7).
    pub const MAX: u16 = 360;

    /// Checks the range.
    ///
    /// # Errors
    /// When the value is outside 1 to 360.
    pub fn new(value: i64) -> Result<Self, Invalid> {
        let seconds = u16::try_from(value).ok().filter(|seconds| (1..=Self::MAX).contains(seconds));
        seconds.map(Self).ok_or_else(|| Invalid::new("must be a whole number of seconds from 1 to 360"))
    }

    /// The length in seconds.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A job of the music gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MusicWork {
    pub prompt: MusicPrompt,
    /// Inferred from the prompt when absent.
    pub seconds: Option<MusicSeconds>,
}

/// A stream that its client has taken to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MusicStream {
    pub title: Text<200>,
    /// How long the music is, in milliseconds.
    pub millis: u64,
    /// Bytes of audio, before base64.
    pub bytes: u64,
}

/// What is heard of music while it is made, in the order in which it comes: the length, the title, then sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MusicMoment {
    /// Whoever was asked across a network has the job, under this name.
    Taken { reference: Text<200> },
    /// How long it will be, in milliseconds.
    Length { millis: u64 },
    /// What it is called, and what it is in a few words each.
    Title { place: TitlePlace, title: Text<200>, tags: Vec<String> },
    /// The next bytes of a file.
    Sound { place: SoundPlace, format: SoundFormat, data: Vec<u8> },
    /// How long each of the files has become, in milliseconds.
    Made { millis: Vec<u64> },
}

/// What a title belongs to, each counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TitlePlace {
    pub stream: u16,
    pub prompt: u16,
    pub copy: u16,
}

/// To which of how many files sound belongs: several are sent in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundPlace {
    /// From 0.
    pub stream: u16,
    pub streams: u16,
}

impl SoundPlace {
    /// There is one file.
    pub const ONLY: Self = Self { stream: 0, streams: 1 };
}

/// What the file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundFormat {
    /// Samples a second.
    pub sample_rate: u32,
    pub channels: u8,
    /// How samples are written, and in which container.
    pub encoding: Text<40>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_1_to_2000_characters_that_count() {
        let longest = "日".repeat(2000);
        assert_eq!(MusicPrompt::parse(&format!(" {longest}\n")).map(|prompt| prompt.as_str() == longest), Ok(true));
        for bad in ["", " \n\t", &"x".repeat(2001)] {
            assert!(MusicPrompt::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lengths_reach_from_1_to_360_seconds() {
        assert_eq!([1, 360].map(|value| MusicSeconds::new(value).map(MusicSeconds::get)), [Ok(1), Ok(360)]);
        assert!([0, 361, -1, 65_537].into_iter().all(|value| MusicSeconds::new(value).is_err()));
    }
}
