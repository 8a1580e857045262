//! Client of a running service, for commands such as `mediary demo` and `mediary install`.
//!
//! A request without a response, or with one that asks for a retry, is sent again. Requests that create something carry
//! an `Idempotency-Key` derived from the request, so that neither a retry nor a second run of the program repeats them.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue,
    LOCATION, RETRY_AFTER,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;
use uuid::Uuid;

use super::address::{AddressRules, AllowEntry};
use super::client::{CallFailure, ClientLimits, ClientSetupError, OutboundClient, ResponseBodyStream, ResponseHead};
use super::sse::SseReader;
use super::upload_body::UploadBody;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Maximum number of attempts.
const ATTEMPTS_MAX: u32 = 6;
/// Maximum number of redirects that a GET request follows.
const REDIRECTS_MAX: u32 = 5;
/// Pause before the second attempt. It doubles with each attempt, unless the service asks for another pause.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Longest pause that the service may ask for.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// Longest silence of a stream. The service sends a heartbeat every 15 s by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(40);
/// Limits of a request. The service may take long to check and sync a large archive; no response body of the service
/// reaches 16 MiB.
const LIMITS: ClientLimits =
    ClientLimits { connect: Duration::from_secs(5), total: Duration::from_mins(1), body_bytes: 16 * 1024 * 1024 };

/// Maximum duration of the upload of a file.
const UPLOAD_TIME_MAX: Duration = Duration::from_hours(1);

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why the client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum ApiClientError {
    #[error("{0:?} is not the URL of a service, such as http://127.0.0.1:8080")]
    Url(String),
    #[error("the token contains characters that are not allowed in a header")]
    Token(#[from] InvalidHeaderValue),
    #[error(transparent)]
    Client(#[from] ClientSetupError),
}

/// A response of the service.
#[derive(Debug, Clone)]
pub struct ServiceResponse {
    pub status: u16,
    /// `true` if this is the stored response to an earlier request with the same key.
    pub replayed: bool,
    /// Target of a redirect that the client did not follow.
    pub location: Option<String>,
    pub body: Bytes,
}

impl ServiceResponse {
    /// Returns the body; `null` if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the target of a redirect from `url`, if it has the same origin. Another origin must not get the token.
    fn redirect_within_origin(&self, url: &str) -> Option<String> {
        let target = Url::parse(url).ok()?.join(self.location.as_deref()?).ok()?;
        is_same_origin(url, target.as_str()).then(|| target.into())
    }
}

/// Sends one GET request without a token and with a short timeout, for callers that retry anyway.
///
/// # Errors
/// Returns [`ApiClientError`] if the URL is invalid; the inner [`CallFailure`] means that there was no response.
pub async fn probe(base: &str, path: &str) -> Result<Result<ServiceResponse, CallFailure>, ApiClientError> {
    let limits = ClientLimits { connect: PROBE_TIMEOUT, total: PROBE_TIMEOUT, ..LIMITS };
    let url = format!("{}{path}", base.trim_end_matches('/'));
    let client = build_client(base, limits)?;
    let result = client.exchange(Method::GET, &url, HeaderMap::new(), Bytes::new()).await;
    Ok(result.map(to_response))
}

fn build_client(base: &str, limits: ClientLimits) -> Result<OutboundClient, ApiClientError> {
    let invalid_url = || ApiClientError::Url(base.to_owned());
    let url = Url::parse(base).map_err(|_| invalid_url())?;
    let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")).ok_or_else(invalid_url)?;
    let rules = AddressRules { allow_private: true, allow: AllowEntry::parse(host).into_iter().collect() };
    Ok(OutboundClient::new(rules, limits)?)
}

/// A file that is being downloaded.
pub struct FileDownload {
    head: ResponseHead,
    pub body: ResponseBodyStream,
}

impl FileDownload {
    /// Returns the size of the file in bytes, if the service sent it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.head.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    /// Returns the SHA-256 of the content as 64 hexadecimal digits, if the entity tag is one.
    #[must_use]
    pub fn sha256(&self) -> Option<&str> {
        let tag = self.head.headers.get(ETAG)?.to_str().ok()?.trim_matches('"');
        (tag.len() == 64 && tag.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(tag)
    }
}

/// Returns `true` if both URLs have the same scheme, host and port.
#[must_use]
pub fn is_same_origin(left: &str, right: &str) -> bool {
    let origin = |text: &str| Url::parse(text).ok().map(|url| url.origin());
    origin(left).is_some_and(|left_origin| Some(left_origin) == origin(right))
}

/// Client of one service, with at most one token. Cheap to clone.
#[derive(Clone)]
pub struct ApiClient {
    client: OutboundClient,
    base: String,
    authorization: Option<HeaderValue>,
}

impl ApiClient {
    /// Creates a client of the service at `base`. Private addresses are allowed, because the operator chose the URL.
    ///
    /// # Errors
    /// Returns [`ApiClientError`] if the URL or the token is invalid.
    pub fn new(base: &str, token: &str) -> Result<Self, ApiClientError> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}"))?;
        authorization.set_sensitive(true);
        Ok(Self { authorization: Some(authorization), ..Self::anonymous(base)? })
    }

    /// Creates a client that sends no token.
    ///
    /// # Errors
    /// Returns [`ApiClientError`] if the URL is invalid.
    pub fn anonymous(base: &str) -> Result<Self, ApiClientError> {
        let client = build_client(base, LIMITS)?;
        Ok(Self { client, base: base.trim_end_matches('/').to_owned(), authorization: None })
    }

    /// Returns the URL of a path.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Sends a GET request and follows redirects within the origin, for example of node ids in another case.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn get(&self, path: &str) -> Result<ServiceResponse, CallFailure> {
        let mut url = self.url_of(path);
        let mut redirects = 0;

        loop {
            let response = self.send_with_retries(Method::GET, &url, self.headers(), Bytes::new()).await?;
            match response.redirect_within_origin(&url).filter(|_| redirects < REDIRECTS_MAX) {
                Some(target) => url = target,
                None => return Ok(response),
            }
            redirects += 1;
        }
    }

    /// Follows an event stream after the event with the id `last_seen`. A response other than 200 is returned as a
    /// [`ServiceResponse`].
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began.
    pub async fn follow(&self, path: &str, last_seen: &str) -> Result<Result<SseReader, ServiceResponse>, CallFailure> {
        let mut headers = self.headers();
        if let Ok(id) = HeaderValue::from_str(last_seen) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let opened = self.open_get_stream(&self.url_of(path), headers).await?;
        Ok(opened.map(|(_, body)| SseReader::new(body)))
    }

    /// Downloads a file. The token is sent only to this service, and redirects are followed only within an origin. A
    /// response other than 200 is returned as a [`ServiceResponse`].
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began.
    pub async fn download(&self, url: &str) -> Result<Result<FileDownload, ServiceResponse>, CallFailure> {
        let headers = if is_same_origin(url, &self.base) { self.headers() } else { HeaderMap::new() };
        let opened = self.open_get_stream(url, headers).await?;
        Ok(opened.map(|(head, body)| FileDownload { head, body }))
    }

    /// Posts a form and streams the response. A response other than 200 is returned as a [`ServiceResponse`].
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no response began.
    pub async fn post_form_streaming(
        &self,
        path: &str,
        form: &[(&str, &str)],
    ) -> Result<Result<ResponseBodyStream, ServiceResponse>, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, FORM);
        let opened = self.open_stream(Method::POST, &self.url_of(path), headers, encode_multipart(form)).await?;
        Ok(opened.map(|(_, body)| body))
    }

    /// Sends a GET request, follows redirects within the origin, and streams the response.
    async fn open_get_stream(
        &self,
        url: &str,
        headers: HeaderMap,
    ) -> Result<Result<(ResponseHead, ResponseBodyStream), ServiceResponse>, CallFailure> {
        let mut url = url.to_owned();
        let mut redirects = 0;

        loop {
            let opened = self.open_stream(Method::GET, &url, headers.clone(), Bytes::new()).await?;
            let target = opened.as_ref().err().and_then(|response| response.redirect_within_origin(&url));
            match target.filter(|_| redirects < REDIRECTS_MAX) {
                Some(target) => url = target,
                None => return Ok(opened),
            }
            redirects += 1;
        }
    }

    async fn open_stream(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Result<(ResponseHead, ResponseBodyStream), ServiceResponse>, CallFailure> {
        let (head, mut body_stream) = self.client.open_stream(method, url, (headers, body), IDLE_TIMEOUT).await?;
        if head.status == 200 {
            return Ok(Ok((head, body_stream)));
        }

        let mut body = Vec::new();
        while let Some(chunk) = body_stream.next().await? {
            body.extend_from_slice(&chunk[..chunk.len().min(LIMITS.body_bytes - body.len())]);
        }

        Ok(Err(to_response((head, body.into()))))
    }

    /// Sends a POST request with an idempotency key derived from path and body, so that equal calls create only once.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn create(&self, path: &str, body: &Value) -> Result<ServiceResponse, CallFailure> {
        let body = Bytes::from(body.to_string());
        let mut headers = self.headers();
        headers.extend([(CONTENT_TYPE, JSON), (IDEMPOTENCY_KEY, idempotency_key(path, &body))]);
        self.send_with_retries(Method::POST, &self.url_of(path), headers, body).await
    }

    /// Sends a POST request with the idempotency key `key`. With a new key for each call, retries within a call create
    /// only once, but each call creates again.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn create_once(&self, path: &str, body: &Value, key: Uuid) -> Result<ServiceResponse, CallFailure> {
        let mut headers = self.headers();
        let key = HeaderValue::from_str(&key.to_string()).unwrap_or(HeaderValue::from_static("unkeyed"));
        headers.extend([(CONTENT_TYPE, JSON), (IDEMPOTENCY_KEY, key)]);
        self.send_with_retries(Method::POST, &self.url_of(path), headers, body.to_string().into()).await
    }

    /// Sends a DELETE request, which is idempotent.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn delete(&self, path: &str) -> Result<ServiceResponse, CallFailure> {
        self.send_with_retries(Method::DELETE, &self.url_of(path), self.headers(), Bytes::new()).await
    }

    /// Sends a POST request without an idempotency key.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn create_without_key(&self, path: &str, body: &Value) -> Result<ServiceResponse, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.send_with_retries(Method::POST, &self.url_of(path), headers, body.to_string().into()).await
    }

    /// Sends a POST request with an empty object, for actions that are safe to repeat.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn post_empty(&self, path: &str) -> Result<ServiceResponse, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.send_with_retries(Method::POST, &self.url_of(path), headers, Bytes::from_static(b"{}")).await
    }

    /// Sends a PUT request, which is idempotent.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if no attempt got a response.
    pub async fn put(&self, path: &str, body: &Value) -> Result<ServiceResponse, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.send_with_retries(Method::PUT, &self.url_of(path), headers, body.to_string().into()).await
    }

    /// Uploads a file to a URL that is itself a credential, without the token. Makes one attempt, because such a URL is
    /// valid only once.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if there was no response.
    pub async fn upload(&self, url: &str, file: Bytes) -> Result<ServiceResponse, CallFailure> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/zip"))]);
        self.client.exchange(Method::PUT, url, headers, file).await.map(to_response)
    }

    /// Uploads a large file like [`ApiClient::upload`], while it is read.
    ///
    /// # Errors
    /// Returns [`CallFailure`] if there was no response.
    pub async fn upload_file(
        &self,
        url: &str,
        content_type: &'static str,
        file: UploadBody,
    ) -> Result<ServiceResponse, CallFailure> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        self.client.upload(url, headers, file, UPLOAD_TIME_MAX).await.map(to_response)
    }

    fn headers(&self) -> HeaderMap {
        self.authorization.iter().map(|authorization| (AUTHORIZATION, authorization.clone())).collect()
    }

    /// Sends a request up to [`ATTEMPTS_MAX`] times, with pauses, until a response asks for no retry. Returns the last
    /// response.
    async fn send_with_retries(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ServiceResponse, CallFailure> {
        let mut pause = RETRY_DELAY;

        for _ in 1..ATTEMPTS_MAX {
            match self.client.exchange(method.clone(), url, headers.clone(), body.clone()).await {
                Ok((head, _)) if matches!(head.status, 429 | 503) => {
                    tokio::time::sleep(retry_after(&head).unwrap_or(pause)).await;
                }
                Err(CallFailure::BrokenResponse(_) | CallFailure::TimedOut(_)) => tokio::time::sleep(pause).await,
                Err(failure) => return Err(failure),
                Ok(response) => return Ok(to_response(response)),
            }
            pause *= 2;
        }

        self.client.exchange(method, url, headers, body).await.map(to_response)
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("multipart/form-data; boundary=mediary-part-of-a-form");

/// Encodes a multipart form (RFC 7578) with the boundary of [`FORM`].
fn encode_multipart(form: &[(&str, &str)]) -> Bytes {
    let mut body = String::new();
    for (name, value) in form {
        let _ = write!(
            body,
            "--mediary-part-of-a-form\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    body.push_str("--mediary-part-of-a-form--\r\n");
    body.into()
}

fn to_response((head, body): (ResponseHead, Bytes)) -> ServiceResponse {
    let location = head.headers.get(LOCATION).filter(|_| matches!(head.status, 301 | 302 | 303 | 307 | 308));
    ServiceResponse {
        status: head.status,
        replayed: head.headers.contains_key(IDEMPOTENT_REPLAYED),
        location: location.and_then(|location| location.to_str().ok()).map(str::to_owned),
        body,
    }
}

fn retry_after(head: &ResponseHead) -> Option<Duration> {
    let seconds = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_DELAY_MAX))
}

/// Returns a key that is unique for the path and body.
fn idempotency_key(path: &str, body: &[u8]) -> HeaderValue {
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize();
    let hex = digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    HeaderValue::from_str(&hex).unwrap_or(HeaderValue::from_static("unkeyed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Starts a server that sends `responses` in turn, one per connection. Returns its URL, and the task that returns
    /// the heads of the requests after the last response.
    async fn server(responses: &'static [&'static str]) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        server_with(|_| responses.iter().map(|response| (*response).to_owned()).collect()).await
    }

    /// Starts a [`server`] whose responses depend on its URL.
    async fn server_with(
        responses: impl FnOnce(&str) -> Vec<String>,
    ) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let responses = responses(&base);
        let server_task = tokio::spawn(async move {
            let mut heads = Vec::new();
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let count = stream.read(&mut request).await.unwrap();
                heads.push(String::from_utf8_lossy(&request[..count]).into_owned());
                stream.write_all(response.as_bytes()).await.unwrap();
            }
            heads
        });

        (base, server_task)
    }

    fn header(head: &str, name: &str) -> Option<String> {
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
    }

    #[tokio::test]
    async fn unanswered_requests_are_retried_with_the_same_key() {
        // Given a service that hangs up once, is busy once, and then responds
        let (base, server_task) = server(&[
            "",
            "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 201 Created\r\nidempotent-replayed: true\r\ncontent-length: 8\r\n\r\n{\"a\": 1}",
        ])
        .await;

        // When the client creates something
        let reply =
            ApiClient::new(&base, "mdu_x").unwrap().create("/things", &serde_json::json!({"id": "a"})).await.unwrap();

        // Then the third response counts, and all three requests were the same
        assert_eq!((reply.status, reply.replayed, reply.json()["a"].as_u64()), (201, true, Some(1)));

        let heads = server_task.await.unwrap();
        assert!(heads.iter().all(|head| head.starts_with("POST /things HTTP/1.1\r\n")), "{heads:?}");
        assert_eq!(header(&heads[0], "authorization").as_deref(), Some("Bearer mdu_x"));

        let key = header(&heads[0], "idempotency-key").unwrap();
        assert_eq!(key.len(), 64);
        assert!(heads.iter().all(|head| header(head, "idempotency-key").as_ref() == Some(&key)), "{heads:?}");
    }

    #[tokio::test]
    async fn an_upload_does_not_send_the_token() {
        let (base, server_task) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).await;
        let api = ApiClient::new(&base, "mdu_x").unwrap();
        let reply = api.upload(&api.url_of("/uploads/ticket"), Bytes::from_static(b"PK")).await.unwrap();
        assert_eq!(reply.status, 200);
        let head = &server_task.await.unwrap()[0];
        assert!(head.starts_with("PUT /uploads/ticket ") && !head.contains("mdu_x"), "{head}");
    }

    #[tokio::test]
    async fn redirects_are_followed_within_the_origin() {
        // Given a service that redirects to a path and then to a URL of its own
        let found = |location: &str| format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let (base, server_task) = server_with(|base| {
            let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned();
            vec![found("/nodes/a?page=2"), found(&format!("{base}nodes/b")), ok]
        })
        .await;

        // When the client reads
        let reply = ApiClient::new(&base, "mdu_x").unwrap().get("/nodes/A?page=2").await.unwrap();

        // Then it gets the last response, and each request had the token
        assert_eq!((reply.status, reply.location), (200, None));
        let heads = server_task.await.unwrap();
        let lines: Vec<_> = heads.iter().filter_map(|head| head.lines().next()).collect();
        assert_eq!(lines, ["GET /nodes/A?page=2 HTTP/1.1", "GET /nodes/a?page=2 HTTP/1.1", "GET /nodes/b HTTP/1.1"]);
        assert!(heads.iter().all(|head| head.contains("mdu_x")), "{heads:?}");
    }

    #[tokio::test]
    async fn redirects_to_another_origin_are_not_followed() {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}/stolen", other.local_addr().unwrap());
        let redirect = format!("HTTP/1.1 307 Moved\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n");
        let (base, server_task) = server_with(|_| vec![redirect.clone(), redirect.clone()]).await;
        let api = ApiClient::new(&base, "mdu_x").unwrap();

        let reply = api.get("/nodes/a").await.unwrap();
        assert_eq!((reply.status, reply.location.as_deref()), (307, Some(target.as_str())));
        let refused = api.download(&api.url_of("/file")).await.unwrap().err().unwrap();
        assert_eq!(refused.location.as_deref(), Some(target.as_str()));

        server_task.await.unwrap();
        let accepted = tokio::time::timeout(Duration::ZERO, other.accept()).await;
        assert!(accepted.is_err(), "the other origin got a request");
    }

    #[tokio::test]
    async fn a_circle_of_redirects_ends() {
        let redirect = "HTTP/1.1 302 Found\r\nlocation: /a\r\ncontent-length: 0\r\n\r\n";
        let (base, server_task) = server_with(|_| vec![redirect.to_owned(); 6]).await;
        let reply = ApiClient::anonymous(&base).unwrap().get("/a").await.unwrap();
        assert_eq!((reply.status, reply.location.as_deref()), (302, Some("/a")));
        assert_eq!(server_task.await.unwrap().len(), 6);
    }

    #[tokio::test]
    async fn an_unreachable_service_fails_without_retries() {
        let unused_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let failure =
            ApiClient::new(&format!("http://{unused_address}"), "t").unwrap().get("/health").await.unwrap_err();
        assert!(matches!(failure, CallFailure::ConnectFailed(_)), "{failure}");
    }

    #[test]
    fn idempotency_keys_depend_on_path_and_body() {
        assert_eq!(idempotency_key("/a", b"x"), idempotency_key("/a", b"x"));
        assert_ne!(idempotency_key("/a", b"x"), idempotency_key("/a", b"y"));
        assert_ne!(idempotency_key("/a", b"x"), idempotency_key("/ax", b""));
    }

    #[test]
    fn unusable_urls_and_tokens_are_rejected() {
        for bad in ["", "127.0.0.1:8080", "ftp://example.org", "localhost"] {
            assert!(matches!(ApiClient::new(bad, "t"), Err(ApiClientError::Url(_))), "{bad}");
        }
        assert!(matches!(ApiClient::new("http://127.0.0.1", "a\nb"), Err(ApiClientError::Token(_))));
    }
}
