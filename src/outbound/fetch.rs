//! Fetches files from URLs given by clients, within limits. Redirects are followed manually, so that every target is
//! checked against the address rules.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use super::client::{CallFailure, OutboundClient, ResponseHead};

/// Maximum number of redirects.
const REDIRECTS_MAX: usize = 3;

/// Bytes per semaphore permit.
const BYTES_PER_PERMIT: usize = 64 * 1024;

/// Reason why a file was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchFailure {
    /// A retry would fail again.
    #[error("{0}")]
    Permanent(String),
    /// A retry may succeed.
    #[error("{0}")]
    Transient(String),
    /// The host name has no address. A retry may succeed, but hardly ever does.
    #[error("{0}")]
    Unresolved(String),
    /// The buffer space of this service is exhausted.
    #[error("{0}")]
    BufferFull(CallFailure),
}

/// A fetched file. It occupies its buffer space until dropped.
#[derive(Debug)]
pub struct FetchedFile {
    pub bytes: Bytes,
    _reservation: Option<OwnedSemaphorePermit>,
}

/// Fetches files. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    client: OutboundClient,
    buffer_budget: Arc<Semaphore>,
}

impl Fetcher {
    /// Creates a fetcher with the rules and limits of `client`, whose body limit is the maximum file size. All files in
    /// memory together have at most `buffer_bytes`.
    #[must_use]
    pub fn new(client: OutboundClient, buffer_bytes: usize) -> Self {
        Self { client, buffer_budget: Arc::new(Semaphore::new(buffer_bytes / BYTES_PER_PERMIT)) }
    }

    /// Returns the maximum size of a file.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.client.body_bytes()
    }

    /// Downloads the file at `url`, following up to `REDIRECTS_MAX` redirects, and reserves buffer space for it.
    ///
    /// # Errors
    /// Returns [`FetchFailure`], whose text contains neither an address nor the targets of redirects.
    pub async fn get(&self, url: &str) -> Result<FetchedFile, FetchFailure> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let mut reservation = None;
            let (head, bytes) = self
                .client
                .get(&url, request_headers(), |length| self.grow_reservation(&mut reservation, length))
                .await
                .map_err(call_failure)?;
            match head.status {
                200 => return Ok(FetchedFile { bytes, _reservation: reservation }),
                301 | 302 | 303 | 307 | 308 => url = redirect_target(&url, &head)?,
                status => return Err(status_failure(status)),
            }
        }
        Err(FetchFailure::Permanent(format!("more than {REDIRECTS_MAX} redirects")))
    }

    /// Extends the reservation to `length` bytes; returns `false` if the buffer space is exhausted. Never waits, so
    /// fetches cannot deadlock.
    fn grow_reservation(&self, reservation: &mut Option<OwnedSemaphorePermit>, length: usize) -> bool {
        let held_permits = reservation.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing_permits = length.div_ceil(BYTES_PER_PERMIT).saturating_sub(held_permits);
        let Ok(permits) =
            Arc::clone(&self.buffer_budget).try_acquire_many_owned(u32::try_from(missing_permits).unwrap_or(u32::MAX))
        else {
            return false;
        };
        match reservation {
            Some(reservation) => reservation.merge(permits),
            None => *reservation = Some(permits),
        }
        true
    }
}

fn request_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("image/*, */*;q=0.1"));
    headers
}

fn redirect_target(from: &str, head: &ResponseHead) -> Result<String, FetchFailure> {
    let location = head.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let url = location.and_then(|location| Url::parse(from).ok()?.join(location).ok());
    url.map(String::from).ok_or_else(|| FetchFailure::Permanent("redirect without a Location".to_owned()))
}

/// Returns the failure of a fetch whose response has `status`, which is neither 200 nor a redirect.
#[must_use]
pub fn status_failure(status: u16) -> FetchFailure {
    let message = format!("the server responded with status {status}");
    if matches!(status, 408 | 425 | 429 | 500..=599) {
        FetchFailure::Transient(message)
    } else {
        FetchFailure::Permanent(message)
    }
}

/// Returns the failure of a call without a response.
#[must_use]
pub fn call_failure(failure: CallFailure) -> FetchFailure {
    match failure {
        CallFailure::InvalidUrl(_) | CallFailure::InvalidHeader | CallFailure::Forbidden | CallFailure::TooLarge(_) => {
            FetchFailure::Permanent(failure.to_string())
        }
        CallFailure::Unresolved => FetchFailure::Unresolved(failure.to_string()),
        CallFailure::ConnectFailed(_) | CallFailure::TimedOut(_) | CallFailure::BrokenResponse(_) => {
            FetchFailure::Transient(failure.to_string())
        }
        CallFailure::BufferFull => FetchFailure::BufferFull(failure),
    }
}
