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
    /// Delay of each request at the client in milliseconds, for lack of processor time.
    pub lateness_millis: Vec<f64>,
}

impl PacedResults {
    pub fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        for (label, count) in other.rejected {
            *self.rejected.entry(label).or_default() += count;
        }
        self.lateness_millis.extend(other.lateness_millis);
    }

    /// Median, 99th percentile and maximum of these milliseconds.
    pub fn quantiles(values: &[f64]) -> [f64; 3] {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        [0.5, 0.99, 1.0].map(|share| quantile(&sorted, share))
    }
}

/// Idle time after which a connection is not reused, because the service may be about to close it.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Idle connections, the most recently used last.
type IdleConnections = Rc<RefCell<Vec<(Connection, Instant)>>>;

/// Sends every request once, `rate` of them a second, on as many connections as that takes. Must be called on a local
/// set.
pub async fn send_at(address: &str, rate: u32, requests: Vec<Vec<u8>>) -> PacedResults {
    let (pacer, mut due) = mpsc::unbounded_channel();
    let (results, idle) = (Rc::<RefCell<PacedResults>>::default(), IdleConnections::default());
    let (count, requests) = (requests.len(), Rc::new(requests));

    // A separate thread, because the runtime's timer has a resolution of a millisecond.
    std::thread::spawn(move || {
        let started = Instant::now();
        for index in 0..count {
            let due = started + Duration::from_secs(1) * u32::try_from(index).expect("fewer requests") / rate;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if pacer.send((index, due)).is_err() {
                return;
            }
        }
    });

    let mut in_flight = JoinSet::new();
    while let Some((index, due)) = due.recv().await {
        let (address, requests, results, idle) = (address.to_owned(), requests.clone(), results.clone(), idle.clone());
        in_flight.spawn_local(async move {
            let lateness = due.elapsed();
            let mut connection = connection(&address, &idle).await;
            let response = connection.exchange(&requests[index]).await;
            let rejected = (!(200..300).contains(&response.status)).then(|| response.status_and_detail());
            let mut results = results.borrow_mut();
            results.times.push(milliseconds(due.elapsed()));
            results.lateness_millis.push(milliseconds(lateness));
            if let Some(label) = rejected {
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

/// Returns an idle connection, or a new one.
async fn connection(address: &str, idle: &IdleConnections) -> Connection {
    let last = idle.borrow_mut().pop();
    match last {
        Some((connection, last_used)) if last_used.elapsed() < IDLE_MAX => connection,
        _ => {
            idle.borrow_mut().clear();
            Connection::open(address).await
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
