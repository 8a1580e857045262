//! Fetching a file that a client named by its URL, within limits, redirects followed by hand: each place that one leads to
//! is held against the address rules like the first.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue, LOCATION};
use url::Url;

use super::client::{Answer, CallFailure, Client};

/// How many redirects are followed.
const REDIRECTS_MAX: usize = 3;

/// Why a file was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchFailure {
    /// It would fail again.
    #[error("{0}")]
    Final(String),
    /// It may be better soon.
    #[error("{0}")]
    Passing(String),
}

/// Fetches files. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    client: Client,
}

impl Fetcher {
    /// A fetcher under the rules and limits of `client`; the limit on bodies is the largest file.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The bytes of the file behind `url`.
    ///
    /// # Errors
    /// [`FetchFailure`], whose text names neither an address nor the places that redirects led to.
    pub async fn get(&self, url: &str) -> Result<Bytes, FetchFailure> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let (answer, body) =
                self.client.exchange(Method::GET, &url, headers(), Bytes::new()).await.map_err(told)?;
            match answer.status {
                200 => return Ok(body),
                301 | 302 | 303 | 307 | 308 => url = target(&url, &answer)?,
                status => return Err(refused(status)),
            }
        }
        Err(FetchFailure::Final(format!("more than {REDIRECTS_MAX} redirects")))
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
    }
}
