//! Client of an S3 bucket. Requests go through the HTTP client of this module, to the address that the operator chose.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use reqwest::Body;
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::client::{CallFailure, ClientLimits, ClientSetupError, OutboundClient, STREAM_TIMEOUT};

/// Maximum number of idle connections.
const IDLE_CONNECTIONS_MAX: usize = 32;
/// Limits of an attempt. The caller limits a call as a whole, and the length of objects is not limited.
const LIMITS: ClientLimits =
    ClientLimits { connect: Duration::from_secs(3), total: STREAM_TIMEOUT, body_bytes: usize::MAX };
/// Maximum number of attempts after the first one, for failures that may be brief.
const RETRIES_MAX: usize = 2;
/// Time after which no further attempt begins.
const RETRY_TIME: Duration = Duration::from_secs(8);
const BACKOFF: BackoffConfig =
    BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(1), base: 2.0 };

/// Location of a bucket and the credentials for it.
#[derive(Clone)]
pub struct BucketEndpoint {
    pub bucket: String,
    pub region: String,
    /// URL of the server; `None` for that of the region in AWS.
    pub endpoint: Option<String>,
    pub credentials: BucketCredentials,
}

/// Access key of a bucket.
#[derive(Clone)]
pub struct BucketCredentials {
    pub key_id: String,
    pub secret_key: String,
    pub session_token: Option<String>,
}

/// Reason why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketClientError {
    #[error("{0} is not the URL of a server")]
    Endpoint(String),
    #[error(transparent)]
    Client(#[from] ClientSetupError),
    #[error("the client of the bucket cannot be created: {0}")]
    Store(#[from] object_store::Error),
}

/// Creates the client of a bucket. Sends nothing.
///
/// # Errors
/// If the endpoint is no URL, or TLS cannot be set up.
pub fn open_bucket(endpoint: &BucketEndpoint) -> Result<Arc<dyn ObjectStore>, BucketClientError> {
    let BucketEndpoint { bucket, region, endpoint, credentials } = endpoint;
    let url = endpoint.clone().unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let host = Url::parse(&url).ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.ok_or_else(|| BucketClientError::Endpoint(url.clone()))?;
    let rules = AddressRules { allow_private: true, allow: AllowEntry::parse(&host).into_iter().collect() };
    let client = OutboundClient::with_idle_connections(rules, LIMITS, None, IDLE_CONNECTIONS_MAX)?;

    let BucketCredentials { key_id, secret_key, session_token } = credentials;
    let retry = RetryConfig { backoff: BACKOFF, max_retries: RETRIES_MAX, retry_timeout: RETRY_TIME };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(region)
        .with_endpoint(&url)
        .with_allow_http(url.starts_with("http://"))
        .with_access_key_id(key_id)
        .with_secret_access_key(secret_key)
        .with_retry(retry)
        // Servers differ in what they require of requests that delete several objects.
        .with_disable_bulk_delete(true)
        .with_http_connector(Connector(client));
    if let Some(token) = session_token {
        builder = builder.with_token(token);
    }
    Ok(Arc::new(builder.build()?))
}

/// Gives the bucket's client our HTTP client.
#[derive(Clone)]
struct Connector(OutboundClient);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Connector {
    fn call<'s, 'f>(&'s self, request: HttpRequest) -> BoxFuture<'f, Result<HttpResponse, HttpError>>
    where
        's: 'f,
        Self: 'f,
    {
        self.send(request).boxed()
    }
}

impl Connector {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let sent = self.0.send(parts.method, &url, parts.headers, Body::wrap(body), LIMITS.total).await;
        let mut received = sent.map_err(http_error)?;

        let status = received.status();
        let headers = std::mem::take(received.headers_mut());
        let broken = |error: reqwest::Error| HttpError::new(HttpErrorKind::Interrupted, error.without_url());
        let mut response = HttpResponse::new(HttpResponseBody::new(Body::from(received).map_err(broken)));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn http_error(failure: CallFailure) -> HttpError {
    let kind = match &failure {
        CallFailure::ConnectFailed(_) | CallFailure::Unresolved => HttpErrorKind::Connect,
        CallFailure::TimedOut(_) => HttpErrorKind::Timeout,
        CallFailure::BrokenResponse(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, failure)
}
