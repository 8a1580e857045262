//! Monitoring URLs of the servers: only they show whether a server syncs every write.

use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::NatsOptions;
use super::stream::StreamUse;
use crate::events::shared::engine::EngineOpenError;
use crate::events::shared::engine_check::{CheckStatus, EngineCheck};

/// Largest response that is read.
const RESPONSE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The part of `/jsz` that matters.
#[derive(Deserialize)]
struct JetStreamStatus {
    config: Option<JetStreamSettings>,
}

#[derive(Deserialize)]
struct JetStreamSettings {
    /// Servers leave it out when it is `false`.
    #[serde(default)]
    sync_always: bool,
}

/// Refuses servers that do not sync every write. A server may be down when a node opens a stream, but not when the stream is
/// created.
pub async fn check(options: &NatsOptions, stream_use: StreamUse) -> Result<(), EngineOpenError> {
    for EngineCheck { subject, status, finding } in checks(options).await {
        match status {
            CheckStatus::Met => {}
            CheckStatus::Failed => return Err(EngineOpenError::Unsuitable(format!("{subject} {finding}"))),
            CheckStatus::Risk if stream_use == StreamUse::Open || options.monitors.is_empty() => {
                tracing::warn!(subject, finding, "nats durability not checked");
            }
            CheckStatus::Risk => return Err(EngineOpenError::Unreachable(format!("{subject} {finding}"))),
        }
    }
    Ok(())
}

/// Checks that the servers sync every write.
pub async fn checks(options: &NatsOptions) -> Vec<EngineCheck> {
    if options.monitors.is_empty() {
        let finding =
            "are not known: nothing shows whether the servers have `sync_interval: always`; set cluster.monitor";
        return vec![EngineCheck::risk("the monitoring URLs", finding)];
    }
    let mut checks = Vec::new();
    for url in &options.monitors {
        let server = format!("the NATS server at {url}");
        checks.push(match syncs_always(url, options.request_timeout).await {
            Ok(true) => EngineCheck::met(server, "syncs every write"),
            Ok(false) => EngineCheck::failed(
                server,
                "does not sync every write; acknowledged groups would be lost when servers lose power: set \
                 `sync_interval: always` in the section `jetstream` of every server",
            ),
            Err(reason) => EngineCheck::risk(
                server,
                format!(
                    "does not answer: {reason}; its monitoring URL must show `sync_interval`, as http://host:8222 with \
                     `http: 8222` on the server"
                ),
            ),
        });
    }
    checks
}

async fn syncs_always(url: &str, limit: Duration) -> Result<bool, String> {
    let body = timeout(limit, fetch(url)).await.map_err(|_| format!("no response within {limit:?}"))??;
    let status: JetStreamStatus =
        serde_json::from_slice(&body).map_err(|error| format!("/jsz is not readable: {error}"))?;
    let settings = status.config.ok_or("JetStream is off")?;
    Ok(settings.sync_always)
}

/// Reads `/jsz` by HTTP/1.0, so that the response has no chunks and ends with the connection.
async fn fetch(url: &str) -> Result<Vec<u8>, String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    if parsed.scheme() != "http" {
        return Err("it must begin with http://".to_owned());
    }
    let host = parsed.host_str().ok_or("it has no host")?;
    let port = parsed.port_or_known_default().ok_or("it has no port")?;
    let path = parsed.path().trim_end_matches('/');

    let failed = |error: std::io::Error| error.to_string();
    let address = (host.trim_matches(['[', ']']), port);
    let mut connection = TcpStream::connect(address).await.map_err(failed)?;
    let request = format!("GET {path}/jsz HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut response = Vec::new();
    connection.take(RESPONSE_BYTES_MAX).read_to_end(&mut response).await.map_err(failed)?;

    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or("the response is not HTTP")?;
    let status = String::from_utf8_lossy(&response[..end]).lines().next().unwrap_or_default().to_owned();
    if status.split(' ').nth(1) != Some("200") {
        return Err(status);
    }
    Ok(response.split_off(end + 4))
}
