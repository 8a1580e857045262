//! Built-in music vendor: adapts the engine (`mediary_music`). Each chunk is rendered on a blocking thread on demand,
//! so a stream without a reader uses no thread and only the memory of its notes.

use futures_util::StreamExt;
use futures_util::stream;
use mediary_music::{Piece, RATE, Stream, compose};
use tokio::task::spawn_blocking;

use crate::domain::ids::UserId;
use crate::domain::music::{
    MusicJob, MusicSeconds, MusicStreamItem, MusicWork, SoundFileIndex, SoundFormat, TitleIndex,
};
use crate::domain::task::TaskFailure;
use crate::domain::value::Text;
use crate::fairness::FairSemaphore;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};

pub use mediary_music::background_music;

/// Returns the length in seconds, rounded up, of the music that the engine generates for a job.
#[must_use]
pub fn seconds_of(work: &MusicWork) -> u16 {
    mediary_music::seconds_of(work.prompt.as_str(), work.seconds.map(MusicSeconds::get))
}

/// Sound encoding: Opus packets in Ogg pages (RFC 7845).
pub const ENCODING: &str = "ogg_opus";
/// Number of channels: left and right.
pub const CHANNELS: u8 = 2;

/// Built-in music vendor. Cheap to clone.
#[derive(Clone)]
pub struct LocalMusic {
    /// Limit of the chunks that are rendered at a time.
    permits: FairSemaphore<Option<UserId>>,
}

impl LocalMusic {
    /// Creates an engine that renders up to `concurrency` chunks at a time, at least one. Others wait, and accounts
    /// take turns.
    #[must_use]
    pub fn new(concurrency: usize) -> Self {
        Self { permits: FairSemaphore::new(concurrency.max(1) as u64) }
    }
}

impl MusicVendor for LocalMusic {
    fn name(&self) -> &'static str {
        "local-music"
    }

    /// Returns the stream of a piece. It must be polled within a tokio runtime, whose blocking threads render it.
    fn play(&self, job: MusicJob) -> VendorMusicStream {
        let permits = self.permits.clone();
        let account = job.account;

        let items = stream::try_unfold(PieceStage::Requested(job.work), move |stage| {
            let permits = permits.clone();
            async move {
                let permit = permits.acquire(account, 1).await;

                // The thread returns the permit, because it runs on after the stream is dropped.
                let rendered = spawn_blocking(move || (stage.next(), permit)).await;
                let (next, _permit) = rendered.map_err(|error| engine_error(&error.to_string()))?;
                next
            }
        });

        items.boxed()
    }
}

/// Progress of a piece.
enum PieceStage {
    Requested(MusicWork),
    Composed(Box<Piece>),
    Titled(Box<Piece>),
    Playing(Box<Stream>),
}

type NextItem = Result<Option<(MusicStreamItem, PieceStage)>, MusicStreamError>;

impl PieceStage {
    /// Produces the next item. Blocks the thread.
    fn next(self) -> NextItem {
        match self {
            Self::Requested(work) => {
                let piece = compose(work.prompt.as_str(), work.seconds.map(MusicSeconds::get));
                let millis = u64::from(piece.frames) * 1000 / u64::from(RATE);
                Ok(Some((MusicStreamItem::Length { millis }, Self::Composed(Box::new(piece)))))
            }
            Self::Composed(piece) => {
                let title = Text::from_recorded(piece.title.clone());
                let tags = piece.tags.clone();
                let item = MusicStreamItem::Title { index: TitleIndex::default(), title, tags };
                Ok(Some((item, Self::Titled(piece))))
            }
            Self::Titled(piece) => {
                let stream = Stream::new(*piece).map_err(|error| engine_error(&error.to_string()))?;
                Self::Playing(Box::new(stream)).next()
            }
            Self::Playing(mut stream) => match stream.next() {
                Some(Ok(data)) => {
                    let encoding = Text::from_recorded(ENCODING.to_owned());
                    let format = SoundFormat { sample_rate: RATE, channels: CHANNELS, encoding };
                    let item = MusicStreamItem::Sound { index: SoundFileIndex::SINGLE, format, data };
                    Ok(Some((item, Self::Playing(stream))))
                }
                Some(Err(error)) => Err(engine_error(&error.to_string())),
                None => Ok(None),
            },
        }
    }
}

/// Logs a failure of the engine and returns the error for the listener.
fn engine_error(reason: &str) -> MusicStreamError {
    tracing::error!(reason, "music engine failed");
    MusicStreamError::Failed(TaskFailure::new("engine_failed", "the music engine failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::TryStreamExt;
    use parking_lot::Mutex;
    use uuid::Uuid;

    use super::*;
    use crate::domain::ids::TaskId;
    use crate::domain::music::MusicPrompt;

    fn job(account: u128) -> MusicJob {
        let prompt = MusicPrompt::parse("a bright sting").unwrap();
        let work = MusicWork { prompt, seconds: MusicSeconds::new(1).ok(), credits: 0 };
        MusicJob { task: TaskId(Uuid::nil()), account: Some(UserId(Uuid::from_u128(account))), work }
    }

    #[tokio::test]
    async fn accounts_take_turns_chunk_by_chunk() {
        // Given an engine that is busy, and an account with many waiting listeners
        let music = LocalMusic::new(1);
        let busy = music.permits.acquire(None, 1).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let listen = |account| {
            let mut stream = music.play(job(account));
            let order = Arc::clone(&order);
            tokio::spawn(async move {
                stream.next().await.unwrap().unwrap();
                order.lock().push(account);
            })
        };
        let mut listeners = Vec::new();
        for account in [1, 1, 1, 2] {
            listeners.push(listen(account));
            // Lets the listener queue for the engine.
            tokio::task::yield_now().await;
        }

        // When the engine is free
        drop(busy);
        for listener in listeners {
            listener.await.unwrap();
        }

        // Then the listener of the other account waits for one chunk only
        assert_eq!(*order.lock(), [1, 2, 1, 1]);
    }

    #[tokio::test]
    async fn a_piece_is_announced_and_then_played_to_its_end() {
        let stream = LocalMusic::new(1).play(job(1));
        let items: Vec<MusicStreamItem> = stream.try_collect().await.unwrap();
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
