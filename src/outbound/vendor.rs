//! Calls to one vendor at its configured URL. Credentials are sent only there: redirects are not followed, and results
//! are fetched by `fetch`.
//!
//! A submission uses a new connection. On a reused one that the server closes at that moment, it would be unknown
//! whether the job arrived. Polls may be repeated, so they share connections.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::callback::pause;
use super::client::{Answer, CallFailure, Client, ClientFailure, Limits};
use super::lines::Lines;
use crate::domain::value::Timestamp;

/// Maximum size of a response in bytes; that to a poll has a few hundred.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of idle connections for polls.
const IDLE_MAX: usize = 64;

/// Address and timeouts of a vendor.
#[derive(Clone)]
pub struct VendorPlace {
    /// Without a trailing slash.
    pub base: String,
    /// Header with the key; in `Authorization` it is preceded by `Bearer`.
    pub auth_header: String,
    pub api_key: Option<String>,
    /// Time to connect, including TLS.
    pub connect: Duration,
    /// Total time of a submission.
    pub submit: Duration,
    /// Total time of a poll.
    pub poll: Duration,
}

/// Reason why a vendor cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum VendorPlaceError {
    #[error("the URL is not one that can be called")]
    Url,
    #[error("the header or the key holds characters that no header can carry")]
    Credentials,
    #[error(transparent)]
    Client(#[from] ClientFailure),
}

/// Response of a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorAnswer {
    pub status: u16,
    /// Pause that the vendor asks for.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// Body of a POST request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub content_type: String,
    pub body: Bytes,
}

/// Limits of a streaming response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// Longest silence.
    pub silence: Duration,
    /// Longest line, in bytes.
    pub line_bytes: usize,
}

/// Client of one vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorCaller {
    base: String,
    headers: HeaderMap,
    submitting: Client,
    asking: Client,
}

impl VendorCaller {
    /// Returns a client of a vendor. Private addresses are allowed, because the operator chose the URL.
    ///
    /// # Errors
    /// Returns [`VendorPlaceError`] if the settings are invalid.
    pub fn new(place: &VendorPlace) -> Result<Self, VendorPlaceError> {
        let url = Url::parse(&place.base).map_err(|_| VendorPlaceError::Url)?;
        let host = url.host_str().ok_or(VendorPlaceError::Url)?;
        let rules = AddressRules { allow_private: true, allow: AllowEntry::parse(host).into_iter().collect() };
        let limits = |total| Limits { connect: place.connect, total, body_bytes: ANSWER_BYTES_MAX };
        Ok(Self {
            base: place.base.clone(),
            headers: headers(place).ok_or(VendorPlaceError::Credentials)?,
            submitting: Client::new(rules.clone(), limits(place.submit))?,
            asking: Client::keeping(rules, limits(place.poll), None, IDLE_MAX)?,
        })
    }

    /// Posts a job, with an idempotency key in the named header.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response came within the limits.
    pub async fn post(
        &self,
        path: &str,
        key: (&str, &str),
        body: Bytes,
        at: Timestamp,
    ) -> Result<VendorAnswer, CallFailure> {
        let headers = self.headers_with(key, HeaderValue::from_static("application/json"));
        let url = format!("{}{path}", self.base);
        Ok(told(self.submitting.exchange(Method::POST, &url, headers, body).await?, at))
    }

    /// Posts a job and streams the response line by line. The returned [`VendorAnswer`] has no body.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began within the limits.
    pub async fn listen(
        &self,
        path: &str,
        key: (&str, &str),
        Posted { content_type, body }: Posted,
        Listening { silence, line_bytes }: Listening,
        at: Timestamp,
    ) -> Result<(VendorAnswer, Lines), CallFailure> {
        let kind = HeaderValue::from_str(&content_type).map_err(|_| CallFailure::Url("has an odd content type"))?;
        let mut headers = self.headers_with(key, kind);
        headers.insert(ACCEPT, HeaderValue::from_static("application/x-ndjson"));

        let url = format!("{}{path}", self.base);
        let (answer, incoming) = self.submitting.open(Method::POST, &url, (headers, body), silence).await?;
        Ok((told((answer, Bytes::new()), at), Lines::new(incoming, line_bytes)))
    }

    fn headers_with(&self, (key_header, key): (&str, &str), content_type: HeaderValue) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, content_type);
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key_header), HeaderValue::from_str(key)) {
            headers.insert(name, value);
        }
        headers
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response came within the limits.
    pub async fn get(&self, path: &str, at: Timestamp) -> Result<VendorAnswer, CallFailure> {
        let url = format!("{}{path}", self.base);
        Ok(told(self.asking.exchange(Method::GET, &url, self.headers.clone(), Bytes::new()).await?, at))
    }
}

fn headers(place: &VendorPlace) -> Option<HeaderMap> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    if let Some(key) = &place.api_key {
        let name = HeaderName::try_from(&place.auth_header).ok()?;
        let value = if name == AUTHORIZATION { format!("Bearer {key}") } else { key.clone() };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Some(headers)
}

fn told((answer, body): (Answer, Bytes), at: Timestamp) -> VendorAnswer {
    VendorAnswer { status: answer.status, retry_after: pause(&answer, at), body }
}
