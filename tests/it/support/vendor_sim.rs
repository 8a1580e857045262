//! Simulated image and video vendor with the original interface, as a real HTTP server: slow, faulty or absent as a
//! test requires. It records every charge. Benchmarks use it too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Feature with which the service can find out whether a submission arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SimMode {
    /// A repeated submission with the same idempotency key returns the same job.
    HonoursKeys,
    /// Jobs can be searched by their idempotency key.
    Searchable,
    Neither,
}

/// Kind of a request to the vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SimRequestKind {
    Submission,
    Poll,
    Search,
    Result,
    Cancellation,
}

/// Request, as the behaviour sees it.
#[derive(Debug, Clone)]
pub struct SimRequest {
    pub kind: SimRequestKind,
    /// Number of requests of this kind for the same job so far, including this one.
    pub count: u32,
    /// Prompt of the job, by which a test identifies it.
    pub prompt: String,
    /// Id of the job; for a submission, the id that it would get.
    pub id: String,
}

/// Behaviour towards one request. Unless stated otherwise, a submission is accepted and charged before the response
/// fails.
#[derive(Debug, Clone)]
pub enum SimBehavior {
    Normal,
    /// Rejects the submission with this response: status line and headers, then the body.
    Reject(&'static str, String),
    /// Sends this response instead of the usual one.
    Respond(&'static str, String),
    /// Sends these bytes, then closes the connection.
    Raw(String),
    /// Sends the usual response, one byte per interval.
    Trickle(Duration),
    /// Sends nothing and keeps the connection open.
    Silence,
    /// Closes the connection without a response.
    HangUp,
}

/// Charge for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Idempotency key of the job.
    pub key: String,
    pub id: String,
    pub prompt: String,
}

/// Job, as benchmarks see it.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "for benches/gateway")]
pub struct SimJob {
    /// Idempotency key of the job.
    pub key: String,
    /// Time of completion.
    pub completed_at: Instant,
    /// Webhook URL for the job.
    pub webhook: Option<String>,
}

/// Job at the vendor.
struct StoredJob {
    key: String,
    prompt: String,
    completed_at: Instant,
    webhook: Option<String>,
}

/// Properties of the vendor.
pub struct SimOptions {
    pub mode: SimMode,
    /// Duration of a job.
    pub job_duration: Duration,
    /// Result file of every image job.
    pub result: Vec<u8>,
}

/// Result of every video: the first bytes of an MP4 file, followed by enough to identify it.
pub const CLIP: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0isommp41a video of the simulator";

type BehaviorFn = Box<dyn Fn(&SimRequest) -> SimBehavior + Send + Sync>;

#[derive(Default)]
struct SimVendorState {
    jobs: HashMap<String, StoredJob>,
    /// Job ids by idempotency key.
    by_key: HashMap<String, String>,
    charges: Vec<Charge>,
    request_counts: HashMap<(SimRequestKind, String), u32>,
    /// Head and body of the last submission.
    last_submission: Option<(String, Value)>,
}

struct SimServer {
    options: SimOptions,
    base: String,
    behavior: BehaviorFn,
    state: Mutex<SimVendorState>,
}

/// Vendor that listens until it is dropped.
pub struct VendorSim {
    server: Arc<SimServer>,
    accept_task: tokio::task::JoinHandle<()>,
}

impl Drop for VendorSim {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl VendorSim {
    /// Starts a vendor without faults.
    pub async fn start(options: SimOptions) -> Self {
        Self::with_behavior(options, |_| SimBehavior::Normal).await
    }

    /// Starts a vendor whose behaviour for each request the test chooses.
    pub async fn with_behavior(
        options: SimOptions,
        behavior: impl Fn(&SimRequest) -> SimBehavior + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on_listener(listener, options, behavior)
    }

    /// Like [`VendorSim::with_behavior`], on this listener.
    pub fn on_listener(
        listener: TcpListener,
        options: SimOptions,
        behavior: impl Fn(&SimRequest) -> SimBehavior + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let base = format!("http://{address}");
        let server = Arc::new(SimServer { options, base, behavior: Box::new(behavior), state: Mutex::default() });
        let shared = server.clone();
        let accept_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = shared.clone();
                tokio::spawn(async move {
                    let _ = server.serve(stream).await;
                });
            }
        });
        Self { server, accept_task }
    }

    pub fn base(&self) -> String {
        self.server.base.clone()
    }

    /// Returns all charges, in order.
    pub fn charges(&self) -> Vec<Charge> {
        self.server.state.lock().charges.clone()
    }

    /// Returns the head and the body of the last submission. Its picture is replaced by the length of its text.
    pub fn last_submission(&self) -> Option<(String, Value)> {
        self.server.state.lock().last_submission.clone()
    }

    /// Returns the webhook URL of the job with a prompt.
    pub fn webhook(&self, prompt: &str) -> Option<String> {
        self.server.state.lock().jobs.values().find(|job| job.prompt == prompt)?.webhook.clone()
    }

    /// Returns the jobs after the first `offset`, in order of acceptance.
    #[allow(dead_code, reason = "for benches/gateway")]
    pub fn jobs_after(&self, offset: usize) -> Vec<SimJob> {
        let state = self.server.state.lock();
        let jobs = state.charges.iter().skip(offset).filter_map(|charge| state.jobs.get(&charge.id));
        jobs.map(|job| SimJob { key: job.key.clone(), completed_at: job.completed_at, webhook: job.webhook.clone() })
            .collect()
    }

    /// Returns the number of requests of a kind, over all jobs.
    pub fn request_count(&self, kind: SimRequestKind) -> u32 {
        self.server
            .state
            .lock()
            .request_counts
            .iter()
            .filter(|((candidate, _), _)| *candidate == kind)
            .map(|(_, count)| count)
            .sum()
    }

    /// Completes all jobs at once.
    pub fn finish_all(&self) {
        for job in self.server.state.lock().jobs.values_mut() {
            job.completed_at = Instant::now();
        }
    }
}

/// Request as received.
struct RawRequest {
    head: String,
    method: String,
    path: String,
    body: Vec<u8>,
}

impl RawRequest {
    fn header(&self, name: &str) -> String {
        let value = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        value.unwrap_or_default()
    }
}

/// Reads a request and removes it from `bytes`, which may already have the start of the next one. Returns `None` at
/// the end of the connection.
async fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<Option<RawRequest>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut parts = head.split(' ');
            let method = parts.next().unwrap_or("").to_owned();
            let path = parts.next().unwrap_or("").to_owned();
            let mut request = RawRequest { head, method, path, body: Vec::new() };
            let length: usize = request.header("content-length").parse().unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                request.body = bytes[end + 4..end + 4 + length].to_vec();
                bytes.drain(..end + 4 + length);
                return Ok(Some(request));
            }
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns a response: `head` is the status line, which header lines may follow.
fn http_message(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn ok(body: &Value) -> Vec<u8> {
    http_message("200 OK\r\ncontent-type: application/json", body.to_string().as_bytes())
}

fn is_video_request(request: &RawRequest) -> bool {
    request.path.contains("/videovendor/")
}

fn not_found() -> Vec<u8> {
    http_message("404 Not Found\r\ncontent-type: application/json", br#"{"message": "no such thing"}"#)
}

impl SimServer {
    /// Serves the requests of one connection in order.
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut bytes).await? {
            let sim_request = self.record(&request);
            let behavior = (self.behavior)(&sim_request);
            // Has the usual effect, even if another response is sent.
            let normal = || self.normal_response(&request, &sim_request);
            match behavior {
                SimBehavior::Normal => stream.write_all(&normal()).await?,
                SimBehavior::Reject(head, body) => stream.write_all(&http_message(head, body.as_bytes())).await?,
                SimBehavior::Respond(head, body) => {
                    normal();
                    stream.write_all(&http_message(head, body.as_bytes())).await?;
                }
                SimBehavior::Raw(raw) => {
                    normal();
                    stream.write_all(raw.as_bytes()).await?;
                    return stream.shutdown().await;
                }
                SimBehavior::Trickle(pause) => {
                    for byte in normal() {
                        stream.write_all(&[byte]).await?;
                        tokio::time::sleep(pause).await;
                    }
                }
                SimBehavior::Silence => {
                    normal();
                    std::future::pending::<()>().await;
                }
                SimBehavior::HangUp => {
                    normal();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Counts and interprets a request.
    fn record(&self, request: &RawRequest) -> SimRequest {
        let mut state = self.state.lock();
        let path = request.path.trim_end_matches("/creations").trim_end_matches("/cancel");
        // The last part of the path is the id of a job, or the key of a search.
        let name = path.rsplit(['/', '=']).next().and_then(|name| name.split('.').next()).unwrap_or("").to_owned();

        let kind = match (request.method.as_str(), request.path.as_str()) {
            ("POST", path) if path.ends_with("/cancel") => SimRequestKind::Cancellation,
            ("POST", _) => SimRequestKind::Submission,
            (_, path) if path.contains("reference=") => SimRequestKind::Search,
            (_, path) if path.starts_with("/results/") => SimRequestKind::Result,
            _ => SimRequestKind::Poll,
        };

        let (id, prompt) = if kind == SimRequestKind::Submission {
            let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let prompt = body["prompt"].as_str().unwrap_or("").to_owned();
            if let Some(image) = body.get_mut("image") {
                *image = json!(image.as_str().map(str::len));
            }
            state.last_submission = Some((request.head.clone(), body));
            (format!("job-{}", state.charges.len() + 1), prompt)
        } else {
            let prompt = state.jobs.get(&name).map(|job| job.prompt.clone());
            (name, prompt.unwrap_or_default())
        };

        let count = state.request_counts.entry((kind, prompt.clone())).or_default();
        *count += 1;
        SimRequest { kind, count: *count, prompt, id }
    }

    /// Executes a request and returns its response.
    fn normal_response(&self, request: &RawRequest, sim_request: &SimRequest) -> Vec<u8> {
        match sim_request.kind {
            SimRequestKind::Submission => self.accept_job(request, &sim_request.prompt),
            SimRequestKind::Poll if is_video_request(request) => self.video_status(sim_request),
            SimRequestKind::Poll => self.job_status(&sim_request.id),
            SimRequestKind::Cancellation => http_message("200 OK\r\ncontent-type: application/json", b"{}"),
            SimRequestKind::Search => self.search(&sim_request.id),
            SimRequestKind::Result if request.path.contains(".mp4") => {
                http_message("200 OK\r\ncontent-type: video/mp4", CLIP)
            }
            SimRequestKind::Result => http_message("200 OK\r\ncontent-type: image/png", &self.options.result),
        }
    }

    /// Accepts and charges a job, unless its idempotency key is known.
    fn accept_job(&self, request: &RawRequest, prompt: &str) -> Vec<u8> {
        let key = request.header("idempotency-key");
        let mut state = self.state.lock();
        let existing = state.by_key.get(&key).filter(|_| self.options.mode == SimMode::HonoursKeys).cloned();
        let id = existing.unwrap_or_else(|| {
            let id = format!("job-{}", state.charges.len() + 1);
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let webhook = body["webhook_url"].as_str().or(body["callback_url"].as_str()).map(str::to_owned);
            let completed_at = Instant::now() + self.options.job_duration;
            state.charges.push(Charge { key: key.clone(), id: id.clone(), prompt: prompt.to_owned() });
            state
                .jobs
                .insert(id.clone(), StoredJob { key: key.clone(), prompt: prompt.to_owned(), completed_at, webhook });
            state.by_key.insert(key, id.clone());
            id
        });
        if is_video_request(request) {
            return ok(&json!({"task_id": id, "state": "created", "credits": 0}));
        }
        ok(&json!({"data": {"task_id": id, "status": "CREATED", "generated": []}}))
    }

    /// Returns the status of a video, which is still queued at its first poll.
    fn video_status(&self, request: &SimRequest) -> Vec<u8> {
        let vendor = self.state.lock();
        let id = &request.id;
        let status_reply = |state: &str, creations: Value| {
            ok(&json!({"id": id, "state": state, "err_code": "", "credits": 0, "creations": creations}))
        };
        match vendor.jobs.get(id) {
            None => not_found(),
            Some(_) if request.count == 1 => status_reply("queueing", json!([])),
            Some(job) if job.completed_at > Instant::now() => status_reply("processing", json!([])),
            Some(_) => {
                let url = format!("{}/results/{id}.mp4", self.base);
                status_reply(
                    "success",
                    json!([{"id": format!("v-{id}"), "url": url, "cover_url": "", "watermarked_url": ""}]),
                )
            }
        }
    }

    fn job_status(&self, id: &str) -> Vec<u8> {
        match self.state.lock().jobs.get(id) {
            None => not_found(),
            Some(job) if job.completed_at > Instant::now() => {
                ok(&json!({"data": {"task_id": id, "status": "IN_PROGRESS", "generated": []}}))
            }
            Some(_) => {
                let results = [format!("{}/results/{id}.png", self.base)];
                ok(&json!({"data": {"task_id": id, "status": "COMPLETED", "generated": results}}))
            }
        }
    }

    /// Finds jobs by idempotency key, if the vendor is searchable.
    fn search(&self, key: &str) -> Vec<u8> {
        if self.options.mode != SimMode::Searchable {
            return not_found();
        }
        let state = self.state.lock();
        let matching = state.jobs.iter().filter(|(_, job)| job.key == key);
        ok(&json!({"data": matching.map(|(id, _)| json!({"task_id": id, "status": "CREATED"})).collect::<Vec<_>>()}))
    }
}
