//! The thread of the client, and its connection to the servers.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use url::Url;

use super::{NatsOpenError, NatsOptions};

/// Interval between two pings. A server that misses two is given up.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to connect without a pause in between: one per server of a usual cluster.
const IMMEDIATE_ATTEMPTS: usize = 3;
/// Longest pause between two attempts to connect.
const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(500);
/// Time for the last messages to leave when the engine is dropped.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// The thread of the client, with a runtime of its own.
pub struct NatsThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NatsThread {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            let _ = runtime.block_on(stopped);
            // Does not wait for a name that is being resolved.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("nats-client".to_owned()).spawn(run)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs a future on the thread, and waits for its output; `None` if it panicked or the thread has ended.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn(async move {
            let _ = sender.send(future.await);
        });
        receiver.recv().ok()
    }

    /// Runs a future on the thread.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    /// Ends the thread after the last messages have left.
    pub fn stop(&mut self, connection: &NatsConnection) {
        let client = connection.client.clone();
        self.run(async move { timeout(FLUSH_TIMEOUT, client.flush()).await.is_ok() });
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("nats client panicked");
        }
    }
}

impl Drop for NatsThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// A connection to the servers, which is made again when it is lost. Cheap to clone.
#[derive(Clone)]
pub struct NatsConnection {
    pub client: Client,
    pub context: Context,
    /// Number of lost connections.
    losses: watch::Receiver<u64>,
}

impl NatsConnection {
    /// Connects to one of the servers.
    pub async fn open(options: &NatsOptions) -> Result<Self, NatsOpenError> {
        let (count_loss, losses) = watch::channel(0);
        let mut connect = ConnectOptions::new()
            .name("mediary")
            .connection_timeout(options.connect_timeout)
            .request_timeout(Some(options.request_timeout))
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(move |event| {
                note_event(&event, &count_loss);
                async {}
            });
        if let Some(path) = &options.credentials {
            connect = connect.credentials_file(path).await.map_err(|error| {
                let path = path.display();
                NatsOpenError::Unsuitable(format!(
                    "the NATS credentials file {path} is not usable: {error}; it must be a file made by `nsc generate creds`"
                ))
            })?;
        }

        let client = connect.connect(&options.servers).await.map_err(|error| connect_error(&error, options))?;
        let context = ContextBuilder::new().timeout(options.request_timeout).build(client.clone());
        Ok(Self { client, context, losses })
    }

    /// `true` if the client is connected to a server, as far as it knows.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Watches for the loss of the connection from now on.
    pub fn watch_for_loss(&self) -> ConnectionLoss {
        let mut losses = self.losses.clone();
        losses.mark_unchanged();
        ConnectionLoss(losses)
    }
}

/// The next loss of a connection.
pub struct ConnectionLoss(watch::Receiver<u64>);

impl ConnectionLoss {
    /// Waits until the connection is lost.
    pub async fn happened(&mut self) {
        // Without a sender, the client has ended.
        let _ = self.0.changed().await;
    }
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

fn connect_error(error: &async_nats::ConnectError, options: &NatsOptions) -> NatsOpenError {
    let servers: Vec<_> = options.servers.iter().map(|server| without_password(server)).collect();
    let reason = format!("no connection to the NATS servers {}: {error}", servers.join(", "));
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            NatsOpenError::Unsuitable(format!("{reason}; set a credentials file that the servers accept"))
        }
        ConnectErrorKind::ServerParse => {
            NatsOpenError::Unsuitable(format!("{reason}; write URLs as nats://host:4222 or tls://host:4222"))
        }
        ConnectErrorKind::Tls => NatsOpenError::Unsuitable(format!(
            "{reason}; the machine must trust the issuer of the servers' certificates"
        )),
        _ => NatsOpenError::Unreachable(format!("{reason}; check that they run and that their ports are open")),
    }
}

/// The host and port of a URL.
fn without_password(server: &str) -> String {
    let url = Url::parse(server).ok().filter(Url::has_host);
    let named = url.and_then(|url| {
        let host = url.host_str()?;
        Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    });
    named.unwrap_or_else(|| "(not a URL)".to_owned())
}
