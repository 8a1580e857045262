//! File server for client-supplied URLs: scripted responses, and a record of requests.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// Function from a path to the response bytes, after which the connection is closed.
type FileReplyFn = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// Server that listens until the test ends.
pub struct FileServer {
    address: SocketAddr,
    requested_paths: Arc<Mutex<Vec<String>>>,
    /// `false` while responses are held back.
    released: watch::Sender<bool>,
}

impl FileServer {
    /// Starts a server that responds to a path with the bytes that `reply` returns, including the head.
    pub async fn with_replies(reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::on_listener(TcpListener::bind("127.0.0.1:0").await.expect("a free port"), reply)
    }

    /// Like [`FileServer::with_replies`], on this listener.
    pub fn on_listener(listener: TcpListener, reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().expect("an address");
        let requested_paths = Arc::<Mutex<Vec<String>>>::default();
        let (released, is_released) = watch::channel(true);
        let recorded = requested_paths.clone();
        let reply: FileReplyFn = Arc::new(reply);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let recorded = recorded.clone();
                let reply = reply.clone();
                let is_released = is_released.clone();
                tokio::spawn(async move {
                    let _ = serve_one_request(stream, &recorded, &reply, is_released).await;
                });
            }
        });
        Self { address, requested_paths, released }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requested paths, in order.
    pub fn requested_paths(&self) -> Vec<String> {
        self.requested_paths.lock().clone()
    }

    /// Holds back all responses until [`FileServer::release`].
    pub fn hold(&self) {
        self.released.send_replace(false);
    }

    /// Sends held responses, and later ones at once.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

/// Reads one request, responds to it once responses are released, and closes the connection.
async fn serve_one_request(
    mut stream: TcpStream,
    recorded: &Mutex<Vec<String>>,
    reply: &FileReplyFn,
    mut is_released: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while !is_whole_request(&bytes) {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&bytes);
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    recorded.lock().push(path.clone());
    let _ = is_released.wait_for(|is_released| *is_released).await;
    stream.write_all(&reply(&path)).await?;
    stream.shutdown().await
}

/// Returns `true` if the bytes contain a head and the body that it announces.
fn is_whole_request(bytes: &[u8]) -> bool {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    bytes.len() >= head_end + 4 + length.unwrap_or(0)
}

/// Reserves a port without a listener. The test may listen on the socket later.
pub fn vacant_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// Returns a response with a file.
pub fn file(bytes: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
    [head.as_bytes(), bytes].concat()
}

/// Returns a response without a body; `line` is the status, and `headers` are further lines that end with CRLF.
pub fn status(line: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}
