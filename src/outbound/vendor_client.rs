//! Calls to one vendor at its configured URL. Credentials are sent only there: redirects are not followed, and results
//! at other URLs are fetched by `fetch`.
//!
//! A submission uses a new connection. If the server closed a reused one at that moment, it would be unknown whether
//! the job arrived. Polls may be repeated, so they share connections.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::callback::retry_after;
use super::client::{CallFailure, ClientLimits, ClientSetupError, OutboundClient, ResponseBodyStream, ResponseHead};
use crate::domain::value::Timestamp;

/// Maximum size of a response without a result, in bytes. The response to a poll has a few hundred.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of idle connections for polls.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Text shown in place of an API key.
const MASK: &str = "********";

/// Address, credentials and timeouts of a vendor.
#[derive(Clone)]
pub struct VendorEndpoint {
    /// Base URL without a trailing slash.
    pub base: String,
    pub auth: VendorAuth,
    pub api_key: Option<String>,
    /// Time to connect, including TLS.
    pub connect_timeout: Duration,
    /// Total time of a submission.
    pub submit_timeout: Duration,
    /// Total time of a poll.
    pub poll_timeout: Duration,
    /// Total time of a download from the vendor itself.
    pub download_timeout: Duration,
}

/// Location of the API key in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VendorAuth {
    /// The key is in a header, after the scheme if there is one. With `Basic`, the key is `user:password`.
    Header { name: String, scheme: Option<String> },
    /// The key is in a query parameter.
    Query { name: String },
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
    /// Target of a redirect, which is not followed with credentials.
    pub location: Option<String>,
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// A request below the base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorRequest {
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub content_type: Option<String>,
    pub body: Bytes,
    /// Maximum size of the response.
    pub response_bytes: usize,
}

/// Kind of a call; determines its connection and timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VendorCallKind {
    /// Starts a job; sent once on a new connection.
    Submission,
    /// May be repeated.
    Read,
    /// Reads a file; may be repeated.
    Download,
}

/// Client of one vendor. Cheap to clone.
#[derive(Clone)]
pub struct VendorClient {
    base: String,
    headers: HeaderMap,
    auth_query: Option<String>,
    submit_client: OutboundClient,
    poll_client: OutboundClient,
    download_client: OutboundClient,
}

impl VendorClient {
    /// Creates the client of a vendor. Private addresses are allowed, because the operator chose the URL.
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
            auth_query: auth_query(endpoint),
            download_client: OutboundClient::new(rules.clone(), limits(endpoint.download_timeout))?,
            submit_client: OutboundClient::new(rules.clone(), limits(endpoint.submit_timeout))?,
            poll_client: OutboundClient::with_idle_connections(
                rules,
                limits(endpoint.poll_timeout),
                None,
                IDLE_CONNECTIONS_MAX,
            )?,
        })
    }

    /// Sends a request and reads the response. `at` is the current time, to resolve a date in `Retry-After`.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response came within the limits.
    pub async fn send(
        &self,
        kind: VendorCallKind,
        request: VendorRequest,
        at: Timestamp,
    ) -> Result<VendorResponse, CallFailure> {
        let client = match kind {
            VendorCallKind::Submission => &self.submit_client,
            VendorCallKind::Read => &self.poll_client,
            VendorCallKind::Download => &self.download_client,
        };

        let headers = self.headers_of(&request)?;
        let url = self.url_of(&request.path);
        let method = method_of(&request);
        let response = client.exchange_within(method, &url, headers, request.body, request.response_bytes).await?;
        Ok(to_vendor_response(response, at))
    }

    /// Returns the request line and the headers of the request. Masks an API key in a header. A key in the query is
    /// visible, so the caller must mask it.
    #[must_use]
    pub fn describe(&self, request: &VendorRequest) -> Vec<String> {
        let headers = self.headers_of(request).unwrap_or_default();
        let masked = |value: &HeaderValue| match value.to_str() {
            Ok(text) if value.is_sensitive() => match text.split_once(' ') {
                Some((scheme, _)) => format!("{scheme} {MASK}"),
                None => MASK.to_owned(),
            },
            Ok(text) => text.to_owned(),
            Err(_) => "(not text)".to_owned(),
        };
        let headers = headers.iter().map(|(name, value)| format!("{name}: {}", masked(value)));
        std::iter::once(format!("{} {}", request.method, self.url_of(&request.path))).chain(headers).collect()
    }

    /// Sends a job and opens the streaming response. The returned [`VendorResponse`] has an empty body. `at` is the
    /// current time, to resolve a date in `Retry-After`.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began within the limits.
    pub async fn open_stream(
        &self,
        request: VendorRequest,
        idle_timeout: Duration,
        at: Timestamp,
    ) -> Result<(VendorResponse, ResponseBodyStream), CallFailure> {
        let headers = self.headers_of(&request)?;
        let url = self.url_of(&request.path);
        let method = method_of(&request);
        let (head, stream) =
            self.submit_client.open_stream(method, &url, (headers, request.body), idle_timeout).await?;
        Ok((to_vendor_response((head, Bytes::new()), at), stream))
    }

    /// Returns the default headers and those of the request, which take precedence.
    fn headers_of(&self, request: &VendorRequest) -> Result<HeaderMap, CallFailure> {
        let mut headers = self.headers.clone();
        let request_headers = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let content_type = request.content_type.as_deref().map(|value| (CONTENT_TYPE.as_str(), value));
        for (name, value) in request_headers.chain(content_type) {
            let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) = parsed.ok_or(CallFailure::InvalidHeader)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Returns the URL of a path, with the API key if it is sent in the query.
    fn url_of(&self, path: &str) -> String {
        let Some(query) = &self.auth_query else { return format!("{}{path}", self.base) };
        let separator = if path.contains('?') { '&' } else { '?' };
        format!("{}{path}{separator}{query}", self.base)
    }
}

/// Returns the method, whose name comes from an enum of valid ones; the fallback never applies.
fn method_of(request: &VendorRequest) -> Method {
    Method::from_bytes(request.method.as_bytes()).unwrap_or(Method::POST)
}

/// Returns the headers of every request; `None` if the API key or the name of its header is not valid in HTTP.
fn default_headers(endpoint: &VendorEndpoint) -> Option<HeaderMap> {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    if let (VendorAuth::Header { name, scheme }, Some(key)) = (&endpoint.auth, &endpoint.api_key) {
        let name = HeaderName::try_from(name).ok()?;
        let value = match scheme.as_deref() {
            Some("Basic") => format!("Basic {}", STANDARD.encode(key)),
            Some(scheme) => format!("{scheme} {key}"),
            None => key.clone(),
        };
        let mut value = HeaderValue::from_str(&value).ok()?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Some(headers)
}

/// Returns the query parameter with the API key, if the key is sent that way.
fn auth_query(endpoint: &VendorEndpoint) -> Option<String> {
    let (VendorAuth::Query { name }, Some(key)) = (&endpoint.auth, &endpoint.api_key) else { return None };
    Some(url::form_urlencoded::Serializer::new(String::new()).append_pair(name, key).finish())
}

fn to_vendor_response((head, body): (ResponseHead, Bytes), at: Timestamp) -> VendorResponse {
    let header = |name| head.headers.get(name)?.to_str().ok().map(str::to_owned);
    let location = header(LOCATION);
    let content_type = header(CONTENT_TYPE);
    VendorResponse { status: head.status, retry_after: retry_after(&head, at), location, content_type, body }
}
