//! Inputs given as URLs: fetched by the poller, checked like uploaded ones, and stored.

use std::sync::Arc;

use crate::domain::ids::UserId;
use crate::domain::image::{ImageJob, ImageWork, Picture};
use crate::domain::task::{Failure, TaskCommand, Work};
use crate::domain::value::{CallbackUrl, Invalid};
use crate::domain::video::{Clip, VideoFormat, VideoWork};
use crate::fairness::FairSemaphore;
use crate::media::decoders::{DecodeError, measure};
use crate::media::input::Inspected;
use crate::media::store::{Area, Store};
use crate::outbound::fetch::{FetchFailure, Fetcher};
use crate::quota::{Account, Charge, DailyQuota, QuotaExceeded};

/// Maximum number of pictures inspected at a time, within the memory limit of all decoders.
const LOOKED_AT_ONCE: u64 = 2;

/// Reason why an input is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFailure {
    /// The task cannot succeed.
    Final(Failure),
    /// A retry may succeed. Contains the failure of a task that is not retried.
    Passing(Failure),
    /// The service has a problem; the task waits.
    Ours(String),
}

/// Fetches and stores inputs. Cheap to clone.
#[derive(Clone)]
pub struct Inputs {
    fetcher: Fetcher,
    store: Store,
    looking: FairSemaphore<Option<UserId>>,
    footage: Option<Footage>,
    /// Bytes that an account may store per day, if limited.
    daily_bytes: Option<DailyQuota<Account>>,
}

/// Source of the videos that tasks work on.
#[derive(Clone)]
struct Footage {
    fetcher: Fetcher,
    /// Prefix of the URLs of this service's results.
    own: Arc<str>,
}

impl Inputs {
    /// Returns inputs that are stored in `store`.
    #[must_use]
    pub fn new(fetcher: Fetcher, store: Store) -> Self {
        let looking = FairSemaphore::new(LOOKED_AT_ONCE);
        Self { fetcher, store, looking, footage: None, daily_bytes: None }
    }

    /// Also fetches videos. Those below `public_url` (without a trailing slash) are read from the store.
    #[must_use]
    pub fn with_footage(self, fetcher: Fetcher, public_url: &str) -> Self {
        Self { footage: Some(Footage { fetcher, own: format!("{public_url}/media/").into() }), ..self }
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
    pub async fn fetch(&self, account: Option<UserId>, work: &Work) -> Result<TaskCommand, InputFailure> {
        match work {
            Work::Image(work) => self.fetch_for_image(account, work).await,
            Work::Video(work) => self.fetch_for_video(account, work).await,
            Work::Music(_) => Ok(TaskCommand::RecordInputs { inputs: Vec::new() }),
        }
    }

    async fn fetch_for_image(&self, account: Option<UserId>, work: &ImageWork) -> Result<TaskCommand, InputFailure> {
        let mut inputs = Vec::new();
        let image_is_remote = work.image.kept().is_none();
        for (nth, url) in work.remote().enumerate() {
            // Only the picture that is edited determines the size of the result.
            let measured_by = (nth == 0 && image_is_remote).then(|| work.job.clone());
            inputs.push(self.picture(account, url, measured_by).await?);
        }
        Ok(TaskCommand::RecordInputs { inputs })
    }

    async fn fetch_for_video(&self, account: Option<UserId>, work: &VideoWork) -> Result<TaskCommand, InputFailure> {
        let mut inputs = Vec::new();
        for url in work.remote() {
            inputs.push(self.picture(account, url, None).await?);
        }
        match work.footage() {
            Some(footage) if inputs.is_empty() => {
                Ok(TaskCommand::RecordFootage { clip: self.clip(account, &footage.url).await? })
            }
            _ => Ok(TaskCommand::RecordInputs { inputs }),
        }
    }

    async fn picture(
        &self,
        account: Option<UserId>,
        url: &CallbackUrl,
        measured_by: Option<ImageJob>,
    ) -> Result<Picture, InputFailure> {
        let file = self.fetcher.get(url.as_str()).await.map_err(|failure| unavailable(url, failure))?;
        self.charge(account, file.bytes.len())?;

        let _turn = self.looking.acquire(account, 1).await;
        let store = self.store.clone();

        blocking(move || {
            let bytes = &file.bytes;
            let Inspected { format, width, height } = measure(bytes).map_err(|reason| invalid(&reason))?;
            if let Some(job) = measured_by {
                job.check_output(width, height).map_err(|reason| too_large(&reason))?;
            }
            store.decoders().inspect(bytes).map_err(undecoded)?;
            store.put(Area::Input, bytes, format, width, height).map_err(|error| unkept(&error))
        })
        .await
    }

    async fn clip(&self, account: Option<UserId>, url: &CallbackUrl) -> Result<Clip, InputFailure> {
        let Some(Footage { fetcher, own }) = &self.footage else {
            return Err(InputFailure::Ours("videos cannot be fetched".to_owned()));
        };
        let store = self.store.clone();
        let own_file = url.as_str().strip_prefix(&**own).and_then(|name| store.path_of(Area::Result, name));
        if let Some(path) = own_file.filter(|path| path.exists()) {
            return blocking(move || keep_clip(&store, &std::fs::read(path).map_err(|error| unkept(&error))?)).await;
        }
        let file = fetcher.get(url.as_str()).await.map_err(|failure| unavailable(url, failure))?;
        self.charge(account, file.bytes.len())?;
        blocking(move || keep_clip(&store, &file.bytes)).await
    }

    /// Charges a fetched file to the account before it is stored.
    fn charge(&self, owner: Option<UserId>, bytes: usize) -> Result<(), InputFailure> {
        // A task without an owner does not record its client, and one client must not use up the shared anonymous
        // quota.
        let Some((quota, owner)) = self.daily_bytes.as_ref().zip(owner) else { return Ok(()) };
        quota.charge(Account::User(owner), bytes as u64).map(Charge::keep).map_err(|exceeded| {
            let QuotaExceeded { limit, left } = exceeded;
            let reason =
                format!("a fetched input has {bytes} bytes, and {left} are left of the account's {limit} a day");
            InputFailure::Final(Failure::new("quota_exceeded", &reason))
        })
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, InputFailure> + Send + 'static,
) -> Result<T, InputFailure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| InputFailure::Ours("looking at an input was interrupted".to_owned()))?
}

/// Stores a video. Blocks. The vendor checks the content of the container.
fn keep_clip(store: &Store, bytes: &[u8]) -> Result<Clip, InputFailure> {
    let format = VideoFormat::of_bytes(bytes).ok_or_else(|| invalid(&Invalid::new("must be an mp4 or webm video")))?;
    store.put_clip(Area::Input, bytes, format).map_err(|error| unkept(&error))
}

/// Names the input by its URL without query and fragment, which may contain secrets.
fn unavailable(url: &CallbackUrl, failure: FetchFailure) -> InputFailure {
    let place = url.as_str().split(['?', '#']).next().unwrap_or_default();
    let told = |reason| Failure::new("input_unavailable", &format!("{place} could not be fetched: {reason}"));
    match failure {
        FetchFailure::Final(reason) => InputFailure::Final(told(reason)),
        FetchFailure::Passing(reason) => InputFailure::Passing(told(reason)),
        FetchFailure::NoRoom(reason) => InputFailure::Ours(reason.to_string()),
    }
}

fn invalid(reason: &Invalid) -> InputFailure {
    InputFailure::Final(Failure::new("input_invalid", &format!("a fetched input {reason}")))
}

fn undecoded(error: DecodeError) -> InputFailure {
    match error {
        DecodeError::Invalid(reason) => invalid(&reason),
        DecodeError::Busy => InputFailure::Ours(error.to_string()),
    }
}

fn too_large(reason: &Invalid) -> InputFailure {
    InputFailure::Final(Failure::new("output_too_large", &format!("image {reason}")))
}

fn unkept(error: &std::io::Error) -> InputFailure {
    InputFailure::Ours(format!("a fetched input could not be stored: {error}"))
}
