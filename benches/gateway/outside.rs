//! Remote side in its own process: the vendors, with the same duration for every job, and the receiver of callbacks.
//! The process answers queries of the measuring process, one line each.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::pace::PacedResults;
use crate::picture::png;
use crate::quantile;
use crate::receiver::Receiver;
use crate::service::{block_on, cpu_time_of};
use crate::vendor_sim::{SimBehavior, SimJob, SimMode, SimOptions, SimRequestKind, VendorSim};

/// Interval at which the vendor checks for jobs whose webhook is due.
const WEBHOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Status in the callback of a successful task.
const COMPLETED: &str = "COMPLETED";

/// Arrival of the first callback, by task.
type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

/// Duration of the windows in which a failing vendor fails, and of those in which it does not.
const FAILURE_WINDOW: Duration = Duration::from_secs(2);
/// Response of a failing vendor.
const FAILURE: &str = "503 Service Unavailable";

/// Vendors of the remote side.
#[derive(Debug, Clone, Copy)]
pub struct VendorGroup {
    pub count: usize,
    /// `true` if the last one fails half of the time.
    pub has_failing: bool,
}

impl VendorGroup {
    pub const SINGLE: Self = Self { count: 1, has_failing: false };

    /// Reads the arguments that [`OutsideProcess::start_group`] passes.
    pub fn from_arguments(arguments: &[String]) -> Self {
        let count = arguments.iter().skip_while(|argument| *argument != "--vendors").nth(1);
        let count = count.map_or(1, |text| text.parse().expect("a whole number"));
        Self { count, has_failing: arguments.iter().any(|argument| argument == "--failing") }
    }

    async fn start(self, job_duration: Duration) -> Vec<Rc<VendorSim>> {
        let mut vendors = Vec::new();
        for number in 1..=self.count {
            let options = SimOptions { mode: SimMode::HonoursKeys, job_duration, result: png(0) };
            let is_failing = self.has_failing && number == self.count;
            let started = Instant::now();
            let vendor = VendorSim::with_behavior(options, move |_| {
                let window = started.elapsed().as_millis() / FAILURE_WINDOW.as_millis();
                if is_failing && !window.is_multiple_of(2) {
                    SimBehavior::Reject(FAILURE, "{}".to_owned())
                } else {
                    SimBehavior::Normal
                }
            });
            vendors.push(Rc::new(vendor.await));
        }
        vendors
    }
}

/// Runs the remote side until its input ends.
pub fn serve(job_duration: Duration, with_webhooks: bool, group: VendorGroup) {
    block_on(async move {
        let arrivals = Arrivals::default();
        let recorded = arrivals.clone();
        let receiver = Receiver::with_replies(move |_, received| {
            if received.status() == COMPLETED {
                // Callbacks are delivered at least once: only the first counts.
                recorded.lock().entry(received.task_id()).or_insert_with(Instant::now);
            }
            "HTTP/1.1 204 No Content".to_owned()
        });
        let receiver = receiver.await;

        let vendors = group.start(job_duration).await;
        let bases: Vec<String> = vendors.iter().map(|vendor| vendor.base()).collect();
        println!("{}", json!({"vendors": bases, "receiver": receiver.url("/")}));
        for vendor in vendors.iter().filter(|_| with_webhooks) {
            tokio::task::spawn_local(notify_all(vendor.clone()));
        }

        let (query_sender, mut queries) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            std::io::stdin().lines().map_while(Result::ok).try_for_each(|query| query_sender.send(query))
        });
        while let Some(query) = queries.recv().await {
            println!("{}", answer_query(&query, &vendors, &arrivals));
        }
    });
}

/// Returns the reply to a query: for all except `delays` and `charges`, the counters.
fn answer_query(query: &str, vendors: &[Rc<VendorSim>], arrivals: &Arrivals) -> Value {
    match query {
        "delays" => return delays(vendors, arrivals),
        "charges" => return charges(vendors),
        _ => {}
    }

    let jobs = all_jobs(vendors);
    let now = Instant::now();
    let running = jobs.iter().filter(|job| job.completed_at > now).count();
    let polls: u32 = vendors.iter().map(|vendor| vendor.request_count(SimRequestKind::Poll)).sum();
    json!({"jobs": jobs.len(), "running": running, "callbacks": arrivals.lock().len(), "polls": polls})
}

fn all_jobs(vendors: &[Rc<VendorSim>]) -> Vec<SimJob> {
    vendors.iter().flat_map(|vendor| vendor.jobs_after(0)).collect()
}

/// Returns the number of charges of each vendor, and of tasks that were charged more than once.
fn charges(vendors: &[Rc<VendorSim>]) -> Value {
    let charges: Vec<_> = vendors.iter().map(|vendor| vendor.charges()).collect();
    let counts: Vec<_> = charges.iter().map(Vec::len).collect();
    let mut by_task = HashMap::<&str, usize>::new();
    for charge in charges.iter().flatten() {
        *by_task.entry(&charge.key).or_default() += 1;
    }
    json!({"by_vendor": counts, "duplicates": by_task.values().filter(|count| **count > 1).count()})
}

/// Returns the quantiles of the times from the end of each job to the arrival of its callback, in milliseconds.
fn delays(vendors: &[Rc<VendorSim>], arrivals: &Arrivals) -> Value {
    let arrivals = arrivals.lock();
    let delay_of =
        |job: &SimJob| Some(arrivals.get(&job.key)?.saturating_duration_since(job.completed_at).as_secs_f64() * 1000.0);
    let mut delays: Vec<f64> = all_jobs(vendors).iter().filter_map(delay_of).collect();
    delays.sort_by(f64::total_cmp);
    let [p50, p99, maximum] = [0.5, 0.99, 1.0].map(|fraction| quantile(&delays, fraction));
    json!({"count": delays.len(), "p50": p50, "p99": p99, "max": maximum})
}

/// Calls the webhook of every job when the job ends.
async fn notify_all(vendor: Rc<VendorSim>) {
    let mut notified = 0;
    loop {
        for job in vendor.jobs_after(notified) {
            notified += 1;
            let Some(webhook) = job.webhook else { continue };
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(job.completed_at.into()).await;
                let (_, host_and_path) = webhook.split_once("//").expect("a URL");
                let (address, path) = host_and_path.split_once('/').expect("a path");
                // The service ignores the content of a webhook, and closes the connection after its response.
                let mut connection = Connection::open(address).await;
                let status = connection.exchange(&request("POST", &format!("/{path}"), "", "{}")).await.status;
                assert!((200..300).contains(&status), "the service responded to a webhook with {status}");
            });
        }
        tokio::time::sleep(WEBHOOK_INTERVAL).await;
    }
}

/// Process of the remote side, as the measuring process uses it.
pub struct OutsideProcess {
    child: Child,
    queries: ChildStdin,
    replies: BufReader<ChildStdout>,
    /// Base URLs of the vendors.
    pub vendors: Vec<String>,
    /// Webhook URL of the receiver.
    pub receiver: String,
}

impl OutsideProcess {
    /// Starts the process. If `with_webhooks`, the vendor calls a webhook at the end of each job.
    pub fn start(job_duration: Duration, with_webhooks: bool) -> Self {
        Self::start_group(job_duration, with_webhooks, VendorGroup::SINGLE)
    }

    /// Like [`OutsideProcess::start`], with several vendors.
    pub fn start_group(job_duration: Duration, with_webhooks: bool, group: VendorGroup) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command
            .args(["outside", "--work", &job_duration.as_millis().to_string()])
            .args(["--vendors", &group.count.to_string()])
            .args(with_webhooks.then_some("--webhooks"))
            .args(group.has_failing.then_some("--failing"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let queries = child.stdin.take().expect("a pipe");
        let mut replies = BufReader::new(child.stdout.take().expect("a pipe"));
        let greeting = read_reply(&mut replies);
        let url = |value: &Value| value.as_str().expect("a URL").to_owned();
        let vendors = greeting["vendors"].as_array().expect("a list").iter().map(url).collect();
        let receiver = url(&greeting["receiver"]);
        Self { child, queries, replies, vendors, receiver }
    }

    /// Sends a query and returns the reply.
    pub fn send_query(&mut self, query: &str) -> Value {
        writeln!(self.queries, "{query}").expect("the process reads queries");
        read_reply(&mut self.replies)
    }

    /// Returns one of the counters: `jobs`, `running`, `callbacks` or `polls`.
    pub fn count(&mut self, name: &str) -> u64 {
        self.send_query("state")[name].as_u64().expect("a number")
    }

    /// Waits until a counter reaches `target`. Returns `false` if the counter does not change for a minute.
    pub fn wait_for_count(&mut self, name: &str, target: usize) -> bool {
        let mut last = 0;
        let mut last_change = Instant::now();
        loop {
            let count = self.count(name);
            if count >= target as u64 {
                return true;
            }
            if count != last {
                last = count;
                last_change = Instant::now();
            }
            if last_change.elapsed() > Duration::from_mins(1) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the CPU time used so far, in seconds.
    pub fn cpu_time(&self) -> f64 {
        cpu_time_of(self.child.id())
    }
}

impl Drop for OutsideProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a reply.
fn read_reply(replies: &mut impl BufRead) -> Value {
    let mut line = String::new();
    replies.read_line(&mut line).expect("the process replies");
    serde_json::from_str(&line).expect("a line of JSON")
}

/// Returns the median, 99th percentile and maximum of values in milliseconds, as a table cell.
pub fn quantile_cell(values: &[f64]) -> String {
    let [p50, p99, maximum] = PacedResults::quantiles(values);
    format!("{p50:.2} · {p99:.2} · {maximum:.1}")
}
