//! Client that plays a stream: a raw connection with a small receive window that is read at a fixed speed.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::service::TOKEN;

/// Receive buffer in bytes: the kernel buffers this much for a paused reader.
const WINDOW: u32 = 8 * 1024;
/// Bytes a second at playback speed: the bit rate of Opus, in base64.
const PLAYBACK_BYTES: usize = 24 * 1024;
/// Interval between two reads at playback speed.
const READ_INTERVAL: Duration = Duration::from_millis(50);
const BOUNDARY: &str = "the-border-of-the-parts";

/// Speed of a reader.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// As fast as data arrives.
    AtOnce,
    /// Playback speed.
    Playing,
    /// Playback speed, with this pause after the first audio.
    Stalling(Duration),
}

/// Complete stream of a piece, as received.
pub struct ReceivedStream {
    /// Time from the request to the first chunk of audio.
    pub first_sound: Duration,
    body: String,
}

impl ReceivedStream {
    /// Returns the decoded chunks of audio, concatenated.
    pub fn sound(&self) -> Vec<u8> {
        let chunks = self.body.lines().filter_map(|line| line.split_once(r#""data":""#));
        chunks
            .flat_map(|(_, remaining)| {
                STANDARD.decode(remaining.split('"').next().unwrap_or_default()).expect("base64")
            })
            .collect()
    }
}

/// Requests `seconds` of music and reads the stream to its end; panics if the stream breaks off.
pub async fn listen(address: &str, prompt: &str, seconds: u32, pace: Pace) -> ReceivedStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    if !matches!(pace, Pace::AtOnce) {
        socket.set_recv_buffer_size(WINDOW).expect("a socket option");
    }
    let mut stream = socket.connect(address.parse().expect("an address")).await.expect("the service listens");

    let started = Instant::now();
    stream.write_all(&request(prompt, seconds)).await.expect("the service reads");

    let mut raw = Vec::new();
    let mut first_sound = None;
    // Data of one `READ_INTERVAL`, which is a twentieth of a second.
    let mut buffer = vec![0; PLAYBACK_BYTES / 20];
    loop {
        let count = stream.read(&mut buffer).await.expect("the service responds");
        raw.extend_from_slice(&buffer[..count]);
        if first_sound.is_none() && contains(&raw, b"\"audio_chunk\"") {
            first_sound = Some(started.elapsed());
            if let Pace::Stalling(stall) = pace {
                tokio::time::sleep(stall).await;
            }
        }
        if count == 0 || raw.ends_with(b"0\r\n\r\n") {
            break;
        }
        if !matches!(pace, Pace::AtOnce) {
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }

    let body = decode_chunked(&raw);
    assert!(body.contains(r#""type":"complete""#), "the stream broke off: {}", &body[body.len().saturating_sub(300)..]);
    ReceivedStream { first_sound: first_sound.expect("there was sound"), body }
}

fn request(prompt: &str, seconds: u32) -> Vec<u8> {
    let part = |name: &str, value: &str| {
        format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = format!("{}{}--{BOUNDARY}--\r\n", part("prompt", prompt), part("duration", &seconds.to_string()));
    let head = format!(
        "POST /proxy/musicvendor/t2m/generate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Returns the body of an HTTP/1.1 response with chunked transfer encoding.
fn decode_chunked(raw: &[u8]) -> String {
    let head = raw.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let mut remaining = &raw[head..];
    let mut body = Vec::new();
    while let Some(at) = remaining.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&remaining[..at]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.unwrap_or_else(|| panic!("no chunk: {}", String::from_utf8_lossy(raw)));
        if size == 0 {
            break;
        }
        body.extend_from_slice(&remaining[at + 2..at + 2 + size]);
        remaining = &remaining[at + 2 + size + 2..];
    }
    String::from_utf8(body).expect("the response is UTF-8")
}
