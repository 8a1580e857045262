//! Webhook delivery: one signed POST to a receiver, and its outcome (contract 8). `domain::delivery` decides about
//! retries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::NaiveDateTime;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue, RETRY_AFTER};
use zeroize::Zeroizing;

use super::client::{OutboundClient, ResponseHead};
use super::signature::{WebhookKey, WebhookMessage, sign};
use crate::domain::delivery::{AttemptOutcome, RETRY_AFTER_MAX};
use crate::domain::value::{CallbackUrl, Text, Timestamp};

/// The three formats of HTTP dates, the current one first (RFC 9110, 5.6.7).
const HTTP_DATES: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// One delivery attempt.
#[derive(Clone)]
pub struct CallbackAttempt {
    pub url: CallbackUrl,
    /// The same for all attempts; contains no dot.
    pub webhook_id: String,
    /// JSON, sent unchanged.
    pub body: Bytes,
    /// Start of this attempt.
    pub at: Timestamp,
    /// Secrets of the account, which sign in addition to the key of the service.
    pub secrets: Vec<Zeroizing<Vec<u8>>>,
}

/// Sends webhooks. Cheap to clone.
#[derive(Clone)]
pub struct CallbackSender {
    client: OutboundClient,
    key: Arc<WebhookKey>,
}

impl CallbackSender {
    /// Returns a sender that signs with `key`.
    #[must_use]
    pub fn new(client: OutboundClient, key: Arc<WebhookKey>) -> Self {
        Self { client, key }
    }

    /// Makes one attempt. Failures are outcomes too; their reason contains only what the owner of the receiver may
    /// know.
    pub async fn send(&self, callback: CallbackAttempt) -> AttemptOutcome {
        let Ok(headers) = self.headers(&callback) else {
            return unreachable_outcome("the webhook id does not fit into a header");
        };
        match self.client.post(callback.url.as_str(), headers, callback.body).await {
            Ok(head) => AttemptOutcome::Answered { status: head.status, retry_after: retry_after(&head, callback.at) },
            Err(failure) => unreachable_outcome(&failure.to_string()),
        }
    }

    fn headers(&self, callback: &CallbackAttempt) -> Result<HeaderMap, InvalidHeaderValue> {
        let message = WebhookMessage { id: &callback.webhook_id, at: callback.at, body: &callback.body };
        let secrets: Vec<&[u8]> = callback.secrets.iter().map(|secret| &secret[..]).collect();

        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("webhook-id", HeaderValue::from_str(&callback.webhook_id)?);
        headers.insert("webhook-timestamp", HeaderValue::from(callback.at.seconds()));
        headers.insert("webhook-signature", HeaderValue::from_str(&sign(message, &self.key, &secrets))?);
        Ok(headers)
    }
}

fn unreachable_outcome(reason: &str) -> AttemptOutcome {
    let reason = reason.chars().filter(|character| !character.is_control()).take(1000).collect();
    AttemptOutcome::Unreachable { reason: Text::from_recorded(reason) }
}

/// Returns the pause that a server asks for, up to the maximum that is honoured. A date is relative to `at`.
pub(super) fn retry_after(head: &ResponseHead, at: Timestamp) -> Option<Duration> {
    let text = head.headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let delay = if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        parse_http_date(text)?.since(at)
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

fn parse_http_date(text: &str) -> Option<Timestamp> {
    let date = HTTP_DATES.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
    Some(Timestamp::from_micros(date.and_utc().timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::outbound::address::{AddressRules, AllowEntry};
    use crate::outbound::client::ClientLimits;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    const AT: Timestamp = Timestamp::from_micros(1_431_703_961_500_000); // Fri, 15 May 2015 15:32:41.5 GMT
    const BODY: &str = r#"{"status":"COMPLETED"}"#;
    /// Far longer than any test needs, so that only a hanging test reaches it.
    const HANG_TIMEOUT: Duration = Duration::from_secs(20);

    /// Behaviour of a receiver after it has read a request.
    #[derive(Clone)]
    enum ReceiverReply {
        Text(String),
        /// Sends this head, then repeats the line while the client reads.
        Endless(&'static str),
        /// Sends this text, then nothing while the connection is open.
        Stall(&'static str),
    }

    impl ReceiverReply {
        fn status(line: &str) -> Self {
            Self::Text(format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n"))
        }

        async fn write(self, stream: &mut TcpStream) {
            match self {
                Self::Text(text) => drop(stream.write_all(text.as_bytes()).await),
                Self::Endless(head) => {
                    let mut result = stream.write_all(head.as_bytes()).await;
                    let line = format!("x: {}\r\n", "y".repeat(1000));
                    while result.is_ok() {
                        result = stream.write_all(line.as_bytes()).await;
                    }
                }
                Self::Stall(head) => {
                    let _ = stream.write_all(head.as_bytes()).await;
                    while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
                }
            }
        }
    }

    /// Starts a receiver on loopback. Returns its port and the requests that it receives.
    async fn receiver(reply: ReceiverReply) -> (u16, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                while !request.ends_with(BODY.as_bytes()) && matches!(stream.read_buf(&mut request).await, Ok(1..)) {}
                sender.send(String::from_utf8(request).unwrap()).unwrap();
                reply.clone().write(&mut stream).await;
            }
        });
        (port, requests)
    }

    /// Starts a receiver that writes before it reads, unlike a TLS server.
    async fn receiver_without_tls() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            ReceiverReply::Stall("220 mail server ready\r\n").write(&mut stream).await;
        });
        port
    }

    fn sender(rules: AddressRules, limits: ClientLimits) -> CallbackSender {
        let folder = tempfile::tempdir().unwrap();
        let key = WebhookKey::load_or_create(&folder.path().join("key"), &Environment::manual(AT, 1)).unwrap();
        CallbackSender::new(OutboundClient::new(rules, limits).unwrap(), Arc::new(key))
    }

    fn permissive_rules() -> AddressRules {
        AddressRules { allow_private: true, allow: Vec::new() }
    }

    fn short_limits() -> ClientLimits {
        ClientLimits { total: Duration::from_millis(200), ..ClientLimits::default() }
    }

    fn callback(url: &str) -> CallbackAttempt {
        let url = CallbackUrl::from_recorded(url.to_owned());
        CallbackAttempt { url, webhook_id: "evt-1".to_owned(), body: BODY.into(), at: AT, secrets: Vec::new() }
    }

    /// Returns the outcome of an attempt at this URL.
    async fn send_to(sender: &CallbackSender, url: &str) -> AttemptOutcome {
        tokio::time::timeout(HANG_TIMEOUT, sender.send(callback(url))).await.expect("the attempt does not hang")
    }

    /// Returns the outcome of an attempt at a new receiver that sends `reply`.
    async fn outcome(reply: ReceiverReply, limits: ClientLimits) -> AttemptOutcome {
        let (port, _requests) = receiver(reply).await;
        send_to(&sender(permissive_rules(), limits), &format!("http://127.0.0.1:{port}/hook")).await
    }

    /// Returns a label that is too long for DNS, so that no name server is queried.
    fn unresolvable_name() -> String {
        "x".repeat(64)
    }

    fn answered_outcome(status: u16) -> AttemptOutcome {
        AttemptOutcome::Answered { status, retry_after: None }
    }

    fn reason(outcome: AttemptOutcome) -> String {
        match outcome {
            AttemptOutcome::Unreachable { reason } => reason.to_string(),
            other @ AttemptOutcome::Answered { .. } => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_callback_is_a_signed_post() {
        let (port, mut requests) = receiver(ReceiverReply::status("204 No Content")).await;
        let sender = sender(permissive_rules(), ClientLimits::default());
        assert_eq!(send_to(&sender, &format!("http://127.0.0.1:{port}/hook?a=b")).await, answered_outcome(204));

        let request = requests.recv().await.unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let message = WebhookMessage { id: "evt-1", at: AT, body: BODY.as_bytes() };
        let signature = sign(message, &sender.key, &[]);

        for line in [
            "POST /hook?a=b HTTP/1.1",
            "content-type: application/json",
            concat!("user-agent: mediary/", env!("CARGO_PKG_VERSION")),
            "webhook-id: evt-1",
            "webhook-timestamp: 1431703961",
            &format!("webhook-signature: {signature}"),
        ] {
            assert!(head.lines().any(|header| header == line), "{line} in {head}");
        }

        assert_eq!(body, BODY);
    }

    #[tokio::test]
    async fn error_statuses_are_reported() {
        for (line, status) in [("500 Internal Server Error", 500), ("410 Gone", 410), ("404 Not Found", 404)] {
            assert_eq!(outcome(ReceiverReply::status(line), ClientLimits::default()).await, answered_outcome(status));
        }
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let (port, mut redirect_target_requests) = receiver(ReceiverReply::status("200 OK")).await;
        for status in [301, 302, 307, 308] {
            let head = format!("{status} Moved\r\nlocation: http://127.0.0.1:{port}/");
            assert_eq!(outcome(ReceiverReply::status(&head), ClientLimits::default()).await, answered_outcome(status));
        }
        assert!(redirect_target_requests.try_recv().is_err());
    }

    #[tokio::test]
    async fn retry_after_is_parsed_in_every_format() {
        for (value, expected) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("99999999999999999999999", Some(86_400)),
            ("Fri, 15 May 2015 15:34:42 GMT", Some(120)),
            ("Friday, 15-May-15 15:34:42 GMT", Some(120)),
            ("Fri May 15 15:34:42 2015", Some(120)),
            ("Fri, 15 May 2015 15:00:00 GMT", Some(0)),
            ("Sun, 15 May 2016 15:00:00 GMT", Some(86_400)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let reply = ReceiverReply::status(&format!("503 Busy\r\nretry-after: {value}"));
            let AttemptOutcome::Answered { status: 503, retry_after } = outcome(reply, ClientLimits::default()).await
            else {
                panic!("{value}")
            };
            assert_eq!(retry_after.map(|pause| pause.as_secs()), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn endless_responses_are_cut_off() {
        let limits = ClientLimits { total: HANG_TIMEOUT * 2, ..ClientLimits::default() };
        let body = ReceiverReply::Endless("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n");
        assert_eq!(outcome(body, limits).await, answered_outcome(200));
        assert!(
            reason(outcome(ReceiverReply::Endless("HTTP/1.1 200 OK\r\n"), limits).await).starts_with("no response")
        );
    }

    #[tokio::test]
    async fn slow_receivers_time_out() {
        assert_eq!(reason(outcome(ReceiverReply::Stall(""), short_limits()).await), "no response within 0.2 s");
        assert_eq!(
            reason(outcome(ReceiverReply::Stall("HTTP/1.1 200 OK\r\n"), short_limits()).await),
            "no response within 0.2 s"
        );
        let head_only = ReceiverReply::Stall("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n");
        // Long enough for the head, even on a busy machine.
        let limits = ClientLimits { total: Duration::from_secs(3), ..ClientLimits::default() };
        assert_eq!(outcome(head_only, limits).await, answered_outcome(200));
    }

    #[tokio::test]
    async fn failed_attempts_have_a_reason() {
        let unused_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let sender = sender(permissive_rules(), ClientLimits::default());
        let connection_refused = reason(send_to(&sender, &format!("http://{unused_address}/")).await);
        assert!(
            connection_refused.starts_with("cannot connect: ") && connection_refused.contains("refused"),
            "{connection_refused}"
        );

        let malformed = reason(outcome(ReceiverReply::Text("what?\r\n\r\n".to_owned()), ClientLimits::default()).await);
        assert!(malformed.starts_with("no response: "), "{malformed}");

        let untrusted_certificate =
            reason(send_to(&sender, &format!("https://127.0.0.1:{}/", receiver_without_tls().await)).await);
        assert!(
            untrusted_certificate.starts_with("cannot connect: ") && !untrusted_certificate.contains("timed out"),
            "{untrusted_certificate}"
        );

        let unknown = reason(send_to(&sender, &format!("http://{}/", unresolvable_name())).await);
        assert_eq!(unknown, "cannot resolve the host name");

        let mut callback = callback("http://127.0.0.1/");
        callback.webhook_id = "a\nb".to_owned();
        assert_eq!(reason(sender.send(callback).await), "the webhook id does not fit into a header");
    }

    #[tokio::test]
    async fn reasons_contain_no_secret_of_the_url() {
        let unused_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        for (rules, url) in [
            (permissive_rules(), format!("http://{unused_address}/s3cret?token=s3cret")),
            (permissive_rules(), format!("http://me:s3cret@{unused_address}/")),
            (permissive_rules(), format!("http://s3cret{}/s3cret", unresolvable_name())),
            (permissive_rules(), "s3cret://x/".to_owned()),
            (AddressRules::default(), format!("http://{unused_address}/?token=s3cret")),
        ] {
            let reason = reason(send_to(&sender(rules, short_limits()), &url).await);
            assert!(!reason.contains("s3cret") && !reason.contains("127.0.0.1"), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_private_receiver_is_called_only_if_allowed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();

        let port = listener.local_addr().unwrap().port();
        let strict = sender(AddressRules::default(), short_limits());
        let allowed = sender(permissive_rules(), short_limits());

        for host in ["127.0.0.1", "2130706433", "0x7f.1", "localhost", "[::ffff:127.0.0.1]"] {
            let url = format!("http://{host}:{port}/");
            let reason = reason(send_to(&strict, &url).await);
            assert!(reason.contains("egress rules"), "{host}: {reason}");
            assert!(listener.accept().is_err(), "{host} was called");
            send_to(&allowed, &url).await;
            assert!(listener.accept().is_ok(), "{host} was not called: the test would miss calls");
        }

        assert!(reason(send_to(&strict, &format!("http://[::1]:{port}/")).await).contains("egress rules"));
    }

    #[tokio::test]
    async fn a_listed_name_may_be_private() {
        let (port, _requests) = receiver(ReceiverReply::status("200 OK")).await;
        let rules = AddressRules { allow_private: false, allow: vec![AllowEntry::parse("localhost").unwrap()] };
        let sender = sender(rules, ClientLimits::default());
        assert_eq!(send_to(&sender, &format!("http://localhost:{port}/")).await, answered_outcome(200));
        assert!(reason(send_to(&sender, &format!("http://127.0.0.1:{port}/")).await).contains("egress rules"));
    }
}
