//! Requests at a constant rate, regardless of responses: latency counts from the time at which a request is due, so
//! that a stalling service cannot slow down the measurement (coordinated omission).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::quantile;

/// Results of requests at one rate.
#[derive(Debug, Clone, Default)]
pub struct PacedResults {
    /// Milliseconds from the due time of each request to its response.
    pub times: Vec<f64>,
    /// Number of unsuccessful responses, by message.
    pub rejected: BTreeMap<String, usize>,
    /// Milliseconds by which the client sent each request late, because it lacked CPU time.
    pub lateness_millis: Vec<f64>,
}

impl PacedResults {
    /// Adds the results of another call of [`send_at`].
    pub fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        for (label, count) in other.rejected {
            *self.rejected.entry(label).or_default() += count;
        }
        self.lateness_millis.extend(other.lateness_millis);
    }

    /// Returns the median, the 99th percentile and the maximum of `values`.
    pub fn quantiles(values: &[f64]) -> [f64; 3] {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        [0.5, 0.99, 1.0].map(|fraction| quantile(&sorted, fraction))
    }
}

/// Idle time after which a connection is not reused, because the service may be about to close it.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Idle connections, the most recently used last.
type IdleConnections = Rc<RefCell<Vec<(Connection, Instant)>>>;

/// Sends every request once, `rate` requests a second, over as many connections as necessary. Must be called within a
/// `LocalSet`.
pub async fn send_at(address: &str, rate: u32, requests: Vec<Vec<u8>>) -> PacedResults {
    let (pacer, mut due) = mpsc::unbounded_channel();
    let results = Rc::<RefCell<PacedResults>>::default();
    let idle = IdleConnections::default();
    let count = requests.len();
    let requests = Rc::new(requests);

    // A separate thread, because the runtime's timer has a resolution of a millisecond.
    std::thread::spawn(move || {
        let started = Instant::now();
        for index in 0..count {
            let due = started + Duration::from_secs(1) * u32::try_from(index).expect("fewer than 2^32 requests") / rate;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if pacer.send((index, due)).is_err() {
                return;
            }
        }
    });

    let mut in_flight = JoinSet::new();
    while let Some((index, due)) = due.recv().await {
        let address = address.to_owned();
        let requests = requests.clone();
        let results = results.clone();
        let idle = idle.clone();
        in_flight.spawn_local(async move {
            let lateness = due.elapsed();
            let mut connection = reuse_or_connect(&address, &idle).await;
            let response = connection.exchange(&requests[index]).await;
            let error = (!(200..300).contains(&response.status)).then(|| response.status_and_detail());

            let mut results = results.borrow_mut();
            results.times.push(milliseconds(due.elapsed()));
            results.lateness_millis.push(milliseconds(lateness));
            if let Some(label) = error {
                *results.rejected.entry(label).or_default() += 1;
            }
            idle.borrow_mut().push((connection, Instant::now()));
        });
        while let Some(finished) = in_flight.try_join_next() {
            finished.expect("a request does not panic");
        }
    }

    while let Some(finished) = in_flight.join_next().await {
        finished.expect("a request does not panic");
    }
    results.take()
}

/// Returns the idle connection that was used last, or a new one.
async fn reuse_or_connect(address: &str, idle: &IdleConnections) -> Connection {
    let last = idle.borrow_mut().pop();
    match last {
        Some((connection, last_used)) if last_used.elapsed() < IDLE_MAX => connection,
        _ => {
            // All others have been idle for even longer.
            idle.borrow_mut().clear();
            Connection::open(address).await
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
