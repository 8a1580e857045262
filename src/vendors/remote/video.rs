//! Remote video vendor: the seed's video interface below a base URL, and the creations of contract 7. As for images,
//! `request` and `response` are pure.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};

use super::connection::VendorConnection;
use super::result_fetcher::ResultFetcher;
use super::{
    IN_FLIGHT_BYTES_MAX, NONEXISTENT_JOB_ID, RemoteVendorOptions, permits, read_base64, response as shared_response,
};
use crate::domain::ids::TaskId;
use crate::domain::image::PictureSource;
use crate::domain::task::{TaskResults, VendorReference};
use crate::domain::value::Text;
use crate::domain::video::{Creation, VideoWork};
use crate::environment::Environment;
use crate::media::store::MediaStore;
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor_client::VendorClient;
use crate::vendors::{
    JobProgress, ResultFetchError, SubmissionRecovery, Submitted, Vendor, VendorError, VendorErrorKind, VendorJob,
};

mod request;
mod response;

use request::{build_request, creations_path};
use response::{VideoJobStatus, VideoResultUrls};

/// The remote video vendor. Cheap to clone.
#[derive(Clone)]
pub struct RemoteVideo {
    connection: VendorConnection,
    store: MediaStore,
    result_fetcher: ResultFetcher,
    upload_budget: Arc<Semaphore>,
    progress_notify: Arc<Notify>,
}

impl RemoteVideo {
    /// Returns the vendor that `caller` reaches. Inputs are read from `store`; results are fetched by `fetcher` and
    /// stored there.
    #[must_use]
    pub fn new(
        caller: VendorClient,
        options: RemoteVendorOptions,
        store: MediaStore,
        fetcher: Fetcher,
        environment: Environment,
    ) -> Self {
        let result_fetcher = ResultFetcher::new(fetcher, store.clone(), environment.fail_points());
        let upload_budget = Arc::new(Semaphore::new(permits(IN_FLIGHT_BYTES_MAX) as usize));
        let connection = VendorConnection { caller, options, environment };
        Self { connection, store, result_fetcher, upload_budget, progress_notify: Arc::default() }
    }

    async fn submit_job(&self, job: VendorJob) -> Result<Submitted, VendorError> {
        let task = job.task;
        let key = job.key.clone();
        let work = job.into_video_work()?;
        let bytes = work.sources().filter_map(PictureSource::stored).map(|picture| picture.bytes).sum();
        let Ok(_permit) = self.upload_budget.acquire_many(permits(bytes)).await else {
            return Err(VendorError::new(VendorErrorKind::Unreached, "the service is stopping"));
        };
        let (path, body) = self.encode_request(work, task).await?;
        let response = self.connection.post(&path, &key, body).await?;
        let id = shared_response::parse_submission(response.status, &response.body)
            .map_err(|error| self.connection.complete_error(&response, error))?;
        Ok(Submitted::Accepted(Text::from_recorded(id)))
    }

    /// Returns path and body; the pictures are read and encoded on a blocking thread.
    async fn encode_request(&self, work: VideoWork, task: TaskId) -> Result<(String, Bytes), VendorError> {
        let store = self.store.clone();
        let callback = self.connection.options.webhook_url.as_ref().map(|url| url(task));
        let encoded = tokio::task::spawn_blocking(move || {
            let mut read_stored =
                |source: PictureSource| source.stored().and_then(|picture| read_base64(&store, picture)).ok_or(());
            let images = work.images.into_iter().map(&mut read_stored).collect::<Result<Vec<_>, ()>>().ok()?;
            let job = work.job.try_map_pictures(&mut read_stored).ok()?;
            let request = build_request(&job, &images, work.seed, callback);
            Some((request.path, Bytes::from(serde_json::to_vec(&request.body).ok()?)))
        });
        let unsent = || VendorError::new(VendorErrorKind::Refused, "cannot read an input picture; nothing was sent");
        encoded.await.ok().flatten().ok_or_else(unsent)
    }

    async fn poll_job(&self, reference: &VendorReference) -> Result<JobProgress, VendorError> {
        let id = reference.as_str();
        let response = self.connection.get(&creations_path(id)).await?;

        match response::parse_poll(response.status, &response.body, id)
            .map_err(|error| self.connection.complete_error(&response, error))?
        {
            VideoJobStatus::Queued => Ok(JobProgress::Queued { queue_position: None }),
            VideoJobStatus::Running { permille } => Ok(JobProgress::Running { permille }),
            VideoJobStatus::Lost => Ok(JobProgress::Lost),
            VideoJobStatus::Failed(mut failure) => {
                failure.message = Text::from_recorded(self.connection.mask_api_key(failure.message.as_str()));
                Ok(JobProgress::Failed(failure))
            }
            VideoJobStatus::Done(urls) => Ok(match self.fetch_creation(&urls, id).await {
                Ok(creation) => JobProgress::Done(TaskResults::Video(creation)),
                Err(error) => JobProgress::FetchFailed(error),
            }),
        }
    }

    /// Fetches the results. A missing cover is tolerated.
    async fn fetch_creation(&self, urls: &VideoResultUrls, id: &str) -> Result<Creation, ResultFetchError> {
        let video = self.result_fetcher.fetch_clip(&urls.url, id).await?;
        let watermarked = match &urls.watermarked_url {
            Some(url) if *url == urls.url => Some(video),
            Some(url) => Some(self.result_fetcher.fetch_clip(url, id).await?),
            None => None,
        };
        let cover = match &urls.cover_url {
            Some(url) => self.result_fetcher.fetch_pictures(std::slice::from_ref(url), id).await.ok(),
            None => None,
        };
        let cover = cover.and_then(|pictures| pictures.first().copied());
        Ok(Creation { video, cover, watermarked, vendor_id: urls.id.clone().map(Text::from_recorded) })
    }

    async fn find_job(&self, job: VendorJob) -> Result<Option<VendorReference>, VendorError> {
        let response = self.connection.search(&job.key).await?;
        let found = shared_response::parse_search(response.status, &response.body)
            .map_err(|error| self.connection.complete_error(&response, error))?;
        Ok(found.map(Text::from_recorded))
    }
}

impl Vendor for RemoteVideo {
    fn name(&self) -> &'static str {
        "remote-video"
    }

    fn recovery(&self) -> SubmissionRecovery {
        self.connection.options.recovery
    }

    fn submit(&self, job: VendorJob) -> BoxFuture<'_, Result<Submitted, VendorError>> {
        self.submit_job(job).boxed()
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<JobProgress, VendorError>> {
        let reference = reference.clone();
        async move { self.poll_job(&reference).await }.boxed()
    }

    fn find(&self, job: VendorJob) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        self.find_job(job).boxed()
    }

    /// Polls a job that does not exist.
    fn health_check(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        async move {
            let response = self.connection.get(&creations_path(NONEXISTENT_JOB_ID)).await?;
            shared_response::parse_health_check(response.status, &response.body)
                .map_err(|error| self.connection.complete_error(&response, error))
        }
        .boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.progress_notify)
    }
}
