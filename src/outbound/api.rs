//! The client of a running service, for commands of its operator such as `mediary demo`.
//!
//! What gets no answer, or is asked to come back later, is sent again. Creating something carries an `Idempotency-Key` made
//! from the request itself, so that neither a second attempt nor a second run of the program does it twice.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue, RETRY_AFTER,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::client::{Answer, CallFailure, Client, ClientFailure, Incoming, Limits};
use super::feed::Feed;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How often a request is sent at most.
const ATTEMPTS: u32 = 6;
/// The pause before the second attempt; it doubles with each one, unless the service names another.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause that the service may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The service breaks the silence of a stream every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// An answer takes long when the service checks and syncs a large archive; none has a body of this size.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(5), total: Duration::from_mins(1), body_bytes: 16 * 1024 * 1024 };

/// How long a probe waits.
const PROBED_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{0:?} is not the URL of a service, such as http://127.0.0.1:8080")]
    Url(String),
    #[error("the token holds characters that no header can carry")]
    Token(#[from] InvalidHeaderValue),
    #[error(transparent)]
    Client(#[from] ClientFailure),
}

/// What the service answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Whether this is the stored answer to an earlier request with the same key.
    pub replayed: bool,
    pub body: Bytes,
}

impl Reply {
    /// The body; `null` when it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Asks a service once, in nobody's name, and does not wait long: for whoever asks again anyway.
///
/// # Errors
/// [`ApiError`] when the URL cannot be used; inside, [`CallFailure`] when there was no answer.
pub async fn probe(base: &str, path: &str) -> Result<Result<Reply, CallFailure>, ApiError> {
    let limits = Limits { connect: PROBED_WITHIN, total: PROBED_WITHIN, ..LIMITS };
    let url = format!("{}{path}", base.trim_end_matches('/'));
    let answered = client_of(base, limits)?.exchange(Method::GET, &url, HeaderMap::new(), Bytes::new()).await;
    Ok(answered.map(reply))
}

fn client_of(base: &str, limits: Limits) -> Result<Client, ApiError> {
    let refused = || ApiError::Url(base.to_owned());
    let url = Url::parse(base).map_err(|_| refused())?;
    let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")).ok_or_else(refused)?;
    let rules = AddressRules { allow_private: true, allow: AllowEntry::parse(host).into_iter().collect() };
    Ok(Client::new(rules, limits)?)
}

/// Speaks to one service in the name of one caller. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    client: Client,
    base: String,
    authorization: HeaderValue,
}

impl Api {
    /// A client of the service at `base`. The operator has named it, so it may be anywhere, this machine included.
    ///
    /// # Errors
    /// [`ApiError`] when the URL or the token cannot be used.
    pub fn new(base: &str, token: &str) -> Result<Self, ApiError> {
        let client = client_of(base, LIMITS)?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}"))?;
        authorization.set_sensitive(true);
        let base = base.trim_end_matches('/').to_owned();
        Ok(Self { client, base, authorization })
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Reads.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer to any attempt.
    pub async fn get(&self, path: &str) -> Result<Reply, CallFailure> {
        self.attempts(Method::GET, &self.url(path), self.headers(), Bytes::new()).await
    }

    /// Follows events from the one after `last_seen` on; gives the answer instead when it is not a stream.
    ///
    /// # Errors
    /// [`CallFailure`] when no answer began.
    pub async fn follow(&self, path: &str, last_seen: &str) -> Result<Result<Feed, Reply>, CallFailure> {
        let mut headers = self.headers();
        if let Ok(id) = HeaderValue::from_str(last_seen) {
            headers.insert(LAST_EVENT_ID, id);
        }
        Ok(self.open(Method::GET, path, headers, Bytes::new()).await?.map(Feed::new))
    }

    /// Posts a form, whose answer comes as it is made; gives the answer when it is a refusal.
    ///
    /// # Errors
    /// [`CallFailure`] when no answer began.
    pub async fn listen(&self, path: &str, form: &[(&str, &str)]) -> Result<Result<Incoming, Reply>, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, FORM);
        self.open(Method::POST, path, headers, multipart(form)).await
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Result<Incoming, Reply>, CallFailure> {
        let (answer, mut incoming) = self.client.open(method, &self.url(path), (headers, body), SILENCE_MAX).await?;
        if answer.status == 200 {
            return Ok(Ok(incoming));
        }
        let mut body = Vec::new();
        while let Some(chunk) = incoming.next().await? {
            body.extend_from_slice(&chunk[..chunk.len().min(LIMITS.body_bytes - body.len())]);
        }
        Ok(Err(reply((answer, body.into()))))
    }

    /// Creates, once for the same path and body.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer to any attempt.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Reply, CallFailure> {
        let body = Bytes::from(body.to_string());
        let mut headers = self.headers();
        headers.extend([(CONTENT_TYPE, JSON), (IDEMPOTENCY_KEY, key(path, &body))]);
        self.attempts(Method::POST, &self.url(path), headers, body).await
    }

    /// Creates, whatever was created before.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer to any attempt.
    pub async fn create_anew(&self, path: &str, body: &Value) -> Result<Reply, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.attempts(Method::POST, &self.url(path), headers, body.to_string().into()).await
    }

    /// Posts what may be asked for anew at any time.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer to any attempt.
    pub async fn ask(&self, path: &str) -> Result<Reply, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.attempts(Method::POST, &self.url(path), headers, Bytes::from_static(b"{}")).await
    }

    /// Changes; the same change twice is one.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer to any attempt.
    pub async fn change(&self, path: &str, body: &Value) -> Result<Reply, CallFailure> {
        let mut headers = self.headers();
        headers.insert(CONTENT_TYPE, JSON);
        self.attempts(Method::PUT, &self.url(path), headers, body.to_string().into()).await
    }

    /// Sends a file to a URL that is a credential of its own; the token is not shown there. One attempt: such a URL is good
    /// for one.
    ///
    /// # Errors
    /// [`CallFailure`] when there was no answer.
    pub async fn upload(&self, url: &str, file: Bytes) -> Result<Reply, CallFailure> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/zip"))]);
        self.client.exchange(Method::PUT, url, headers, file).await.map(reply)
    }

    fn headers(&self) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, self.authorization.clone())])
    }

    async fn attempts(&self, method: Method, url: &str, headers: HeaderMap, body: Bytes) -> Result<Reply, CallFailure> {
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match self.client.exchange(method.clone(), url, headers.clone(), body.clone()).await {
                Ok((answer, _)) if matches!(answer.status, 429 | 503) => {
                    tokio::time::sleep(asked_pause(&answer).unwrap_or(pause)).await;
                }
                Err(CallFailure::Broken(_) | CallFailure::TooSlow(_)) => tokio::time::sleep(pause).await,
                Err(failure) => return Err(failure),
                Ok(answered) => return Ok(reply(answered)),
            }
            pause *= 2;
        }
        self.client.exchange(method, url, headers, body).await.map(reply)
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("multipart/form-data; boundary=mediary-part-of-a-form");

/// A form with parts (RFC 7578), with the boundary of [`FORM`].
fn multipart(form: &[(&str, &str)]) -> Bytes {
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

fn reply((answer, body): (Answer, Bytes)) -> Reply {
    Reply { status: answer.status, replayed: answer.headers.contains_key(IDEMPOTENT_REPLAYED), body }
}

fn asked_pause(answer: &Answer) -> Option<Duration> {
    let seconds = answer.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(PAUSE_MAX))
}

/// The same for the same request, and for no other.
fn key(path: &str, body: &[u8]) -> HeaderValue {
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

    /// A server that gives these answers in turn, a connection each, and the heads of the requests that it got.
    async fn server(answers: &'static [&'static str]) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut heads = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                heads.push(String::from_utf8_lossy(&request[..read]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heads
        });
        (base, serving)
    }

    fn header(head: &str, name: &str) -> Option<String> {
        head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
    }

    #[tokio::test]
    async fn what_gets_no_answer_is_sent_again_under_the_same_key() {
        // Given a service that hangs up once, is busy once, and then answers
        let (base, serving) = server(&[
            "",
            "HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 201 Created\r\nidempotent-replayed: true\r\ncontent-length: 8\r\n\r\n{\"a\": 1}",
        ])
        .await;
        // When something is created
        let reply = Api::new(&base, "mdu_x").unwrap().create("/things", &serde_json::json!({"id": "a"})).await.unwrap();
        // Then the third answer counts, and all three requests were the same
        assert_eq!((reply.status, reply.replayed, reply.json()["a"].as_u64()), (201, true, Some(1)));
        let heads = serving.await.unwrap();
        assert!(heads.iter().all(|head| head.starts_with("POST /things HTTP/1.1\r\n")), "{heads:?}");
        assert_eq!(header(&heads[0], "authorization").as_deref(), Some("Bearer mdu_x"));
        let key = header(&heads[0], "idempotency-key").unwrap();
        assert_eq!(key.len(), 64);
        assert!(heads.iter().all(|head| header(head, "idempotency-key").as_ref() == Some(&key)), "{heads:?}");
    }

    #[tokio::test]
    async fn an_upload_does_not_show_the_token() {
        let (base, serving) = server(&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]).await;
        let api = Api::new(&base, "mdu_x").unwrap();
        let reply = api.upload(&api.url("/uploads/ticket"), Bytes::from_static(b"PK")).await.unwrap();
        assert_eq!(reply.status, 200);
        let head = &serving.await.unwrap()[0];
        assert!(head.starts_with("PUT /uploads/ticket ") && !head.contains("mdu_x"), "{head}");
    }

    #[tokio::test]
    async fn a_service_that_is_not_there_is_not_waited_for() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let failure = Api::new(&format!("http://{free}"), "t").unwrap().get("/health").await.unwrap_err();
        assert!(matches!(failure, CallFailure::NoConnection(_)), "{failure}");
    }

    #[test]
    fn keys_differ_with_path_and_body() {
        assert_eq!(key("/a", b"x"), key("/a", b"x"));
        assert_ne!(key("/a", b"x"), key("/a", b"y"));
        assert_ne!(key("/a", b"x"), key("/ax", b""));
    }

    #[test]
    fn urls_and_tokens_that_cannot_be_used_are_refused() {
        for bad in ["", "127.0.0.1:8080", "ftp://example.org", "localhost"] {
            assert!(matches!(Api::new(bad, "t"), Err(ApiError::Url(_))), "{bad}");
        }
        assert!(matches!(Api::new("http://127.0.0.1", "a\nb"), Err(ApiError::Token(_))));
    }
}
