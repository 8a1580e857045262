//! Results of remote vendors: fetched under the egress rules, checked like every picture, and stored. Only then is a
//! task completed.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::domain::image::Picture;
use crate::domain::task::TaskFailure;
use crate::domain::value::CallbackUrl;
use crate::domain::video::{Clip, VideoFormat};
use crate::environment::{FailPoint, FailPoints, VendorStep};
use crate::media::decoders::PictureDecodeError;
use crate::media::input::PictureInfo;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::fetch::{FetchFailure, FetchedFile, Fetcher};
use crate::vendors::ResultFetchError;

/// Maximum number of pictures inspected at a time, within the memory limit of all decoders.
const INSPECTIONS_MAX: usize = 2;

/// Fetches results. Cheap to clone.
#[derive(Clone)]
pub(super) struct ResultFetcher {
    fetcher: Fetcher,
    store: MediaStore,
    fail_points: FailPoints,
    inspections: Arc<Semaphore>,
}

impl ResultFetcher {
    pub(super) fn new(fetcher: Fetcher, store: MediaStore, fail_points: FailPoints) -> Self {
        Self { fetcher, store, fail_points, inspections: Arc::new(Semaphore::new(INSPECTIONS_MAX)) }
    }

    /// Fetches these URLs in order; `job` identifies the job for fail points.
    pub(super) async fn fetch_pictures(&self, urls: &[String], job: &str) -> Result<Vec<Picture>, ResultFetchError> {
        let mut pictures = Vec::new();
        for url in urls {
            pictures.push(self.fetch_picture(url, job).await?);
        }
        Ok(pictures)
    }

    /// Fetches a video.
    pub(super) async fn fetch_clip(&self, url: &str, job: &str) -> Result<Clip, ResultFetchError> {
        CallbackUrl::parse(url)
            .map_err(|reason| ResultFetchError::Malformed(unavailable_failure(&format!("the URL {reason}"))))?;
        let file = self.fetcher.get(url).await.map_err(classify_fetch_failure)?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultFetched), job);
        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || store_clip(&store, &file));
        let stored =
            stored.await.map_err(|_| ResultFetchError::Transient(unavailable_failure("storing it was interrupted")))?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultStored), job);
        stored
    }

    async fn fetch_picture(&self, url: &str, job: &str) -> Result<Picture, ResultFetchError> {
        CallbackUrl::parse(url)
            .map_err(|reason| ResultFetchError::Malformed(unavailable_failure(&format!("the URL {reason}"))))?;
        let file = self.fetcher.get(url).await.map_err(classify_fetch_failure)?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultFetched), job);
        let Ok(_permit) = Arc::clone(&self.inspections).acquire_owned().await else {
            return Err(ResultFetchError::Transient(unavailable_failure("the service is stopping")));
        };
        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || store_picture(&store, &file));
        let stored = stored
            .await
            .map_err(|_| ResultFetchError::Transient(unavailable_failure("checking it was interrupted")))?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultStored), job);
        stored
    }
}

/// Stores a picture. Blocks.
fn store_picture(store: &MediaStore, file: &FetchedFile) -> Result<Picture, ResultFetchError> {
    let PictureInfo { format, width, height } =
        store.decoders().inspect(&file.bytes).map_err(|error| invalid_picture(&error))?;
    store.put(MediaArea::Result, &file.bytes, format, width, height).map_err(|error| storage_error(&error))
}

/// Stores a video. Blocks.
fn store_clip(store: &MediaStore, file: &FetchedFile) -> Result<Clip, ResultFetchError> {
    let no_video = || {
        ResultFetchError::Malformed(TaskFailure::new(
            "result_invalid",
            "a result of the vendor is not an mp4 or webm video",
        ))
    };
    let format = VideoFormat::detect(&file.bytes).ok_or_else(no_video)?;
    store.put_clip(MediaArea::Result, &file.bytes, format).map_err(|error| storage_error(&error))
}

/// A final error is still retried a few times, because the result may not be available at its URL yet.
fn classify_fetch_failure(failure: FetchFailure) -> ResultFetchError {
    match failure {
        FetchFailure::Permanent(reason) => ResultFetchError::Malformed(unavailable_failure(&reason)),
        FetchFailure::Transient(reason) => ResultFetchError::Transient(unavailable_failure(&reason)),
        FetchFailure::BufferFull(reason) => ResultFetchError::Transient(unavailable_failure(&reason.to_string())),
    }
}

fn invalid_picture(error: &PictureDecodeError) -> ResultFetchError {
    match error {
        PictureDecodeError::Invalid(reason) => {
            ResultFetchError::Malformed(TaskFailure::new("result_invalid", &format!("a result of the vendor {reason}")))
        }
        PictureDecodeError::Busy => ResultFetchError::Transient(unavailable_failure(&error.to_string())),
    }
}

/// Logs the cause, which is for the operator only.
fn storage_error(error: &io::Error) -> ResultFetchError {
    tracing::error!(%error, "result not stored");
    ResultFetchError::Transient(TaskFailure::new("result_unwritable", "cannot store the result"))
}

fn unavailable_failure(reason: &str) -> TaskFailure {
    TaskFailure::new("result_unavailable", &format!("cannot fetch a result of the vendor: {reason}"))
}
