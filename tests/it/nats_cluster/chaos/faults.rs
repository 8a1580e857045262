//! Faults of nodes and servers, at random times.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::StdRng;
use rustix::process::{Resource, Rlimit, Signal, kill_process, prlimit};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::{ChaosWorld, InjectedFault, start_node};
use crate::nats_cluster::{EngineServers, NODES, NodeDirectories};
use crate::support::eventually::within;
use crate::support::process::Process;

/// Default duration of a pause: more than the 3 s of silence after which a node counts as absent.
pub const DEFAULT_PAUSE: Duration = Duration::from_secs(8);
/// Duration of a cut: more than the 10 s after which a node refuses reads.
const CUT: Duration = Duration::from_secs(14);
/// Number of NATS servers.
const SERVERS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    NodeKilled,
    NodePaused,
    /// Nothing passes between the node and the engine.
    NodeCut,
    /// The node cannot write to its disk.
    DiskFull,
    LeaderKilled,
    FollowerKilled,
    /// All processes of PostgreSQL ended at once.
    DatabaseStopped,
}

impl Fault {
    fn is_of_node(self) -> bool {
        matches!(self, Self::NodeKilled | Self::NodePaused | Self::NodeCut | Self::DiskFull)
    }
}

/// Parts that fail. The faults of one part do not overlap, those of several parts do.
#[derive(Clone)]
pub struct FaultyParts {
    pub cluster: Arc<NodeDirectories>,
    /// Base URL of the vendor.
    pub vendor: String,
    /// `None` while the node is restarted.
    pub nodes: Vec<Arc<Mutex<Option<Process>>>>,
    /// Logs of the processes that were killed.
    pub logs: Arc<Mutex<Vec<String>>>,
    pub world: Arc<ChaosWorld>,
    /// Longest time between two faults.
    pub interval: Duration,
    /// Duration of a pause and of a full disk.
    pub pause: Duration,
}

impl FaultyParts {
    /// Injects faults for this time and waits until every part runs again. One node always runs, and a majority of the
    /// servers.
    pub async fn inject(&self, duration: Duration, rng: &mut StdRng) {
        let started = Instant::now();
        let has_database = matches!(*self.cluster.servers.lock(), EngineServers::Postgres(_));
        let mut of_nodes: Vec<Option<JoinHandle<()>>> = (0..NODES).map(|_| None).collect();
        let mut of_servers: Option<JoinHandle<()>> = None;
        let is_failing = |fault: &Option<JoinHandle<()>>| fault.as_ref().is_some_and(|fault| !fault.is_finished());

        while started.elapsed() < duration {
            sleep(self.interval.mul_f64(rng.gen_range(0.1..1.0))).await;
            let fault = match rng.gen_range(0..10) {
                0..3 => Fault::NodeKilled,
                3 => Fault::NodePaused,
                4 => Fault::NodeCut,
                5 => Fault::DiskFull,
                _ if has_database => Fault::DatabaseStopped,
                6..8 => Fault::LeaderKilled,
                _ => Fault::FollowerKilled,
            };
            let node = rng.gen_range(0..NODES);
            let downtime = Duration::from_millis(rng.gen_range(0..4000));
            let parts = self.clone();
            let running = of_nodes.iter().filter(|fault| !is_failing(fault)).count();
            match fault {
                _ if fault.is_of_node() && (is_failing(&of_nodes[node]) || running < 2) => continue,
                Fault::NodeKilled | Fault::NodePaused | Fault::NodeCut | Fault::DiskFull => {
                    finish(of_nodes[node].replace(tokio::spawn(parts.fail_node(fault, node, downtime)))).await;
                }
                _ if is_failing(&of_servers) => continue,
                Fault::LeaderKilled | Fault::FollowerKilled | Fault::DatabaseStopped => {
                    finish(of_servers.replace(tokio::spawn(parts.kill_server(fault, downtime)))).await;
                }
            }
            let node = fault.is_of_node().then_some(node);
            println!("{:5.1} s: {fault:?} {node:?}, down for {downtime:.1?}", started.elapsed().as_secs_f64());
            self.world.faults.lock().push(InjectedFault { fault, node, at: Instant::now() });
        }

        for fault in of_nodes.into_iter().chain([of_servers]) {
            finish(fault).await;
        }
    }

    async fn fail_node(self, fault: Fault, node: usize, downtime: Duration) {
        match fault {
            Fault::NodeKilled => self.kill_node(node, downtime).await,
            Fault::NodePaused => self.pause_node(node).await,
            Fault::NodeCut => {
                self.cluster.proxies[node].cut();
                sleep(CUT).await;
                self.cluster.proxies[node].restore();
            }
            _ => {
                self.limit_files(node, Some(0));
                sleep(self.pause).await;
                self.limit_files(node, None);
            }
        }
    }

    /// Limits the size of the files that a node can write: to it, the disk is full.
    fn limit_files(&self, node: usize, bytes: Option<u64>) {
        let pid = self.nodes[node].lock().as_ref().expect("it runs").pid();
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(pid), Resource::Fsize, limit).expect("limits can be set");
    }

    async fn kill_node(self, node: usize, downtime: Duration) {
        let process = self.nodes[node].lock().take().expect("it runs");
        let logs = self.logs.clone();
        blocking("the node is killed", move || {
            let pid = process.pid();
            kill_process(pid, Signal::KILL).expect("it can be killed");
            logs.lock().push(process.log_text());
            process.wait_for_exit();
        })
        .await;
        sleep(downtime).await;

        let (cluster, vendor) = (self.cluster.clone(), self.vendor.clone());
        let process = blocking("the node starts", move || start_node(&cluster, &vendor, node)).await;
        self.world.set_url(node, process.url(""));
        *self.nodes[node].lock() = Some(process);
    }

    async fn pause_node(self, node: usize) {
        let pid = self.nodes[node].lock().as_ref().expect("it runs").pid();
        kill_process(pid, Signal::STOP).expect("it can be paused");
        sleep(self.pause).await;
        kill_process(pid, Signal::CONT).expect("it can be continued");
    }

    async fn kill_server(self, fault: Fault, downtime: Duration) {
        let servers = self.cluster.servers.clone();
        let stream = self.cluster.stream();
        let index = blocking("a server is killed", move || match &mut *servers.lock() {
            EngineServers::Nats(servers) => {
                let leader = servers.leader_of(&stream);
                let index = if fault == Fault::LeaderKilled { leader } else { (leader + 1) % SERVERS };
                servers.kill(index);
                index
            }
            EngineServers::Postgres(server) => {
                server.stop_immediately();
                0
            }
        })
        .await;
        sleep(downtime).await;

        let servers = self.cluster.servers.clone();
        blocking("the servers are healthy", move || match &mut *servers.lock() {
            EngineServers::Nats(servers) => {
                servers.restart(index);
                servers.wait_until_healthy();
            }
            EngineServers::Postgres(server) => server.restart(),
        })
        .await;
    }
}

async fn finish(fault: Option<JoinHandle<()>>) {
    if let Some(fault) = fault {
        within("a fault ends", fault).await.expect("the fault can be injected and repaired");
    }
}

async fn blocking<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    within(what, spawn_blocking(work)).await.expect("it does not panic")
}
