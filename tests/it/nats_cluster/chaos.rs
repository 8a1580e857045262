//! Nodes and servers of the engine that are killed and paused at random while clients work on all nodes; nodes also
//! lose their network to the engine, or the space on their disk.
//!
//! | Variable | Meaning |
//! |---|---|
//! | `MEDIARY_CHAOS_S` | seconds of faults: 60, on PostgreSQL 30 |
//! | `MEDIARY_CHAOS_INTERVAL_MS` | longest time between two faults: 3000; 30000 measures each fault alone |
//! | `MEDIARY_CHAOS_PAUSE_S` | seconds that a node is paused, or its disk full: 8 |
//! | `MEDIARY_CHAOS_SEED` | repeats the choices of a run that has printed it |
//! | `MEDIARY_CHAOS_LOGS` | directory for the logs of the nodes; `MEDIARY_LOG__LEVEL` says how much they contain |
//! | `MEDIARY_CHAOS_VENDOR` | how a submission with a lost response is recovered: `search`, `key` or `nothing` |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mediary::environment::Environment;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use self::clients::{ChaosClient, Command, read_counters, read_latest_counters, submit_tasks};
use self::faults::{DEFAULT_PAUSE, Fault, FaultyParts};
use super::{NODES, NodeDirectories, get, post};
use crate::support::eventually::{eventually_within, within};
use crate::support::process::Process;
use crate::support::receiver::Receiver;
use crate::support::vendor_sim::{SimMode, VendorSim};
use crate::vendor::{remote_by_variables, sim};

mod checks;
mod clients;
mod faults;

/// Clients that change publishers and nodes.
const CLIENTS: usize = 12;
/// Clients that submit tasks.
const SUBMITTERS: usize = 2;
/// Clients that read the latest state.
const READERS: usize = 3;
/// Publishers and nodes that all clients change.
const SHARED: usize = 6;
/// Duration of a job at the vendor.
const JOB: Duration = Duration::from_millis(300);
/// Time after a fault in which interruptions are measured, if there is no other fault earlier.
const GAP_WINDOW: Duration = Duration::from_secs(20);
/// Deadline for one command, over all retries.
const COMMAND_DEADLINE: Duration = Duration::from_mins(3);
/// Deadline for everything that the faults left unfinished.
const SETTLED_WITHIN: Duration = Duration::from_mins(5);

/// State that clients and faults share.
pub struct ChaosWorld {
    /// Base URL of each node, of its last start.
    urls: Mutex<Vec<String>>,
    /// Set when the faults are over.
    is_over: AtomicBool,
    /// Greatest value of each counter that each node has acknowledged or shown.
    seen: Vec<Vec<AtomicU64>>,
    /// Greatest value of each counter that any node has acknowledged, or shown as the latest.
    latest: Vec<AtomicU64>,
    /// Number of reads at the latest position.
    latest_reads: AtomicU64,
    /// Node and time of every acknowledgement.
    acknowledgements: Mutex<Vec<(usize, Instant)>>,
    /// Number of attempts that were repeated, by their result.
    retries: Mutex<BTreeMap<String, u64>>,
    /// Number of reads whose result was compared.
    reads: AtomicU64,
    faults: Mutex<Vec<InjectedFault>>,
    user_token: String,
    started_at: Instant,
}

/// Fault, the node that it hit, and its time.
pub struct InjectedFault {
    fault: Fault,
    node: Option<usize>,
    at: Instant,
}

impl ChaosWorld {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn url(&self, node: usize) -> String {
        self.urls.lock()[node].clone()
    }

    fn set_url(&self, node: usize, url: String) {
        self.urls.lock()[node] = url;
    }

    fn note_retry(&self, result: &str) {
        *self.retries.lock().entry(result.to_owned()).or_default() += 1;
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn vendor_mode() -> SimMode {
    match variable("MEDIARY_CHAOS_VENDOR").as_deref() {
        None | Some("search") => SimMode::Searchable,
        Some("key") => SimMode::HonoursKeys,
        Some("nothing") => SimMode::Neither,
        Some(other) => panic!("MEDIARY_CHAOS_VENDOR is {other}; it must be search, key or nothing"),
    }
}

/// Starts a node.
fn start_node(cluster: &NodeDirectories, vendor: &str, node: usize) -> Process {
    let mut command = cluster.node_behind_proxy(node);
    remote_by_variables(&mut command, vendor, vendor_mode());
    Process::from_command(&mut command)
}

/// Creates the publishers and nodes that the clients change. Returns a user's token.
async fn prepare(nodes: &[Process]) -> String {
    let publishers = (0..CLIENTS).map(clients::counter).chain((0..SHARED).map(clients::shared_publisher));
    for id in publishers {
        let (status, response) = post(&nodes[0], "/publishers", json!({"id": id})).await;
        assert_eq!(status, 201, "{response}");
    }
    for number in 0..SHARED {
        let path = format!("/publishers/{}/nodes", clients::shared_publisher(number));
        let (status, response) = post(&nodes[0], &path, json!({"id": clients::shared_node(number)})).await;
        assert_eq!(status, 201, "{response}");
    }
    let (_, user) = post(&nodes[0], "/admin/users", json!({"name": "alice"})).await;
    let path = format!("/admin/users/{}/tokens", user["id"].as_str().unwrap());
    let (_, token) = post(&nodes[0], &path, json!({"name": "chaos"})).await;
    wait_until_equal(nodes).await;
    token["token"].as_str().unwrap().to_owned()
}

async fn wait_until_equal(nodes: &[Process]) {
    eventually_within(SETTLED_WITHIN, "all nodes have the same events", async || {
        let mut heads = Vec::new();
        for node in nodes {
            let (status, state) = get(node, "/admin/state").await;
            heads.push((status, state["log"]["head"].clone()));
        }
        heads.iter().all(|head| head.0 == 200 && *head == heads[0])
    })
    .await;
}

/// Waits until every node is ready and all tasks and deliveries have ended.
async fn settle(nodes: &[Process]) {
    for node in nodes {
        eventually_within(SETTLED_WITHIN, "the node is ready", async || get(node, "/ready").await.0 == 200).await;
        let is_idle = async || {
            let (_, state) = get(node, "/admin/state").await;
            state["queues"]["tasks"] == 0 && state["queues"]["deliveries"] == 0
        };
        eventually_within(SETTLED_WITHIN, "all tasks and deliveries end", is_idle).await;
    }
    wait_until_equal(nodes).await;
}

#[actix_web::test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
async fn nothing_is_lost_or_doubled_over_faults_of_nodes_and_servers() {
    survive_faults(NodeDirectories::init(), Duration::from_mins(1)).await;
}

/// Checks that nothing is lost or doubled over faults of nodes and of the servers of the engine.
pub async fn survive_faults(cluster: NodeDirectories, default_duration: Duration) {
    let number = |name: &str| variable(name).map(|text| text.parse::<u64>().unwrap());
    let duration = number("MEDIARY_CHAOS_S").map_or(default_duration, Duration::from_secs);
    let interval = Duration::from_millis(number("MEDIARY_CHAOS_INTERVAL_MS").unwrap_or(3000));
    let pause = number("MEDIARY_CHAOS_PAUSE_S").map_or(DEFAULT_PAUSE, Duration::from_secs);
    let any_seed = || u64::from_le_bytes(Environment::system().random_bytes());
    let seed = number("MEDIARY_CHAOS_SEED").unwrap_or_else(any_seed);
    println!("faults for {duration:?}: MEDIARY_CHAOS_SEED={seed}, {:?}", vendor_mode());
    let mut rng = StdRng::seed_from_u64(seed);

    // Given three nodes, a vendor and a receiver of webhooks
    let vendor = VendorSim::start(sim(vendor_mode(), JOB)).await;
    let receiver = Receiver::start().await;
    let cluster = Arc::new(cluster);
    let nodes: Vec<_> = (0..NODES).map(|node| start_node(&cluster, &vendor.base(), node)).collect();
    let user_token = prepare(&nodes).await;
    let counters = || (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let world = Arc::new(ChaosWorld {
        urls: Mutex::new(nodes.iter().map(|node| node.url("")).collect()),
        is_over: AtomicBool::new(false),
        seen: (0..NODES).map(|_| counters()).collect(),
        latest: counters(),
        latest_reads: AtomicU64::new(0),
        acknowledgements: Mutex::default(),
        retries: Mutex::default(),
        reads: AtomicU64::new(0),
        faults: Mutex::default(),
        user_token,
        started_at: Instant::now(),
    });

    // When clients work on all nodes while nodes and servers fail
    let writing: Vec<_> =
        (0..CLIENTS).map(|index| actix_web::rt::spawn(ChaosClient::new(index, seed, world.clone()).run())).collect();
    let submitting: Vec<_> = (0..SUBMITTERS)
        .map(|index| actix_web::rt::spawn(submit_tasks(index, seed, world.clone(), receiver.url("/hook"))))
        .collect();
    let reading = (0..NODES).map(|node| actix_web::rt::spawn(read_counters(node, world.clone())));
    let reading_latest =
        (0..READERS).map(|index| actix_web::rt::spawn(read_latest_counters(index, seed, world.clone())));
    let reading: Vec<_> = reading.chain(reading_latest).collect();
    let parts = FaultyParts {
        cluster: cluster.clone(),
        vendor: vendor.base(),
        nodes: nodes.into_iter().map(|node| Arc::new(Mutex::new(Some(node)))).collect(),
        logs: Arc::default(),
        world: world.clone(),
        interval,
        pause,
    };
    parts.inject(duration, &mut rng).await;
    world.is_over.store(true, Ordering::SeqCst);

    let mut commands: Vec<Command> = Vec::new();
    let mut tasks: Vec<String> = Vec::new();
    for client in writing {
        commands.extend(within("a client ends", client).await.unwrap());
    }
    for submitter in submitting {
        tasks.extend(within("a submitter ends", submitter).await.unwrap());
    }
    for reader in reading {
        within("a reader ends", reader).await.unwrap();
    }

    // Then everything ends
    let nodes: Vec<_> = parts.nodes.iter().map(|node| node.lock().take().expect("it runs")).collect();
    settle(&nodes).await;
    let mut logs = parts.logs.lock().clone();
    logs.extend(nodes.iter().map(Process::log_text));
    for node in nodes {
        let (status, errors) = node.terminate();
        assert!(status.success(), "{status}: {errors}");
    }

    // And every node has everything once
    let events = checks::equal_events(&cluster);
    checks::check_commands(&events, &commands);
    let outcome = checks::check_tasks(&events, &tasks, &vendor.charges(), &receiver.received());
    print_figures(&world, &commands, events.len(), &outcome);
    if let Some(directory) = variable("MEDIARY_CHAOS_LOGS") {
        for (number, log) in logs.iter().enumerate() {
            std::fs::write(format!("{directory}/node-{number}.log"), log).unwrap();
        }
    }
    checks::check_logs(&logs);
}

/// Prints the counts of a run, and the interruptions that each fault caused on the other nodes.
fn print_figures(world: &ChaosWorld, commands: &[Command], events: usize, outcome: &str) {
    let reads = world.reads.load(Ordering::SeqCst);
    let latest_reads = world.latest_reads.load(Ordering::SeqCst);
    println!("{} commands acknowledged, {events} events", commands.len());
    println!("{reads} reads of a node compared with what it had shown, {latest_reads} with what any node had");
    println!("{outcome}");
    println!("repeated attempts: {:?}", world.retries.lock());

    let (faults, acknowledgements) = (world.faults.lock(), world.acknowledgements.lock());
    let mut by_fault: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
    for (index, InjectedFault { fault, node, at }) in faults.iter().enumerate() {
        let next = faults.get(index + 1).map(|next| next.at).or(acknowledgements.last().map(|(_, at)| *at));
        let end = next.map_or(*at, |next| next.min(*at + GAP_WINDOW));
        let others = (0..NODES).filter(|other| Some(*other) != *node);
        let gaps: Vec<_> = others.map(|other| longest_gap(&acknowledgements, other, *at, end)).collect();
        println!("{:5.1} s: {fault:?} {node:?}: {gaps:.1?}", at.duration_since(world.started_at).as_secs_f64());
        by_fault.entry(*fault).or_default().extend(gaps);
    }
    println!("{} faults; longest time without an acknowledgement on a node that was not hit:", faults.len());
    for (fault, mut gaps) in by_fault {
        gaps.sort();
        let (median, maximum) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
        println!("  {fault:?}: median {median:.1?}, maximum {maximum:.1?} of {}", gaps.len());
    }
}

/// Returns the longest time without an acknowledgement by `node` between `start` and `end`.
fn longest_gap(acknowledgements: &[(usize, Instant)], node: usize, start: Instant, end: Instant) -> Duration {
    let mut last = start;
    let mut longest = Duration::ZERO;
    let of_node = acknowledgements.iter().filter(|(by, at)| *by == node && (start..end).contains(at));
    for at in of_node.map(|(_, at)| *at).chain([end]) {
        longest = longest.max(at - last);
        last = at;
    }
    longest
}

/// Returns the random number generator of a client, different for each client and seed.
fn client_rng(seed: u64, client: usize) -> StdRng {
    let mut rng = StdRng::seed_from_u64(seed ^ (client as u64 + 1).rotate_left(32));
    let _: u64 = rng.r#gen();
    rng
}

/// Returns the body of a response; `None` if it is not JSON.
async fn json_of(response: reqwest::Response) -> Option<Value> {
    response.json().await.ok()
}
