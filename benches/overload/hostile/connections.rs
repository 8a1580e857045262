//! Held connections: half heads, slow readers, uploads, streams of events.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{AttackTarget, RECONNECT, SOURCE};
use crate::http::request;
use crate::workload::UPSCALER;
use crate::zip::{ZipTestEntry, zip};

const HALF_HEADS: usize = 300;
const SLOW_READERS: usize = 128;
const UPLOADS: usize = 32;
const EVENT_STREAMS: usize = 500;
/// Receive buffer in bytes: the kernel buffers this much for a paused reader.
const WINDOW: u32 = 4096;
/// Bytes per read of a slow reader.
const READ_BYTES: usize = 64;
/// Interval between two reads of a slow reader.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Size of an archive in bytes.
const ARCHIVE_BYTES: usize = 16 << 20;
/// Bytes per write of a slow upload: with [`WRITE_INTERVAL`], twice the required 1 KiB/s.
const WRITE_BYTES: usize = 2048;
/// Interval between two writes of a slow upload.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Sends half of a request head on each connection, and reconnects when the service closes it.
pub fn half_heads(target: &Rc<AttackTarget>) {
    let half_head = b"GET /nodes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Unfinished: ";
    hold(target, HALF_HEADS, None, half_head, Duration::ZERO);
}

/// Requests several large responses on each connection and reads them a few bytes at a time.
pub fn slow_readers(target: &Rc<AttackTarget>) {
    let list = request("GET", "/nodes?limit=1000", &target.account.token, "").repeat(8);
    hold(target, SLOW_READERS, Some(WINDOW), &list, READ_INTERVAL);
}

/// Opens streams of the events of a task that does not end, and reads them.
pub async fn event_streams(target: &Rc<AttackTarget>) {
    let Some(task) = submit_endless_task(target).await else { return };
    let path = format!("/tasks/{task}/events");
    let stream = request("GET", &path, &target.account.token, "");
    hold(target, EVENT_STREAMS, None, &stream, Duration::ZERO);
}

/// Opens connections, sends `bytes` on each, and reads until the service closes it; then reconnects.
///
/// `window` limits the receive buffer, in bytes; `pause` is the time between two reads.
fn hold(target: &Rc<AttackTarget>, connections: usize, window: Option<u32>, bytes: &[u8], pause: Duration) {
    let bytes: Rc<[u8]> = bytes.into();
    for _ in 0..connections {
        let (target, bytes) = (target.clone(), bytes.clone());
        tokio::task::spawn_local(async move {
            loop {
                if let Err(error) = hold_once(&target, window, &bytes, pause).await {
                    target.count(error.kind().to_string());
                }
                tokio::time::sleep(RECONNECT).await;
            }
        });
    }
}

/// Holds one connection until the service closes it. Counts the status of the first response as soon as it begins, or
/// that there was none.
async fn hold_once(target: &AttackTarget, window: Option<u32>, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    let mut stream = connect(target, window).await?;
    stream.write_all(bytes).await?;
    let mut buffer = [0; READ_BYTES];
    let mut has_response = false;
    loop {
        let count = stream.read(&mut buffer).await?;
        if !has_response {
            let status = String::from_utf8_lossy(buffer.get(9..12).filter(|_| count >= 12).unwrap_or_default());
            target.count(if count == 0 { "closed without a response" } else { &status });
            has_response = true;
        }
        if count == 0 {
            return Ok(());
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Connects from the hostile caller's address; `window` limits the receive buffer, in bytes.
async fn connect(target: &AttackTarget, window: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((SOURCE, 0).into())?;
    if let Some(window) = window {
        socket.set_recv_buffer_size(window)?;
    }
    socket.connect(target.address.parse().map_err(std::io::Error::other)?).await
}

/// Submits a task with a picture on a server that accepts connections and never responds. `None` if it was rejected.
async fn submit_endless_task(target: &Rc<AttackTarget>) -> Option<String> {
    let silent = TcpListener::bind((SOURCE, 0)).await.expect("a free port");
    let url = format!("http://{}/picture.png", silent.local_addr().expect("an address"));
    tokio::task::spawn_local(async move {
        let mut connections = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            connections.push(stream);
        }
    });
    let response = post(target, UPSCALER, &json!({"image": url})).await?;
    response["data"]["task_id"].as_str().map(str::to_owned)
}

/// Publishes versions and uploads an archive for each: the first half at full speed, the second half as slowly as the
/// service accepts.
pub fn archives(target: &Rc<AttackTarget>) {
    let archive: Rc<[u8]> = archive().into();
    for index in 0..UPLOADS {
        let (target, archive) = (target.clone(), archive.clone());
        tokio::task::spawn_local(async move {
            for iteration in 0_u32.. {
                let version = format!("{}.{iteration}.0", index + 2);
                let path = format!("{}/versions", target.account.node(index));
                let response = post(&target, &path, &json!({"node_version": {"version": version}})).await;
                let link = response.as_ref().and_then(|response| response["signedUrl"].as_str());
                if let Some((_, upload_ticket)) = link.and_then(|link| link.split_once("/uploads/")) {
                    let upload_path = format!("/uploads/{upload_ticket}");
                    let is_fast = index < UPLOADS / 2;
                    match upload(&target, &upload_path, &archive, is_fast).await {
                        Ok(status) => target.count(format!("upload {status}")),
                        Err(error) => target.count(error.kind().to_string()),
                    }
                }
                tokio::time::sleep(RECONNECT).await;
            }
        });
    }
}

/// Returns an archive with one uncompressed entry of [`ARCHIVE_BYTES`] bytes.
fn archive() -> Vec<u8> {
    let content: Vec<u8> = (0..ARCHIVE_BYTES).map(|at| u8::try_from(at * 31 % 251).expect("a byte")).collect();
    zip(&[ZipTestEntry::stored("tool/__init__.py", &content)])
}

/// Uploads an archive and returns the status of the response.
async fn upload(target: &AttackTarget, path: &str, archive: &[u8], is_fast: bool) -> std::io::Result<String> {
    let mut stream = connect(target, None).await?;
    let head = format!("PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", archive.len());
    stream.write_all(head.as_bytes()).await?;
    if is_fast {
        stream.write_all(archive).await?;
    } else {
        for part in archive.chunks(WRITE_BYTES) {
            stream.write_all(part).await?;
            tokio::time::sleep(WRITE_INTERVAL).await;
        }
    }
    let mut status_line = [0; 12];
    stream.read_exact(&mut status_line).await?;
    Ok(String::from_utf8_lossy(&status_line[9..]).into_owned())
}

/// Posts `body` on a new connection, counts the response, and returns its body; `None` if the request fails.
pub async fn post(target: &AttackTarget, path: &str, body: &Value) -> Option<Value> {
    let mut connection = target.connect().await?;
    let bytes = request("POST", path, &target.account.token, &body.to_string());
    match connection.try_exchange(&bytes).await {
        Ok(response) => {
            target.count(response.status.to_string());
            (200..300).contains(&response.status).then(|| serde_json::from_slice(response.body).unwrap_or_default())
        }
        Err(error) => {
            target.count(error.kind().to_string());
            None
        }
    }
}
