//! Results of remote vendors: fetched under the egress rules, checked like every picture, and stored. Only then is a
//! task completed.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::clock::{Mishaps, Place, VendorStep};
use crate::domain::image::Picture;
use crate::domain::task::Failure;
use crate::domain::value::CallbackUrl;
use crate::domain::video::{Clip, VideoFormat};
use crate::media::decoders::DecodeError;
use crate::media::input::Inspected;
use crate::media::store::{Area, Store};
use crate::outbound::fetch::{FetchFailure, Fetched, Fetcher};
use crate::vendors::Unfetched;

/// Maximum number of pictures inspected at a time, within the memory limit of all decoders.
const LOOKED_AT_ONCE: usize = 2;

/// Fetches results. Cheap to clone.
#[derive(Clone)]
pub(super) struct Results {
    fetcher: Fetcher,
    store: Store,
    mishaps: Mishaps,
    looking: Arc<Semaphore>,
}

impl Results {
    pub(super) fn new(fetcher: Fetcher, store: Store, mishaps: Mishaps) -> Self {
        Self { fetcher, store, mishaps, looking: Arc::new(Semaphore::new(LOOKED_AT_ONCE)) }
    }

    /// Fetches these URLs in order; `job` identifies the job for fail points.
    pub(super) async fn bring(&self, urls: &[String], job: &str) -> Result<Vec<Picture>, Unfetched> {
        let mut pictures = Vec::new();
        for url in urls {
            pictures.push(self.bring_one(url, job).await?);
        }
        Ok(pictures)
    }

    /// Fetches a video.
    pub(super) async fn bring_clip(&self, url: &str, job: &str) -> Result<Clip, Unfetched> {
        CallbackUrl::parse(url).map_err(|reason| Unfetched::Odd(told(&format!("the URL {reason}"))))?;
        let file = self.fetcher.get(url).await.map_err(unavailable)?;
        self.mishaps.reach(Place::Vendor(VendorStep::ResultFetched), job);
        let store = self.store.clone();
        let kept = tokio::task::spawn_blocking(move || keep_clip(&store, &file));
        let kept = kept.await.map_err(|_| Unfetched::Passing(told("storing it was interrupted")))?;
        self.mishaps.reach(Place::Vendor(VendorStep::ResultStored), job);
        kept
    }

    async fn bring_one(&self, url: &str, job: &str) -> Result<Picture, Unfetched> {
        CallbackUrl::parse(url).map_err(|reason| Unfetched::Odd(told(&format!("the URL {reason}"))))?;
        let file = self.fetcher.get(url).await.map_err(unavailable)?;
        self.mishaps.reach(Place::Vendor(VendorStep::ResultFetched), job);
        let Ok(_turn) = Arc::clone(&self.looking).acquire_owned().await else {
            return Err(Unfetched::Passing(told("the service stops")));
        };
        let store = self.store.clone();
        let kept = tokio::task::spawn_blocking(move || keep(&store, &file));
        let kept = kept.await.map_err(|_| Unfetched::Passing(told("looking at it was interrupted")))?;
        self.mishaps.reach(Place::Vendor(VendorStep::ResultStored), job);
        kept
    }
}

/// Stores a picture. Blocks.
fn keep(store: &Store, file: &Fetched) -> Result<Picture, Unfetched> {
    let Inspected { format, width, height } =
        store.decoders().inspect(&file.bytes).map_err(|error| no_picture(&error))?;
    store.put(Area::Result, &file.bytes, format, width, height).map_err(|error| unkept(&error))
}

/// Stores a video. Blocks.
fn keep_clip(store: &Store, file: &Fetched) -> Result<Clip, Unfetched> {
    let no_video = || Unfetched::Odd(Failure::new("result_invalid", "a result of the vendor is no mp4 or webm video"));
    let format = VideoFormat::of_bytes(&file.bytes).ok_or_else(no_video)?;
    store.put_clip(Area::Result, &file.bytes, format).map_err(|error| unkept(&error))
}

/// A final error is still retried a few times, because the result may not be available at its URL yet.
fn unavailable(failure: FetchFailure) -> Unfetched {
    match failure {
        FetchFailure::Final(reason) => Unfetched::Odd(told(&reason)),
        FetchFailure::Passing(reason) => Unfetched::Passing(told(&reason)),
        FetchFailure::NoRoom(reason) => Unfetched::Passing(told(&reason.to_string())),
    }
}

fn no_picture(error: &DecodeError) -> Unfetched {
    match error {
        DecodeError::Invalid(reason) => {
            Unfetched::Odd(Failure::new("result_invalid", &format!("a result of the vendor {reason}")))
        }
        DecodeError::Busy => Unfetched::Passing(told(&error.to_string())),
    }
}

/// Logs the cause, which is for the operator only.
fn unkept(error: &io::Error) -> Unfetched {
    tracing::error!(%error, "a result of the vendor could not be stored");
    Unfetched::Passing(Failure::new("result_unwritable", "the result could not be stored"))
}

fn told(reason: &str) -> Failure {
    Failure::new("result_unavailable", &format!("a result of the vendor could not be fetched: {reason}"))
}
