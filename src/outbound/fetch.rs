//! Fetches files from URLs given by clients, within limits. Redirects are followed manually, so that every target is
//! checked against the address rules.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::client::{Answer, CallFailure, Client};

/// Maximum number of redirects.
const REDIRECTS_MAX: usize = 3;

/// Bytes per semaphore permit.
const ROOM_UNIT: usize = 64 * 1024;

/// Reason why a file was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchFailure {
    /// A retry would fail again.
    #[error("{0}")]
    Final(String),
    /// A retry may succeed.
    #[error("{0}")]
    Passing(String),
    /// The buffer space of this service is exhausted.
    #[error("{0}")]
    NoRoom(CallFailure),
}

/// A fetched file. It occupies its buffer space until dropped.
#[derive(Debug)]
pub struct Fetched {
    pub bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Fetches files. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    client: Client,
    room: Arc<Semaphore>,
}

impl Fetcher {
    /// Returns a fetcher with the rules and limits of `client`, whose body limit is the maximum file size. All files in
    /// memory together have at most `room_bytes`.
    #[must_use]
    pub fn new(client: Client, room_bytes: usize) -> Self {
        Self { client, room: Arc::new(Semaphore::new(room_bytes / ROOM_UNIT)) }
    }

    /// Returns the file at `url`.
    ///
    /// # Errors
    /// Returns [`FetchFailure`], whose text contains neither an address nor the targets of redirects.
    pub async fn get(&self, url: &str) -> Result<Fetched, FetchFailure> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let mut held = None;
            let (answer, bytes) =
                self.client.get(&url, headers(), |length| self.make_room(&mut held, length)).await.map_err(told)?;
            match answer.status {
                200 => return Ok(Fetched { bytes, _room: held }),
                301 | 302 | 303 | 307 | 308 => url = target(&url, &answer)?,
                status => return Err(refused(status)),
            }
        }
        Err(FetchFailure::Final(format!("more than {REDIRECTS_MAX} redirects")))
    }

    /// Extends the held permits to `length` bytes. It never waits, so fetches cannot deadlock.
    fn make_room(&self, held: &mut Option<OwnedSemaphorePermit>, length: usize) -> bool {
        let have = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let lack = length.div_ceil(ROOM_UNIT).saturating_sub(have);
        let Ok(more) = Arc::clone(&self.room).try_acquire_many_owned(u32::try_from(lack).unwrap_or(u32::MAX)) else {
            return false;
        };
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        true
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("image/*, */*;q=0.1"));
    headers
}

fn target(from: &str, answer: &Answer) -> Result<String, FetchFailure> {
    let location = answer.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let url = location.and_then(|location| Url::parse(from).ok()?.join(location).ok());
    url.map(String::from).ok_or_else(|| FetchFailure::Final("a redirect without a target".to_owned()))
}

fn refused(status: u16) -> FetchFailure {
    let told = format!("the server answered with status {status}");
    if matches!(status, 408 | 425 | 429 | 500..=599) { FetchFailure::Passing(told) } else { FetchFailure::Final(told) }
}

fn told(failure: CallFailure) -> FetchFailure {
    match failure {
        CallFailure::Url(_) | CallFailure::Forbidden | CallFailure::TooLarge(_) => {
            FetchFailure::Final(failure.to_string())
        }
        CallFailure::Unresolved | CallFailure::NoConnection(_) | CallFailure::TooSlow(_) | CallFailure::Broken(_) => {
            FetchFailure::Passing(failure.to_string())
        }
        CallFailure::NoRoom => FetchFailure::NoRoom(failure),
    }
}
