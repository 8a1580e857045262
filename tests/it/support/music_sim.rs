//! Simulated music vendor with the original interface, as a real HTTP server: scripted, slow or faulty responses, and a
//! record of requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::eventually::within;

/// Step of a response.
#[derive(Debug, Clone)]
pub enum StreamAction {
    /// Sends the text.
    Send(String),
    /// Sends the text byte by byte, with this pause after each.
    Trickle(String, Duration),
    /// Sends the text over and over.
    SendForever(String),
    /// Sends nothing more and keeps the connection open.
    Silence,
}

/// Request as received.
#[derive(Debug, Clone)]
pub struct MusicRequest {
    pub head: String,
    pub body: String,
}

impl MusicRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Returns the value of a form field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let (_, remaining) = self.body.split_once(&format!("name=\"{name}\"\r\n\r\n"))?;
        Some(remaining.split_once("\r\n--")?.0)
    }
}

/// Function from a request to the steps of its response.
type MusicBehavior = Box<dyn Fn(&MusicRequest) -> Vec<StreamAction> + Send + Sync>;

/// Record of the vendor's requests, connections and bytes.
#[derive(Debug, Clone, Default)]
pub struct MusicSimRecord {
    pub requests: Vec<MusicRequest>,
    /// Connections closed by the client.
    pub closed: usize,
    /// Bytes sent.
    pub sent: u64,
}

struct MusicSimServer {
    behavior: Mutex<MusicBehavior>,
    record: watch::Sender<MusicSimRecord>,
}

/// Vendor that listens until it is dropped.
pub struct MusicSim {
    server: Arc<MusicSimServer>,
    address: SocketAddr,
    accept_task: tokio::task::JoinHandle<()>,
}

impl Drop for MusicSim {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl MusicSim {
    /// Starts a vendor that responds to each request with the actions that `behavior` returns.
    pub async fn with_behavior(behavior: impl Fn(&MusicRequest) -> Vec<StreamAction> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let server =
            Arc::new(MusicSimServer { behavior: Mutex::new(Box::new(behavior)), record: watch::Sender::default() });
        let shared = server.clone();
        let accept_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(shared.clone().serve(stream));
            }
        });
        Self { server, address, accept_task }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn record(&self) -> MusicSimRecord {
        self.server.record.borrow().clone()
    }

    /// Replaces the behaviour.
    pub fn set_behavior(&self, behavior: impl Fn(&MusicRequest) -> Vec<StreamAction> + Send + Sync + 'static) {
        *self.server.behavior.lock() = Box::new(behavior);
    }

    /// Waits until the record satisfies the condition.
    pub async fn wait_until(&self, condition: impl FnMut(&MusicSimRecord) -> bool) {
        let mut record = self.server.record.subscribe();
        within("the vendor has the record", record.wait_for(condition)).await.expect("the vendor runs");
    }
}

impl MusicSimServer {
    /// Serves one request and closes the connection. Ends early if the client closes it.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let Some(request) = read_request(&mut stream).await else { return };
        let actions = (self.behavior.lock())(&request);
        self.record.send_modify(|record| record.requests.push(request));
        let (mut incoming, mut outgoing) = stream.split();
        let mut buffer = [0; 64];
        tokio::select! {
            () = self.perform(&mut outgoing, actions) => {
                let _ = outgoing.shutdown().await;
            }
            _ = incoming.read(&mut buffer) => self.record.send_modify(|record| record.closed += 1),
        }
    }

    /// Performs the actions of a response in order.
    async fn perform(&self, outgoing: &mut (impl AsyncWriteExt + Unpin), actions: Vec<StreamAction>) {
        for action in actions {
            match action {
                StreamAction::Send(text) => self.send(outgoing, text.as_bytes()).await,
                StreamAction::Trickle(text, pause) => {
                    for byte in text.bytes() {
                        self.send(outgoing, &[byte]).await;
                        tokio::time::sleep(pause).await;
                    }
                }
                StreamAction::SendForever(text) => loop {
                    self.send(outgoing, text.as_bytes()).await;
                },
                StreamAction::Silence => std::future::pending().await,
            }
        }
    }

    /// Sends bytes. Waits forever on a closed connection, which [`MusicSimServer::serve`] detects.
    async fn send(&self, outgoing: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
        if outgoing.write_all(bytes).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.record.send_modify(|record| record.sent += bytes.len() as u64);
    }
}

/// Reads a complete request.
async fn read_request(stream: &mut TcpStream) -> Option<MusicRequest> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let request = MusicRequest { head, body: String::from_utf8_lossy(&bytes[end + 4..]).into_owned() };
            let length: usize = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Some(request);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Head of a successful response, before the lines of the stream.
pub const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";

/// Returns a complete response with a status line and a body.
pub fn error_response(status: &str, body: &str) -> Vec<StreamAction> {
    let length = body.len();
    vec![StreamAction::Send(format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    ))]
}

/// Returns a successful response with these lines.
pub fn lines(lines: &[Value]) -> Vec<StreamAction> {
    let lines: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    vec![StreamAction::Send(format!("{STREAM_HEAD}{lines}"))]
}

pub fn duration() -> Value {
    json!({"type": "duration", "duration_sec": 2.0})
}

pub fn title() -> Value {
    json!({"type": "title", "stream_index": 0, "prompt_index": 0, "copy_index": 0, "title": "Theirs",
        "display_tags": ["calm"]})
}

/// Returns a line with audio data.
pub fn sound(data: &str) -> Value {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(data);
    json!({"type": "audio_chunk", "stream_index": 0, "num_streams": 1, "sample_rate": 44_100, "channels": 2,
        "encoding": "mp3", "data": data})
}

pub fn generated() -> Value {
    json!({"type": "generated_audio", "sample_rate": 44_100, "channels": 2, "duration_sec_by_stream": [1.9],
        "billing_rate_per_sec": 99, "billing": 188.1})
}

pub fn complete() -> Value {
    json!({"type": "complete", "task_id": "theirs"})
}

/// Returns the lines of a successful response.
pub fn normal_lines() -> Vec<Value> {
    vec![duration(), title(), sound("one "), sound("two"), generated(), complete()]
}
