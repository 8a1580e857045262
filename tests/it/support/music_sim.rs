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

/// Next action of the vendor.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends the text.
    Say(String),
    /// Sends the text byte by byte, with a pause after each.
    Trickle(String, Duration),
    /// Sends the text without end.
    Pour(String),
    /// Sends nothing more, and keeps the connection open.
    Silence,
}

/// Request as received.
#[derive(Debug, Clone)]
pub struct Asked {
    pub head: String,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Value of a form field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.body.split_once(&format!("name=\"{name}\"\r\n\r\n"))?;
        Some(rest.split_once("\r\n--")?.0)
    }
}

type Conduct = Box<dyn Fn(&Asked) -> Vec<Act> + Send + Sync>;

/// Record of the vendor.
#[derive(Debug, Clone, Default)]
pub struct Books {
    pub asked: Vec<Asked>,
    /// Connections closed by the client.
    pub closed: usize,
    /// Bytes sent.
    pub sent: u64,
}

struct Shop {
    conduct: Mutex<Conduct>,
    books: watch::Sender<Books>,
}

/// Vendor that listens until it is dropped.
pub struct MusicSim {
    shop: Arc<Shop>,
    address: SocketAddr,
    listening: tokio::task::JoinHandle<()>,
}

impl Drop for MusicSim {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl MusicSim {
    pub async fn behaving(conduct: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shop = Arc::new(Shop { conduct: Mutex::new(Box::new(conduct)), books: watch::Sender::default() });
        let serving = shop.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        Self { shop, address, listening }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn books(&self) -> Books {
        self.shop.books.borrow().clone()
    }

    /// Replaces the behaviour.
    pub fn behave(&self, conduct: impl Fn(&Asked) -> Vec<Act> + Send + Sync + 'static) {
        *self.shop.conduct.lock() = Box::new(conduct);
    }

    /// Waits until the record satisfies the condition.
    pub async fn until(&self, shown: impl FnMut(&Books) -> bool) {
        self.shop.books.subscribe().wait_for(shown).await.expect("the vendor lives");
    }
}

impl Shop {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let Some(asked) = read(&mut stream).await else { return };
        let acts = (self.conduct.lock())(&asked);
        self.books.send_modify(|books| books.asked.push(asked));
        let (mut incoming, mut outgoing) = stream.split();
        let mut rest = [0; 64];
        tokio::select! {
            () = self.act(&mut outgoing, acts) => {
                let _ = outgoing.shutdown().await;
            }
            _ = incoming.read(&mut rest) => self.books.send_modify(|books| books.closed += 1),
        }
    }

    async fn act(&self, outgoing: &mut (impl AsyncWriteExt + Unpin), acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Say(text) => self.send(outgoing, text.as_bytes()).await,
                Act::Trickle(text, pause) => {
                    for byte in text.bytes() {
                        self.send(outgoing, &[byte]).await;
                        tokio::time::sleep(pause).await;
                    }
                }
                Act::Pour(text) => loop {
                    self.send(outgoing, text.as_bytes()).await;
                },
                Act::Silence => std::future::pending().await,
            }
        }
    }

    /// Ignores a closed connection, which is detected elsewhere.
    async fn send(&self, outgoing: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
        if outgoing.write_all(bytes).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.books.send_modify(|books| books.sent += bytes.len() as u64);
    }
}

/// Reads a complete request.
async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let asked = Asked { head, body: String::from_utf8_lossy(&bytes[end + 4..]).into_owned() };
            let length: usize = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Some(asked);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Head of a streamed response.
pub const BEGUN: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";

/// Complete response with this status.
pub fn answer(status: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    vec![Act::Say(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"))]
}

/// Lines, with the head before them.
pub fn lines(lines: &[Value]) -> Vec<Act> {
    let lines: String = lines.iter().map(|line| line.to_string() + "\n").collect();
    vec![Act::Say(format!("{BEGUN}{lines}"))]
}

pub fn duration() -> Value {
    json!({"type": "duration", "duration_sec": 2.0})
}

pub fn title() -> Value {
    json!({"type": "title", "stream_index": 0, "prompt_index": 0, "copy_index": 0, "title": "Theirs",
        "display_tags": ["calm"]})
}

/// Line with audio data.
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

/// Lines of a successful response.
pub fn usual() -> Vec<Value> {
    vec![duration(), title(), sound("one "), sound("two"), generated(), complete()]
}
