//! Remote side in its own process: the vendor, with one duration for every job, and the receiver of callbacks. It
//! answers queries of the measuring process, one line each.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::pace::Paced;
use crate::picture::png;
use crate::quantile;
use crate::receiver::Receiver;
use crate::service::{block_on, processor_time_of};
use crate::vendor_sim::{Kind, Mode, Seen, SimOptions, VendorSim};

/// Interval at which the vendor checks for jobs whose webhook is due.
const LOOK: Duration = Duration::from_millis(20);
/// Status in the callback of a successful task.
const COMPLETED: &str = "COMPLETED";

type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

/// Runs the remote side until its input ends.
pub fn serve(work: Duration, hints: bool) {
    block_on(async move {
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        let receiver = Receiver::answering(move |_, received| {
            if received.status() == COMPLETED {
                // Callbacks are delivered at least once: only the first counts.
                noted.lock().entry(received.task()).or_insert_with(Instant::now);
            }
            "HTTP/1.1 204 No Content".to_owned()
        });
        let receiver = receiver.await;
        let options = SimOptions { mode: Mode::HonoursKeys, work, result: png(0) };
        let vendor = Rc::new(VendorSim::start(options).await);
        println!("{}", json!({"vendor": vendor.base(), "receiver": receiver.url("/")}));
        if hints {
            tokio::task::spawn_local(hint(vendor.clone()));
        }
        let (asked, mut questions) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            std::io::stdin().lines().map_while(Result::ok).try_for_each(|question| asked.send(question))
        });
        while let Some(question) = questions.recv().await {
            println!("{}", answer(&question, &vendor, &arrivals));
        }
    });
}

fn answer(question: &str, vendor: &VendorSim, arrivals: &Arrivals) -> Value {
    if question == "delays" {
        return delays(vendor, arrivals);
    }
    let (jobs, now) = (vendor.taken_after(0), Instant::now());
    let running = jobs.iter().filter(|job| job.done > now).count();
    json!({"taken": jobs.len(), "running": running, "told": arrivals.lock().len(), "polls": vendor.asked(Kind::Poll)})
}

/// Times from the end of each job to the arrival of its callback, in milliseconds.
fn delays(vendor: &VendorSim, arrivals: &Arrivals) -> Value {
    let arrivals = arrivals.lock();
    let waited = |job: &Seen| Some(arrivals.get(&job.key)?.saturating_duration_since(job.done).as_secs_f64() * 1000.0);
    let mut delays: Vec<f64> = vendor.taken_after(0).iter().filter_map(waited).collect();
    delays.sort_by(f64::total_cmp);
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&delays, share));
    json!({"count": delays.len(), "p50": p50, "p99": p99, "max": most})
}

/// Calls the webhook of every job at its end.
async fn hint(vendor: Rc<VendorSim>) {
    let mut known = 0;
    loop {
        for job in vendor.taken_after(known) {
            known += 1;
            let Some(webhook) = job.webhook else { continue };
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(job.done.into()).await;
                let (_, place) = webhook.split_once("//").expect("a URL");
                let (address, path) = place.split_once('/').expect("a path");
                // The service ignores the content of a webhook, and closes the connection after its response.
                let mut connection = Connection::open(address).await;
                let status = connection.exchange(&request("POST", &format!("/{path}"), "", "{}")).await.status;
                assert!((200..300).contains(&status), "a hint was answered with {status}");
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Remote side, as seen by the measuring process.
pub struct Outside {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub vendor: String,
    pub receiver: String,
}

impl Outside {
    /// Starts it. With `hints` the vendor calls webhooks.
    pub fn start(work: Duration, hints: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["outside", "--work", &work.as_millis().to_string()]).args(hints.then_some("--hints"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
        let questions = child.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let told = line(&mut answers);
        let place = |name: &str| told[name].as_str().expect("a URL").to_owned();
        let (vendor, receiver) = (place("vendor"), place("receiver"));
        Self { child, questions, answers, vendor, receiver }
    }

    /// Sends a query.
    pub fn ask(&mut self, question: &str) -> Value {
        writeln!(self.questions, "{question}").expect("it listens");
        line(&mut self.answers)
    }

    /// Returns one of the counters: `taken`, `running`, `told` or `polls`.
    pub fn count(&mut self, what: &str) -> u64 {
        self.ask("state")[what].as_u64().expect("a number")
    }

    /// Waits until a counter has reached this number; `false` if it did not change for a minute.
    pub fn reaches(&mut self, what: &str, number: usize) -> bool {
        let (mut last, mut moved) = (0, Instant::now());
        loop {
            let count = self.count(what);
            if count >= number as u64 {
                return true;
            }
            if count != last {
                (last, moved) = (count, Instant::now());
            }
            if moved.elapsed() > Duration::from_mins(1) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Processor time used so far, in seconds.
    pub fn processor_time(&self) -> f64 {
        processor_time_of(self.child.id())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(answers: &mut impl BufRead) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).expect("it answers");
    serde_json::from_str(&line).expect("a line of JSON")
}

/// Median, 99th percentile and maximum in milliseconds, as a table cell.
pub fn cell(values: &[f64]) -> String {
    let [p50, p99, most] = Paced::quantiles(values);
    format!("{p50:.2} · {p99:.2} · {most:.1}")
}
