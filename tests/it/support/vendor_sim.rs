//! Simulated image and video vendor with the original interface, as a real HTTP server: slow, faulty or absent as a
//! test requires, with its own ledger of one entry per charge. Benchmarks use it too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Vendor feature for clients that do not know whether a submission arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    HonoursKeys,
    Searchable,
    Neither,
}

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Submission,
    Poll,
    Search,
    Result,
}

/// Request, as far as the behaviour depends on it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub kind: Kind,
    /// Number of requests of this kind for the same job so far, including this one.
    pub nth: u32,
    /// Prompt of the job, by which a test identifies it.
    pub prompt: String,
    /// Id of the job; for a submission, the id that it would get.
    pub id: String,
}

/// Behaviour towards one request. Unless stated otherwise, a submission is accepted and charged before the response
/// fails.
#[derive(Debug, Clone)]
pub enum Conduct {
    Usual,
    /// Rejects the submission with this response: status line and headers, then the body.
    Refuse(&'static str, String),
    /// Sends this response instead of the usual one.
    Answer(&'static str, String),
    /// Sends these bytes, then closes the connection.
    Raw(String),
    /// Sends the usual response, one byte per interval.
    Trickle(Duration),
    Silence,
    HangUp,
}

/// Charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// Idempotency key of the job.
    pub key: String,
    pub id: String,
    pub prompt: String,
}

/// Job, for measurements from outside.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "for benches/gateway")]
pub struct Seen {
    /// Idempotency key of the job.
    pub key: String,
    /// Time of completion.
    pub done: Instant,
    /// Webhook URL for the job.
    pub webhook: Option<String>,
}

/// Job at the vendor.
struct Job {
    key: String,
    prompt: String,
    done: Instant,
    webhook: Option<String>,
}

/// Properties of the vendor.
pub struct SimOptions {
    pub mode: Mode,
    /// Duration of a job.
    pub work: Duration,
    /// Result file of every image job.
    pub result: Vec<u8>,
}

/// Result of every video: the first bytes of an MP4 file, followed by enough to identify it.
pub const CLIP: &[u8] = b"\0\0\0\x18ftypisom\0\0\x02\0isommp41a video of the simulator";

type Choosing = Box<dyn Fn(&Asked) -> Conduct + Send + Sync>;

#[derive(Default)]
struct Books {
    jobs: HashMap<String, Job>,
    by_key: HashMap<String, String>,
    charges: Vec<Charge>,
    asked: HashMap<(Kind, String), u32>,
    /// Head and body of the last submission.
    last: Option<(String, Value)>,
}

struct Shop {
    options: SimOptions,
    base: String,
    conduct: Choosing,
    books: Mutex<Books>,
}

/// Vendor that listens until it is dropped.
pub struct VendorSim {
    shop: Arc<Shop>,
    listening: tokio::task::JoinHandle<()>,
}

impl Drop for VendorSim {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl VendorSim {
    /// Vendor without faults.
    pub async fn start(options: SimOptions) -> Self {
        Self::behaving(options, |_| Conduct::Usual).await
    }

    /// Vendor with scripted behaviour for each request.
    pub async fn behaving(options: SimOptions, conduct: impl Fn(&Asked) -> Conduct + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, options, conduct)
    }

    /// The same, on this listener.
    pub fn on(
        listener: TcpListener,
        options: SimOptions,
        conduct: impl Fn(&Asked) -> Conduct + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let base = format!("http://{address}");
        let shop = Arc::new(Shop { options, base, conduct: Box::new(conduct), books: Mutex::default() });
        let serving = shop.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shop = serving.clone();
                tokio::spawn(async move {
                    let _ = shop.serve(stream).await;
                });
            }
        });
        Self { shop, listening }
    }

    pub fn base(&self) -> String {
        self.shop.base.clone()
    }

    /// All charges, in order.
    pub fn charges(&self) -> Vec<Charge> {
        self.shop.books.lock().charges.clone()
    }

    /// Head and body of the last submission.
    pub fn last_submission(&self) -> Option<(String, Value)> {
        self.shop.books.lock().last.clone()
    }

    /// Webhook URL of the job with this prompt.
    pub fn webhook(&self, prompt: &str) -> Option<String> {
        self.shop.books.lock().jobs.values().find(|job| job.prompt == prompt)?.webhook.clone()
    }

    /// Jobs accepted after this many others, in order.
    #[allow(dead_code, reason = "for benches/gateway")]
    pub fn taken_after(&self, number: usize) -> Vec<Seen> {
        let books = self.shop.books.lock();
        let taken = books.charges.iter().skip(number).filter_map(|charge| books.jobs.get(&charge.id));
        taken.map(|job| Seen { key: job.key.clone(), done: job.done, webhook: job.webhook.clone() }).collect()
    }

    /// Number of requests of this kind, over all jobs.
    pub fn asked(&self, kind: Kind) -> u32 {
        self.shop.books.lock().asked.iter().filter(|((asked, _), _)| *asked == kind).map(|(_, count)| count).sum()
    }

    /// Completes all jobs at once.
    pub fn finish_all(&self) {
        for job in self.shop.books.lock().jobs.values_mut() {
            job.done = Instant::now();
        }
    }
}

/// Request as received.
struct Request {
    head: String,
    method: String,
    path: String,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> String {
        let found = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        found.unwrap_or_default()
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<Option<Request>> {
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut words = head.split(' ');
            let (method, path) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
            let mut request = Request { head, method, path, body: Vec::new() };
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

fn message(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn ok(body: &Value) -> Vec<u8> {
    message("200 OK\r\ncontent-type: application/json", body.to_string().as_bytes())
}

fn is_of_video(request: &Request) -> bool {
    request.path.contains("/videovendor/")
}

fn not_found() -> Vec<u8> {
    message("404 Not Found\r\ncontent-type: application/json", br#"{"message": "no such thing"}"#)
}

impl Shop {
    /// Serves the requests of one connection in order.
    async fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        while let Some(request) = read(&mut stream, &mut bytes).await? {
            let (asked, kind) = self.note(&request);
            let conduct = (self.conduct)(&asked);
            let usual = || self.usual(kind, &request, &asked);
            match conduct {
                Conduct::Usual => stream.write_all(&usual()).await?,
                Conduct::Refuse(head, body) => stream.write_all(&message(head, body.as_bytes())).await?,
                Conduct::Answer(head, body) => {
                    usual();
                    stream.write_all(&message(head, body.as_bytes())).await?;
                }
                Conduct::Raw(raw) => {
                    usual();
                    stream.write_all(raw.as_bytes()).await?;
                    return stream.shutdown().await;
                }
                Conduct::Trickle(pause) => {
                    for byte in usual() {
                        stream.write_all(&[byte]).await?;
                        tokio::time::sleep(pause).await;
                    }
                }
                Conduct::Silence => {
                    usual();
                    std::future::pending::<()>().await;
                }
                Conduct::HangUp => {
                    usual();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn note(&self, request: &Request) -> (Asked, Kind) {
        let mut books = self.books.lock();
        let path = request.path.trim_end_matches("/creations");
        let name = path.rsplit(['/', '=']).next().and_then(|name| name.split('.').next()).unwrap_or("").to_owned();
        let kind = match (request.method.as_str(), request.path.as_str()) {
            ("POST", _) => Kind::Submission,
            (_, path) if path.contains("reference=") => Kind::Search,
            (_, path) if path.starts_with("/results/") => Kind::Result,
            _ => Kind::Poll,
        };
        let (id, prompt) = if kind == Kind::Submission {
            let mut told: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let prompt = told["prompt"].as_str().unwrap_or("").to_owned();
            if let Some(image) = told.get_mut("image") {
                *image = json!(image.as_str().map(str::len));
            }
            books.last = Some((request.head.clone(), told));
            (format!("job-{}", books.charges.len() + 1), prompt)
        } else {
            let prompt = books.jobs.get(&name).map(|job| job.prompt.clone());
            (name, prompt.unwrap_or_default())
        };
        let count = books.asked.entry((kind, prompt.clone())).or_default();
        *count += 1;
        (Asked { kind, nth: *count, prompt, id }, kind)
    }

    fn usual(&self, kind: Kind, request: &Request, asked: &Asked) -> Vec<u8> {
        match kind {
            Kind::Submission => self.take(request, &asked.prompt),
            Kind::Poll if is_of_video(request) => self.tell_of_video(asked),
            Kind::Poll => self.tell(&asked.id),
            Kind::Search => self.search(&asked.id),
            Kind::Result if request.path.contains(".mp4") => message("200 OK\r\ncontent-type: video/mp4", CLIP),
            Kind::Result => message("200 OK\r\ncontent-type: image/png", &self.options.result),
        }
    }

    /// Accepts a job, and charges it.
    fn take(&self, request: &Request, prompt: &str) -> Vec<u8> {
        let key = request.header("idempotency-key");
        let mut books = self.books.lock();
        let known = books.by_key.get(&key).filter(|_| self.options.mode == Mode::HonoursKeys).cloned();
        let id = known.unwrap_or_else(|| {
            let id = format!("job-{}", books.charges.len() + 1);
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let webhook = body["webhook_url"].as_str().or(body["callback_url"].as_str()).map(str::to_owned);
            let done = Instant::now() + self.options.work;
            books.charges.push(Charge { key: key.clone(), id: id.clone(), prompt: prompt.to_owned() });
            books.jobs.insert(id.clone(), Job { key: key.clone(), prompt: prompt.to_owned(), done, webhook });
            books.by_key.insert(key, id.clone());
            id
        });
        if is_of_video(request) {
            return ok(&json!({"task_id": id, "state": "created", "credits": 0}));
        }
        ok(&json!({"data": {"task_id": id, "status": "CREATED", "generated": []}}))
    }

    /// Reports a video as queued until its first poll.
    fn tell_of_video(&self, asked: &Asked) -> Vec<u8> {
        let (books, id) = (self.books.lock(), &asked.id);
        let told = |state: &str, creations: Value| {
            ok(&json!({"id": id, "state": state, "err_code": "", "credits": 0, "creations": creations}))
        };
        match books.jobs.get(id) {
            None => not_found(),
            Some(_) if asked.nth == 1 => told("queueing", json!([])),
            Some(job) if job.done > Instant::now() => told("processing", json!([])),
            Some(_) => {
                let url = format!("{}/results/{id}.mp4", self.base);
                told("success", json!([{"id": format!("v-{id}"), "url": url, "cover_url": "", "watermarked_url": ""}]))
            }
        }
    }

    fn tell(&self, id: &str) -> Vec<u8> {
        match self.books.lock().jobs.get(id) {
            None => not_found(),
            Some(job) if job.done > Instant::now() => {
                ok(&json!({"data": {"task_id": id, "status": "IN_PROGRESS", "generated": []}}))
            }
            Some(_) => {
                let results = [format!("{}/results/{id}.png", self.base)];
                ok(&json!({"data": {"task_id": id, "status": "COMPLETED", "generated": results}}))
            }
        }
    }

    fn search(&self, key: &str) -> Vec<u8> {
        if self.options.mode != Mode::Searchable {
            return not_found();
        }
        let books = self.books.lock();
        let found = books.jobs.iter().filter(|(_, job)| job.key == key);
        ok(&json!({"data": found.map(|(id, _)| json!({"task_id": id, "status": "CREATED"})).collect::<Vec<_>>()}))
    }
}
