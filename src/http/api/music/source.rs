//! Vendor stream of a music response, and the permit for it. A response whose reader has stopped reading does not
//! notice the end of its task, so a background check releases both.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;

use crate::actors::music_vendor::MusicInterruption;
use crate::domain::music::MusicStreamItem;
use crate::http::limits::account_pool::PoolPermit;

/// Music stream of a vendor.
pub type MusicSourceStream = BoxStream<'static, Result<MusicStreamItem, MusicInterruption>>;

/// Vendor stream and permit, until they are released. Cheap to clone.
#[derive(Clone)]
pub struct MusicSource(Arc<Mutex<Option<(MusicSourceStream, PoolPermit)>>>);

impl MusicSource {
    pub fn new(stream: MusicSourceStream, permit: PoolPermit) -> Self {
        Self(Arc::new(Mutex::new(Some((stream, permit)))))
    }

    /// Returns the next event of the vendor; pending forever once released.
    pub async fn next(&self) -> Option<Result<MusicStreamItem, MusicInterruption>> {
        poll_fn(|context| match &mut *self.0.lock() {
            Some((stream, _)) => stream.poll_next_unpin(context),
            None => Poll::Pending,
        })
        .await
    }

    /// Continues with the stream of another vendor, unless released.
    pub fn replace(&self, stream: MusicSourceStream) {
        let former = self.0.lock().as_mut().map(|(current, _)| std::mem::replace(current, stream));
        // Dropped after the lock is released.
        drop(former);
    }

    /// Stops the vendor and releases the permit.
    pub fn release(&self) {
        let released = self.0.lock().take();
        // Dropped after the lock is released.
        drop(released);
    }
}
