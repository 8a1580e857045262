//! HTTP server whose responses a test scripts, to simulate vendors with any protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use super::eventually::eventually;
use super::receiver::{ReceivedRequest, read_request};

/// Time for which a silent server keeps a connection open.
const SILENCE: Duration = Duration::from_mins(1);

/// Status of [`ScriptedReply::death`], which is not a response.
const DEATH: u16 = 0;

/// Response of a scripted vendor.
#[derive(Debug, Clone)]
pub struct ScriptedReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub delivery: Delivery,
}

/// Way in which a response is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    /// Sends half of the body and closes the connection.
    Cut,
    /// Closes the connection without a response.
    HangUp,
    /// Sends nothing and keeps the connection open.
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

    /// Makes the server die instead of responding: its connections and its port are closed until
    /// [`ScriptedVendor::restart`].
    pub fn death() -> Self {
        Self { status: DEATH, headers: Vec::new(), body: Vec::new(), delivery: Delivery::Whole }
    }

    pub fn png(body: Vec<u8>) -> Self {
        Self::new(200, "image/png", body)
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn with_delivery(self, delivery: Delivery) -> Self {
        Self { delivery, ..self }
    }
}

/// Function from all requests so far to the response to the last of them.
type ScriptFn = Arc<dyn Fn(&[ReceivedRequest]) -> ScriptedReply + Send + Sync>;

/// Server that listens until the test ends.
pub struct ScriptedVendor {
    base: String,
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    reply: ScriptFn,
    /// Task that serves the connections until the server dies.
    server: Mutex<JoinHandle<()>>,
}

impl ScriptedVendor {
    /// Starts a server. `script` gets its base URL, and returns the function that chooses the responses.
    pub async fn start<F>(script: impl FnOnce(String) -> F) -> Self
    where
        F: Fn(&[ReceivedRequest]) -> ScriptedReply + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let base = format!("http://{address}");
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let reply: ScriptFn = Arc::new(script(base.clone()));
        let server = Mutex::new(tokio::spawn(run(listener, received.clone(), reply.clone())));
        Self { base, address, received, reply, server }
    }

    /// Ends the server: its connections and its port are closed.
    pub async fn kill(&self) {
        self.server.lock().abort();
        self.wait_for_death().await;
    }

    /// Waits until the server has died.
    pub async fn wait_for_death(&self) {
        eventually("the server dies", async || self.server.lock().is_finished()).await;
    }

    /// Starts the server again after its death, on the same port. Earlier requests stay recorded.
    pub async fn restart(&self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is free");
        *self.server.lock() = tokio::spawn(run(listener, self.received.clone(), self.reply.clone()));
    }

    pub fn base(&self) -> String {
        self.base.clone()
    }

    /// Returns the requests so far with this method and a path that starts with `prefix`, in order.
    pub fn requests(&self, method: &str, prefix: &str) -> Vec<ReceivedRequest> {
        let received = self.received.lock();
        received
            .iter()
            .filter(|request| request.method == method && request.path.starts_with(prefix))
            .cloned()
            .collect()
    }
}

/// Serves connections until a reply is [`ScriptedReply::death`].
async fn run(listener: TcpListener, recorded: Arc<Mutex<Vec<ReceivedRequest>>>, reply: ScriptFn) {
    let death = Arc::new(Notify::new());
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.expect("a connection").0,
            () = death.notified() => return,
        };
        let recorded = recorded.clone();
        let reply = reply.clone();
        let death = death.clone();
        connections.spawn(async move {
            let _ = exchange(stream, &recorded, &reply, &death).await;
        });
    }
}

/// Reads one request, responds to it, and closes the connection.
async fn exchange(
    mut stream: TcpStream,
    recorded: &Mutex<Vec<ReceivedRequest>>,
    reply: &ScriptFn,
    death: &Notify,
) -> std::io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let ScriptedReply { status, headers, body, delivery } = {
        let mut recorded = recorded.lock();
        recorded.push(request);
        reply(&recorded)
    };
    if status == DEATH {
        death.notify_one();
        // The connection is closed when `run` returns and drops this task.
        return std::future::pending().await;
    }

    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Scripted\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    match delivery {
        Delivery::Whole => stream.write_all(&[head.as_bytes(), &body].concat()).await?,
        Delivery::Cut => stream.write_all(&[head.as_bytes(), &body[..length / 2]].concat()).await?,
        Delivery::HangUp => {}
        Delivery::Silence => tokio::time::sleep(SILENCE).await,
    }
    stream.shutdown().await
}
