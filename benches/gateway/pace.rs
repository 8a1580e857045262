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
pub struct Paced {
    /// Milliseconds from the due time of each request to its response.
    pub times: Vec<f64>,
    /// Number of unsuccessful responses, by message.
    pub refused: BTreeMap<String, usize>,
    /// Delay of each request at the client in milliseconds, for lack of processor time.
    pub late: Vec<f64>,
}

impl Paced {
    pub fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        for (what, count) in other.refused {
            *self.refused.entry(what).or_default() += count;
        }
        self.late.extend(other.late);
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
type Idle = Rc<RefCell<Vec<(Connection, Instant)>>>;

/// Sends every request once, `rate` of them a second, on as many connections as that takes. Must be called on a local
/// set.
pub async fn send_at(address: &str, rate: u32, requests: Vec<Vec<u8>>) -> Paced {
    let (pacer, mut due) = mpsc::unbounded_channel();
    let (measured, idle) = (Rc::<RefCell<Paced>>::default(), Idle::default());
    let (count, requests) = (requests.len(), Rc::new(requests));
    // A separate thread, because the runtime's timer has a resolution of a millisecond.
    std::thread::spawn(move || {
        let started = Instant::now();
        for number in 0..count {
            let due = started + Duration::from_secs(1) * u32::try_from(number).expect("fewer requests") / rate;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if pacer.send((number, due)).is_err() {
                return;
            }
        }
    });
    let mut under_way = JoinSet::new();
    while let Some((number, due)) = due.recv().await {
        let (address, requests, measured, idle) =
            (address.to_owned(), requests.clone(), measured.clone(), idle.clone());
        under_way.spawn_local(async move {
            let late = due.elapsed();
            let mut connection = connection(&address, &idle).await;
            let answer = connection.exchange(&requests[number]).await;
            let refused = (!(200..300).contains(&answer.status)).then(|| answer.told());
            let mut measured = measured.borrow_mut();
            measured.times.push(milliseconds(due.elapsed()));
            measured.late.push(milliseconds(late));
            if let Some(what) = refused {
                *measured.refused.entry(what).or_default() += 1;
            }
            idle.borrow_mut().push((connection, Instant::now()));
        });
        while let Some(done) = under_way.try_join_next() {
            done.expect("a request does not panic");
        }
    }
    while let Some(done) = under_way.join_next().await {
        done.expect("a request does not panic");
    }
    measured.take()
}

/// Returns an idle connection, or a new one.
async fn connection(address: &str, idle: &Idle) -> Connection {
    let last = idle.borrow_mut().pop();
    match last {
        Some((connection, used)) if used.elapsed() < IDLE_MAX => connection,
        _ => {
            idle.borrow_mut().clear();
            Connection::open(address).await
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
