//! Inputs that were given as URLs: fetched by the worker, looked at like those that came with the submission, and kept.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::domain::image::{ImageWork, Picture};
use crate::domain::task::Failure;
use crate::domain::value::{Invalid, Text};
use crate::media::input::{self, Inspected};
use crate::media::store::{Area, Store};
use crate::outbound::fetch::{FetchFailure, Fetcher};

/// Pictures that are looked at at once: each may take 16 bytes a pixel.
const LOOKED_AT_ONCE: usize = 2;

/// Why an input is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFailure {
    /// The task cannot be done.
    Final(Failure),
    /// It may be better soon; the failure of a task that does not wait for that.
    Passing(Failure),
    /// The task is not to blame, and waits.
    Ours(String),
}

/// Fetches and keeps inputs. Cheap to clone.
#[derive(Clone)]
pub struct Inputs {
    fetcher: Fetcher,
    store: Store,
    looking: Arc<Semaphore>,
}

impl Inputs {
    /// Inputs that go to `store`.
    #[must_use]
    pub fn new(fetcher: Fetcher, store: Store) -> Self {
        Self { fetcher, store, looking: Arc::new(Semaphore::new(LOOKED_AT_ONCE)) }
    }

    /// Fetches every picture of a job that is at a URL still, in the order in which the job names them.
    ///
    /// # Errors
    /// The first failure.
    pub async fn fetch(&self, work: &ImageWork) -> Result<Vec<Picture>, InputFailure> {
        let mut pictures = Vec::new();
        let image_is_remote = work.image.kept().is_none();
        for (nth, url) in work.remote().enumerate() {
            let file = self.fetcher.get(url.as_str()).await.map_err(unavailable)?;
            // Only the picture that is worked on decides the size of the result.
            let measured_by = (nth == 0 && image_is_remote).then(|| work.job.clone());
            let Ok(_turn) = Arc::clone(&self.looking).acquire_owned().await else {
                return Err(InputFailure::Ours("the service stops".to_owned()));
            };
            let store = self.store.clone();
            let kept = tokio::task::spawn_blocking(move || {
                let bytes = &file.bytes;
                let Inspected { format, width, height } = input::measure(bytes).map_err(|reason| invalid(&reason))?;
                if let Some(job) = measured_by {
                    job.check_output(width, height).map_err(|reason| too_large(&reason))?;
                }
                input::inspect(bytes).map_err(|reason| invalid(&reason))?;
                store.put(Area::Input, bytes, format, width, height).map_err(|error| unkept(&error))
            });
            pictures.push(kept.await.map_err(|_| InputFailure::Ours("looking at it was interrupted".to_owned()))??);
        }
        Ok(pictures)
    }
}

fn unavailable(failure: FetchFailure) -> InputFailure {
    let told = |reason| self::failure("input_unavailable", &format!("an input could not be fetched: {reason}"));
    match failure {
        FetchFailure::Final(reason) => InputFailure::Final(told(reason)),
        FetchFailure::Passing(reason) => InputFailure::Passing(told(reason)),
        FetchFailure::NoRoom(reason) => InputFailure::Ours(reason.to_string()),
    }
}

fn invalid(reason: &Invalid) -> InputFailure {
    InputFailure::Final(failure("input_invalid", &format!("a fetched input {reason}")))
}

fn too_large(reason: &Invalid) -> InputFailure {
    InputFailure::Final(failure("output_too_large", &format!("image {reason}")))
}

fn unkept(error: &std::io::Error) -> InputFailure {
    InputFailure::Ours(format!("a fetched input could not be stored: {error}"))
}

fn failure(code: &str, message: &str) -> Failure {
    let message = message.chars().filter(|c| !c.is_control()).take(1000).collect();
    Failure { code: Text::recorded(code.to_owned()), message: Text::recorded(message) }
}
