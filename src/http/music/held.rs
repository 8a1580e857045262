//! What a stream holds while it is sent: whoever plays, and its place among the streams. A reader who takes nothing any more
//! keeps the stream from noticing that it is over; so somebody else looks for that, and lets both go.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;

use crate::actors::musician::Unfinished;
use crate::domain::music::MusicMoment;
use crate::http::account_pool::PoolPlace;

/// Music that is played.
pub type Playing = BoxStream<'static, Result<MusicMoment, Unfinished>>;

/// Whoever plays, and the place, until they are let go. Cheap to clone.
#[derive(Clone)]
pub struct Held(Arc<Mutex<Option<(Playing, PoolPlace)>>>);

impl Held {
    pub fn new(playing: Playing, place: PoolPlace) -> Self {
        Self(Arc::new(Mutex::new(Some((playing, place)))))
    }

    /// The next that is played; nothing comes any more once it was let go.
    pub async fn next(&self) -> Option<Result<MusicMoment, Unfinished>> {
        poll_fn(|context| match &mut *self.0.lock() {
            Some((playing, _)) => playing.poll_next_unpin(context),
            None => Poll::Pending,
        })
        .await
    }

    /// Stops the work, and gives the place to others.
    pub fn let_go(&self) {
        let held = self.0.lock().take();
        drop(held);
    }
}
