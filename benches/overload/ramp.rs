//! Closed-loop ramp: increasing numbers of connections, each of which sends its next request after a response.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::accounts::Account;
use crate::http::{Connection, Response};
use crate::service::block_on;
use crate::workload::Workload;
use crate::{milliseconds, quantile};

/// Timeout of a response, longer than the `Prefer: wait` of a job.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Pause before a failed connection is opened again.
const RECONNECT: Duration = Duration::from_millis(10);

/// Service and callers of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Address of the service, `127.0.0.1:port`.
    pub address: String,
    pub accounts: Vec<Account>,
    /// Number of nodes in the registry.
    pub nodes: usize,
    /// Number of source addresses over which connections are spread.
    pub sources: usize,
}

impl Load {
    /// Returns the account of a connection.
    #[must_use]
    pub fn account(&self, connection: usize) -> &Account {
        &self.accounts[connection % self.accounts.len()]
    }

    /// Returns the source address of a connection.
    #[must_use]
    pub fn source(&self, connection: usize) -> Ipv4Addr {
        let host_byte = u8::try_from(connection % self.sources.clamp(1, 200)).expect("at most 200");
        Ipv4Addr::new(127, 0, 1, 1 + host_byte)
    }
}

/// Result of one step of the ramp.
#[derive(Debug, Clone, Copy, Default)]
pub struct RampStep {
    pub connections: usize,
    /// Successes a second.
    pub goodput: f64,
    /// Latencies of the successes in milliseconds.
    pub p50: f64,
    pub p99: f64,
}

/// Runs all steps and returns the one with the highest goodput. Increases `next_number`, the number of the next
/// request.
pub fn run_ramp(load: &Load, workload: Workload, steps: &[usize], time: Duration, next_number: &mut usize) -> RampStep {
    let run = |connections: &usize| run_step(load, workload, *connections, time, next_number);
    let steps = steps.iter().map(run);
    steps.max_by(|a, b| a.goodput.total_cmp(&b.goodput)).expect("a ramp has steps")
}

/// Runs one step. Increases `next_number`, the number of the next request.
fn run_step(load: &Load, workload: Workload, connections: usize, time: Duration, next_number: &mut usize) -> RampStep {
    let latencies = Rc::<RefCell<Vec<f64>>>::default();
    let first_number = *next_number;

    let (elapsed, most_iterations) = block_on(async {
        let started = Instant::now();
        let end = started + time;
        let mut clients = Vec::new();
        for index in 0..connections {
            let (latencies, load) = (latencies.clone(), load.clone());
            clients.push(tokio::task::spawn_local(async move {
                let mut connection = Connection::connect(&load.address, Some(load.source(index))).await;
                let mut iterations = 0;
                while Instant::now() < end {
                    let Ok(open) = &mut connection else {
                        tokio::time::sleep(RECONNECT).await;
                        connection = Connection::connect(&load.address, Some(load.source(index))).await;
                        continue;
                    };
                    let request = workload.request(
                        load.account(index),
                        load.nodes,
                        first_number + iterations * connections + index,
                    );
                    iterations += 1;

                    let sent_at = Instant::now();
                    let response = tokio::time::timeout(TIMEOUT, open.try_exchange(&request)).await;
                    let response = response.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
                    let closes = response.as_ref().map_or(true, Response::closes);
                    if response.is_ok_and(|response| (200..300).contains(&response.status)) {
                        latencies.borrow_mut().push(milliseconds(sent_at.elapsed()));
                    }
                    if closes {
                        connection = Connection::connect(&load.address, Some(load.source(index))).await;
                    }
                }
                iterations
            }));
        }

        let mut most_iterations = 0;
        for client in clients {
            most_iterations = client.await.expect("a client does not panic").max(most_iterations);
        }
        (started.elapsed(), most_iterations)
    });

    // Skip every number that a connection may have used: each uses every `connections`-th one.
    *next_number += (most_iterations + 1) * connections;
    let latencies = latencies.borrow();
    RampStep {
        connections,
        goodput: latencies.len() as f64 / elapsed.as_secs_f64(),
        p50: quantile(&latencies, 0.5),
        p99: quantile(&latencies, 0.99),
    }
}
