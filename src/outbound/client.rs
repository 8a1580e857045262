//! The HTTP client for all outgoing requests: limited, and restricted to permitted addresses.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Body, ClientBuilder, Method, Response};
use url::{Host, Url};

use super::address::AddressRules;
use super::resolver::FilteringResolver;
use super::upload_body::UploadBody;
use crate::environment::HostResolver;

/// `User-Agent` of all requests.
const USER_AGENT: &str = concat!("mediary/", env!("CARGO_PKG_VERSION"));

/// Maximum number of header fields of a response; hyper limits their size to about 400 KiB.
const HEADERS_MAX: usize = 64;

/// Timeout of streaming responses: practically unlimited.
pub(super) const STREAM_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// Limits of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// Time to connect, including TLS.
    pub connect: Duration,
    /// Time from the DNS lookup to the last byte read.
    pub total: Duration,
    /// Bytes of a body that are read; the connection is closed after that.
    pub body_bytes: usize,
}

/// Limits of webhooks: 15 s in total (contract 8).
impl Default for ClientLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), total: Duration::from_secs(15), body_bytes: 64 * 1024 }
    }
}

/// A response without its body.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: u16,
    pub headers: HeaderMap,
}

/// Reason why there was no response. Contains neither the URL nor a resolved address, so it can be shown to the client
/// that gave the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The URL is not allowed.
    #[error("the URL {0}")]
    InvalidUrl(&'static str),
    /// A header of the request is not allowed in HTTP.
    #[error("a header of the request contains characters that are not allowed")]
    InvalidHeader,
    /// The address rules forbid all addresses of the host.
    #[error("the egress rules forbid calls to this address")]
    Forbidden,
    /// The name has no address, or the lookup failed.
    #[error("cannot resolve the host name")]
    Unresolved,
    /// The connection failed.
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    /// The time limit was exceeded.
    #[error("no response within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The body exceeds the size limit.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// Other fetches use all of the buffer space.
    #[error("all fetch buffers are in use")]
    BufferFull,
    /// The connection ended before the response was complete, or the response was not HTTP.
    #[error("no response: {0}")]
    BrokenResponse(String),
}

/// Failure to set up the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client: {0}")]
pub struct ClientSetupError(#[source] reqwest::Error);

/// Sends requests. Cheap to clone.
#[derive(Clone)]
pub struct OutboundClient {
    http: reqwest::Client,
    rules: Arc<AddressRules>,
    limits: ClientLimits,
}

/// A streaming response body.
pub struct ResponseBodyStream {
    response: Response,
    idle_timeout: Duration,
}

impl ResponseBodyStream {
    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the connection broke or was silent for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallFailure> {
        let result = tokio::time::timeout(self.idle_timeout, self.response.chunk()).await;
        let chunk = result.map_err(|_| CallFailure::TimedOut(self.idle_timeout))?;
        chunk.map_err(|error| CallFailure::BrokenResponse(root_cause(&error)))
    }
}

impl OutboundClient {
    /// Creates a client with these rules and limits. It trusts the certificates that the machine trusts.
    ///
    /// # Errors
    /// Returns [`ClientSetupError`] if TLS cannot be set up.
    pub fn new(rules: AddressRules, limits: ClientLimits) -> Result<Self, ClientSetupError> {
        Self::with_resolver(rules, limits, None)
    }

    /// Creates a client whose host names are resolved by `resolver`, if given, for tests.
    ///
    /// # Errors
    /// Returns [`ClientSetupError`] if TLS cannot be set up.
    pub fn with_resolver(
        rules: AddressRules,
        limits: ClientLimits,
        resolver: Option<&HostResolver>,
    ) -> Result<Self, ClientSetupError> {
        Self::with_idle_connections(rules, limits, resolver, 0)
    }

    /// Creates a client that keeps up to `idle` connections per host. Reused connections skip the lookup and its check,
    /// so this is only for hosts chosen by the operator.
    pub(super) fn with_idle_connections(
        rules: AddressRules,
        limits: ClientLimits,
        resolver: Option<&HostResolver>,
        idle: usize,
    ) -> Result<Self, ClientSetupError> {
        install_tls();
        let rules = Arc::new(rules);
        let builder = || client_builder(&rules, resolver, limits).pool_max_idle_per_host(idle);
        let http = builder().build().or_else(|error| {
            tracing::warn!(%error, "no trusted certificates found, https will not work");
            builder().tls_certs_only([]).build()
        });

        Ok(Self { http: http.map_err(ClientSetupError)?, rules, limits })
    }

    /// Returns the maximum size of a response.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.limits.body_bytes
    }

    /// Posts `body` and returns the response without its body. Redirects are returned like any other response.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the rules forbid the call or no response came within the limits.
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<ResponseHead, CallFailure> {
        let mut response = self.send(Method::POST, url, headers, body, self.limits.total).await?;
        let head = ResponseHead { status: response.status().as_u16(), headers: std::mem::take(response.headers_mut()) };
        drain_body(response, self.limits.body_bytes).await;
        Ok(head)
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the rules forbid the call, no response came within the limits, or its body is too
    /// large.
    pub async fn exchange(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(ResponseHead, Bytes), CallFailure> {
        self.exchange_within(method, url, headers, body, self.limits.body_bytes).await
    }

    /// Sends a request and reads the whole response, of at most `body_bytes`.
    ///
    /// # Errors
    /// Same as [`OutboundClient::exchange`].
    pub async fn exchange_within(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        body_bytes: usize,
    ) -> Result<(ResponseHead, Bytes), CallFailure> {
        let response = self.send(method, url, headers, body, self.limits.total).await?;
        self.read_body(response, body_bytes, |_| true).await
    }

    /// Sends a file, within `total`, and reads the whole response.
    ///
    /// # Errors
    /// Same as [`OutboundClient::exchange`].
    pub async fn upload(
        &self,
        url: &str,
        headers: HeaderMap,
        body: UploadBody,
        total: Duration,
    ) -> Result<(ResponseHead, Bytes), CallFailure> {
        let response = self.send(Method::PUT, url, headers, Body::wrap(body), total).await?;
        self.read_body(response, self.limits.body_bytes, |_| true).await
    }

    /// Sends a GET request. Before more of the body is buffered, `reserve` is called with the resulting number of bytes
    /// and may refuse.
    ///
    /// # Errors
    /// Same as [`OutboundClient::exchange`], and [`CallFailure::BufferFull`] if `reserve` returned `false`.
    pub async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
        reserve: impl FnMut(usize) -> bool,
    ) -> Result<(ResponseHead, Bytes), CallFailure> {
        let response = self.send(Method::GET, url, headers, Bytes::new(), self.limits.total).await?;
        self.read_body(response, self.limits.body_bytes, reserve).await
    }

    async fn read_body(
        &self,
        mut response: Response,
        body_limit: usize,
        mut reserve: impl FnMut(usize) -> bool,
    ) -> Result<(ResponseHead, Bytes), CallFailure> {
        if response.content_length().is_some_and(|length| length > body_limit as u64) {
            return Err(CallFailure::TooLarge(body_limit));
        }

        let head = ResponseHead { status: response.status().as_u16(), headers: std::mem::take(response.headers_mut()) };
        let mut body = Vec::new();

        while let Some(chunk) = response.chunk().await.map_err(|error| self.classify_error(&error))? {
            let length = body.len() + chunk.len();
            if length > body_limit {
                return Err(CallFailure::TooLarge(body_limit));
            }
            if !reserve(length) {
                return Err(CallFailure::BufferFull);
            }
            body.extend_from_slice(&chunk);
        }

        Ok((head, body.into()))
    }

    /// Opens a streaming response. It must begin within the limits and ends after `idle_timeout` without data.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if the rules forbid the call or no response began.
    pub async fn open_stream(
        &self,
        method: Method,
        url: &str,
        (headers, body): (HeaderMap, Bytes),
        idle_timeout: Duration,
    ) -> Result<(ResponseHead, ResponseBodyStream), CallFailure> {
        let result =
            tokio::time::timeout(self.limits.total, self.send(method, url, headers, body, STREAM_TIMEOUT)).await;
        let mut response = result.map_err(|_| CallFailure::TimedOut(self.limits.total)).flatten()?;
        let head = ResponseHead { status: response.status().as_u16(), headers: std::mem::take(response.headers_mut()) };
        Ok((head, ResponseBodyStream { response, idle_timeout }))
    }

    /// Sends a request and returns the response with an unread body.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: impl Into<Body>,
        total: Duration,
    ) -> Result<Response, CallFailure> {
        let url = self.check_url(url)?;
        // The HTTP client keeps a plain body until the response, in case it has to be sent again. It drops a wrapped
        // body as soon as it is sent.
        let body = Body::wrap::<Body>(body.into());
        let request = self.http.request(method, url.clone()).headers(headers).body(body).timeout(total);
        let response = request.send().await.map_err(|error| self.classify_error(&error))?;
        self.check_peer(&url, response.remote_addr())?;
        Ok(response)
    }

    /// Checks scheme, user name and address. The resolver is not called for IP addresses, so they are checked here.
    fn check_url(&self, url: &str) -> Result<Url, CallFailure> {
        let url = Url::parse(url).map_err(|_| CallFailure::InvalidUrl("is malformed"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(CallFailure::InvalidUrl("must be http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(CallFailure::InvalidUrl("must not contain a user name or password"));
        }

        let is_permitted = match url.host() {
            Some(Host::Ipv4(ip)) => self.rules.permits(ip.into()),
            Some(Host::Ipv6(ip)) => self.rules.permits(ip.into()),
            Some(Host::Domain(_)) => true,
            None => return Err(CallFailure::InvalidUrl("must have a host")),
        };

        if is_permitted { Ok(url) } else { Err(CallFailure::Forbidden) }
    }

    /// Checks the actual peer address again, in case a lower layer chose another.
    fn check_peer(&self, url: &Url, peer: Option<SocketAddr>) -> Result<(), CallFailure> {
        let is_permitted = match (url.host(), peer) {
            (Some(Host::Domain(name)), Some(peer)) => self.rules.permits_named(name, peer.ip()),
            (_, Some(peer)) => self.rules.permits(peer.ip()),
            (_, None) => false,
        };
        if is_permitted { Ok(()) } else { Err(CallFailure::Forbidden) }
    }

    fn classify_error(&self, error: &reqwest::Error) -> CallFailure {
        if causes(error).any(|cause| matches!(cause.downcast_ref(), Some(CallFailure::Forbidden))) {
            CallFailure::Forbidden
        } else if error.is_timeout() && error.is_connect() {
            CallFailure::ConnectFailed("timed out".to_owned())
        } else if error.is_timeout() {
            CallFailure::TimedOut(self.limits.total)
        } else if error.is_dns() {
            CallFailure::Unresolved
        } else if error.is_connect() {
            CallFailure::ConnectFailed(root_cause(error))
        } else {
            CallFailure::BrokenResponse(root_cause(error))
        }
    }
}

/// Installs the TLS provider, without which no client can be created. May be called repeatedly.
pub fn install_tls() {
    // Fails only if a provider is already installed, which works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn client_builder(rules: &Arc<AddressRules>, resolver: Option<&HostResolver>, limits: ClientLimits) -> ClientBuilder {
    ClientBuilder::new()
        .user_agent(USER_AGENT)
        .connect_timeout(limits.connect)
        .timeout(limits.total)
        // With HTTP_PROXY, a proxy would connect instead, bypassing the address rules.
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(FilteringResolver::new(Arc::clone(rules), resolver.cloned()))
        // Without idle connections every attempt is resolved and checked; HTTP/2 then has no benefit.
        .pool_max_idle_per_host(0)
        .http1_only()
        .http1_max_headers(HEADERS_MAX)
        .referer(false)
}

/// Reads the rest of the body up to `limit`, so that short responses are not cut off.
async fn drain_body(mut response: reqwest::Response, limit: usize) {
    let mut remaining = limit;
    while let Ok(Some(chunk)) = response.chunk().await {
        let Some(rest) = remaining.checked_sub(chunk.len()) else { return };
        remaining = rest;
    }
}

/// Returns the error and its sources, outermost first.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// Returns the message of the innermost cause, because outer ones may contain the URL. The error number of the
/// operating system is removed.
fn root_cause(error: &reqwest::Error) -> String {
    let Some(cause) = causes(error).skip(1).last() else { return "unknown error".to_owned() };
    let text = cause.to_string();
    let os_error = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    let suffix = os_error.map(|os_error| format!(" (os error {os_error})"));
    suffix.and_then(|suffix| text.strip_suffix(&suffix).map(str::to_owned)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn client(rules: AddressRules) -> OutboundClient {
        OutboundClient::new(rules, ClientLimits::default()).unwrap()
    }

    #[test]
    fn only_http_urls_without_credentials_are_called() {
        let client = client(AddressRules::default());
        for bad in ["x", "ftp://example.org/", "file:///etc/passwd", "http://u@example.org/", "http://:p@example.org/"]
        {
            assert!(matches!(client.check_url(bad), Err(CallFailure::InvalidUrl(_))), "{bad}");
        }
        assert!(client.check_url("https://example.org/hook").is_ok());
    }

    #[test]
    fn forbidden_addresses_are_recognised_in_every_notation() {
        let client = client(AddressRules::default());
        let notations = ["127.0.0.1", "127.0.0.1.", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "１２７.０.０.１"];
        for host in notations.into_iter().chain(["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1]"]) {
            let url = format!("http://{host}:8080/");
            assert_eq!(client.check_url(&url), Err(CallFailure::Forbidden), "{host}");
        }
    }

    #[test]
    fn a_response_from_a_forbidden_peer_is_rejected() {
        let client = client(AddressRules::default());
        for url in ["http://example.org/", "http://1.1.1.1/"] {
            let url = Url::parse(url).unwrap();
            assert_eq!(client.check_peer(&url, "10.0.0.1:80".parse().ok()), Err(CallFailure::Forbidden));
            assert_eq!(client.check_peer(&url, None), Err(CallFailure::Forbidden));
            assert_eq!(client.check_peer(&url, "1.1.1.1:80".parse().ok()), Ok(()));
        }
    }

    /// Bytes whose memory is counted as long as they exist.
    struct CountedBytes {
        bytes: Vec<u8>,
        _counter: Arc<()>,
    }

    impl AsRef<[u8]> for CountedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[tokio::test]
    async fn a_body_is_dropped_when_it_is_sent_and_has_a_length() {
        // Given a server that reads a request, larger than the buffers of the connection, and responds later
        const BODY_BYTES: usize = 16 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while request.len() <= BODY_BYTES {
                connection.read_buf(&mut request).await.unwrap();
            }
            (connection, request)
        });

        // When a body is sent to it
        let counter = Arc::new(());
        let body = Bytes::from_owner(CountedBytes { bytes: vec![7; BODY_BYTES], _counter: Arc::clone(&counter) });
        let rules = AddressRules { allow_private: true, allow: Vec::new() };
        let call =
            tokio::spawn(async move { client(rules).exchange(Method::POST, &url, HeaderMap::new(), body).await });
        let (mut connection, request) = server.await.unwrap();

        // Then its memory is free before the response
        let is_dropped = async {
            while Arc::strong_count(&counter) > 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), is_dropped).await.expect("the body is dropped");
        assert!(!call.is_finished());

        // And it was sent whole, not in chunks
        let head = String::from_utf8_lossy(&request[..200]).to_lowercase();
        assert!(head.contains(&format!("content-length: {BODY_BYTES}\r\n")), "{head}");
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        assert_eq!(call.await.unwrap().expect("a response").0.status, 204);
    }

    #[test]
    fn a_machine_without_certificates_still_has_a_client() {
        let rules = Arc::new(AddressRules::default());
        install_tls();
        assert!(client_builder(&rules, None, ClientLimits::default()).tls_certs_only([]).build().is_ok());
    }
}
