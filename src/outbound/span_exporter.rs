//! Sends spans to a collector, in batches and with few retries. Spans that cannot be sent in time are dropped and
//! counted; the service never waits for them.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::watch;
use url::Url;

use super::address::{AddressRules, AllowEntry};
use super::client::{ClientLimits, ClientSetupError, OutboundClient};
use crate::telemetry::otlp;
use crate::telemetry::trace::{BATCH, FinishedSpan, Tracer};

const LIMITS: ClientLimits =
    ClientLimits { connect: Duration::from_secs(2), total: Duration::from_secs(5), body_bytes: 16 * 1024 };
/// Maximum number of idle connections. Batches are sent one after another, on one connection.
const IDLE_CONNECTIONS_MAX: usize = 1;
/// Longest time that a span waits to be sent.
const EXPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Pauses between the attempts to send a batch. The batch is dropped after the last attempt.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Exporter of spans to one collector.
pub struct SpanExporter {
    client: OutboundClient,
    url: String,
    service: String,
}

/// Outcome of an attempt.
enum ExportAttempt {
    Accepted,
    /// A retry may succeed.
    Retryable(String),
    Rejected(String),
}

impl SpanExporter {
    /// Creates an exporter to the collector at `endpoint`, a base URL without a trailing slash. Private addresses are
    /// allowed, because the operator chose the URL. `service` is the name of this service in the traces.
    ///
    /// # Errors
    /// If the client cannot be set up.
    pub fn new(endpoint: &str, service: String) -> Result<Self, ClientSetupError> {
        let host = Url::parse(endpoint).ok().and_then(|url| AllowEntry::parse(url.host_str()?).ok());
        let rules = AddressRules { allow_private: true, allow: host.into_iter().collect() };
        let client = OutboundClient::with_idle_connections(rules, LIMITS, None, IDLE_CONNECTIONS_MAX)?;
        Ok(Self { client, url: format!("{endpoint}{}", otlp::TRACES_PATH), service })
    }

    /// Sends the spans of the tracer until stopped, and then the remaining ones once.
    pub async fn run(self, tracer: Tracer, mut stop_signal: watch::Receiver<bool>) {
        loop {
            // The pauses in `send_batch` may already have consumed the change notification.
            let is_stopping = *stop_signal.borrow();
            let is_last = is_stopping
                || tokio::select! {
                    () = tracer.batch_ready() => false,
                    () = tokio::time::sleep(EXPORT_INTERVAL) => false,
                    _ = stop_signal.changed() => true,
                };

            self.send_queued(&tracer, is_last, &mut stop_signal).await;
            if is_last {
                return;
            }
        }
    }

    /// Sends the queued spans. The last time, a batch gets one attempt, and a failure ends the export.
    async fn send_queued(&self, tracer: &Tracer, is_last: bool, stop_signal: &mut watch::Receiver<bool>) {
        let delays = if is_last { &RETRY_DELAYS[..0] } else { &RETRY_DELAYS[..] };
        loop {
            let spans = tracer.take_batch();
            if spans.is_empty() {
                return;
            }
            let is_sent = self.send_batch(&spans, delays, stop_signal).await;
            tracer.count_exported(if is_sent { "sent" } else { "lost" }, spans.len());
            if spans.len() < BATCH || (is_last && !is_sent) {
                return;
            }
        }
    }

    /// Sends a batch; `true` on success. A stop of the service ends the retries.
    async fn send_batch(
        &self,
        spans: &[FinishedSpan],
        delays: &[Duration],
        stop_signal: &mut watch::Receiver<bool>,
    ) -> bool {
        let body = Bytes::from(otlp::encode_batch(&self.service, spans));
        let mut delays = delays.iter();

        loop {
            let reason = match self.attempt(body.clone()).await {
                ExportAttempt::Accepted => return true,
                ExportAttempt::Rejected(reason) => reason,
                ExportAttempt::Retryable(reason) => match delays.next() {
                    Some(delay) if !*stop_signal.borrow() => {
                        let _ = tokio::time::timeout(*delay, stop_signal.wait_for(|stopped| *stopped)).await;
                        continue;
                    }
                    _ => reason,
                },
            };
            tracing::warn!(spans = spans.len(), %reason, "span batch lost");
            return false;
        }
    }

    async fn attempt(&self, body: Bytes) -> ExportAttempt {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        match self.client.post(&self.url, headers, body).await {
            Ok(head) if (200..300).contains(&head.status) => ExportAttempt::Accepted,
            Ok(head) if matches!(head.status, 429 | 502..=504) => {
                ExportAttempt::Retryable(format!("status {}", head.status))
            }
            Ok(head) => ExportAttempt::Rejected(format!("status {}", head.status)),
            Err(failure) => ExportAttempt::Retryable(failure.to_string()),
        }
    }
}
