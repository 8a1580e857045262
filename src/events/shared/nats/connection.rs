//! The connection of the client to the servers.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, ReconnectToServer, Request, RequestErrorKind, Server,
};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;
use url::Url;

use super::NatsOptions;
use crate::events::shared::engine::{EngineIncidents, EngineOpenError};

/// Interval between two pings. A server that misses two is given up.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the first connection, with the names of all servers, whose resolution has no other limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Attempts to connect without a pause in between: one per server of a usual cluster.
const IMMEDIATE_ATTEMPTS: usize = 3;
/// Longest pause between two attempts to connect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(500);

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NatsRequestFailure {
    /// No server acts on it.
    #[error("{0}")]
    NotDelivered(String),
    /// It may have been acted on.
    #[error("{0}")]
    NoResponse(String),
    /// Same as [`NatsRequestFailure::NoResponse`], but on a connection that seems to work.
    #[error("no response within {0:?}")]
    TimedOut(Duration),
}

/// A connection to the servers. The client replaces it when it is lost. Cheap to clone.
#[derive(Clone)]
pub struct NatsConnection {
    pub client: Client,
    /// Time for the servers to respond to a query.
    pub request_timeout: Duration,
    /// Number of lost connections.
    losses: watch::Receiver<u64>,
    /// Number of groups that a server did not have although it had later ones.
    missing_groups: Arc<AtomicU64>,
    /// Number of the last loss that [`NatsConnection::reconnect`] caused.
    forced_loss: Arc<AtomicU64>,
}

impl NatsConnection {
    /// Connects to one of the servers.
    pub async fn open(options: &NatsOptions) -> Result<Self, EngineOpenError> {
        let (count_loss, losses) = watch::channel(0);
        let turn = AtomicUsize::new(0);
        let mut connect = ConnectOptions::new()
            .name("mediary")
            .connection_timeout(options.connect_timeout)
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(reconnect_delay)
            .reconnect_to_server_callback(move |servers, _| {
                ready(next_server(&servers, turn.fetch_add(1, Ordering::Relaxed)))
            })
            .event_callback(move |event| {
                note_event(&event, &count_loss);
                async {}
            });
        if let Some(path) = &options.credentials {
            connect = connect.credentials_file(path).await.map_err(|error| {
                let path = path.display();
                EngineOpenError::Unsuitable(format!(
                    "the NATS credentials file {path} is not usable: {error}; it must be a file made by `nsc generate creds`"
                ))
            })?;
        }

        let connected = timeout(CONNECT_TIMEOUT, connect.connect(&options.servers)).await;
        let client = connected
            .map_err(|_| {
                EngineOpenError::Unreachable(format!("no connection to the NATS servers in {CONNECT_TIMEOUT:?}"))
            })?
            .map_err(|error| connect_error(&error, options))?;
        Ok(Self {
            client,
            request_timeout: options.request_timeout,
            losses,
            missing_groups: Arc::default(),
            forced_loss: Arc::default(),
        })
    }

    /// Sends a request and waits for its response until the time is over or the connection is lost.
    pub async fn request(&self, subject: String, payload: Bytes, limit: Duration) -> Result<Bytes, NatsRequestFailure> {
        let mut losses = self.losses.clone();
        losses.mark_unchanged();
        if self.client.connection_state() != State::Connected {
            // The client would keep the request and send it with the next connection.
            return Err(NatsRequestFailure::NotDelivered("no connection to the NATS servers".to_owned()));
        }

        // The time limit of the client does not cover its queue.
        let request = Request::new().payload(payload).timeout(None);
        let answered = timeout(limit, self.client.send_request(subject, request));
        let response = tokio::select! {
            biased;
            response = answered => response.map_err(|_| NatsRequestFailure::TimedOut(limit))?,
            _ = losses.changed() => {
                return Err(NatsRequestFailure::NoResponse("the connection to the NATS server was lost".to_owned()));
            }
        };
        response.map(|message| message.payload).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => NatsRequestFailure::NotDelivered(
                "the NATS servers know no receiver; JetStream may have no leader".to_owned(),
            ),
            RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
                NatsRequestFailure::NotDelivered(error.to_string())
            }
            RequestErrorKind::TimedOut | RequestErrorKind::Other => NatsRequestFailure::NoResponse(error.to_string()),
        })
    }

    /// Counts a group that a server does not have although it has later ones.
    pub fn count_missing_group(&self) {
        self.missing_groups.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns what has happened since the connection was opened.
    pub fn incidents(&self) -> EngineIncidents {
        EngineIncidents {
            connections_lost: *self.losses.borrow(),
            groups_missing: self.missing_groups.load(Ordering::Relaxed),
        }
    }

    /// Gives the connection up and makes another, perhaps to another server. Calls that concern the same connection count
    /// once.
    pub async fn reconnect(&self) {
        let loss = *self.losses.borrow() + 1;
        if self.forced_loss.swap(loss, Ordering::Relaxed) == loss {
            return;
        }
        tracing::warn!("nats connection given up");
        if !matches!(timeout(self.request_timeout, self.client.force_reconnect()).await, Ok(Ok(()))) {
            self.forced_loss.store(0, Ordering::Relaxed);
        }
    }
}

/// Takes the servers in turn. By default the client prefers those that accepted its last connection: it would return again
/// and again to one that is cut off from the others.
fn next_server(servers: &[Server], turn: usize) -> Option<ReconnectToServer> {
    let is_first_connection = servers.iter().all(|server| !server.did_connect);
    if is_first_connection {
        // The default tries all servers before it fails.
        return None;
    }
    let server = &servers[turn % servers.len()];
    Some(ReconnectToServer { addr: server.addr.clone(), delay: None })
}

fn reconnect_delay(attempts: usize) -> Duration {
    let paused = u32::try_from(attempts.saturating_sub(IMMEDIATE_ATTEMPTS)).unwrap_or(u32::MAX);
    RECONNECT_DELAY_MAX.min(Duration::from_millis(50).saturating_mul(paused))
}

fn note_event(event: &Event, count_loss: &watch::Sender<u64>) {
    match event {
        Event::Connected => tracing::info!("nats connected"),
        Event::Disconnected => {
            count_loss.send_modify(|losses| *losses += 1);
            tracing::warn!("nats connection lost");
        }
        Event::ServerError(error) => tracing::warn!(%error, "nats server reports an error"),
        Event::SlowConsumer(_) => tracing::warn!("nats messages dropped by a slow reader"),
        event => tracing::debug!(%event, "nats event"),
    }
}

fn connect_error(error: &async_nats::ConnectError, options: &NatsOptions) -> EngineOpenError {
    let servers: Vec<_> = options.servers.iter().map(|server| without_password(server)).collect();
    let reason = format!("no connection to the NATS servers {}: {error}", servers.join(", "));
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            EngineOpenError::Unsuitable(format!("{reason}; set a credentials file that the servers accept"))
        }
        ConnectErrorKind::ServerParse => {
            EngineOpenError::Unsuitable(format!("{reason}; write URLs as nats://host:4222 or tls://host:4222"))
        }
        ConnectErrorKind::Tls => EngineOpenError::Unsuitable(format!(
            "{reason}; the machine must trust the issuer of the servers' certificates"
        )),
        _ => EngineOpenError::Unreachable(format!("{reason}; check that they run and that their ports are open")),
    }
}

/// Returns the host and port of a URL.
fn without_password(server: &str) -> String {
    let url = Url::parse(server).ok().filter(Url::has_host);
    let named = url.and_then(|url| {
        let host = url.host_str()?;
        Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    });
    named.unwrap_or_else(|| "(not a URL)".to_owned())
}
