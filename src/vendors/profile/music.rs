//! Meaning of the messages of a music stream, as described in `docs/vendors.md`. Without side effects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::Profile;
use super::file::{MessageFile, NumberSource, StreamFile};
use super::template::{ResponseSources, TemplateScope};
use crate::domain::music::{MusicFormat, MusicStreamItem, SoundFileIndex, SoundFormat, TitleIndex};
use crate::domain::task::TaskFailure;
use crate::domain::value::Text;
use crate::vendors::credential_mask::CredentialMask;

/// Maximum length of a piece in seconds: one day, so that sums stay small.
const SECONDS_MAX: f64 = 86_400.0;
/// Maximum number of interleaved streams.
const STREAMS_MAX: u16 = 64;
/// Maximum number of tags.
const TAGS_MAX: usize = 64;
/// Maximum length of a tag in characters.
const TAG_MAX: usize = 100;
/// Maximum length of a title in characters.
const TITLE_MAX: usize = 200;
/// Maximum length of the name of an encoding in characters.
const ENCODING_MAX: usize = 40;

/// Meaning of a message.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::vendors) enum VendorMusicLine {
    /// Part of the music or of its description.
    Item(MusicStreamItem),
    /// The end of the music.
    Complete,
    /// Failure of the vendor.
    Failed(TaskFailure),
    /// Irrelevant message, which is ignored.
    Other,
}

impl Profile {
    /// Parses a message; `event` is the type of a server-sent event. Returns `None` if it is not valid.
    pub(in crate::vendors) fn parse_music_line(
        &self,
        stream: &StreamFile,
        event: Option<&str>,
        line: &[u8],
        mask: &CredentialMask,
    ) -> Option<VendorMusicLine> {
        if stream.end.as_ref().is_some_and(|end| end.as_bytes() == line.trim_ascii()) {
            return Some(VendorMusicLine::Complete);
        }

        let message: Json = serde_json::from_slice(line).ok()?;
        let scope = TemplateScope::new();
        let kind = match &stream.kind {
            Some(kind) => match kind.find(&message, &scope)? {
                Json::String(kind) => kind,
                _ => return None,
            },
            None => event.unwrap_or_default().to_owned(),
        };

        let message = Message { stream, json: &message, scope: &scope, mask };
        let item = match stream.kinds.get(&kind) {
            None => return Some(VendorMusicLine::Other),
            Some(MessageFile::Complete) => return Some(VendorMusicLine::Complete),
            Some(MessageFile::Error) => {
                return Some(VendorMusicLine::Failed(self.failure(None, message.json, &scope, mask)));
            }
            Some(MessageFile::Length) => message.parse_length(),
            Some(MessageFile::Title) => message.parse_title(),
            Some(MessageFile::Sound) => message.parse_sound(),
            Some(MessageFile::Finished) => message.parse_finished(),
        };
        item.map(VendorMusicLine::Item)
    }
}

/// A message of a stream.
struct Message<'m> {
    stream: &'m StreamFile,
    json: &'m Json,
    scope: &'m TemplateScope,
    mask: &'m CredentialMask,
}

impl Message<'_> {
    fn find(&self, source: Option<&ResponseSources>) -> Option<Json> {
        source?.find(self.json, self.scope)
    }

    fn parse_length(&self) -> Option<MusicStreamItem> {
        Some(MusicStreamItem::Length { millis: millis(self.find(self.stream.seconds.as_ref())?.as_f64()?)? })
    }

    fn parse_finished(&self) -> Option<MusicStreamItem> {
        let final_seconds = self.find(self.stream.final_seconds.as_ref())?;
        let seconds = final_seconds.as_array()?;
        let millis = seconds.iter().take(usize::from(STREAMS_MAX)).map(|seconds| millis(seconds.as_f64()?));
        Some(MusicStreamItem::Finished { millis: millis.collect::<Option<_>>()? })
    }

    fn parse_title(&self) -> Option<MusicStreamItem> {
        let title = self.find(self.stream.title.as_ref())?;
        let tags = match self.find(self.stream.tags.as_ref()) {
            None => Vec::new(),
            Some(Json::Array(tags)) => {
                let tags = tags.iter().take(TAGS_MAX).map(|tag| Some(self.truncate(tag.as_str()?, TAG_MAX)));
                tags.collect::<Option<_>>()?
            }
            Some(_) => return None,
        };
        let index = TitleIndex {
            stream: self.index(self.stream.stream_index.as_ref(), 0)?,
            prompt: self.index(self.stream.prompt_index.as_ref(), 0)?,
            copy: self.index(self.stream.copy_index.as_ref(), 0)?,
        };
        Some(MusicStreamItem::Title {
            index,
            title: Text::from_recorded(self.truncate(title.as_str()?, TITLE_MAX)),
            tags,
        })
    }

    /// Parses a chunk of sound. A chunk without sample rate or channels cannot be played and is invalid. The encoding
    /// is empty if neither the message nor the profile names one.
    fn parse_sound(&self) -> Option<MusicStreamItem> {
        let index = SoundFileIndex {
            stream: self.index(self.stream.stream_index.as_ref(), 0)?,
            streams: self.index(self.stream.streams.as_ref(), 1)?,
        };
        let sample_rate = self.number(self.stream.sample_rate.as_ref())?;
        let channels = u8::try_from(self.number(self.stream.channels.as_ref())?).ok()?;
        let encoding = match self.find(self.stream.encoding.as_ref()) {
            Some(Json::String(encoding)) => self.truncate(&encoding, ENCODING_MAX),
            Some(_) => return None,
            None => self.stream.default_encoding.clone().unwrap_or_default(),
        };

        let is_valid = index.stream < index.streams && index.streams <= STREAMS_MAX && sample_rate > 0 && channels > 0;
        let data = self.find(self.stream.data.as_ref())?;
        let data = STANDARD.decode(data.as_str()?).ok().filter(|data| is_valid && !data.is_empty())?;
        let format = SoundFormat { sample_rate, channels, encoding: Text::from_recorded(encoding) };
        Some(MusicStreamItem::Sound { index, format, data })
    }

    /// Shortens text of a vendor to `characters`, masks credentials and replaces control characters by spaces.
    fn truncate(&self, text: &str, characters: usize) -> String {
        let text = self.mask.apply(text.trim());
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(characters).collect()
    }

    /// Returns the index at `source`, or `default` if the message has none; `None` if the index is invalid.
    fn index(&self, source: Option<&ResponseSources>, default: u16) -> Option<u16> {
        match self.find(source) {
            None => Some(default),
            Some(index) => u16::try_from(index.as_u64()?).ok(),
        }
    }

    fn number(&self, source: Option<&NumberSource>) -> Option<u32> {
        match source? {
            NumberSource::Constant(number) => Some(*number),
            NumberSource::Source(source) => u32::try_from(self.find(Some(source))?.as_u64()?).ok(),
        }
    }
}

/// Returns the encoding of a file by its first bytes.
pub(in crate::vendors) fn detect_encoding(bytes: &[u8]) -> &'static str {
    MusicFormat::detect(bytes).map_or("unknown", MusicFormat::as_str)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that is checked")]
fn millis(seconds: f64) -> Option<u64> {
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}
