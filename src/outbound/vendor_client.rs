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
use super::callback::retry_after;
use super::client::{CallFailure, ClientLimits, ClientSetupError, OutboundClient, ResponseHead};
use super::ndjson::NdjsonReader;
use crate::domain::value::Timestamp;

/// Maximum size of a response in bytes; that to a poll has a few hundred.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of idle connections for polls.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Address and timeouts of a vendor.
#[derive(Clone)]
pub struct VendorEndpoint {
    /// Without a trailing slash.
    pub base: String,
    /// Header with the key; in `Authorization` it is preceded by `Bearer`.
    pub auth_header: String,
    pub api_key: Option<String>,
    /// Time to connect, including TLS.
    pub connect_timeout: Duration,
    /// Total time of a submission.
    pub submit_timeout: Duration,
    /// Total time of a poll.
    pub poll_timeout: Duration,
}

/// Reason why a vendor cannot be called.
#[derive(Debug, thiserror::Error)]
pub enum VendorEndpointError {
    #[error("the URL is invalid")]
    Url,
    #[error("auth_header or api_key contains characters that are not allowed in a header")]
    Credentials,
    #[error(transparent)]
    Client(#[from] ClientSetupError),
}

/// Response of a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorResponse {
    pub status: u16,
    /// Pause that the vendor asks for.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// Body of a POST request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorPostBody {
    pub content_type: String,
    pub body: Bytes,
}

/// Limits of a streaming response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamingLimits {
    /// Longest silence.
    pub idle_timeout: Duration,
    /// Longest line, in bytes.
    pub line_bytes: usize,
}

/// Client of one vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorClient {
    base: String,
    headers: HeaderMap,
    submit_client: OutboundClient,
    poll_client: OutboundClient,
}

impl VendorClient {
    /// Returns a client of a vendor. Private addresses are allowed, because the operator chose the URL.
    ///
    /// # Errors
    /// Returns [`VendorEndpointError`] if the settings are invalid.
    pub fn new(endpoint: &VendorEndpoint) -> Result<Self, VendorEndpointError> {
        let url = Url::parse(&endpoint.base).map_err(|_| VendorEndpointError::Url)?;
        let host = url.host_str().ok_or(VendorEndpointError::Url)?;
        let rules = AddressRules { allow_private: true, allow: AllowEntry::parse(host).into_iter().collect() };
        let limits = |total| ClientLimits { connect: endpoint.connect_timeout, total, body_bytes: RESPONSE_BYTES_MAX };
        Ok(Self {
            base: endpoint.base.clone(),
            headers: default_headers(endpoint).ok_or(VendorEndpointError::Credentials)?,
            submit_client: OutboundClient::new(rules.clone(), limits(endpoint.submit_timeout))?,
            poll_client: OutboundClient::with_idle_connections(
                rules,
                limits(endpoint.poll_timeout),
                None,
                IDLE_CONNECTIONS_MAX,
            )?,
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
    ) -> Result<VendorResponse, CallFailure> {
        let headers = self.headers_with(key, HeaderValue::from_static("application/json"));
        let url = format!("{}{path}", self.base);
        Ok(to_vendor_response(self.submit_client.exchange(Method::POST, &url, headers, body).await?, at))
    }

    /// Posts a job and streams the response line by line. The returned [`VendorResponse`] has no body.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began within the limits.
    pub async fn post_streaming(
        &self,
        path: &str,
        key: (&str, &str),
        VendorPostBody { content_type, body }: VendorPostBody,
        StreamingLimits { idle_timeout, line_bytes }: StreamingLimits,
        at: Timestamp,
    ) -> Result<(VendorResponse, NdjsonReader), CallFailure> {
        let content_type =
            HeaderValue::from_str(&content_type).map_err(|_| CallFailure::InvalidUrl("has an invalid content type"))?;
        let mut headers = self.headers_with(key, content_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/x-ndjson"));

        let url = format!("{}{path}", self.base);
        let (head, stream) = self.submit_client.open_stream(Method::POST, &url, (headers, body), idle_timeout).await?;
        Ok((to_vendor_response((head, Bytes::new()), at), NdjsonReader::new(stream, line_bytes)))
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
    pub async fn get(&self, path: &str, at: Timestamp) -> Result<VendorResponse, CallFailure> {
        let url = format!("{}{path}", self.base);
        Ok(to_vendor_response(
            self.poll_client.exchange(Method::GET, &url, self.headers.clone(), Bytes::new()).await?,
            at,
        ))
    }
}

fn default_headers(endpoint: &VendorEndpoint) -> Option<HeaderMap> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    if let Some(key) = &endpoint.api_key {
        let name = HeaderName::try_from(&endpoint.auth_header).ok()?;
        let value = if name == AUTHORIZATION { format!("Bearer {key}") } else { key.clone() };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Some(headers)
}

fn to_vendor_response((head, body): (ResponseHead, Bytes), at: Timestamp) -> VendorResponse {
    VendorResponse { status: head.status, retry_after: retry_after(&head, at), body }
}
