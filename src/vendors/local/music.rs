//! Built-in music vendor: adapts the engine (`mediary_music`). Each chunk is rendered on a blocking thread on demand,
//! so a stream without a reader uses no thread and only the memory of its notes.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use mediary_music::{Piece, RATE, Stream, compose};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::domain::ids::TaskId;
use crate::domain::music::{MusicSeconds, MusicStreamItem, MusicWork, SoundFileIndex, SoundFormat, TitleIndex};
use crate::domain::task::TaskFailure;
use crate::domain::value::Text;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};

pub use mediary_music::bed;

/// Sound encoding: Opus packets in Ogg pages (RFC 7845).
pub const ENCODING: &str = "ogg_opus";
/// Left and right.
pub const CHANNELS: u8 = 2;

/// Built-in music vendor. Cheap to clone.
#[derive(Clone)]
pub struct LocalMusic {
    /// Limit of the chunks that are rendered at a time.
    permits: Arc<Semaphore>,
}

impl LocalMusic {
    /// Creates an engine that renders up to `at_a_time` chunks at a time, at least one. Others wait.
    #[must_use]
    pub fn new(concurrency: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(concurrency.max(1))) }
    }
}

impl MusicVendor for LocalMusic {
    fn name(&self) -> &'static str {
        "local-music"
    }

    /// Returns the stream of a piece. It must be polled within a tokio runtime, whose blocking threads render it.
    fn play(&self, _task: TaskId, work: MusicWork) -> VendorMusicStream {
        let permits = Arc::clone(&self.permits);

        let items = stream::try_unfold(PieceStage::Asked(work), move |stage| {
            let permits = Arc::clone(&permits);
            async move {
                let permit = permits.acquire_owned().await.map_err(|_| stopped_error())?;

                let result = spawn_blocking(move || {
                    let next = stage.next();
                    drop(permit);
                    next
                });

                result.await.map_err(|error| failed_error(&error.to_string()))?
            }
        });

        items.boxed()
    }
}

/// Progress of a piece.
enum PieceStage {
    Asked(MusicWork),
    Composed(Box<Piece>),
    Named(Box<Piece>),
    Playing(Box<Stream>),
}

type Next = Result<Option<(MusicStreamItem, PieceStage)>, MusicStreamError>;

impl PieceStage {
    /// Produces the next item. Blocks the thread.
    fn next(self) -> Next {
        match self {
            Self::Asked(work) => {
                let piece = compose(work.prompt.as_str(), work.seconds.map(MusicSeconds::get));
                let millis = u64::from(piece.frames) * 1000 / u64::from(RATE);
                Ok(Some((MusicStreamItem::Length { millis }, Self::Composed(Box::new(piece)))))
            }
            Self::Composed(piece) => {
                let title = Text::from_recorded(piece.title.clone());
                let tags = piece.tags.clone();

                let title_index = TitleIndex::default();
                Ok(Some((MusicStreamItem::Title { index: title_index, title, tags }, Self::Named(piece))))
            }
            Self::Named(piece) => {
                let stream = Stream::new(*piece).map_err(|error| failed_error(&error.to_string()))?;
                Self::Playing(Box::new(stream)).next()
            }
            Self::Playing(mut stream) => match stream.next() {
                Some(Ok(data)) => {
                    let encoding = Text::from_recorded(ENCODING.to_owned());
                    let format = SoundFormat { sample_rate: RATE, channels: CHANNELS, encoding };
                    let item = MusicStreamItem::Sound { index: SoundFileIndex::SINGLE, format, data };
                    Ok(Some((item, Self::Playing(stream))))
                }
                Some(Err(error)) => Err(failed_error(&error.to_string())),
                None => Ok(None),
            },
        }
    }
}

fn failed_error(reason: &str) -> MusicStreamError {
    tracing::error!(reason, "music engine failed");
    failure("engine_failed", "the music engine failed")
}

fn stopped_error() -> MusicStreamError {
    failure("engine_stopped", "the engine stopped before the music ended")
}

fn failure(code: &str, message: &str) -> MusicStreamError {
    MusicStreamError::Failed(TaskFailure::new(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::music::MusicPrompt;
    use futures_util::TryStreamExt;
    use uuid::Uuid;

    #[tokio::test]
    async fn a_piece_is_told_of_and_then_played_to_its_end() {
        let prompt = MusicPrompt::parse("a bright sting").unwrap();
        let seconds = MusicSeconds::new(1).ok();
        let playing = LocalMusic::new(1).play(TaskId(Uuid::nil()), MusicWork { prompt, seconds });
        let items: Vec<MusicStreamItem> = playing.try_collect().await.unwrap();
        assert_eq!(items[0], MusicStreamItem::Length { millis: 1_000 });
        assert!(
            matches!(&items[1], MusicStreamItem::Title { title, tags, .. } if !title.as_str().is_empty() && tags.len() > 2)
        );
        let bytes: Vec<u8> = items[2..]
            .iter()
            .flat_map(|item| match item {
                MusicStreamItem::Sound { format, data, .. } if format.sample_rate == 48_000 => data.clone(),
                other => panic!("no sound: {other:?}"),
            })
            .collect();
        assert!(items.len() > 3 && bytes.starts_with(b"OggS") && bytes.len() > 4_000);
    }
}
