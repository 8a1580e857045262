//! Canary that listens on every address of this machine and records its connections; and a server that redirects to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::eventually::eventually_blocking;

/// Marker that the canary's own connection sends.
const OWN: &str = "own";

/// Listener that runs until the test ends.
pub struct Canary {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canary {
    /// Listens on every address, IPv4 and IPv6.
    pub fn start() -> Self {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let first = first_line(stream);
                recorded.lock().push(first);
            }
        });
        Self { port, requests }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the first lines of all connections so far. They are accepted in order: once the canary's own connection
    /// is seen, so are all earlier ones.
    pub fn requests(&self) -> Vec<String> {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap().write_all(format!("{OWN}\n").as_bytes()).unwrap();
        eventually_blocking("the canary sees its own connection", || {
            let mut requests = self.requests.lock();
            requests.pop_if(|last| last == OWN).map(|_| requests.clone())
        })
    }

    pub fn forget(&self) {
        self.requests.lock().clear();
    }
}

fn first_line(mut stream: TcpStream) -> String {
    let mut line_bytes = Vec::new();
    let mut bytes = [0; 1024];
    while !line_bytes.contains(&b'\n') {
        match stream.read(&mut bytes) {
            Ok(length @ 1..) => line_bytes.extend_from_slice(&bytes[..length]),
            _ => break,
        }
    }
    let line = String::from_utf8_lossy(&line_bytes).lines().next().unwrap_or("an empty request").to_owned();
    if line != OWN {
        let _ = stream.write_all(b"HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        // Reads the remaining request, so that no reset cuts off the response.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    line
}

/// Starts a server on 127.0.0.9 that redirects `/to/<host>` to that host at the port of the canary, and responds to
/// `/ok` with success. Returns its port.
pub async fn redirecting(port: u16) -> u16 {
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 9], 0))).await.unwrap();
    let own_port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 16 * 1024];
                let length = stream.read(&mut bytes).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&bytes[..length]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or("/");
                let head_line = match path.strip_prefix("/to/") {
                    Some(host) => format!("302 Found\r\nlocation: http://{host}:{port}/x"),
                    None => "204 No Content".to_owned(),
                };
                let response = format!("HTTP/1.1 {head_line}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(response.as_bytes()).await;
                let _ = stream.shutdown().await;
                while matches!(stream.read(&mut bytes).await, Ok(1..)) {}
            });
        }
    });
    own_port
}
