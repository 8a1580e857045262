//! Meaning of the lines of the music vendor; `docs/vendors.md` has the table. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::super::response::parse_failure;
use crate::domain::music::{MusicStreamItem, SoundFileIndex, SoundFormat, TitleIndex};
use crate::domain::task::TaskFailure;
use crate::domain::value::Text;

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

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum VendorMusicLine {
    Moment(MusicStreamItem),
    /// The end of the music.
    Complete,
    /// Failure of the vendor.
    Failed(TaskFailure),
    /// Of no use here; ignored.
    Other,
}

/// Parses a line; `None` if it is not valid.
pub(super) fn parse_line(line: &[u8]) -> Option<VendorMusicLine> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let kind = value.get("type")?.as_str()?.to_owned();
    let item = match kind.as_str() {
        "duration" => parse_length(&value),
        "title" => parse_title(value),
        "audio_chunk" => parse_sound(value),
        "generated_audio" => parse_finished(&value),
        "complete" => return Some(VendorMusicLine::Complete),
        "error" => return Some(VendorMusicLine::Failed(parse_failure(&value))),
        _ => return Some(VendorMusicLine::Other),
    };
    item.map(VendorMusicLine::Moment)
}

fn parse_length(value: &Value) -> Option<MusicStreamItem> {
    Some(MusicStreamItem::Length { millis: millis(value.get("duration_sec")?.as_f64()?)? })
}

fn parse_finished(value: &Value) -> Option<MusicStreamItem> {
    let seconds = value.get("duration_sec_by_stream")?.as_array()?;
    let millis = seconds.iter().take(usize::from(STREAMS_MAX)).map(|seconds| millis(seconds.as_f64()?));
    Some(MusicStreamItem::Finished { millis: millis.collect::<Option<_>>()? })
}

#[derive(Deserialize)]
struct TitleLine {
    title: String,
    #[serde(default)]
    display_tags: Vec<String>,
    #[serde(default)]
    stream_index: u16,
    #[serde(default)]
    prompt_index: u16,
    #[serde(default)]
    copy_index: u16,
}

fn parse_title(value: Value) -> Option<MusicStreamItem> {
    let line: TitleLine = serde_json::from_value(value).ok()?;
    let tags = line.display_tags.iter().take(TAGS_MAX).map(|tag| truncate(tag, TAG_MAX)).collect();
    let index = TitleIndex { stream: line.stream_index, prompt: line.prompt_index, copy: line.copy_index };
    Some(MusicStreamItem::Title { index, title: Text::from_recorded(truncate(&line.title, TITLE_MAX)), tags })
}

#[derive(Deserialize)]
struct SoundLine {
    #[serde(default)]
    stream_index: u16,
    #[serde(default = "one")]
    num_streams: u16,
    sample_rate: u32,
    channels: u8,
    encoding: String,
    data: String,
}

const fn one() -> u16 {
    1
}

/// Parses a chunk of sound. One without a complete format cannot be played and is invalid.
fn parse_sound(value: Value) -> Option<MusicStreamItem> {
    let line: SoundLine = serde_json::from_value(value).ok()?;
    let index = SoundFileIndex { stream: line.stream_index, streams: line.num_streams };
    let is_valid =
        index.stream < index.streams && index.streams <= STREAMS_MAX && line.sample_rate > 0 && line.channels > 0;
    let encoding = truncate(&line.encoding, ENCODING_MAX);
    let data = STANDARD.decode(line.data).ok().filter(|data| is_valid && !data.is_empty() && !encoding.is_empty())?;
    let format =
        SoundFormat { sample_rate: line.sample_rate, channels: line.channels, encoding: Text::from_recorded(encoding) };
    Some(MusicStreamItem::Sound { index, format, data })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range that is checked")]
fn millis(seconds: f64) -> Option<u64> {
    (0.0..=SECONDS_MAX).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}

/// Shortens text of a vendor and puts it in one line.
fn truncate(text: &str, characters: usize) -> String {
    let one_line = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorded line and its meaning.
    #[derive(serde::Deserialize)]
    struct RecordedMusicLine {
        name: String,
        line: Value,
        said: String,
    }

    #[test]
    fn every_recorded_line_means_what_is_recorded() {
        let recordings: Vec<RecordedMusicLine> =
            serde_json::from_str(include_str!("../../../../tests/golden/vendor/music-lines.json")).unwrap();
        assert!(recordings.len() > 20);

        let mut differences = Vec::new();

        for RecordedMusicLine { name, line, said } in recordings {
            // Text represents lines that are not JSON.
            let line = if let Value::String(text) = &line { text.clone() } else { line.to_string() };
            let meaning =
                super::parse_line(line.as_bytes()).map_or_else(|| "nothing".to_owned(), |parsed| format!("{parsed:?}"));
            if meaning != said {
                differences.push(format!("{name}: {meaning}"));
            }
        }

        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}
