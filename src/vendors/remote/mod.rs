//! Remote vendors. This file contains the image vendor: the seed's image interface below a base URL; `video` and
//! `music` contain the others. `request` and `response` are pure; `result_fetcher` fetches the pictures.
//!
//! The vendors are stateless: the log contains the reference of a job, `<family>:<id at the vendor>`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};

use crate::domain::ids::TaskId;
use crate::domain::image::{ImageWork, Picture, PictureSource};
use crate::domain::task::VendorReference;
use crate::domain::value::Text;
use crate::environment::Environment;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor_client::VendorClient;
use crate::vendors::{JobProgress, SubmissionRecovery, Submitted, Vendor, VendorError, VendorErrorKind, VendorJob};

mod connection;
mod music;
mod request;
mod response;
mod result_fetcher;
mod video;

pub use music::{RemoteMusic, RemoteMusicOptions};
pub use video::RemoteVideo;

use connection::VendorConnection;
use request::{EncodedPictures, build_request, status_family, status_path};
use response::ImageJobStatus;
use result_fetcher::ResultFetcher;

/// Maximum number of picture bytes being sent to the vendor. Each is held three times while its request is built (file,
/// base64, body). A larger picture is sent alone.
const IN_FLIGHT_BYTES_MAX: u64 = 128 << 20;
/// Bytes per semaphore permit.
const BYTES_PER_PERMIT: u64 = 64 << 10;
/// Id of a job that does not exist, for health checks.
const NONEXISTENT_JOB_ID: &str = "00000000-0000-0000-0000-000000000000";

/// Options of a remote vendor.
#[derive(Clone)]
pub struct RemoteVendorOptions {
    pub recovery: SubmissionRecovery,
    /// Header with the key of a submission.
    pub key_header: String,
    /// Path for searches below the base URL; `{key}` is replaced by the key of the submission.
    pub search_path: String,
    /// Webhook URL of a task; without it, the vendor gets none.
    pub webhook_url: Option<Arc<dyn Fn(TaskId) -> String + Send + Sync>>,
    /// Masked in all messages of the vendor.
    pub api_key: Option<String>,
}

/// The remote image vendor. Cheap to clone.
#[derive(Clone)]
pub struct RemoteImage {
    connection: VendorConnection,
    store: MediaStore,
    result_fetcher: ResultFetcher,
    upload_budget: Arc<Semaphore>,
    progress_notify: Arc<Notify>,
}

impl RemoteImage {
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
        let work = job.into_image_work()?;
        let bytes = work.sources().filter_map(PictureSource::stored).map(|picture| picture.bytes).sum();
        let Ok(_permit) = self.upload_budget.acquire_many(permits(bytes)).await else {
            return Err(VendorError::new(VendorErrorKind::Unreached, "the service is stopping"));
        };
        let family = status_family(&work.job);
        let (path, body) = self.encode_request(work, task).await?;
        let response = self.connection.post(&path, &key, body).await?;
        let id = response::parse_submission(response.status, &response.body)
            .map_err(|error| self.connection.complete_error(&response, error))?;
        Ok(Submitted::Accepted(vendor_reference(family, &id)))
    }

    /// Returns path and body; the pictures are read and encoded on a blocking thread.
    async fn encode_request(&self, work: ImageWork, task: TaskId) -> Result<(String, Bytes), VendorError> {
        let store = self.store.clone();
        let webhook = self.connection.options.webhook_url.as_ref().map(|url| url(task));
        let encoded = tokio::task::spawn_blocking(move || {
            let read_stored = |source: &PictureSource| source.stored().and_then(|picture| read_base64(&store, picture));
            let pictures = EncodedPictures {
                image: read_stored(&work.image)?,
                reference: work.reference.as_ref().and_then(read_stored),
            };
            if work.reference.is_some() && pictures.reference.is_none() {
                return None;
            }
            let request = build_request(&work.job, pictures, webhook);
            Some((request.path, Bytes::from(serde_json::to_vec(&request.body).ok()?)))
        });

        let unsent = || VendorError::new(VendorErrorKind::Refused, "cannot read an input picture; nothing was sent");
        encoded.await.ok().flatten().ok_or_else(unsent)
    }

    async fn poll_job(&self, reference: &VendorReference) -> Result<JobProgress, VendorError> {
        // A reference of another vendor: this one never accepted the job.
        let Some((family, id)) = reference.as_str().split_once(':') else { return Ok(JobProgress::Forgotten) };
        let response = self.connection.get(&status_path(family, id)).await?;

        match response::parse_poll(response.status, &response.body, id)
            .map_err(|error| self.connection.complete_error(&response, error))?
        {
            ImageJobStatus::Running => Ok(JobProgress::Running { permille: None }),
            ImageJobStatus::Lost => Ok(JobProgress::Lost),
            ImageJobStatus::Failed(mut failure) => {
                failure.message = Text::from_recorded(self.connection.mask_api_key(failure.message.as_str()));
                Ok(JobProgress::Failed(failure))
            }
            ImageJobStatus::Done(urls) => Ok(self
                .result_fetcher
                .fetch_pictures(&urls, id)
                .await
                .map_or_else(JobProgress::FetchFailed, |pictures| JobProgress::Done(pictures.into()))),
        }
    }

    async fn find_job(&self, job: VendorJob) -> Result<Option<VendorReference>, VendorError> {
        let key = job.key.clone();
        let work = job.into_image_work()?;
        let response = self.connection.search(&key).await?;
        let found = response::parse_search(response.status, &response.body)
            .map_err(|error| self.connection.complete_error(&response, error))?;
        Ok(found.map(|id| vendor_reference(status_family(&work.job), &id)))
    }
}

impl Vendor for RemoteImage {
    fn name(&self) -> &'static str {
        "remote-image"
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
            let response = self.connection.get(&status_path("image-upscaler", NONEXISTENT_JOB_ID)).await?;
            response::parse_health_check(response.status, &response.body)
                .map_err(|error| self.connection.complete_error(&response, error))
        }
        .boxed()
    }

    fn progress_notify(&self) -> Arc<Notify> {
        Arc::clone(&self.progress_notify)
    }
}

fn vendor_reference(family: &str, id: &str) -> VendorReference {
    Text::from_recorded(format!("{family}:{id}"))
}

/// Returns a picture in base64. Blocks. Logs a read error for the operator.
fn read_base64(store: &MediaStore, picture: &Picture) -> Option<String> {
    match store.read(MediaArea::Input, picture) {
        Ok(bytes) => Some(STANDARD.encode(bytes)),
        Err(error) => {
            tracing::error!(%error, "input picture unreadable");
            None
        }
    }
}

/// Returns the number of permits for pictures of this size, at most all.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.clamp(1, IN_FLIGHT_BYTES_MAX).div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX)
}
