//! Remote video vendor: the seed's video interface below a base URL, and the creations of contract 7. As for images,
//! `request` and `answer` are pure.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};

use super::line::Line;
use super::results::Results;
use super::{NOBODYS, Options, SENT_BYTES_MAX, answer as answers, base64_of, permits};
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::image::Source;
use crate::domain::task::VendorReference;
use crate::domain::value::Text;
use crate::domain::video::{Creation, VideoWork};
use crate::media::store::Store;
use crate::outbound::fetch::Fetcher;
use crate::outbound::vendor::VendorCaller;
use crate::vendors::{ErrorKind, Job, Progress, Recovery, Unfetched, Vendor, VendorError};

mod answer;
mod request;

use answer::{Made, Polled};
use request::{creations_path, request};

/// The remote video vendor. Cheap to clone.
#[derive(Clone)]
pub struct RemoteVideo {
    line: Line,
    store: Store,
    results: Results,
    room: Arc<Semaphore>,
    moved: Arc<Notify>,
}

impl RemoteVideo {
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
        let work = job.video()?;
        let bytes = work.sources().filter_map(Source::kept).map(|picture| picture.bytes).sum();
        let Ok(_room) = self.room.acquire_many(permits(bytes)).await else {
            return Err(VendorError::new(ErrorKind::Unreached, "the service stops"));
        };
        let (path, body) = self.request_for(work, task).await?;
        let answer = self.line.post(&path, &key, body).await?;
        let id = answers::submitted(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))?;
        Ok(Text::recorded(id))
    }

    /// Returns path and body; the pictures are read and encoded on a blocking thread.
    async fn request_for(&self, work: VideoWork, task: TaskId) -> Result<(String, Bytes), VendorError> {
        let store = self.store.clone();
        let callback = self.line.options.hint_url.as_ref().map(|url| url(task));
        let made = tokio::task::spawn_blocking(move || {
            let mut read = |source: Source| source.kept().and_then(|picture| base64_of(&store, picture)).ok_or(());
            let images = work.images.into_iter().map(&mut read).collect::<Result<Vec<_>, ()>>().ok()?;
            let job = work.job.with_pictures(&mut read).ok()?;
            let request = request(&job, &images, work.seed, callback);
            Some((request.path, Bytes::from(serde_json::to_vec(&request.body).ok()?)))
        });
        let unsent = || VendorError::new(ErrorKind::Refused, "an input picture cannot be read; nothing was sent");
        made.await.ok().flatten().ok_or_else(unsent)
    }

    async fn poll_job(&self, reference: &VendorReference) -> Result<Progress, VendorError> {
        let id = reference.as_str();
        let answer = self.line.ask(&creations_path(id)).await?;

        match answer::polled(answer.status, &answer.body, id).map_err(|error| self.line.of(&answer, error))? {
            Polled::Queued => Ok(Progress::Queued { place: None }),
            Polled::Running { permille } => Ok(Progress::Running { permille }),
            Polled::Lost => Ok(Progress::Lost),
            Polled::Failed(mut failure) => {
                failure.message = Text::recorded(self.line.without_key(failure.message.as_str()));
                Ok(Progress::Failed(failure))
            }
            Polled::Done(made) => Ok(match self.bring(&made, id).await {
                Ok(creation) => Progress::Done(crate::domain::task::Results::Video(creation)),
                Err(unfetched) => Progress::Unfetched(unfetched),
            }),
        }
    }

    /// Fetches the results. A missing cover is tolerated.
    async fn bring(&self, made: &Made, id: &str) -> Result<Creation, Unfetched> {
        let video = self.results.bring_clip(&made.url, id).await?;
        let watermarked = match &made.watermarked_url {
            Some(url) if *url == made.url => Some(video),
            Some(url) => Some(self.results.bring_clip(url, id).await?),
            None => None,
        };
        let cover = match &made.cover_url {
            Some(url) => self.results.bring(std::slice::from_ref(url), id).await.ok(),
            None => None,
        };
        let cover = cover.and_then(|pictures| pictures.first().copied());
        Ok(Creation { video, cover, watermarked, at_vendor: made.id.clone().map(Text::recorded) })
    }

    async fn find_job(&self, job: Job) -> Result<Option<VendorReference>, VendorError> {
        let answer = self.line.search(&job.key).await?;
        let found = answers::found(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))?;
        Ok(found.map(Text::recorded))
    }
}

impl Vendor for RemoteVideo {
    fn name(&self) -> &'static str {
        "remote-video"
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
            let answer = self.line.ask(&creations_path(NOBODYS)).await?;
            answers::lives(answer.status, &answer.body).map_err(|error| self.line.of(&answer, error))
        }
        .boxed()
    }

    fn moved(&self) -> Arc<Notify> {
        Arc::clone(&self.moved)
    }
}
