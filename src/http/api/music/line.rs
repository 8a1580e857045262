//! Lines of a streamed music response, one JSON value each (contract 7).

use actix_web::web::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::domain::ids::TaskId;
use crate::domain::music::{SoundFileIndex, SoundFormat, TitleIndex};
use crate::domain::task::TaskFailure;

/// Keep-alive line, sent while there is no data.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b"\n");

/// Line of a streamed music response.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MusicStreamLine<'l> {
    Duration {
        duration_sec: f64,
    },
    Title {
        stream_index: u16,
        prompt_index: u16,
        copy_index: u16,
        title: &'l str,
        display_tags: &'l [String],
    },
    AudioChunk {
        stream_index: u16,
        num_streams: u16,
        sample_rate: u32,
        channels: u8,
        encoding: &'l str,
        data: String,
    },
    GeneratedAudio {
        sample_rate: u32,
        channels: u8,
        duration_sec_by_stream: Vec<f64>,
        billing_rate_per_sec: u32,
        billing: f64,
    },
    Complete {
        task_id: String,
    },
    Error {
        code: &'l str,
        message: &'l str,
    },
}

impl<'l> MusicStreamLine<'l> {
    pub fn title(index: TitleIndex, title: &'l str, display_tags: &'l [String]) -> Self {
        let TitleIndex { stream: stream_index, prompt: prompt_index, copy: copy_index } = index;
        Self::Title { stream_index, prompt_index, copy_index, title, display_tags }
    }

    pub fn audio_chunk(index: SoundFileIndex, format: &'l SoundFormat, data: &[u8]) -> Self {
        Self::AudioChunk {
            stream_index: index.stream,
            num_streams: index.streams,
            sample_rate: format.sample_rate,
            channels: format.channels,
            encoding: format.encoding.as_str(),
            data: STANDARD.encode(data),
        }
    }

    /// Creates the summary of the music. `seconds` contains the duration of each stream.
    pub fn generated_audio(format: &SoundFormat, seconds: Vec<f64>, billing_rate_per_sec: u32) -> Self {
        let billing = f64::from(billing_rate_per_sec) * seconds.iter().sum::<f64>();
        Self::GeneratedAudio {
            sample_rate: format.sample_rate,
            channels: format.channels,
            duration_sec_by_stream: seconds,
            billing_rate_per_sec,
            billing,
        }
    }

    pub fn complete(task: TaskId) -> Self {
        Self::Complete { task_id: task.to_string() }
    }

    pub fn failed(failure: &'l TaskFailure) -> Self {
        Self::Error { code: failure.code.as_str(), message: failure.message.as_str() }
    }

    /// Serializes the line. Compact JSON has no line breaks.
    pub fn to_bytes(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::value::Text;
    use serde_json::Value;

    #[test]
    fn every_line_matches_its_documented_schema() {
        // Given the document and a line of each kind
        let document: Value = serde_json::from_str(&crate::http::openapi::document_json().unwrap()).unwrap();
        let schemas = &document["components"]["schemas"];
        let mapping = schemas["MusicEvent"]["discriminator"]["mapping"].as_object().unwrap();
        let title = TitleIndex { stream: 0, prompt: 0, copy: 0 };
        let sound = SoundFileIndex { stream: 0, streams: 1 };
        let format = SoundFormat { sample_rate: 48_000, channels: 2, encoding: Text::default() };
        let tags = ["calm".to_owned()];
        let lines = [
            MusicStreamLine::Duration { duration_sec: 1.0 },
            MusicStreamLine::title(title, "Calm", &tags),
            MusicStreamLine::audio_chunk(sound, &format, b"x"),
            MusicStreamLine::generated_audio(&format, vec![1.0], 0),
            MusicStreamLine::complete(TaskId(uuid::Uuid::nil())),
            MusicStreamLine::Error { code: "cancelled", message: "cancelled on request" },
        ];
        assert_eq!(mapping.len(), lines.len(), "each documented kind of line is tested");
        for line in lines {
            // When it is serialized
            let json: Value = serde_json::from_slice(&line.to_bytes()).unwrap();

            // Then it has exactly the fields of its kind
            let component = mapping[json["type"].as_str().unwrap()].as_str().unwrap().rsplit('/').next().unwrap();
            let schema = &schemas[component];
            let names: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
            let documented: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
            assert_eq!(names, documented, "{component}");
            assert_eq!(schema["required"].as_array().unwrap().len(), names.len(), "{component}");
        }
    }
}
