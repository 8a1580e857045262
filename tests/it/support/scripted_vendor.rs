//! HTTP server whose responses a test scripts, for vendors with a protocol of their own.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::receiver::{Received, parse};

/// Response of a scripted vendor.
pub struct ScriptedReply {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl ScriptedReply {
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, content_type: "application/json", body: body.to_string().into_bytes() }
    }

    pub fn png(body: Vec<u8>) -> Self {
        Self { status: 200, content_type: "image/png", body }
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
    let mut bytes = Vec::new();
    let request = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        if let Some(request) = parse(&bytes) {
            break request;
        }
    };

    let ScriptedReply { status, content_type, body } = {
        let mut recorded = recorded.lock();
        recorded.push(request);
        reply(&recorded)
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await?;
    stream.shutdown().await
}
