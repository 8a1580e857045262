//! Vendor stream and stream place of a music response. A reader that stops reading keeps the stream from noticing its
//! end, so a background check watches for it and releases both.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;

use crate::actors::musician::Unfinished;
use crate::domain::music::MusicMoment;
use crate::http::account_pool::PoolPlace;

/// Music stream of a vendor.
pub type Playing = BoxStream<'static, Result<MusicMoment, Unfinished>>;

/// Vendor stream and place, until they are released. Cheap to clone.
#[derive(Clone)]
pub struct Held(Arc<Mutex<Option<(Playing, PoolPlace)>>>);

impl Held {
    pub fn new(playing: Playing, place: PoolPlace) -> Self {
        Self(Arc::new(Mutex::new(Some((playing, place)))))
    }

    /// Returns the next event of the vendor; pending forever once released.
    pub async fn next(&self) -> Option<Result<MusicMoment, Unfinished>> {
        poll_fn(|context| match &mut *self.0.lock() {
            Some((playing, _)) => playing.poll_next_unpin(context),
            None => Poll::Pending,
        })
        .await
    }

    /// Stops the vendor and releases the place.
    pub fn let_go(&self) {
        let held = self.0.lock().take();
        drop(held);
    }
}
