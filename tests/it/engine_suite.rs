//! Tests that every engine of a shared log must pass, on servers that are killed and paused.
//!
//! `nats.rs` and `postgres.rs` run it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mediary::events::log::{EventLog, LogFailure};
use mediary::events::shared::engine::{
    Engine, EngineFault, EngineOpenError, EngineSignal, EngineUnreachable, SendResult,
};
use uuid::Uuid;

use crate::log_contract;
use crate::samples::{append, large_append};
use crate::shared_log::{SharedLogNode, append_eventually};
use crate::support::eventually::eventually_blocking;

/// Maximum time without an accepted append after a fault of one server.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Longest wait for a signal of the engine.
const SIGNAL_TIMEOUT: Duration = Duration::from_mins(1);
/// Duration of a measurement.
const MEASURED: Duration = Duration::from_secs(4);
/// Appends before and after a fault.
const APPENDS: u64 = 100;

/// Engine that the suite runs on.
pub trait TestedEngine: Engine + Sized {
    type Options: Clone + Send + Sync + 'static;

    fn create(options: Self::Options, log_id: Uuid) -> Result<Self, EngineOpenError>;
    fn open(options: Self::Options, log_id: Uuid) -> Result<Self, EngineOpenError>;
}

/// All servers of an engine.
pub trait TestedServers: Sized {
    type Engine: TestedEngine;

    /// Starts servers with empty storage.
    fn start() -> Self;
    fn options(&self) -> <Self::Engine as TestedEngine>::Options;
    /// Pauses or continues all processes.
    fn set_paused(&mut self, is_paused: bool);
    /// Kills all processes, or starts them again.
    fn set_running(&mut self, is_running: bool);
    /// Deletes a log, as an operator could.
    fn delete_log(&self, log_id: Uuid);
}

/// Engine of one log. A clone has its own connection, like that of another node.
pub struct TestEngine<E: TestedEngine> {
    pub engine: E,
    pub options: E::Options,
    pub log_id: Uuid,
}

impl<E: TestedEngine> TestEngine<E> {
    /// Creates the engine of a new log.
    pub fn create(servers: &impl TestedServers<Engine = E>) -> Self {
        Self::create_with(servers.options())
    }

    /// Creates the engine of a new log, with these options.
    pub fn create_with(options: E::Options) -> Self {
        let log_id = new_log_id();
        let engine = E::create(options.clone(), log_id).unwrap();
        Self { engine, options, log_id }
    }
}

impl<E: TestedEngine> Clone for TestEngine<E> {
    fn clone(&self) -> Self {
        let engine = E::open(self.options.clone(), self.log_id).unwrap();
        Self { engine, options: self.options.clone(), log_id: self.log_id }
    }
}

impl<E: TestedEngine> Engine for TestEngine<E> {
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

pub fn new_log_id() -> Uuid {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(u128::from(COUNTER.fetch_add(1, Ordering::Relaxed)))
}

/// Returns why an engine was refused.
pub fn unsuitable<E>(opened: Result<E, EngineOpenError>) -> String {
    match opened {
        Err(other @ EngineOpenError::Unreachable(_)) => panic!("{other:?}"),
        Err(refused) => refused.to_string(),
        Ok(_) => panic!("the engine was accepted"),
    }
}

pub fn the_shared_log_meets_the_log_contract<S: TestedServers>(servers: &S) {
    log_contract::run_all(|scenario| log_contract::on_shared(&TestEngine::create(servers), scenario));
}

pub fn two_nodes_have_equal_journals<S: TestedServers>(servers: &S) {
    let engine = TestEngine::create(servers);
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
pub struct EngineFollower {
    pub signals: Receiver<EngineSignal>,
    thread: JoinHandle<Result<(), EngineFault>>,
}

impl EngineFollower {
    pub fn start<E: TestedEngine>(engine: &TestEngine<E>) -> Self {
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
    pub fn expect(&self, expected: &EngineSignal) {
        let deadline = Instant::now() + SIGNAL_TIMEOUT;
        while Instant::now() < deadline {
            match self.signals.recv_timeout(SIGNAL_TIMEOUT).unwrap() {
                signal if signal == *expected => return,
                EngineSignal::Group { sequence, .. } => panic!("group {sequence} arrived instead of {expected:?}"),
                EngineSignal::Alive | EngineSignal::Silent => {}
            }
        }
        panic!("{expected:?} did not arrive");
    }

    pub fn stop(self) {
        drop(self.signals);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}

pub fn a_follower_hears_if_the_engine_is_alive<S: TestedServers>() {
    // Given a follower
    let mut servers = S::start();
    let engine = TestEngine::create(&servers);
    assert_eq!(engine.send(b"first"), SendResult::Stored { sequence: 1 });
    let follower = EngineFollower::start(&engine);

    // Then it receives the groups, and a signal once there are no more
    follower.expect(&EngineSignal::Group { sequence: 1, group: b"first".to_vec() });
    follower.expect(&EngineSignal::Alive);

    // And while the servers are paused, it gets the signal for silence, and nothing is stored
    servers.set_paused(true);
    follower.expect(&EngineSignal::Silent);
    eventually_blocking("the engine is unreachable", || engine.last().is_err());
    let sent = engine.send(b"second");
    assert!(matches!(sent, SendResult::Unknown { .. } | SendResult::NotStored { .. }), "{sent:?}");

    // And when they run again, it receives the next group
    servers.set_paused(false);
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

/// Two nodes append during two faults: both have every accepted append exactly once, and appends resume within
/// [`PAUSE_MAX`].
pub fn survive_faults<S: TestedServers>(name: &str, fault: impl Fn(&mut S, Uuid, &dyn Fn())) {
    // Given two nodes that append all the time
    let mut servers = S::start();
    let engine = TestEngine::create(&servers);
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
            fault(&mut servers, engine.log_id, &wait);
        }
        wait();
        stopped.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    // Then no event is lost or duplicated
    let total = accepted.iter().map(|count| count.load(Ordering::SeqCst)).sum();
    println!("{name}: {total} appends, longest pauses {pauses:.1?}");
    assert_equal(&nodes, total);
    assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX), "{pauses:?}");
}

/// Appends to a stream of its own until it is stopped. Returns the longest time between two accepted appends.
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

/// Asserts that all nodes have the same `events` events, byte for byte.
fn assert_equal(nodes: &[SharedLogNode], events: u64) {
    nodes.iter().for_each(SharedLogNode::catch_up);
    let expected = nodes[0].events();
    assert_eq!(expected.len() as u64, events);
    for node in nodes {
        assert_eq!(node.events(), expected);
        assert_eq!(node.local.journal_head(), nodes[0].local.journal_head());
    }
}

pub fn appends_end_in_time_while_no_server_runs_and_continue_later<S: TestedServers>() {
    let mut servers = S::start();
    let engine = TestEngine::create(&servers);
    let directory = tempfile::tempdir().unwrap();
    let write_timeout = Duration::from_secs(4);
    let node = SharedLogNode::open_with(directory.path(), 1, engine.clone(), write_timeout).unwrap();
    append_eventually(&node, 1, 1);

    let stop_and_continue: [fn(&mut S, bool); 2] =
        [|servers, runs| servers.set_paused(!runs), |servers, runs| servers.set_running(runs)];
    for (set_running, first_mark) in stop_and_continue.into_iter().zip([10, 20]) {
        // When no server runs, then appends fail in time, and reads continue
        let before = node.events();
        set_running(&mut servers, false);
        for mark in [first_mark, first_mark + 1] {
            let begun = Instant::now();
            let failed = node.log.append(vec![append(1, before.len() as u64, mark, 1)]);
            let is_expected = matches!(failed, Err(LogFailure::Unreachable { .. } | LogFailure::OutcomeUnknown { .. }));
            assert!(is_expected, "{failed:?}");
            // A group may be on its way when the time is over.
            assert!(begun.elapsed() < write_timeout + Duration::from_secs(4), "after {:?}", begun.elapsed());
        }
        assert_eq!(node.events(), before);

        // When they run, then appends continue; those whose outcome was unknown are there once or not at all
        set_running(&mut servers, true);
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

pub fn a_node_stops_when_its_log_was_deleted_or_created_again<S: TestedServers>(servers: &S) {
    for is_remade in [false, true] {
        let engine = TestEngine::create(servers);
        let directory = tempfile::tempdir().unwrap();
        let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
        (0..3).for_each(|mark| append_eventually(&node, 1, mark));

        servers.delete_log(engine.log_id);
        if is_remade {
            drop(S::Engine::create(engine.options.clone(), engine.log_id).unwrap());
        }
        let failure = eventually_blocking("the node stops", || node.log.state().err());
        let LogFailure::Diverged { reason } = &failure else { panic!("{failure:?}") };
        // The node may have noticed the deletion before the log was created again.
        assert!(reason.contains("any more") || is_remade && reason.contains("created again"), "{reason}");
        node.stop();

        // Nor does it start with the new log
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

pub fn an_engine_ends_at_once_even_without_servers<S: TestedServers>() {
    let mut servers = S::start();
    let engine = TestEngine::create(&servers);
    let other = engine.clone();
    let begun = Instant::now();
    drop(other);
    servers.set_paused(true);
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

pub fn announcements_reach_every_listener_and_are_not_stored<S: TestedServers>(servers: &S) {
    // Given two clients of a log, each listening
    let first = TestEngine::create(servers);
    let second = first.clone();
    let (sender, heard) = mpsc::channel();
    thread::scope(|scope| {
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
        let mut names = BTreeSet::new();
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

    // And the log has nothing
    assert_eq!(first.last().unwrap(), 0);
}

/// Prints the rates of sending, appending and catching up.
pub fn print_throughput<E: TestedEngine>(options: &E::Options) {
    for senders in [1, 8, 64] {
        print_send_rate::<E>(options, senders);
    }
    for group_events in [1, 8, 64] {
        print_append_rate::<E>(options, group_events);
    }
    print_catch_up_rate::<E>(options);
}

/// Groups that concurrent senders on one connection store.
fn print_send_rate<E: TestedEngine>(options: &E::Options, senders: u64) {
    let engine = TestEngine::<E>::create_with(options.clone());
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
fn print_append_rate<E: TestedEngine>(options: &E::Options, group_events: u64) {
    let engine = TestEngine::<E>::create_with(options.clone());
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < MEASURED {
        append_group(&node, group_events);
    }
    print_rate(&format!("events appended by a node in groups of {group_events}"), node.log.head().0, begun);
}

/// Events that a new node receives and applies.
fn print_catch_up_rate<E: TestedEngine>(options: &E::Options) {
    let engine = TestEngine::<E>::create_with(options.clone());
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
