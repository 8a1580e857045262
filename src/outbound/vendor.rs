//! Calls to one vendor, at the place that the operator has configured. Its credentials go there and nowhere else: no redirect is
//! followed, and results are fetched by others (`fetch`).
//!
//! A submission goes out on a connection of its own: on one that was kept, a server that closes it at that moment would leave
//! open whether the job arrived. Questions may be asked twice, so they share connections.

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

/// Most bytes of an answer; one about a task has a few hundred.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Connections for questions that are kept while nothing is asked.
const IDLE_MAX: usize = 64;

/// Where a vendor is, and how long its answers may take.
#[derive(Clone)]
pub struct VendorPlace {
    /// Without a slash at its end.
    pub base: String,
    /// The header that carries the key. In `Authorization` the word Bearer goes before it.
    pub auth_header: String,
    pub api_key: Option<String>,
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For a submission whole.
    pub submit: Duration,
    /// For a question whole.
    pub poll: Duration,
}

/// Why a vendor cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum VendorPlaceError {
    #[error("the URL is not one that can be called")]
    Url,
    #[error("the header or the key holds characters that no header can carry")]
    Credentials,
    #[error(transparent)]
    Client(#[from] ClientFailure),
}

/// What a vendor answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorAnswer {
    pub status: u16,
    /// How long it asks to be left alone.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// What is posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    pub content_type: String,
    pub body: Bytes,
}

/// How an answer is listened to that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    /// The longest silence within it.
    pub silence: Duration,
    /// The longest line, in bytes.
    pub line_bytes: usize,
}

/// Speaks to one vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorCaller {
    base: String,
    headers: HeaderMap,
    submitting: Client,
    asking: Client,
}

impl VendorCaller {
    /// A caller of the vendor there. The operator has named the place, so it may be anywhere, this machine included.
    ///
    /// # Errors
    /// [`VendorPlaceError`] when the settings cannot be used.
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

    /// Posts a job, under a key in a header of this name.
    ///
    /// # Errors
    /// [`CallFailure`] when no answer came within the limits.
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

    /// Posts a job that is answered line by line while it is worked on, and listens. The outer answer has no body yet.
    ///
    /// # Errors
    /// [`CallFailure`] when no answer began within the limits.
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

    /// Asks.
    ///
    /// # Errors
    /// [`CallFailure`] when no answer came within the limits.
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
