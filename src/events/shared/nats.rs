//! Engine of a shared log on NATS JetStream: a stream with one subject, on three servers that sync every write.
//!
//! The client runs on a thread of its own, and calls of the engine wait for it. Only this module names the client.
//!
//! | Promise of the engine | Kept by |
//! |---|---|
//! | durable | a quorum of servers, each with `sync_interval: always`; the stream allows no deletion |
//! | ordered | the sequence of the stream; a follower accepts only the next one |
//! | alive | the leader of the stream, which must have heard a quorum recently |

mod announcements;
mod api;
mod connection;
mod consumer;
mod follower;
mod leader;
mod monitor;
mod publish;
mod stream;
mod suitability;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use super::engine::{
    Engine, EngineFault, EngineIncidents, EngineOpenError, EngineSignal, EngineUnreachable, SendResult,
};
use super::engine_check::EngineCheck;
use super::engine_events;
use super::generation::LogGeneration;
use crate::client_thread::ClientThread;
use connection::NatsConnection;
pub use stream::stream_name;
use stream::{NatsStream, StreamUse};

/// Options of the connection, and requirements of the stream.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// URLs of one or more servers, `nats://host:4222` or `tls://host:4222`. The client learns the others from them.
    pub servers: Vec<String>,
    /// Credentials file (a token and the seed of its key), if the servers require one.
    pub credentials: Option<PathBuf>,
    /// Monitoring URLs of all servers, `http://host:8222`. They show the setting `sync_interval`.
    pub monitors: Vec<String>,
    /// Number of servers that store a new stream, and the least of an existing one. Fewer than 3 lose groups with one
    /// disk: only for trials.
    pub replicas: usize,
    /// Time for one server to accept a connection.
    pub connect_timeout: Duration,
    /// Time for the servers to respond to a query.
    pub request_timeout: Duration,
    /// Time for the servers to store a group.
    pub ack_timeout: Duration,
}

impl NatsOptions {
    /// Creates options with defaults: no credentials, no monitoring URLs, 3 replicas.
    #[must_use]
    pub fn new(servers: Vec<String>) -> Self {
        Self {
            servers,
            credentials: None,
            monitors: Vec::new(),
            replicas: 3,
            connect_timeout: Duration::from_millis(1500),
            request_timeout: Duration::from_secs(2),
            ack_timeout: Duration::from_secs(2),
        }
    }
}

/// A connection to the stream of a log. Dropping it ends its thread.
pub struct NatsEngine {
    stream: NatsStream,
    ack_timeout: Duration,
    thread: ClientThread,
}

impl NatsEngine {
    /// Creates the stream of a log.
    ///
    /// # Errors
    /// If the stream exists, or the servers do not answer or do not meet the requirements.
    pub fn create(options: NatsOptions, log: impl Into<LogGeneration>) -> Result<Self, EngineOpenError> {
        Self::start(options, log.into(), StreamUse::Create)
    }

    /// Opens the stream of a log.
    ///
    /// # Errors
    /// If there is none, or the servers do not answer or do not meet the requirements.
    pub fn open(options: NatsOptions, log: impl Into<LogGeneration>) -> Result<Self, EngineOpenError> {
        Self::start(options, log.into(), StreamUse::Open)
    }

    fn start(options: NatsOptions, log: LogGeneration, stream_use: StreamUse) -> Result<Self, EngineOpenError> {
        let thread = Self::start_thread()?;
        let ack_timeout = options.ack_timeout;
        let opened = thread.run(async move {
            let connection = NatsConnection::open(&options).await?;
            suitability::check_server(&connection)?;
            match stream_use {
                StreamUse::Create => {
                    monitor::check(&options, stream_use).await?;
                    NatsStream::create(connection, &options, log).await
                }
                StreamUse::Open => {
                    let stream = NatsStream::open(connection, &options, log).await?;
                    monitor::check(&options, stream_use).await?;
                    Ok(stream)
                }
            }
        });
        let stream = opened.ok_or_else(client_ended)??;
        Ok(Self { stream, ack_timeout, thread })
    }

    /// Checks the servers and, if there is one already, the stream of a log.
    ///
    /// # Errors
    /// If the servers do not answer or do not accept the client.
    pub fn check(options: NatsOptions, log: Option<LogGeneration>) -> Result<Vec<EngineCheck>, EngineOpenError> {
        let checked = Self::start_thread()?.run(async move {
            let connection = NatsConnection::open(&options).await?;
            let mut checks = suitability::server_checks(&connection).to_vec();
            checks.extend(monitor::checks(&options).await);
            if let Some(log) = log {
                match NatsStream::checks(&connection, &options, log).await {
                    Ok(stream) => checks.extend(stream),
                    Err(EngineOpenError::Missing(reason)) => {
                        checks.push(EngineCheck::failed(log.to_string(), reason));
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(checks)
        });
        checked.ok_or_else(client_ended)?
    }

    /// Deletes the stream of a log. Returns `false` if there is none.
    ///
    /// # Errors
    /// If the servers do not answer or do not allow it.
    pub fn delete(options: NatsOptions, log: LogGeneration) -> Result<bool, EngineOpenError> {
        let deleted = Self::start_thread()?.run(async move {
            let connection = NatsConnection::open(&options).await?;
            NatsStream::delete(&connection, log).await
        });
        deleted.ok_or_else(client_ended)?
    }

    /// Returns the generations of a log that have a stream.
    ///
    /// # Errors
    /// If the servers do not answer.
    pub fn list(options: NatsOptions, log_id: Uuid) -> Result<Vec<LogGeneration>, EngineOpenError> {
        let listed = Self::start_thread()?.run(async move {
            let connection = NatsConnection::open(&options).await?;
            NatsStream::list(&connection, log_id).await
        });
        listed.ok_or_else(client_ended)?
    }

    fn start_thread() -> Result<ClientThread, EngineOpenError> {
        ClientThread::start("nats-client")
            .map_err(|error| EngineOpenError::Unreachable(format!("the NATS client does not start: {error}")))
    }
}

impl Engine for NatsEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        let stream = self.stream.clone();
        let ack_timeout = self.ack_timeout;
        let group = group.to_vec();
        let sent = self.thread.run(async move { publish::publish(&stream, group.into(), ack_timeout).await });
        sent.unwrap_or_else(|| SendResult::Unknown { reason: CLIENT_ENDED.to_owned() })
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        let events = follower::start(&self.thread, self.stream.clone(), after);
        engine_events::forward_signals(events, each)
            .unwrap_or_else(|| Err(EngineFault::Unsuitable(CLIENT_ENDED.to_owned())))
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        let stream = self.stream.clone();
        let last = self.thread.run(async move { leader::last(&stream).await });
        last.unwrap_or_else(|| Err(EngineUnreachable(CLIENT_ENDED.to_owned())))
    }

    fn incidents(&self) -> EngineIncidents {
        self.stream.connection.incidents()
    }

    fn announce(&self, message: &[u8]) {
        let stream = self.stream.clone();
        let message = message.to_vec();
        self.thread.spawn(announcements::announce(stream, message.into()));
    }

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        let messages = announcements::listen(&self.thread, self.stream.clone());
        engine_events::forward_messages(messages, each);
    }
}

/// A task of the client has panicked, or its thread has ended.
const CLIENT_ENDED: &str = "the NATS client has ended";

fn client_ended() -> EngineOpenError {
    EngineOpenError::Unreachable(CLIENT_ENDED.to_owned())
}
