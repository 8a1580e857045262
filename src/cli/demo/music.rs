//! Reader of the music stream: JSON lines whose audio chunks form one file.

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use serde_json::Value;

use crate::outbound::client::ResponseBodyStream;

/// Metadata of a piece of music.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DemoMusicInfo {
    pub(super) title: String,
    pub(super) task: String,
    pub(super) seconds: f64,
}

/// State of the stream so far.
#[derive(Default)]
struct MusicStreamReader {
    piece: DemoMusicInfo,
    audio: Vec<u8>,
    /// Each chunk is one second or shorter.
    chunks: u32,
    complete: bool,
}

/// Reads the stream to its end and returns metadata and file. Calls `on_progress` with the progress from 0 to
/// 1.
///
/// # Errors
/// If the connection breaks or the service reports an error.
pub(super) async fn read_music(
    mut body: ResponseBodyStream,
    on_progress: &dyn Fn(f64),
) -> anyhow::Result<(DemoMusicInfo, Vec<u8>)> {
    let mut reader = MusicStreamReader::default();
    let mut buffer = BytesMut::new();
    while let Some(chunk) = body.next().await.context("the music stream ended early")? {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            reader.read_line(&buffer.split_to(end + 1))?;
            on_progress(reader.fraction());
        }
    }
    if !reader.complete {
        bail!("the music stream ended early");
    }
    Ok((reader.piece, reader.audio))
}

impl MusicStreamReader {
    fn read_line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let event: Value = serde_json::from_slice(line).context("a line of the music is not JSON")?;
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        match text("type") {
            "duration" => self.piece.seconds = event["duration_sec"].as_f64().unwrap_or_default(),
            "title" => text("title").clone_into(&mut self.piece.title),
            "audio_chunk" => {
                self.audio.extend(STANDARD.decode(text("data")).context("a chunk of the music is not base64")?);
                self.chunks += 1;
            }
            "complete" => {
                text("task_id").clone_into(&mut self.piece.task);
                self.complete = true;
            }
            "error" => bail!("the music failed: {}", text("message")),
            _ => {}
        }
        Ok(())
    }

    fn fraction(&self) -> f64 {
        if self.piece.seconds > 0.0 { f64::from(self.chunks) / (self.piece.seconds + 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> anyhow::Result<MusicStreamReader> {
        let mut reader = MusicStreamReader::default();
        lines.iter().try_for_each(|line| reader.read_line(line.as_bytes()))?;
        Ok(reader)
    }

    #[test]
    fn chunks_are_joined_and_the_metadata_is_read() {
        let reader = read(&[
            r#"{"type": "duration", "duration_sec": 3}"#,
            "\n",
            r#"{"type": "title", "title": "Slow Rain", "display_tags": []}"#,
            r#"{"type": "audio_chunk", "data": "T2dn"}"#,
            r#"{"type": "audio_chunk", "data": "Uw=="}"#,
            r#"{"type": "complete", "task_id": "t"}"#,
        ])
        .unwrap();
        assert_eq!(reader.audio, b"OggS");
        assert_eq!(reader.piece, DemoMusicInfo { title: "Slow Rain".to_owned(), task: "t".to_owned(), seconds: 3.0 });
        assert!(reader.complete && (reader.fraction() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn errors_of_the_service_are_reported() {
        let failure = read(&[r#"{"type": "error", "code": "x", "message": "out of tune"}"#]).err().unwrap();
        assert!(failure.to_string().contains("out of tune"), "{failure}");
        assert!(read(&["no JSON"]).is_err());
    }
}
