//! Client connections: worker threads, deadlines, and the limit by address (ADR 24).

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol, Request, Response};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, map_config};
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Server, fn_service};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

mod address_limit;
mod guarded_stream;

pub use address_limit::ConnectionLimit;
pub use guarded_stream::ActiveRequest;

use guarded_stream::GuardedStream;

/// Deadline of a request head, on kept-alive connections too.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Lifetime of an idle connection.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Time that a client has to close its side after the server has closed its own.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Grace period for running requests at shutdown, in seconds.
const SHUTDOWN_GRACE_SECONDS: u64 = 10;

/// Unsent response bytes that the kernel may buffer. A client that takes half of them within the write deadline counts
/// as reading.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Response to a connection over the limit of its address.
const TOO_MANY_CONNECTIONS: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Limits of connections.
#[derive(Clone)]
pub struct ConnectionOptions {
    pub workers: usize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    pub per_address: ConnectionLimit,
    /// Maximum time without write progress before a connection is closed.
    pub write_timeout: Duration,
}

/// Serves an application on a bound listener. The caller handles signals.
///
/// # Errors
/// If the listener cannot be used.
pub fn serve<I, S, B>(
    listener: TcpListener,
    options: ConnectionOptions,
    application: impl Fn() -> I + Send + Clone + 'static,
) -> std::io::Result<Server>
where
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig> + 'static,
    S::Error: Into<actix_web::Error>,
    S::InitError: std::fmt::Debug,
    S::Response: Into<Response<B>>,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    let server = Server::build()
        .workers(options.workers)
        .max_concurrent_connections(options.max_connections.div_ceil(options.workers))
        .shutdown_timeout(SHUTDOWN_GRACE_SECONDS)
        .disable_signals();
    // The signal closes idle connections as soon as the service stops.
    let shutdown = server.graceful_shutdown_signal();
    let address = listener.local_addr()?;

    let server = server.listen("http", listener, move || {
        let shutdown = shutdown.clone();
        let options = options.clone();
        let service = HttpService::build()
            .graceful_shutdown_signal(move || {
                let shutdown = shutdown.clone();
                async move { shutdown.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(HEAD_TIMEOUT)
            .client_disconnect_timeout(CLOSE_TIMEOUT)
            .local_addr(address)
            .on_connect_ext(|stream: &GuardedStream, data| {
                data.insert(stream.activity());
            });
        let application = application().into_factory().map_err(|error| error.into().error_response());
        let application = map_config(application, |()| AppConfig::default());

        fn_service(move |io: TcpStream| accept(io, options.clone())).and_then(service.finish(application))
    })?;
    Ok(server.run())
}

/// Connection in the form that the framework's HTTP service accepts.
type AcceptedConnection = (GuardedStream, Protocol, Option<std::net::SocketAddr>);

/// Admits a connection, or responds with 503 and fails if its address has too many.
async fn accept(mut io: TcpStream, options: ConnectionOptions) -> Result<AcceptedConnection, DispatchError> {
    let peer = io.peer_addr().ok();
    let address = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());

    if let Some(permit) = options.per_address.try_acquire(address) {
        limit_unsent_bytes(&io);
        return Ok((GuardedStream::new(io, options.write_timeout, permit), Protocol::Http1, peer));
    }

    // Best effort: the client may not read the response.
    let _ = timeout(CLOSE_TIMEOUT, io.write_all(TOO_MANY_CONNECTIONS)).await;
    Err(DispatchError::Io(std::io::Error::other("too many connections from one address")))
}

/// Limits the kernel's buffer of unsent bytes. Without a limit it grows to megabytes, and a slow but steady reader
/// would show no write progress for minutes.
fn limit_unsent_bytes(io: &TcpStream) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = socket2::SockRef::from(io).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
        tracing::debug!(%error, "unsent bytes of connection not limited");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = io;
}
