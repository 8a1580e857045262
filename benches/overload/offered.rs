//! Open-loop load: requests become due at a constant rate, regardless of responses.
//!
//! A due request takes an idle connection. Without one it waits at the client, and is dropped after [`CALLER_TIMEOUT`],
//! because real callers do not wait longer either. A connection sends one request at a time, so the number of
//! connections limits concurrency at the service.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::http::{Connection, Response};
use crate::milliseconds;
use crate::ramp::Load;
use crate::service::block_on;
use crate::workload::Workload;

/// Longest time that a request waits for a connection, and longest latency that counts as goodput.
const CALLER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time without a response after which a request has failed and its connection is replaced.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time allowed for the last responses after the end of the load.
const LAST_RESPONSES: Duration = Duration::from_secs(5);
/// Pause before a connection is opened again.
const RECONNECT: Duration = Duration::from_millis(10);
/// Time under load before the measurement, in which queues fill.
const WARM_UP: Duration = Duration::from_secs(1);

/// Requests of one measurement by outcome.
#[derive(Debug, Clone, Default)]
pub struct LoadOutcome {
    /// Seconds of the measurement.
    pub seconds: f64,
    /// Requests that became due.
    pub offered: usize,
    /// Requests that were sent.
    pub sent_count: usize,
    /// Successes within [`CALLER_TIMEOUT`].
    pub good_count: usize,
    /// Latencies of all successes, in milliseconds.
    pub latencies: Vec<f64>,
    /// Latencies of responses 429 and 503, in milliseconds.
    pub refusals: Vec<f64>,
    /// Number of other responses and of failures, by status or error.
    pub failures: BTreeMap<String, usize>,
}

/// State shared by pacer and connections.
struct SharedLoad {
    load: Load,
    workload: Workload,
    /// Due times of the requests that wait for a connection.
    due: RefCell<VecDeque<Instant>>,
    /// Signals that requests are due, or that the load has ended.
    work_available: Notify,
    /// Number of the next request.
    next_number: RefCell<usize>,
    outcome: RefCell<LoadOutcome>,
    /// Start of the measurement: earlier requests do not count.
    counts_from: Instant,
    end: Instant,
}

/// Offers `rate` requests a second for the warm-up and `time`. `next_number` is the number of the
/// first request, and afterwards of the next one.
///
/// `sample` is called at the beginning and at the end of the measurement.
pub fn offer(
    load: &Load,
    workload: Workload,
    rate: f64,
    connections: usize,
    time: Duration,
    next_number: &mut usize,
    mut sample: impl FnMut(),
) -> LoadOutcome {
    let started = Instant::now();
    let shared = Rc::new(SharedLoad {
        load: load.clone(),
        workload,
        due: RefCell::default(),
        work_available: Notify::new(),
        next_number: RefCell::new(*next_number),
        outcome: RefCell::default(),
        counts_from: started + WARM_UP,
        end: started + WARM_UP + time,
    });

    block_on(async {
        let callers: Vec<_> =
            (0..connections).map(|index| tokio::task::spawn_local(run_client(shared.clone(), index))).collect();

        issue_at_rate(&shared, rate, &mut sample).await;
        shared.work_available.notify_waiters();

        // Wait for the last responses, whose latencies count too.
        let deadline = tokio::time::Instant::now() + LAST_RESPONSES;
        for mut caller in callers {
            if tokio::time::timeout_at(deadline, &mut caller).await.is_err() {
                caller.abort();
                shared.fail("no response at the end".to_owned());
            }
        }
    });

    *next_number = *shared.next_number.borrow();
    let mut outcome = shared.outcome.take();
    outcome.seconds = time.as_secs_f64();
    outcome
}

/// Makes requests due at the rate until the end, a batch each millisecond.
async fn issue_at_rate(shared: &SharedLoad, rate: f64, sample: &mut impl FnMut()) {
    let started = Instant::now();
    let mut issued = 0;
    let mut measuring = false;
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = Instant::now();
        if now >= shared.end {
            sample();
            return;
        }
        if !measuring && now >= shared.counts_from {
            measuring = true;
            sample();
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of requests")]
        let due_count = (rate * started.elapsed().as_secs_f64()) as usize;
        let mut due = shared.due.borrow_mut();
        due.extend(std::iter::repeat_n(now, due_count - issued));
        if measuring {
            shared.outcome.borrow_mut().offered += due_count - issued;
        }
        issued = due_count;
        while due.front().is_some_and(|due| *due + CALLER_TIMEOUT < now) {
            due.pop_front();
        }
        drop(due);
        shared.work_available.notify_waiters();
    }
}

/// Sends due requests on one connection, which is replaced when it fails.
async fn run_client(shared: Rc<SharedLoad>, index: usize) {
    let load = &shared.load;
    let mut connection = None;
    while Instant::now() < shared.end {
        let Some(open) = &mut connection else {
            match Connection::connect(&load.address, Some(load.source(index))).await {
                Ok(opened) => connection = Some(opened),
                Err(error) => {
                    shared.fail(format!("connect: {}", error.kind()));
                    tokio::time::sleep(RECONNECT).await;
                }
            }
            continue;
        };
        if shared.due.borrow_mut().pop_front().is_none() {
            shared.work_available.notified().await;
            continue;
        }

        let request_number = shared.next_number.replace_with(|next| *next + 1);
        let request = shared.workload.request(load.account(index), load.nodes, request_number);
        let sent_at = Instant::now();
        let response = tokio::time::timeout(TIMEOUT, open.try_exchange(&request)).await;
        let response = response.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let elapsed = sent_at.elapsed();
        let closes = response.as_ref().map_or(true, Response::closes);
        let status = response.map(|response| response.status);
        let is_failed = status.is_err();
        if sent_at >= shared.counts_from {
            shared.count(status, elapsed);
        }
        if closes {
            connection = None;
        }
        if is_failed {
            tokio::time::sleep(RECONNECT).await;
        }
    }
}

impl SharedLoad {
    /// Counts the outcome of a request.
    fn count(&self, status: std::io::Result<u16>, elapsed: Duration) {
        let mut outcome = self.outcome.borrow_mut();
        outcome.sent_count += 1;
        match status {
            Ok(200..300) => {
                outcome.good_count += usize::from(elapsed <= CALLER_TIMEOUT && Instant::now() <= self.end);
                outcome.latencies.push(milliseconds(elapsed));
            }
            Ok(429 | 503) => outcome.refusals.push(milliseconds(elapsed)),
            Ok(status) => *outcome.failures.entry(status.to_string()).or_default() += 1,
            Err(error) => *outcome.failures.entry(error.kind().to_string()).or_default() += 1,
        }
    }

    /// Counts a failure, unless it is before the measurement.
    fn fail(&self, reason: String) {
        if Instant::now() >= self.counts_from {
            *self.outcome.borrow_mut().failures.entry(reason).or_default() += 1;
        }
    }
}
