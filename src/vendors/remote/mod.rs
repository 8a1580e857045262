//! Remote vendors. That of images: the seed's image interface below a base URL; those of videos and music are in `video` and `music`. What is asked (`request`) and what the answers mean
//! (`answer`) are pure; this file carries them, and `results` brings the pictures home.
//!
//! They keep nothing: a job is known by the reference that the log has, `<family>:<id at the vendor>`.

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

/// Bytes of pictures that are on their way to the vendor at a time, at most: each is held three times over while its request is
/// made (the file, its base64, the body). A larger picture goes alone.
const SENT_BYTES_MAX: u64 = 128 << 20;
/// Bytes that one permit stands for.
const ROOM_UNIT: u64 = 64 << 10;
/// The job that nobody has, asked for to see whether the vendor answers.
const NOBODYS: &str = "00000000-0000-0000-0000-000000000000";

/// How the vendor is spoken to.
#[derive(Clone)]
pub struct Options {
    pub recovery: Recovery,
    /// The header that carries the key of a submission.
    pub key_header: String,
    /// Where jobs are searched for, below the base URL; `{key}` stands for the key of the submission.
    pub search_path: String,
    /// Where the vendor may hint that a task has moved; without it the vendor is told of no place.
    pub hint_url: Option<Arc<dyn Fn(TaskId) -> String + Send + Sync>>,
    /// Never told, even where the vendor tells it.
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
    /// The vendor that `caller` reaches. Inputs are read from `store`, and results that `fetcher` brings go there.
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
        let (task, key) = (job.task, job.key.clone());
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

    /// Path and body; reading and encoding go on beside the other work.
    async fn request_for(&self, work: ImageWork, task: TaskId) -> Result<(String, Bytes), VendorError> {
        let (store, webhook) = (self.store.clone(), self.line.options.hint_url.as_ref().map(|url| url(task)));
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
        // Of another vendor: this one never took it.
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

    /// It is asked about a job that nobody has.
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

/// Blocks. A picture that cannot be read is for the operator's log.
fn base64_of(store: &Store, picture: &Picture) -> Option<String> {
    match store.read(Area::Input, picture) {
        Ok(bytes) => Some(STANDARD.encode(bytes)),
        Err(error) => {
            tracing::error!(%error, "an input picture cannot be read");
            None
        }
    }
}

/// What pictures of so many bytes take of the room, never more than there is.
fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.clamp(1, SENT_BYTES_MAX).div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX)
}
