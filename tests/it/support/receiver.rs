//! Webhook receiver: a small HTTP server that records callbacks and gives scripted responses.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Request as received, by a webhook receiver or a simulated vendor.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// Returns the expected signature with a webhook secret, computed by an independent implementation of Standard
    /// Webhooks.
    pub fn signature_with(&self, secret: &Value) -> String {
        let at = self.header("webhook-timestamp").parse().expect("a time");
        let webhook = standardwebhooks::Webhook::new(secret["secret"].as_str().expect("a secret")).expect("a secret");
        webhook.sign(self.header("webhook-id"), at, &self.body).expect("a signature")
    }

    /// Returns the value of a header; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        header.map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// Returns the status of the task that a callback reports.
    pub fn status(&self) -> String {
        self.json()["status"].as_str().expect("a status").to_owned()
    }

    /// Returns the id of the task that a callback reports.
    pub fn task_id(&self) -> String {
        self.json()["task_id"].as_str().expect("a task id").to_owned()
    }
}

/// Function from the number of a callback, from 1, and the callback to the status line of the response.
type ReplyFn = Arc<dyn Fn(usize, &ReceivedRequest) -> String + Send + Sync>;

/// Receiver that listens until it is dropped.
pub struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    count: watch::Receiver<usize>,
}

impl Receiver {
    /// Starts a receiver that accepts every callback.
    pub async fn start() -> Self {
        Self::with_replies(|_, _| "HTTP/1.1 204 No Content".to_owned()).await
    }

    /// Starts a receiver that accepts every callback, on the address of an earlier one.
    pub async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free again");
        Self::listen(listener, Arc::new(|_, _| "HTTP/1.1 204 No Content".to_owned()))
    }

    /// Starts a receiver whose responses the test chooses: `reply` gets the number of the callback, from 1, and returns
    /// the status line, which header lines may follow.
    pub async fn with_replies(reply: impl Fn(usize, &ReceivedRequest) -> String + Send + Sync + 'static) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.expect("a free port"), Arc::new(reply))
    }

    fn listen(listener: TcpListener, reply: ReplyFn) -> Self {
        let address = listener.local_addr().expect("an address");
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let (notify, count) = watch::channel(0);
        let recorded = received.clone();
        tokio::spawn(async move {
            let notify = Arc::new(notify);
            while let Ok((stream, _)) = listener.accept().await {
                let recorded = recorded.clone();
                let reply = reply.clone();
                let notify = notify.clone();
                tokio::spawn(async move {
                    let _ = serve_one_request(stream, &recorded, &reply, &notify).await;
                });
            }
        });
        Self { address, received, count }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the callbacks so far, in order.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().clone()
    }

    /// Waits until the callbacks so far satisfy a condition, and returns them. Panics after a minute without a
    /// callback.
    pub async fn wait_until(&self, mut condition: impl FnMut(&[ReceivedRequest]) -> bool) -> Vec<ReceivedRequest> {
        let mut count = self.count.clone();
        loop {
            let so_far = self.received();
            if condition(&so_far) {
                return so_far;
            }
            let change = tokio::time::timeout(std::time::Duration::from_mins(1), count.changed());
            change
                .await
                .unwrap_or_else(|_| panic!("waited a minute for callbacks, got {so_far:#?}"))
                .expect("a sender");
        }
    }
}

/// Records one callback, responds to it, and closes the connection.
async fn serve_one_request(
    mut stream: TcpStream,
    recorded: &Mutex<Vec<ReceivedRequest>>,
    reply: &ReplyFn,
    notify: &watch::Sender<usize>,
) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let count = {
        let mut recorded = recorded.lock();
        recorded.push(request.clone());
        recorded.len()
    };
    let head = reply(count, &request);
    stream.write_all(format!("{head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    stream.shutdown().await?;
    notify.send_replace(count);
    Ok(())
}

/// Reads a request; `None` if the client closes the connection before it is complete.
pub(super) async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<ReceivedRequest>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
        if let Some(request) = parse(&bytes) {
            return Ok(Some(request));
        }
    }
}

/// Returns the request in these bytes once it is complete.
fn parse(bytes: &[u8]) -> Option<ReceivedRequest> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let mut request_line = lines.next()?.split(' ').map(str::to_owned);
    let method = request_line.next()?;
    let path = request_line.next()?;
    let split = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(split).collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let body = bytes.get(end + 4..end + 4 + length)?.to_vec();
    Some(ReceivedRequest { method, path, headers, body })
}
