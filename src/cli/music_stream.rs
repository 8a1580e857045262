//! Reader of a music stream: JSON lines whose audio chunks form one file.

use std::io::Write;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use crate::outbound::client::ResponseBodyStream;
use crate::outbound::ndjson::NdjsonReader;

/// Maximum length of a line; a chunk of audio lasts a second or less.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Metadata of a piece of music.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(in crate::cli) struct MusicInfo {
    pub(in crate::cli) title: String,
    pub(in crate::cli) task: String,
    pub(in crate::cli) seconds: f64,
}

/// Reader of the lines, with the metadata received so far.
struct MusicStreamReader<W> {
    piece: MusicInfo,
    audio: W,
    /// Number of audio chunks so far.
    chunks: u32,
    is_complete: bool,
}

/// Reads the stream to its end, writes the file to `audio` as it arrives, and returns the metadata. Calls
/// `on_progress` with the progress from 0 to 1.
///
/// # Errors
/// If the connection breaks, the service reports an error, or `audio` cannot be written.
pub(in crate::cli) async fn read_music(
    body: ResponseBodyStream,
    audio: impl Write,
    on_progress: &dyn Fn(f64),
) -> anyhow::Result<MusicInfo> {
    let mut reader = MusicStreamReader::new(audio);
    let mut lines = NdjsonReader::new(body, LINE_BYTES_MAX);
    while let Some(line) = lines.next().await.context("the music stream ended early")? {
        reader.read_line(&line)?;
        on_progress(reader.fraction());
    }
    if !reader.is_complete {
        bail!("the music stream ended early");
    }
    Ok(reader.piece)
}

impl<W: Write> MusicStreamReader<W> {
    fn new(audio: W) -> Self {
        Self { piece: MusicInfo::default(), audio, chunks: 0, is_complete: false }
    }

    fn read_line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        let event: Value = serde_json::from_slice(line).context("a line of the music is not JSON")?;
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        match text("type") {
            "duration" => self.piece.seconds = event["duration_sec"].as_f64().unwrap_or_default(),
            "title" => text("title").clone_into(&mut self.piece.title),
            "audio_chunk" => {
                let chunk = STANDARD.decode(text("data")).context("a chunk of the music is not base64")?;
                // A player may read the file while it grows.
                self.audio.write_all(&chunk).and_then(|()| self.audio.flush()).context("cannot write the music")?;
                self.chunks += 1;
            }
            "complete" => {
                text("task_id").clone_into(&mut self.piece.task);
                self.is_complete = true;
            }
            "error" => bail!("the music failed: {}", text("message")),
            _ => {}
        }
        Ok(())
    }

    /// Returns the estimated progress. The built-in engine sends a chunk of half a second, then one chunk a second;
    /// chunks of a vendor can take the estimate above 1.
    fn fraction(&self) -> f64 {
        if self.piece.seconds > 0.0 { f64::from(self.chunks) / (self.piece.seconds + 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> anyhow::Result<MusicStreamReader<Vec<u8>>> {
        let mut reader = MusicStreamReader::new(Vec::new());
        lines.iter().try_for_each(|line| reader.read_line(line.as_bytes()))?;
        Ok(reader)
    }

    #[test]
    fn chunks_are_joined_and_the_metadata_is_read() {
        let reader = read(&[
            r#"{"type": "duration", "duration_sec": 3}"#,
            r#"{"type": "title", "title": "Slow Rain", "display_tags": []}"#,
            r#"{"type": "audio_chunk", "data": "T2dn"}"#,
            r#"{"type": "audio_chunk", "data": "Uw=="}"#,
            r#"{"type": "complete", "task_id": "t"}"#,
        ])
        .unwrap();
        assert_eq!(reader.audio, b"OggS");
        assert_eq!(reader.piece, MusicInfo { title: "Slow Rain".to_owned(), task: "t".to_owned(), seconds: 3.0 });
        assert!(reader.is_complete && (reader.fraction() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn errors_of_the_service_are_reported() {
        let failure = read(&[r#"{"type": "error", "code": "x", "message": "out of tune"}"#]).err().unwrap();
        assert!(failure.to_string().contains("out of tune"), "{failure}");
        assert!(read(&["no JSON"]).is_err());
    }
}
