//! Parameters of music jobs (contract 7), and the recorded results.

use serde::{Deserialize, Serialize};

use super::ids::{TaskId, UserId};
use super::value::{Digest, InvalidValue, Text, named_values};
use crate::domain::video::Credits;

/// Prompt of 1 to 2000 characters, not counting surrounding white space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MusicPrompt(Text<2000>);

impl MusicPrompt {
    /// Trims white space and validates the length.
    ///
    /// # Errors
    /// If the trimmed text is empty, longer than 2000 characters, or contains control characters other than tabs and
    /// line breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let trimmed = Some(text.trim()).filter(|text| !text.is_empty());
        let prompt = trimmed.and_then(|text| Text::parse(text).ok()).map(Self);
        prompt.ok_or_else(|| {
            InvalidValue::new(
                "must have 1 to 2000 characters, surrounding whitespace not counted, and no control characters except \
                 tabs and line breaks",
            )
        })
    }

    /// Creates a recorded prompt without validation.
    #[must_use]
    pub fn from_recorded(text: String) -> Self {
        Self(Text::from_recorded(text))
    }

    /// Returns the prompt.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// A length in whole seconds, 1 to 360.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MusicSeconds(u16);

impl MusicSeconds {
    /// Maximum length (contract 7).
    pub const MAX: u16 = 360;

    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside 1 to 360.
    pub fn new(value: i64) -> Result<Self, InvalidValue> {
        let seconds = u16::try_from(value).ok().filter(|seconds| (1..=Self::MAX).contains(seconds));
        seconds.map(Self).ok_or_else(|| InvalidValue::new("must be an integer from 1 to 360 (seconds)"))
    }

    /// Returns the length in seconds.
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
    /// Price, charged at submission.
    pub credits: Credits,
}

/// Music to play.
#[derive(Debug, Clone)]
pub struct MusicJob {
    pub task: TaskId,
    /// Account for fair scheduling; all anonymous callers share one.
    pub account: Option<UserId>,
    pub work: MusicWork,
}

/// A stream that was sent completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MusicStream {
    pub title: Text<200>,
    /// Length of the music in milliseconds.
    pub millis: u64,
    /// Bytes of audio, before base64.
    pub bytes: u64,
    /// Files in the media store, in the order of the stream; `None` if the music was not stored.
    pub files: Option<Vec<MusicFile>>,
}

named_values! {
    /// Containers of music files, by file extension.
    MusicFormat {
        Ogg = "ogg",
        Mp3 = "mp3",
        M4a = "m4a",
        Aac = "aac",
        Wav = "wav",
        Flac = "flac",
        Webm = "webm",
    }
}

impl MusicFormat {
    /// Returns the media type for `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Ogg => "audio/ogg",
            Self::Mp3 => "audio/mpeg",
            Self::M4a => "audio/mp4",
            Self::Aac => "audio/aac",
            Self::Wav => "audio/wav",
            Self::Flac => "audio/flac",
            Self::Webm => "audio/webm",
        }
    }

    /// Detects the container from the first bytes of a file, without checking the rest.
    #[must_use]
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some(Self::M4a),
            [b'O', b'g', b'g', b'S', ..] => Some(Self::Ogg),
            [b'f', b'L', b'a', b'C', ..] => Some(Self::Flac),
            [b'R', b'I', b'F', b'F', ..] => Some(Self::Wav),
            [0x1A, 0x45, 0xDF, 0xA3, ..] => Some(Self::Webm),
            // The sync word of an ADTS frame: 12 bits, then layer 0.
            [0xFF, second, ..] if second & 0xF6 == 0xF0 => Some(Self::Aac),
            [b'I', b'D', b'3', ..] => Some(Self::Mp3),
            // The sync word of an MPEG audio frame: 11 bits.
            [0xFF, second, ..] if second & 0xE0 == 0xE0 => Some(Self::Mp3),
            _ => None,
        }
    }
}

/// A music file in the media store, named by the hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MusicFile {
    pub digest: Digest,
    pub format: MusicFormat,
    /// File size in bytes.
    pub bytes: u64,
}

impl MusicFile {
    /// Returns the name under which the file is stored and served.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.digest, self.format.as_str())
    }
}

/// An item of a music stream. Items usually come in the order of the variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MusicStreamItem {
    /// The remote vendor accepted the job under this reference.
    Accepted { reference: Text<200> },
    /// Planned length in milliseconds.
    Length { millis: u64 },
    /// Title and descriptive tags.
    Title { index: TitleIndex, title: Text<200>, tags: Vec<String> },
    /// The next bytes of a file.
    Sound { index: SoundFileIndex, format: SoundFormat, data: Vec<u8> },
    /// Final length of each file in milliseconds.
    Finished { millis: Vec<u64> },
}

/// Indices that a title belongs to, each from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TitleIndex {
    pub stream: u16,
    pub prompt: u16,
    pub copy: u16,
}

/// Index and number of the files; the sound of several files is interleaved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoundFileIndex {
    /// Index of the file, from 0.
    pub stream: u16,
    pub streams: u16,
}

impl SoundFileIndex {
    /// The only file.
    pub const SINGLE: Self = Self { stream: 0, streams: 1 };
}

/// Audio format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundFormat {
    /// Samples per second.
    pub sample_rate: u32,
    pub channels: u8,
    /// Encoding of the samples and container.
    pub encoding: Text<40>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_1_to_2000_characters_without_surrounding_white_space() {
        let longest = "日".repeat(2000);
        assert_eq!(MusicPrompt::parse(&format!(" {longest}\n")).map(|prompt| prompt.as_str() == longest), Ok(true));
        for bad in ["", " \n\t", &"x".repeat(2001)] {
            assert!(MusicPrompt::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn lengths_are_1_to_360_seconds() {
        assert_eq!([1, 360].map(|value| MusicSeconds::new(value).map(MusicSeconds::get)), [Ok(1), Ok(360)]);
        assert!([0, 361, -1, 65_537].into_iter().all(|value| MusicSeconds::new(value).is_err()));
    }
}
