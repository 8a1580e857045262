//! Remote vendors. This file contains the image vendor: the seed's image interface below a base URL; `video` and
//! `music` contain the others. `request` and `answer` are pure; `results` fetches the pictures.
//!
//! The vendors are stateless: the log contains the reference of a job, `<family>:<id at the vendor>`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};

use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::image::{ImageWork, Picture, Source};
use crate::domain::task::VendorReference;
use crate::domain::value::Text;
use crate::media::store::{Area, Store};
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor::VendorCaller;
use crate::vendors::{ErrorKind, Job, Progress, Recovery, Vendor, VendorError};

mod answer;
mod line;
mod music;
mod request;
mod results;
mod video;

pub use music::{MusicOptions, RemoteMusic};
pub use video::RemoteVideo;

use answer::Polled;
use line::Line;
use request::{Pictures, request, status_family, status_path};
use results::Results;

/// Maximum number of picture bytes being sent to the vendor. Each is held three times while its request is built (file,
/// base64, body). A larger picture is sent alone.
const SENT_BYTES_MAX: u64 = 128 << 20;
/// Bytes per semaphore permit.
const ROOM_UNIT: u64 = 64 << 10;
/// Id of a job that does not exist, for health checks.
const NOBODYS: &str = "00000000-0000-0000-0000-000000000000";

/// Options of a remote vendor.
#[derive(Clone)]
pub struct Options {
    pub recovery: Recovery,
    /// Header with the key of a submission.
    pub key_header: String,
    /// Path for searches below the base URL; `{key}` is replaced by the key of the submission.
    pub search_path: String,
    /// Webhook URL of a task; without it, the vendor gets none.
    pub hint_url: Option<Arc<dyn Fn(TaskId) -> String + Send + Sync>>,
    /// Masked in all messages of the vendor.
    pub api_key: Option<String>,
}

/// The remote image vendor. Cheap to clone.
#[derive(Clone)]
pub struct RemoteImage {
    line: Line,
    store: Store,
    results: Results,
    room: Arc<Semaphore>,
    moved: Arc<Notify>,
}

impl RemoteImage {
    /// Returns the vendor that `caller` reaches. Inputs are read from `store`; results are fetched by `fetcher` and
    /// stored there.
    #[must_use]
    pub fn new(
        caller: VendorCaller,
        options: Options,
        store: Store,
        fetcher: Fetcher,
        surroundings: Surroundings,
    ) -> Self {
        let results = Results::new(fetcher, store.clone(), surroundings.mishaps());
        let room = Arc::new(Semaphore::new(permits(SENT_BYTES_MAX) as usize));
        let line = Line { caller, options, surroundings };
        Self { line, store, results, room, moved: Arc::default() }
    }

    async fn submit_job(&self, job: Job) -> Result<VendorReference, VendorError> {
        let task = job.task;
        let key = job.key.clone();
        let work = job.image()?;
        let bytes = work.sources().filter_map(Source::kept).map(|picture| picture.bytes).sum();
        let Ok(_room) = self.room.acquire_many(permits(bytes)).await else {
            return Err(VendorError::new(ErrorKind::Unreached, "the service stops"));
        };
        let family = status_family(&work.job);
        let (path, body) = self.request_for(work, task).await?;
        let answer = self.line.post(&path, &key, body).await?;
        let id = answer::submitted(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))?;
        Ok(reference(family, &id))
    }

    /// Returns path and body; the pictures are read and encoded on a blocking thread.
    async fn request_for(&self, work: ImageWork, task: TaskId) -> Result<(String, Bytes), VendorError> {
        let store = self.store.clone();
        let webhook = self.line.options.hint_url.as_ref().map(|url| url(task));
        let made = tokio::task::spawn_blocking(move || {
            let read = |source: &Source| source.kept().and_then(|picture| base64_of(&store, picture));
            let pictures = Pictures { image: read(&work.image)?, reference: work.reference.as_ref().and_then(read) };
            if work.reference.is_some() && pictures.reference.is_none() {
                return None;
            }
            let request = request(&work.job, pictures, webhook);
            Some((request.path, Bytes::from(serde_json::to_vec(&request.body).ok()?)))
        });

        let unsent = || VendorError::new(ErrorKind::Refused, "an input picture cannot be read; nothing was sent");
        made.await.ok().flatten().ok_or_else(unsent)
    }

    async fn poll_job(&self, reference: &VendorReference) -> Result<Progress, VendorError> {
        // A reference of another vendor: this one never accepted the job.
        let Some((family, id)) = reference.as_str().split_once(':') else { return Ok(Progress::Forgotten) };
        let answer = self.line.ask(&status_path(family, id)).await?;

        match answer::polled(answer.status, &answer.body, id).map_err(|error| self.line.of(&answer, error))? {
            Polled::Running => Ok(Progress::Running { permille: None }),
            Polled::Lost => Ok(Progress::Lost),
            Polled::Failed(mut failure) => {
                failure.message = Text::recorded(self.line.without_key(failure.message.as_str()));
                Ok(Progress::Failed(failure))
            }
            Polled::Done(urls) => Ok(self
                .results
                .bring(&urls, id)
                .await
                .map_or_else(Progress::Unfetched, |pictures| Progress::Done(pictures.into()))),
        }
    }

    async fn find_job(&self, job: Job) -> Result<Option<VendorReference>, VendorError> {
        let key = job.key.clone();
        let work = job.image()?;
        let answer = self.line.search(&key).await?;
        let found = answer::found(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))?;
        Ok(found.map(|id| reference(status_family(&work.job), &id)))
    }
}

impl Vendor for RemoteImage {
    fn name(&self) -> &'static str {
        "remote-image"
    }

    fn recovery(&self) -> Recovery {
        self.line.options.recovery
    }

    fn submit(&self, job: Job) -> BoxFuture<'_, Result<VendorReference, VendorError>> {
        self.submit_job(job).boxed()
    }

    fn poll(&self, reference: &VendorReference) -> BoxFuture<'_, Result<Progress, VendorError>> {
        let reference = reference.clone();
        async move { self.poll_job(&reference).await }.boxed()
    }

    fn find(&self, job: Job) -> BoxFuture<'_, Result<Option<VendorReference>, VendorError>> {
        self.find_job(job).boxed()
    }

    /// Polls a job that does not exist.
    fn lives(&self) -> BoxFuture<'_, Result<(), VendorError>> {
        async move {
            let answer = self.line.ask(&status_path("image-upscaler", NOBODYS)).await?;
            answer::lives(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))
        }
        .boxed()
    }

    fn moved(&self) -> Arc<Notify> {
        Arc::clone(&self.moved)
    }
}

fn reference(family: &str, id: &str) -> VendorReference {
    Text::recorded(format!("{family}:{id}"))
}

/// Returns a picture in base64. Blocks. Logs a read error for the operator.
fn base64_of(store: &Store, picture: &Picture) -> Option<String> {
    match store.read(Area::Input, picture) {
        Ok(bytes) => Some(STANDARD.encode(bytes)),
        Err(error) => {
            tracing::error!(%error, "an input picture cannot be read");
            None
        }
    }
}

/// Returns the number of permits for pictures of this size, at most all.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.clamp(1, SENT_BYTES_MAX).div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX)
}
