//! HTTP/1.1 client of the benchmarks: persistent connections, one request at a time on each, minimal work per response.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Initial size of a connection's buffer, large enough for any head; it grows to the largest response.
const BUFFER_BYTES: usize = 32 * 1024;

/// Persistent connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Number of bytes in the buffer that belong to the current response.
    filled: usize,
}

/// Response to a request, borrowed from the connection's buffer.
pub struct Response<'c> {
    pub status: u16,
    pub head: &'c str,
    pub body: &'c [u8],
}

impl Response<'_> {
    /// Returns `true` if the service closes the connection after this response.
    pub fn closes(&self) -> bool {
        header(self.head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns the status, and the `detail` of the body if there is one.
    pub fn status_and_detail(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(self.body).unwrap_or_default();
        format!("{} {}", self.status, body["detail"].as_str().unwrap_or_default())
    }
}

impl Connection {
    /// Connects; panics if the service refuses.
    pub async fn open(address: &str) -> Self {
        Self::connect(address, None).await.unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Connects from `source`, an address of the loopback network, or from the default one.
    pub async fn connect(address: &str, source: Option<Ipv4Addr>) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if let Some(source) = source {
            socket.bind((source, 0).into())?;
        }
        let address: SocketAddr = address.parse().map_err(io::Error::other)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        if source.is_some() {
            // A bound port would stay in TIME-WAIT, and a flood of connections would use up all ports.
            stream.set_zero_linger()?;
        }
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0 })
    }

    /// Sends a complete request and reads the complete response; panics if the connection fails.
    pub async fn exchange(&mut self, request: &[u8]) -> Response<'_> {
        self.try_exchange(request).await.expect("the service responds")
    }

    /// Sends a complete request and reads the complete response.
    ///
    /// # Errors
    /// Returns the I/O error if the connection fails before the response is complete. The connection is unusable then.
    pub async fn try_exchange(&mut self, request: &[u8]) -> io::Result<Response<'_>> {
        self.stream.write_all(request).await?;
        self.filled = 0;
        let head_length = self.read_head().await?;

        let text = std::str::from_utf8(&self.buffer[..head_length]).map_err(io::Error::other)?;
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the response has no status line"))?;
        let length = header(text, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        self.fill(head_length + length).await?;

        let head = std::str::from_utf8(&self.buffer[..head_length]).map_err(io::Error::other)?;
        Ok(Response { status, head, body: &self.buffer[head_length..head_length + length] })
    }

    /// Reads until the buffer holds a complete head, and returns its length.
    async fn read_head(&mut self) -> io::Result<usize> {
        let mut searched = 0;
        loop {
            self.read().await?;
            let end = self.buffer[searched..self.filled].windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(at) = end {
                return Ok(searched + at + 4);
            }
            searched = self.filled.saturating_sub(3);
        }
    }

    /// Reads until the buffer holds `length` bytes.
    async fn fill(&mut self, length: usize) -> io::Result<()> {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        while self.filled < length {
            self.read().await?;
        }
        Ok(())
    }

    /// Reads once into the buffer.
    async fn read(&mut self) -> io::Result<()> {
        let count = self.stream.read(&mut self.buffer[self.filled..]).await?;
        if count == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the service closed the connection"));
        }
        self.filled += count;
        Ok(())
    }
}

/// Returns the value of a header in a head.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Returns a complete request. `token` and `body` may be empty.
pub fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let content = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    };
    format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}{content}\r\n{body}").into_bytes()
}

/// Rate and latencies of a round of load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadResult {
    /// Requests a second.
    pub rate: f64,
    /// Median latency in microseconds.
    pub p50: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99: f64,
}

/// Runs `connections` clients for `time`, each on a persistent connection. `next(client, iteration)` returns the next
/// request of a client. Every response must have a status from 200 to 299.
pub fn load(
    address: &str,
    connections: usize,
    time: Duration,
    next: impl Fn(usize, u64) -> Vec<u8> + Clone + 'static,
) -> LoadResult {
    load_of_all(&[address], connections, time, next)
}

/// Like [`load`], with the connections spread over several servers.
pub fn load_of_all(
    addresses: &[&str],
    connections: usize,
    time: Duration,
    next: impl Fn(usize, u64) -> Vec<u8> + Clone + 'static,
) -> LoadResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let addresses: Vec<_> = addresses.iter().map(|address| (*address).to_owned()).collect();
    local.block_on(&runtime, async move {
        let mut opened = Vec::new();
        for address in addresses.iter().cycle().take(connections) {
            opened.push(Connection::open(address).await);
        }
        let started = Instant::now();
        let end = started + time;
        let clients = opened.into_iter().enumerate().map(|(client, connection)| {
            let next = next.clone();
            tokio::task::spawn_local(run(connection, end, move |iteration| next(client, iteration)))
        });
        let mut latencies = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            latencies.extend(client.await.expect("a client does not panic"));
        }
        summarize(latencies, started.elapsed())
    })
}

/// Sends a client's requests until `end`, and returns their latencies in tenths of a microsecond.
async fn run(mut connection: Connection, end: Instant, next: impl Fn(u64) -> Vec<u8>) -> Vec<u32> {
    let mut latencies = Vec::new();
    for iteration in 0.. {
        let request = next(iteration);
        let sent_at = Instant::now();
        if sent_at >= end {
            break;
        }
        let response = connection.exchange(&request).await;
        assert!((200..300).contains(&response.status), "{}\n{}", response.head, String::from_utf8_lossy(response.body));
        latencies.push(u32::try_from(sent_at.elapsed().as_nanos() / 100).unwrap_or(u32::MAX));
    }
    latencies
}

/// Summarizes latencies in tenths of a microsecond.
fn summarize(mut latencies: Vec<u32>, time: Duration) -> LoadResult {
    latencies.sort_unstable();
    let micros_at = |percent: usize| f64::from(*latencies.get(latencies.len() * percent / 100).unwrap_or(&0)) / 10.0;
    LoadResult { rate: latencies.len() as f64 / time.as_secs_f64(), p50: micros_at(50), p99: micros_at(99) }
}

/// Sends all requests; each item of `queues` has the requests of one connection. Repeats a request after a 429 or 503,
/// and panics at any other error. Returns the number of repetitions.
pub async fn send_all<I>(address: &str, queues: Vec<I>) -> u64
where
    I: Iterator<Item = Vec<u8>> + 'static,
{
    let retries = std::rc::Rc::new(AtomicU64::new(0));
    let mut clients = Vec::new();
    for requests in queues {
        let mut connection = Connection::open(address).await;
        let retries = retries.clone();
        clients.push(tokio::task::spawn_local(async move {
            for request in requests {
                loop {
                    let response = connection.exchange(&request).await;
                    match response.status {
                        200..300 => break,
                        429 | 503 => {
                            retries.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        _ => panic!("{}\n{}", response.head, String::from_utf8_lossy(response.body)),
                    }
                }
            }
        }));
    }
    for client in clients {
        client.await.expect("a client does not panic");
    }
    retries.load(Ordering::Relaxed)
}
