//! The shared log on clusters of NATS servers: the log contract, unsuitable streams, and servers that are killed or
//! paused.
//!
//! These tests need nats-server, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use mediary::events::log::{EventLog, LogFailure};
use mediary::events::shared::engine::{
    Engine, EngineFault, EngineOpenError, EngineSignal, EngineUnreachable, SendResult,
};
use mediary::events::shared::nats::{NatsEngine, NatsOptions};
use uuid::Uuid;

use crate::log_contract;
use crate::samples::{append, large_append};
use crate::shared_log::{SharedLogNode, append_eventually};
use crate::support::eventually::eventually_blocking;
use crate::support::nats_servers::{NatsServerSettings, NatsServers};

/// Longest time without an accepted append after a fault of one server.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Longest wait for a signal of the engine.
const SIGNAL_TIMEOUT: Duration = Duration::from_mins(1);
/// Time of a measurement.
const MEASURED: Duration = Duration::from_secs(4);
/// Appends before and after a fault.
const APPENDS: u64 = 100;

/// An engine of one log. Each clone is another connection, as that of another node.
struct ClusterEngine {
    engine: NatsEngine,
    options: NatsOptions,
    log_id: Uuid,
}

impl ClusterEngine {
    /// The engine of a new log.
    fn create(cluster: &NatsServers) -> Self {
        let options = cluster.options();
        let log_id = new_log_id();
        let engine = NatsEngine::create(options.clone(), log_id).unwrap();
        Self { engine, options, log_id }
    }

    /// The engine of a new log, on servers that need not sync.
    fn create_unchecked(cluster: &NatsServers) -> Self {
        let options = NatsOptions { monitors: Vec::new(), ..cluster.options() };
        let log_id = new_log_id();
        let engine = NatsEngine::create(options.clone(), log_id).unwrap();
        Self { engine, options, log_id }
    }

    fn stream(&self) -> String {
        stream_name(self.log_id)
    }
}

impl Clone for ClusterEngine {
    fn clone(&self) -> Self {
        let engine = NatsEngine::open(self.options.clone(), self.log_id).unwrap();
        Self { engine, options: self.options.clone(), log_id: self.log_id }
    }
}

impl Engine for ClusterEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        self.engine.send(group)
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        self.engine.follow(after, each)
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        self.engine.last()
    }

    fn announce(&self, message: &[u8]) {
        self.engine.announce(message);
    }

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        self.engine.listen(each);
    }
}

/// The cluster of the tests that do it no harm.
fn cluster() -> &'static NatsServers {
    static CLUSTER: OnceLock<NatsServers> = OnceLock::new();
    CLUSTER.get_or_init(NatsServers::start)
}

fn new_log_id() -> Uuid {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(u128::from(COUNTER.fetch_add(1, Ordering::Relaxed)))
}

fn stream_name(log_id: Uuid) -> String {
    format!("MDY_{}", log_id.simple())
}

fn unsuitable(opened: Result<NatsEngine, EngineOpenError>) -> String {
    match opened {
        Err(EngineOpenError::Unsuitable(reason)) => reason,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn the_shared_log_over_nats_meets_the_log_contract() {
    log_contract::run_all(|scenario| log_contract::on_shared(&ClusterEngine::create(cluster()), scenario));
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_stream_is_created_once_and_opened_by_the_id_of_its_log() {
    let options = cluster().options();
    let log_id = new_log_id();
    let reason = unsuitable(NatsEngine::open(options.clone(), log_id));
    assert!(reason.contains(&format!("no stream {}", stream_name(log_id))), "{reason}");

    let created = NatsEngine::create(options.clone(), log_id).unwrap();
    let reason = unsuitable(NatsEngine::create(options.clone(), log_id));
    assert!(reason.contains("exists") && reason.contains("nats stream rm"), "{reason}");

    let opened = NatsEngine::open(options, log_id).unwrap();
    assert_eq!(created.send(b"a group"), SendResult::Stored { sequence: 1 });
    assert_eq!(opened.last(), Ok(1));
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_stream_that_may_lose_groups_is_refused_with_the_remedy() {
    type Change = fn(&mut Config);
    let cases: &[(Change, &str)] = &[
        (|config| config.num_replicas = 1, "num_replicas is 1; it must be 3 or more: nats stream edit"),
        (|config| config.storage = StorageType::Memory, "storage is Memory; it must be File: delete the stream"),
        (|config| config.retention = RetentionPolicy::Interest, "retention is Interest; it must be Limits"),
        (|config| config.discard = DiscardPolicy::Old, "discard is Old; it must be New"),
        (|config| config.max_age = Duration::from_hours(1), "max_age is 3600s; it must be none"),
        (|config| config.max_bytes = 1 << 20, "max_bytes is 1048576; it must be none"),
        (|config| config.max_messages = 9, "max_msgs is 9; it must be none"),
        (|config| config.max_messages_per_subject = 9, "max_msgs_per_subject is 9; it must be none"),
        (|config| config.max_message_size = 1 << 20, "max_msg_size is 1048576; it must be none, or 2097152 or more"),
        (|config| config.deny_delete = false, "deny_delete is false; it must be true"),
        (|config| config.deny_purge = false, "deny_purge is false; it must be true"),
        (|config| config.allow_message_ttl = true, "allow_msg_ttl is true; it must be false"),
        (|config| config.subjects.push(format!("also.{}", config.name)), "subjects is ["),
        (|config| config.first_sequence = Some(5), "it must have every message from 1 on"),
    ];
    for (change, expected) in cases {
        let log_id = new_log_id();
        let mut config = Config {
            name: stream_name(log_id),
            subjects: vec![format!("mdy.{}", log_id.simple())],
            num_replicas: 3,
            discard: DiscardPolicy::New,
            deny_delete: true,
            deny_purge: true,
            ..Config::default()
        };
        change(&mut config);
        cluster().administer(async |context| {
            context.create_stream(config).await.unwrap();
        });

        let reason = unsuitable(NatsEngine::open(cluster().options(), log_id));
        assert!(reason.contains(expected) && reason.contains(&stream_name(log_id)), "{expected}: {reason}");
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn servers_that_may_lose_groups_are_refused_with_the_remedy() {
    // Given a server that syncs every two minutes
    let settings = NatsServerSettings { servers: 1, sync_interval: "2m", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let log_id = new_log_id();
    let reason = unsuitable(NatsEngine::create(server.options(), log_id));
    assert!(reason.contains("set `sync_interval: always`"), "{reason}");

    // Without monitoring URLs it cannot be seen
    let blind = NatsOptions { monitors: Vec::new(), ..server.options() };
    drop(NatsEngine::create(blind.clone(), log_id).unwrap());
    let reason = unsuitable(NatsEngine::open(server.options(), log_id));
    assert!(reason.contains("set `sync_interval: always`"), "{reason}");

    // A single server is no cluster
    let three = NatsOptions { replicas: 3, ..blind };
    let reason = unsuitable(NatsEngine::open(three.clone(), log_id));
    assert!(reason.contains("num_replicas is 1; it must be 3 or more"), "{reason}");
    let reason = unsuitable(NatsEngine::create(three, new_log_id()));
    assert!(reason.contains("do not make stream") && reason.contains("with 3 replicas"), "{reason}");

    // Given a server that takes small messages only
    let settings = NatsServerSettings { servers: 1, max_payload: "1MB", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let reason = unsuitable(NatsEngine::create(server.options(), log_id));
    assert!(reason.contains("max_payload is 1048576 bytes") && reason.contains("set `max_payload: 2MB`"), "{reason}");
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn servers_that_do_not_answer_are_unreachable_not_unsuitable() {
    let mut server = NatsServers::start_with(NatsServerSettings { servers: 1, ..NatsServerSettings::default() });
    let log_id = new_log_id();
    drop(NatsEngine::create(server.options(), log_id).unwrap());

    server.kill(0);
    let opened = NatsEngine::open(server.options(), log_id);
    assert!(
        matches!(&opened, Err(EngineOpenError::Unreachable(reason)) if reason.contains("127.0.0.1")),
        "{:?}",
        opened.err()
    );
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_server_without_space_refuses_groups_and_keeps_the_others() {
    let settings = NatsServerSettings { servers: 1, max_file_store: "8MB", ..NatsServerSettings::default() };
    let server = NatsServers::start_with(settings);
    let engine = ClusterEngine::create(&server);
    let group = vec![7; 1 << 20];

    let mut stored = 0;
    let refused = (0..20).map(|_| engine.send(&group)).find(|sent| match sent {
        SendResult::Stored { sequence } => {
            stored += 1;
            assert_eq!(*sequence, stored);
            false
        }
        _ => true,
    });

    assert!(matches!(refused, Some(SendResult::Full { .. })), "{refused:?}");
    assert_eq!(engine.last(), Ok(stored));
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn two_nodes_have_equal_journals() {
    let engine = ClusterEngine::create(cluster());
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let nodes = [1, 2].map(|session| {
        let directory = &directories[usize::try_from(session).unwrap() - 1];
        SharedLogNode::open(directory.path(), session, engine.clone()).unwrap()
    });

    thread::scope(|scope| {
        for (number, node) in (0..).zip(&nodes) {
            scope.spawn(move || {
                for round in 0..50 {
                    append_eventually(node, u128::from(round % 3), number * 1000 + round);
                }
            });
        }
    });

    assert_equal(&nodes, 100);
}

/// A thread that follows an engine from its beginning.
struct EngineFollower {
    signals: Receiver<EngineSignal>,
    thread: JoinHandle<Result<(), EngineFault>>,
}

impl EngineFollower {
    fn start(engine: &ClusterEngine) -> Self {
        let engine = engine.clone();
        let (sender, signals) = mpsc::sync_channel(1024);
        let thread = thread::spawn(move || {
            engine.follow(0, &mut |signal| match sender.send(signal) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        });
        Self { signals, thread }
    }

    /// Waits for a signal. Panics if another group arrives before it.
    fn expect(&self, expected: &EngineSignal) {
        let deadline = Instant::now() + SIGNAL_TIMEOUT;
        while Instant::now() < deadline {
            match self.signals.recv_timeout(SIGNAL_TIMEOUT).unwrap() {
                signal if signal == *expected => return,
                EngineSignal::Group { sequence, .. } => panic!("group {sequence}"),
                EngineSignal::Alive | EngineSignal::Silent => {}
            }
        }
        panic!("no {expected:?}");
    }

    fn stop(self) {
        drop(self.signals);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_follower_hears_if_the_engine_is_alive() {
    // Given a follower of a cluster
    let cluster = NatsServers::start();
    let engine = ClusterEngine::create(&cluster);
    assert_eq!(engine.send(b"first"), SendResult::Stored { sequence: 1 });
    let follower = EngineFollower::start(&engine);

    // Then it receives groups, and hears that there are no more
    follower.expect(&EngineSignal::Group { sequence: 1, group: b"first".to_vec() });
    follower.expect(&EngineSignal::Alive);

    // A cluster that does not run is silent, and stores nothing
    (0..3).for_each(|index| cluster.pause(index));
    follower.expect(&EngineSignal::Silent);
    eventually_blocking("the engine is unreachable", || engine.last().is_err());
    let sent = engine.send(b"second");
    assert!(matches!(sent, SendResult::Unknown { .. } | SendResult::NotStored { .. }), "{sent:?}");

    // It continues when the cluster does
    (0..3).for_each(|index| cluster.resume(index));
    let deadline = Instant::now() + SIGNAL_TIMEOUT;
    let next = loop {
        assert!(Instant::now() < deadline, "no group");
        match follower.signals.recv_timeout(SIGNAL_TIMEOUT).unwrap() {
            EngineSignal::Group { sequence, .. } => break sequence,
            EngineSignal::Alive => {
                let _ = engine.send(b"third");
            }
            EngineSignal::Silent => {}
        }
    };
    assert_eq!(next, 2);
    follower.stop();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_follower_leaves_a_server_that_is_cut_off_from_the_others() {
    // Given a follower whose only server cannot reach the others
    let mut cluster = NatsServers::start();
    let engine = ClusterEngine::create(&cluster);
    let follower = EngineFollower::start(&engine);
    follower.expect(&EngineSignal::Alive);
    (0..3).for_each(|index| cluster.kill(index));
    cluster.restart_isolated(0);
    eventually_blocking("the follower is connected", || cluster.has_clients(0));
    let _from_before = follower.signals.try_iter().count();
    follower.expect(&EngineSignal::Silent);

    // When the others run
    cluster.restart(1);
    cluster.restart(2);

    // Then it hears from the engine again
    follower.expect(&EngineSignal::Alive);
    follower.stop();
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_killed_leader_costs_no_append() {
    survive_faults("kill -9 of the leader", |cluster, stream, wait| {
        let leader = cluster.leader_of(stream);
        cluster.kill(leader);
        wait();
        cluster.restart(leader);
        cluster.wait_until_healthy();
    });
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_paused_leader_costs_no_append() {
    survive_faults("SIGSTOP of the leader", |cluster, stream, wait| {
        let leader = cluster.leader_of(stream);
        cluster.pause(leader);
        wait();
        cluster.resume(leader);
        cluster.wait_until_healthy();
    });
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_paused_follower_costs_no_append() {
    survive_faults("SIGSTOP of a follower", |cluster, stream, wait| {
        let follower = (cluster.leader_of(stream) + 1) % 3;
        cluster.pause(follower);
        wait();
        cluster.resume(follower);
        cluster.wait_until_healthy();
    });
}

/// Two nodes append during two faults: every accepted append is there once, on both nodes, and appends continue soon.
fn survive_faults(name: &str, fault: impl Fn(&mut NatsServers, &str, &dyn Fn())) {
    // Given two nodes that append all the time
    let mut cluster = NatsServers::start();
    let engine = ClusterEngine::create(&cluster);
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let nodes = [1, 2].map(|session| {
        let directory = &directories[usize::try_from(session).unwrap() - 1];
        SharedLogNode::open(directory.path(), session, engine.clone()).unwrap()
    });
    let accepted = [AtomicU64::new(0), AtomicU64::new(0)];
    let stopped = AtomicBool::new(false);
    let wait = || {
        let before = accepted.each_ref().map(|count| count.load(Ordering::SeqCst));
        eventually_blocking("both nodes append", || {
            accepted.iter().zip(before).all(|(count, before)| count.load(Ordering::SeqCst) >= before + APPENDS)
        });
    };

    // When servers fail
    let stopped = &stopped;
    let pauses: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..)
            .zip(&nodes)
            .zip(&accepted)
            .map(|((number, node), accepted)| scope.spawn(move || append_until(stopped, node, number, accepted)))
            .collect();
        for _ in 0..2 {
            wait();
            fault(&mut cluster, &engine.stream(), &wait);
        }
        wait();
        stopped.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    // Then nothing is lost or doubled
    let total = accepted.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    println!("{name}: {total} appends, longest pauses {pauses:.1?}");
    assert_equal(&nodes, total);
    assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX), "{pauses:?}");
}

/// Appends to an own stream until told to stop. Returns the longest time between two accepted appends.
fn append_until(stopped: &AtomicBool, node: &SharedLogNode, number: u64, accepted: &AtomicU64) -> Duration {
    let mut longest = Duration::ZERO;
    let mut last_at = Instant::now();
    while !stopped.load(Ordering::SeqCst) {
        let count = accepted.load(Ordering::SeqCst);
        let outcome = node.log.append(vec![append(u128::from(number), count, number * 1_000_000 + count, 1)]);
        outcome.unwrap().pop().unwrap().unwrap();
        accepted.fetch_add(1, Ordering::SeqCst);
        longest = longest.max(last_at.elapsed());
        last_at = Instant::now();
    }
    longest
}

/// Checks that all nodes have these many events, in the same bytes.
fn assert_equal(nodes: &[SharedLogNode], events: u64) {
    nodes.iter().for_each(SharedLogNode::catch_up);
    let expected = nodes[0].events();
    assert_eq!(expected.len() as u64, events);
    for node in nodes {
        assert_eq!(node.events(), expected);
        assert_eq!(node.local.journal_head(), nodes[0].local.journal_head());
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn appends_end_in_time_while_no_server_runs_and_go_on_later() {
    let mut cluster = NatsServers::start();
    let engine = ClusterEngine::create(&cluster);
    let directory = tempfile::tempdir().unwrap();
    let write_timeout = Duration::from_secs(4);
    let node = SharedLogNode::open_with(directory.path(), 1, engine.clone(), write_timeout).unwrap();
    append_eventually(&node, 1, 1);

    let stop_and_continue: [fn(&mut NatsServers, bool, usize); 2] = [
        |cluster, runs, index| if runs { cluster.resume(index) } else { cluster.pause(index) },
        |cluster, runs, index| if runs { cluster.restart(index) } else { cluster.kill(index) },
    ];
    for (set_running, first_mark) in stop_and_continue.into_iter().zip([10, 20]) {
        // When no server runs, then appends fail in time, and reads go on
        let before = node.events();
        (0..3).for_each(|index| set_running(&mut cluster, false, index));
        for mark in [first_mark, first_mark + 1] {
            let begun = Instant::now();
            let failed = node.log.append(vec![append(1, before.len() as u64, mark, 1)]);
            let is_expected = matches!(failed, Err(LogFailure::Unreachable { .. } | LogFailure::OutcomeUnknown { .. }));
            assert!(is_expected, "{failed:?}");
            // A group may be on its way when the time is over.
            assert!(begun.elapsed() < write_timeout + Duration::from_secs(4), "after {:?}", begun.elapsed());
        }
        assert_eq!(node.events(), before);

        // When they run, then appends go on; those whose outcome was unknown are there once or not at all
        (0..3).for_each(|index| set_running(&mut cluster, true, index));
        eventually_blocking("the node appends again", || {
            let version = node.events().len() as u64;
            node.log.append(vec![append(1, version, first_mark + 2, 1)]).is_ok_and(|outcome| outcome[0].is_ok())
        });
        node.catch_up();
        let events = node.events();
        assert_eq!(events[..before.len()], before);
        let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
        assert_eq!(ids.len(), events.len());
        node.log.state().unwrap();
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_node_stops_when_its_stream_was_deleted_or_created_again() {
    for is_remade in [false, true] {
        let engine = ClusterEngine::create(cluster());
        let directory = tempfile::tempdir().unwrap();
        let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
        (0..3).for_each(|mark| append_eventually(&node, 1, mark));

        cluster().administer(async |context| {
            context.delete_stream(engine.stream()).await.unwrap();
        });
        if is_remade {
            drop(NatsEngine::create(engine.options.clone(), engine.log_id).unwrap());
        }
        let failure = eventually_blocking("the node stops", || node.log.state().err());
        let LogFailure::Diverged { reason } = &failure else { panic!("{failure:?}") };
        assert!(reason.contains(if is_remade { "created again" } else { "any more" }), "{reason}");
        node.stop();

        // Nor does it start with the new stream
        if is_remade {
            let node = SharedLogNode::open(directory.path(), 2, engine.clone()).unwrap();
            let failure = eventually_blocking("the node stops again", || node.log.state().err());
            assert!(
                matches!(&failure, LogFailure::Diverged { reason } if reason.contains("ends at group 0")),
                "{failure}"
            );
        }
    }
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn an_engine_ends_at_once_also_without_servers() {
    let cluster = NatsServers::start();
    let engine = ClusterEngine::create(&cluster);
    let other = engine.clone();
    let begun = Instant::now();
    drop(other);
    (0..3).for_each(|index| cluster.pause(index));
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// Prints how fast the engine is, with servers that sync every write and with servers that do not.
#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn figures() {
    for sync_interval in ["always", "2m"] {
        println!("\nthree servers, sync_interval: {sync_interval}");
        let settings = NatsServerSettings { sync_interval, ..NatsServerSettings::default() };
        let cluster = NatsServers::start_with(settings);
        for senders in [1, 8, 64] {
            print_send_rate(&cluster, senders);
        }
        for group_events in [1, 8, 64] {
            print_append_rate(&cluster, group_events);
        }
        print_catch_up_rate(&cluster);
    }
}

/// Groups that concurrent senders on one connection store.
fn print_send_rate(cluster: &NatsServers, senders: u64) {
    let engine = ClusterEngine::create_unchecked(cluster);
    let begun = Instant::now();
    let groups = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..senders {
            scope.spawn(|| {
                while begun.elapsed() < MEASURED {
                    let sent = engine.send(&[7; 500]);
                    assert!(matches!(sent, SendResult::Stored { .. }), "{sent:?}");
                    groups.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    print_rate(&format!("groups of 500 bytes, {senders} senders"), groups.into_inner(), begun);
}

/// Events that one node appends in groups of this size, one group after the other.
fn print_append_rate(cluster: &NatsServers, group_events: u64) {
    let engine = ClusterEngine::create_unchecked(cluster);
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < MEASURED {
        append_group(&node, group_events);
    }
    print_rate(&format!("events appended by a node in groups of {group_events}"), node.log.head().0, begun);
}

/// Events that a new node receives and applies.
fn print_catch_up_rate(cluster: &NatsServers) {
    let engine = ClusterEngine::create_unchecked(cluster);
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
    for _ in 0..1000 {
        append_group(&node, 64);
    }
    let events = node.log.head().0;

    let last = engine.last().unwrap();
    let begun = Instant::now();
    let mut received = 0;
    let mut receive = |signal| {
        if let EngineSignal::Group { sequence, .. } = signal {
            received = sequence;
        }
        let is_over = received == last || begun.elapsed() > SIGNAL_TIMEOUT;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.follow(0, &mut receive).unwrap();
    assert_eq!(received, last);
    print_rate("events received by a follower", events, begun);

    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let other = SharedLogNode::open(directory.path(), 2, engine).unwrap();
    eventually_blocking("the node catches up", || other.log.head() == node.log.head());
    print_rate("events received and applied by a new node", events, begun);
}

/// Appends events of about 400 bytes.
fn append_group(node: &SharedLogNode, events: u64) {
    let head = node.log.head().0;
    let large_event = |version| {
        let mut large = large_append(1, version, 300);
        large.events[0].id = append(1, 0, version, 1).events[0].id;
        large
    };
    let outcome = node.log.append((head..head + events).map(large_event).collect());
    assert!(outcome.unwrap().iter().all(Result::is_ok));
}

fn print_rate(what: &str, count: u64, begun: Instant) {
    let per_second = u128::from(count) * 1000 / begun.elapsed().as_millis().max(1);
    println!("{what}: {per_second}/s");
}

#[test]
#[ignore = "needs servers: tests/cluster/run"]
fn announcements_reach_every_listener_and_are_not_stored() {
    // Given two clients of a stream, each listening
    let first = ClusterEngine::create(cluster());
    let second = first.clone();
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for (name, engine) in [("first", &first), ("second", &second)] {
            let sender = sender.clone();
            scope.spawn(move || {
                engine.listen(&mut |message| match message {
                    None => ControlFlow::Continue(()),
                    Some(message) => {
                        sender.send((name, message.to_vec())).unwrap();
                        ControlFlow::Break(())
                    }
                });
            });
        }

        // When one announces something until both have heard it, then both have
        let mut names = std::collections::BTreeSet::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        while names.len() < 2 {
            assert!(Instant::now() < deadline, "only {names:?} heard it");
            first.announce(b"beat");
            while let Ok((name, message)) = heard.recv_timeout(Duration::from_millis(100)) {
                assert_eq!(message, b"beat");
                names.insert(name);
            }
        }
    });

    // And the stream has nothing
    assert_eq!(first.last().unwrap(), 0);
}
