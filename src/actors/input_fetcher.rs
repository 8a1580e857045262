//! Inputs given as URLs: fetched by the poller, checked like uploaded ones, and stored.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::domain::ids::UserId;
use crate::domain::image::{ImageJob, ImageWork, Picture};
use crate::domain::task::{TaskCommand, TaskFailure, TaskWork};
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::domain::video::{Clip, VideoFormat, VideoWork};
use crate::fairness::FairSemaphore;
use crate::media::decoders::{PictureDecodeError, read_picture_info};
use crate::media::input::PictureInfo;
use crate::media::store::{MediaArea, MediaStore};
use crate::outbound::fetch::{FetchFailure, Fetcher};
use crate::quota::{Account, DailyQuota, QuotaCharge, QuotaExceeded};

/// Maximum number of pictures inspected at a time, within the memory limit of all decoders.
const INSPECTIONS_MAX: u64 = 2;

/// Reason why an input is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFailure {
    /// The task cannot succeed.
    Permanent(TaskFailure),
    /// A retry may succeed. Contains the failure of a task that is not retried.
    Transient(TaskFailure),
    /// The host name of the URL has no address. A retry may succeed, within a short time. Contains the failure of a
    /// task that is not retried.
    Unresolved(TaskFailure),
    /// The service has a problem; the task waits.
    Internal(String),
}

/// Fetches and stores inputs. Cheap to clone.
#[derive(Clone)]
pub struct InputFetcher {
    fetcher: Fetcher,
    store: MediaStore,
    inspections: FairSemaphore<Option<UserId>>,
    footage_source: Option<FootageSource>,
    /// Bytes that an account may store per day, if limited.
    daily_bytes: Option<DailyQuota<Account>>,
}

/// Source of the videos that tasks work on.
#[derive(Clone)]
struct FootageSource {
    fetcher: Fetcher,
    /// Prefix of the URLs of this service's results.
    own_url_prefix: Arc<str>,
}

impl InputFetcher {
    /// Returns a fetcher of pictures that stores them in `store`.
    #[must_use]
    pub fn new(fetcher: Fetcher, store: MediaStore) -> Self {
        let inspections = FairSemaphore::new(INSPECTIONS_MAX);
        Self { fetcher, store, inspections, footage_source: None, daily_bytes: None }
    }

    /// Also fetches videos with `fetcher`. Those below `public_url` (without a trailing slash) are read from the store.
    #[must_use]
    pub fn with_video_fetcher(self, fetcher: Fetcher, public_url: &str) -> Self {
        Self {
            footage_source: Some(FootageSource { fetcher, own_url_prefix: format!("{public_url}/media/").into() }),
            ..self
        }
    }

    /// Charges fetched files to the daily quota of the task's owner.
    #[must_use]
    pub fn with_daily_bytes(self, quota: DailyQuota<Account>) -> Self {
        Self { daily_bytes: Some(quota), ..self }
    }

    /// Fetches the inputs of a job that are still at URLs, in the account's turn: all pictures in the order of the job,
    /// then the video.
    ///
    /// # Errors
    /// Returns the first failure.
    pub async fn fetch(&self, account: Option<UserId>, work: &TaskWork) -> Result<TaskCommand, InputFailure> {
        match work {
            TaskWork::Image(work) => self.fetch_for_image(account, work).await,
            TaskWork::Video(work) => self.fetch_for_video(account, work).await,
            TaskWork::Music(_) => Ok(TaskCommand::RecordInputs { inputs: Vec::new() }),
        }
    }

    async fn fetch_for_image(&self, account: Option<UserId>, work: &ImageWork) -> Result<TaskCommand, InputFailure> {
        let mut inputs = Vec::new();
        let image_is_remote = work.image.stored().is_none();
        for (index, url) in work.remote_urls().enumerate() {
            // Only the picture that is edited determines the size of the result.
            let size_check = (index == 0 && image_is_remote).then(|| work.job.clone());
            inputs.push(self.fetch_picture(account, url, size_check).await?);
        }
        Ok(TaskCommand::RecordInputs { inputs })
    }

    async fn fetch_for_video(&self, account: Option<UserId>, work: &VideoWork) -> Result<TaskCommand, InputFailure> {
        let mut inputs = Vec::new();
        for url in work.remote_urls() {
            inputs.push(self.fetch_picture(account, url, None).await?);
        }
        match work.footage() {
            Some(footage) if inputs.is_empty() => {
                Ok(TaskCommand::RecordFootage { clip: self.fetch_clip(account, &footage.url).await? })
            }
            _ => Ok(TaskCommand::RecordInputs { inputs }),
        }
    }

    async fn fetch_picture(
        &self,
        account: Option<UserId>,
        url: &CallbackUrl,
        size_check: Option<ImageJob>,
    ) -> Result<Picture, InputFailure> {
        let file = self.fetcher.get(url.as_str()).await.map_err(|failure| fetch_failure(url, failure))?;
        self.charge(account, file.bytes.len())?;

        let _permit = self.inspections.acquire(account, 1).await;
        let store = self.store.clone();
        run_blocking(move || {
            let bytes = &file.bytes;
            let PictureInfo { format, width, height } =
                read_picture_info(bytes).map_err(|reason| invalid_input(&reason))?;
            if let Some(job) = size_check {
                job.check_output_size(width, height).map_err(|reason| output_too_large(&reason))?;
            }
            store.decoders().inspect(bytes).map_err(decode_failure)?;
            store.put(MediaArea::Input, bytes, format, width, height).map_err(|error| storage_failure(&error))
        })
        .await
    }

    async fn fetch_clip(&self, account: Option<UserId>, url: &CallbackUrl) -> Result<Clip, InputFailure> {
        let Some(FootageSource { fetcher, own_url_prefix }) = &self.footage_source else {
            return Err(InputFailure::Internal("video fetching is not configured".to_owned()));
        };

        let store = self.store.clone();
        let own_file =
            url.as_str().strip_prefix(&**own_url_prefix).and_then(|name| store.path_of(MediaArea::Result, name));
        if let Some(path) = own_file
            && let Some(clip) = run_blocking(move || store_own_clip(&store, &path)).await?
        {
            return Ok(clip);
        }
        let store = self.store.clone();

        let file = fetcher.get(url.as_str()).await.map_err(|failure| fetch_failure(url, failure))?;
        self.charge(account, file.bytes.len())?;
        run_blocking(move || store_clip(&store, &file.bytes)).await
    }

    /// Charges a fetched file to the account before it is stored.
    fn charge(&self, owner: Option<UserId>, bytes: usize) -> Result<(), InputFailure> {
        // A task without an owner does not record its client, and one client must not use up the shared anonymous
        // quota.
        let Some((quota, owner)) = self.daily_bytes.as_ref().zip(owner) else { return Ok(()) };
        quota.charge(Account::User(owner), bytes as u64).map(QuotaCharge::commit).map_err(|exceeded| {
            let QuotaExceeded { limit, remaining } = exceeded;
            let reason = format!(
                "a fetched input has {bytes} bytes, but only {remaining} of the account's daily {limit} are left"
            );
            InputFailure::Permanent(TaskFailure::new("quota_exceeded", &reason))
        })
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InputFailure> + Send + 'static,
) -> Result<T, InputFailure> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|_| InputFailure::Internal("checking an input was interrupted".to_owned()))?
}

/// Stores a result of this service as an input; `None` if there is no such result. Blocks.
fn store_own_clip(store: &MediaStore, path: &Path) -> Result<Option<Clip>, InputFailure> {
    match store.tree().read(path) {
        Ok(bytes) => store_clip(store, &bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(storage_failure(&error)),
    }
}

/// Stores a video. Blocks. The vendor checks the content of the container.
fn store_clip(store: &MediaStore, bytes: &[u8]) -> Result<Clip, InputFailure> {
    let format =
        VideoFormat::detect(bytes).ok_or_else(|| invalid_input(&InvalidValue::new("must be an mp4 or webm video")))?;
    store.put_clip(MediaArea::Input, bytes, format).map_err(|error| storage_failure(&error))
}

/// Names the input by its URL without query and fragment, which may contain secrets.
fn fetch_failure(url: &CallbackUrl, failure: FetchFailure) -> InputFailure {
    let address = url.as_str().split(['?', '#']).next().unwrap_or_default();
    let task_failure =
        |reason| TaskFailure::new("input_unavailable", &format!("{address} could not be fetched: {reason}"));
    match failure {
        FetchFailure::Permanent(reason) => InputFailure::Permanent(task_failure(reason)),
        FetchFailure::Transient(reason) => InputFailure::Transient(task_failure(reason)),
        FetchFailure::Unresolved(reason) => InputFailure::Unresolved(task_failure(reason)),
        FetchFailure::BufferFull(reason) => InputFailure::Internal(reason.to_string()),
    }
}

fn invalid_input(reason: &InvalidValue) -> InputFailure {
    InputFailure::Permanent(TaskFailure::new("input_invalid", &format!("a fetched input {reason}")))
}

fn decode_failure(error: PictureDecodeError) -> InputFailure {
    match error {
        PictureDecodeError::Invalid(reason) => invalid_input(&reason),
        PictureDecodeError::Busy => InputFailure::Internal(error.to_string()),
    }
}

fn output_too_large(reason: &InvalidValue) -> InputFailure {
    InputFailure::Permanent(TaskFailure::new("output_too_large", &format!("image {reason}")))
}

fn storage_failure(error: &std::io::Error) -> InputFailure {
    InputFailure::Internal(format!("a fetched input could not be stored: {error}"))
}
