//! HTTP server whose responses a test scripts, for vendors with a protocol of their own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::receiver::{Received, read_request};

/// Longest time for which a silent server keeps a connection open.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Response of a scripted vendor.
#[derive(Debug, Clone)]
pub struct ScriptedReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub delivery: Delivery,
}

/// Delivery of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    /// Half of the body, then the end of the connection.
    Cut,
    /// The end of the connection, without a response.
    HangUp,
    /// An open connection without a response.
    Silence,
}

impl ScriptedReply {
    pub fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self { status, headers, body, delivery: Delivery::Whole }
    }

    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    pub fn png(body: Vec<u8>) -> Self {
        Self::new(200, "image/png", body)
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn delivered(self, delivery: Delivery) -> Self {
        Self { delivery, ..self }
    }
}

/// Function from the requests so far, the last of which is to be answered, to the response.
type ScriptFn = Arc<dyn Fn(&[Received]) -> ScriptedReply + Send + Sync>;

/// Server that listens until the test ends.
pub struct ScriptedVendor {
    base: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl ScriptedVendor {
    /// Starts a server; `script` gets its base URL.
    pub async fn start<F>(script: impl FnOnce(String) -> F) -> Self
    where
        F: Fn(&[Received]) -> ScriptedReply + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let reply: ScriptFn = Arc::new(script(base.clone()));

        let recorded = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let recorded = recorded.clone();
                let reply = reply.clone();
                tokio::spawn(async move {
                    let _ = exchange(stream, &recorded, &reply).await;
                });
            }
        });
        Self { base, received }
    }

    pub fn base(&self) -> String {
        self.base.clone()
    }

    /// Requests so far with this method and beginning of the path, in order.
    pub fn requests(&self, method: &str, path: &str) -> Vec<Received> {
        let received = self.received.lock();
        received.iter().filter(|request| request.method == method && request.path.starts_with(path)).cloned().collect()
    }
}

async fn exchange(mut stream: TcpStream, recorded: &Mutex<Vec<Received>>, reply: &ScriptFn) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let ScriptedReply { status, headers, body, delivery } = {
        let mut recorded = recorded.lock();
        recorded.push(request);
        reply(&recorded)
    };

    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    match delivery {
        Delivery::Whole => stream.write_all(&[head.as_bytes(), &body].concat()).await?,
        Delivery::Cut => stream.write_all(&[head.as_bytes(), &body[..length / 2]].concat()).await?,
        Delivery::HangUp => {}
        Delivery::Silence => tokio::time::sleep(SILENCE_MAX).await,
    }
    stream.shutdown().await
}
