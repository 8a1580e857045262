//! Results of remote vendors: fetched under the egress rules, checked like every picture, and stored. Only then is a
//! task completed.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::VendorConnection;
use crate::domain::image::Picture;
use crate::domain::task::TaskFailure;
use crate::domain::value::{CallbackUrl, Text};
use crate::domain::video::{Clip, Creation, VideoFormat};
use crate::environment::{FailPoint, FailPoints, VendorStep};
use crate::media::decoders::PictureDecodeError;
use crate::media::input::PictureInfo;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::client::CallFailure;
use crate::outbound::fetch::{FetchFailure, FetchedFile, Fetcher, call_failure, status_failure};
use crate::vendors::ResultFetchError;
use crate::vendors::profile::request::PreparedRequest;
use crate::vendors::profile::response::{ResultItem, ResultLocation, no_result_failure};

/// Maximum number of pictures inspected at a time, within the memory limit of all decoders.
const INSPECTIONS_MAX: usize = 2;

/// Maximum number of files being downloaded from the vendor itself at a time.
const DOWNLOADS_MAX: usize = 4;

/// Description of a response that names no result.
const NO_RESULT: &str = "its response names none";

/// Fetches results. Cheap to clone.
#[derive(Clone)]
pub(super) struct ResultFetcher {
    fetcher: Fetcher,
    connection: VendorConnection,
    store: MediaStore,
    fail_points: FailPoints,
    inspections: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
}

/// Bytes of a result. They occupy their buffer space until dropped.
enum ResultFile {
    Fetched(FetchedFile),
    Inline(Bytes),
    Downloaded(Bytes, #[allow(dead_code, reason = "held until the file is stored")] OwnedSemaphorePermit),
}

impl ResultFile {
    fn bytes(&self) -> &Bytes {
        match self {
            Self::Fetched(file) => &file.bytes,
            Self::Inline(bytes) | Self::Downloaded(bytes, _) => bytes,
        }
    }
}

impl ResultFetcher {
    pub(super) fn new(
        fetcher: Fetcher,
        connection: VendorConnection,
        store: MediaStore,
        fail_points: FailPoints,
    ) -> Self {
        let inspections = Arc::new(Semaphore::new(INSPECTIONS_MAX));
        let downloads = Arc::new(Semaphore::new(DOWNLOADS_MAX));
        Self { fetcher, connection, store, fail_points, inspections, downloads }
    }

    /// Fetches and stores the pictures of `items` in order; `job` identifies the job for fail points.
    pub(super) async fn fetch_pictures(
        &self,
        items: &[ResultItem],
        job: &str,
    ) -> Result<Vec<Picture>, ResultFetchError> {
        if items.is_empty() {
            return Err(ResultFetchError::Malformed(no_result_failure(NO_RESULT)));
        }

        let mut pictures = Vec::new();
        for item in items {
            pictures.push(self.fetch_picture(&item.file, job).await?);
        }
        Ok(pictures)
    }

    /// Fetches and stores the first result, because each video job has one video. A missing cover is tolerated.
    pub(super) async fn fetch_creation(&self, items: &[ResultItem], job: &str) -> Result<Creation, ResultFetchError> {
        let missing = || ResultFetchError::Malformed(no_result_failure(NO_RESULT));
        let item = items.first().ok_or_else(missing)?;

        let video = self.fetch_clip(&item.file, job).await?;
        let watermarked = match &item.watermarked {
            Some(location) if *location == item.file => Some(video),
            Some(location) => Some(self.fetch_clip(location, job).await?),
            None => None,
        };
        let cover = match &item.cover {
            Some(location) => self.fetch_picture(location, job).await.ok(),
            None => None,
        };

        Ok(Creation { video, cover, watermarked, vendor_id: item.vendor_id.clone().map(Text::from_recorded) })
    }

    async fn fetch_clip(&self, location: &ResultLocation, job: &str) -> Result<Clip, ResultFetchError> {
        let file = self.fetch(location).await?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultFetched), job);

        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || store_clip(&store, file.bytes()));
        let stored =
            stored.await.map_err(|_| ResultFetchError::Transient(unavailable_failure("storing it was interrupted")))?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultStored), job);
        stored
    }

    async fn fetch_picture(&self, location: &ResultLocation, job: &str) -> Result<Picture, ResultFetchError> {
        let file = self.fetch(location).await?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultFetched), job);

        let Ok(_permit) = Arc::clone(&self.inspections).acquire_owned().await else {
            return Err(ResultFetchError::Transient(unavailable_failure("the service is stopping")));
        };

        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || store_picture(&store, file.bytes()));
        let stored = stored
            .await
            .map_err(|_| ResultFetchError::Transient(unavailable_failure("checking it was interrupted")))?;
        self.fail_points.hit(FailPoint::Vendor(VendorStep::ResultStored), job);
        stored
    }

    async fn fetch(&self, location: &ResultLocation) -> Result<ResultFile, ResultFetchError> {
        let file = match location {
            ResultLocation::Url(url) => self.fetch_url(url).await,
            ResultLocation::Inline(bytes) => self.check_size(bytes).map(ResultFile::Inline),
            ResultLocation::Download(call) => self.download(&call.0).await,
        };
        file.map_err(|error| self.mask_error(error))
    }

    /// Applies the limit of fetched files to a file that was in a response.
    fn check_size(&self, bytes: &Bytes) -> Result<Bytes, ResultFetchError> {
        let limit = self.fetcher.body_bytes();
        if bytes.len() > limit {
            let failure = unavailable_failure(&CallFailure::TooLarge(limit).to_string());
            return Err(ResultFetchError::Malformed(failure));
        }
        Ok(bytes.clone())
    }

    /// Masks credentials: the key may be in the URL of a request or of a redirect.
    fn mask_error(&self, error: ResultFetchError) -> ResultFetchError {
        let mask = |mut failure: TaskFailure| {
            failure.message = Text::from_recorded(self.connection.mask_api_key(failure.message.as_str()));
            failure
        };
        match error {
            ResultFetchError::Transient(failure) => ResultFetchError::Transient(mask(failure)),
            ResultFetchError::Malformed(failure) => ResultFetchError::Malformed(mask(failure)),
        }
    }

    async fn fetch_url(&self, url: &str) -> Result<ResultFile, ResultFetchError> {
        CallbackUrl::parse(url)
            .map_err(|reason| ResultFetchError::Malformed(unavailable_failure(&format!("the URL {reason}"))))?;
        self.fetcher.get(url).await.map(ResultFile::Fetched).map_err(classify_fetch_failure)
    }

    /// Downloads a file from the vendor itself. A redirect is followed without the API key.
    async fn download(&self, request: &PreparedRequest) -> Result<ResultFile, ResultFetchError> {
        let Ok(permit) = Arc::clone(&self.downloads).acquire_owned().await else {
            return Err(ResultFetchError::Transient(unavailable_failure("the service is stopping")));
        };

        let response = self.connection.download(request.clone(), self.fetcher.body_bytes()).await;
        let response = response.map_err(|failure| classify_fetch_failure(call_failure(failure)))?;
        match (response.status, response.location) {
            (200, _) => Ok(ResultFile::Downloaded(response.body, permit)),
            (301 | 302 | 303 | 307 | 308, Some(url)) => self.fetch_url(&url).await,
            (status, _) => Err(classify_fetch_failure(status_failure(status))),
        }
    }
}

/// Stores a picture. Blocks.
fn store_picture(store: &MediaStore, bytes: &Bytes) -> Result<Picture, ResultFetchError> {
    let PictureInfo { format, width, height } =
        store.decoders().inspect(bytes).map_err(|error| invalid_picture(&error))?;
    store.put(MediaArea::Result, bytes, format, width, height).map_err(|error| storage_error(&error))
}

/// Stores a video. Blocks.
fn store_clip(store: &MediaStore, bytes: &Bytes) -> Result<Clip, ResultFetchError> {
    let not_a_video = || {
        ResultFetchError::Malformed(TaskFailure::new(
            "result_invalid",
            "a result of the vendor is not an mp4 or webm video",
        ))
    };
    let format = VideoFormat::detect(bytes).ok_or_else(not_a_video)?;
    store.put_clip(MediaArea::Result, bytes, format).map_err(|error| storage_error(&error))
}

/// Converts the failure of a fetch. A permanent one becomes [`ResultFetchError::Malformed`], which is retried a few
/// times, because the result may not be available at its URL yet.
fn classify_fetch_failure(failure: FetchFailure) -> ResultFetchError {
    match failure {
        FetchFailure::Permanent(reason) => ResultFetchError::Malformed(unavailable_failure(&reason)),
        FetchFailure::Transient(reason) | FetchFailure::Unresolved(reason) => {
            ResultFetchError::Transient(unavailable_failure(&reason))
        }
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

/// Logs the cause, which only the operator may see.
fn storage_error(error: &io::Error) -> ResultFetchError {
    tracing::error!(%error, "result not stored");
    ResultFetchError::Transient(TaskFailure::new("result_unwritable", "cannot store the result"))
}

fn unavailable_failure(reason: &str) -> TaskFailure {
    TaskFailure::new("result_unavailable", &format!("cannot fetch a result of the vendor: {reason}"))
}
