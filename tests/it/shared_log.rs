//! A log that several nodes share, over the in-memory engine: nodes agree whatever the engine does to groups, and
//! continue after a stop.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use mediary::environment::Environment;
use mediary::events::envelope::{EncodedCommit, RecordedEvent};
use mediary::events::log::{AppendRejection, EventLog, LogFailure};
use mediary::events::shared::engine::{Engine, EngineFault, EngineSignal, EngineUnreachable, SendResult};
use mediary::events::shared::generation::LogGeneration;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::events::shared::shared_log::{SharedLog, SharedLogOptions};
use mediary::events::sled_log::{SledLog, SledLogOptions};
use mediary::events::stream::{Position, Version};
use mediary::telemetry::metrics::ClusterMetrics;
use uuid::Uuid;

use crate::samples::{AT, append, large_append, task_stream};

/// Timeout of waits that should end soon.
const PATIENCE: Duration = Duration::from_secs(30);

/// Node with its own directory. The logs of all nodes have the same id.
pub struct SharedLogNode {
    pub log: SharedLog,
    pub local: Arc<SledLog>,
    /// Events of the commits that the log announced.
    announced: Arc<Mutex<Vec<RecordedEvent>>>,
}

impl SharedLogNode {
    pub fn open(directory: &Path, session: u128, engine: impl Engine) -> Result<Self, LogFailure> {
        Self::open_with(directory, session, engine, PATIENCE)
    }

    pub fn open_with(
        directory: &Path,
        session: u128,
        engine: impl Engine,
        write_timeout: Duration,
    ) -> Result<Self, LogFailure> {
        let mut options = SledLogOptions::new(directory);
        options.journal.segment_bytes = 16 * 1024;
        // The seed determines the id of the log.
        let (local, _) = SledLog::open(&options, &Environment::manual(AT, 7), |_| {}).unwrap();
        let local = Arc::new(local);

        let options = SharedLogOptions {
            generation: LogGeneration::FIRST,
            directory: directory.to_owned(),
            session: Uuid::from_u128(session),
            write_timeout,
            metrics: ClusterMetrics::default(),
        };
        let announced = Arc::<Mutex<Vec<RecordedEvent>>>::default();
        let sink = Arc::clone(&announced);
        let on_commits = Box::new(move |commits: &[EncodedCommit]| {
            sink.lock().unwrap().extend(commits.iter().flat_map(|encoded| encoded.commit.iter().cloned()));
        });
        let log = SharedLog::open(Arc::clone(&local), Arc::new(engine), options, on_commits)?;
        Ok(Self { log, local, announced })
    }

    pub fn catch_up(&self) {
        assert!(self.log.wait_until_caught_up(PATIENCE).unwrap(), "not caught up");
    }

    pub fn events(&self) -> Vec<RecordedEvent> {
        self.log.read_all(Position(0), usize::MAX).unwrap()
    }

    pub fn stop(self) {
        self.log.close();
        self.local.close().unwrap();
    }
}

fn reliable_engine() -> MemoryEngine {
    MemoryEngine::new(EngineFaults::default(), Environment::manual(AT, 1))
}

/// Returns an engine that loses, delays and repeats groups, and leaves some calls unanswered.
fn faulty_engine(seed: u64) -> MemoryEngine {
    let faults = EngineFaults { dropped: 0.15, delayed: 0.15, duplicated: 0.15, unanswered: 0.15 };
    MemoryEngine::new(faults, Environment::manual(AT, seed))
}

/// Appends one event to a common stream until it is accepted, as a client of the node would.
pub fn append_eventually(node: &SharedLogNode, stream: u128, mark: u64) {
    loop {
        let expected = node.log.read_stream(&task_stream(stream), Version(0)).unwrap().len() as u64;
        let outcome = node.log.append(vec![append(stream, expected, mark, 1)]).unwrap().pop().unwrap();
        match outcome {
            Ok(commit) => return assert_eq!(commit.len(), 1),
            Err(AppendRejection::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn nodes_agree_whatever_the_engine_does() {
    for seed in 0..4 {
        let engine = faulty_engine(seed);
        let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let nodes: Vec<_> = (1..)
            .zip(&directories)
            .map(|(session, directory)| SharedLogNode::open(directory.path(), session, engine.clone()).unwrap())
            .collect();

        thread::scope(|scope| {
            for (number, node) in (0..).zip(&nodes) {
                scope.spawn(move || {
                    for round in 0..40 {
                        append_eventually(node, u128::from(round % 3), number * 1000 + round);
                    }
                });
            }
        });

        nodes.iter().for_each(SharedLogNode::catch_up);
        let expected = nodes[0].events();
        assert_eq!(expected.len(), 120, "every accepted append once, seed {seed}");
        for node in &nodes {
            assert_eq!(node.events(), expected);
            assert_eq!(*node.announced.lock().unwrap(), expected);
            assert_eq!(node.local.journal_head(), nodes[0].local.journal_head(), "the journals have the same bytes");
        }
        nodes.into_iter().for_each(SharedLogNode::stop);
    }
}

#[test]
fn a_stopped_node_catches_up_even_from_an_older_checkpoint() {
    let engine = faulty_engine(9);
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let node = SharedLogNode::open(first.path(), 1, engine.clone()).unwrap();
    (0..10).for_each(|mark| append_eventually(&node, 1, mark));
    node.catch_up();
    node.stop();
    let older = std::fs::read(first.path().join("engine.json")).unwrap();

    // Another node continues, then the first one. Its checkpoint is then set back behind its journal.
    let other = SharedLogNode::open(second.path(), 2, engine.clone()).unwrap();
    other.catch_up();
    (10..30).for_each(|mark| append_eventually(&other, 2, mark));
    let node = SharedLogNode::open(first.path(), 3, engine.clone()).unwrap();
    node.catch_up();
    (30..40).for_each(|mark| append_eventually(&node, 1, mark));
    node.stop();
    std::fs::write(first.path().join("engine.json"), older).unwrap();
    std::fs::remove_file(first.path().join("admission.state")).unwrap();

    let node = SharedLogNode::open(first.path(), 4, engine.clone()).unwrap();
    node.catch_up();
    append_eventually(&node, 2, 40);
    other.catch_up();
    assert_eq!(node.events(), other.events());
    assert_eq!(node.events().len(), 41);
    assert_eq!(node.announced.lock().unwrap().len(), 1, "only the event that the journal lacked is announced");
}

#[test]
fn a_journal_that_was_ahead_of_the_last_checkpoint_is_not_repeated() {
    let engine = reliable_engine();
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
    // Two events, a conflict with them, and one more event.
    node.log.append(vec![append(1, 0, 1, 2), append(1, 0, 2, 1), append(1, 2, 3, 1)]).unwrap();
    let before = node.events();
    node.stop();
    std::fs::remove_file(directory.path().join("engine.json")).unwrap();

    let node = SharedLogNode::open(directory.path(), 2, engine).unwrap();
    node.catch_up();
    assert_eq!(node.events(), before);
    assert!(node.log.append(vec![append(1, 3, 4, 1)]).unwrap()[0].is_ok());
}

#[test]
fn an_append_fails_while_the_engine_is_unreachable_and_succeeds_later() {
    let engine = reliable_engine();
    let directory = tempfile::tempdir().unwrap();
    let timeout = Duration::from_secs(3);
    let node = SharedLogNode::open_with(directory.path(), 1, engine.clone(), timeout).unwrap();
    assert!(node.log.append(vec![append(1, 0, 1, 1)]).unwrap()[0].is_ok());

    engine.set_reachable(false);
    let failed = node.log.append(vec![append(1, 1, 2, 1)]);
    assert!(matches!(failed, Err(LogFailure::Unreachable { .. })), "{failed:?}");
    assert_eq!(node.events().len(), 1, "reads continue");

    engine.set_reachable(true);
    assert!(node.log.append(vec![append(1, 1, 3, 1)]).unwrap()[0].is_ok());
}

#[test]
fn an_append_that_the_engine_loses_has_an_unknown_outcome() {
    let faults = EngineFaults { dropped: 1.0, ..EngineFaults::default() };
    let engine = MemoryEngine::new(faults, Environment::manual(AT, 1));
    let directory = tempfile::tempdir().unwrap();
    let timeout = Duration::from_secs(3);
    let node = SharedLogNode::open_with(directory.path(), 1, engine.clone(), timeout).unwrap();
    let failed = node.log.append(vec![append(1, 0, 1, 1)]);
    assert!(matches!(failed, Err(LogFailure::OutcomeUnknown { .. })), "{failed:?}");
    node.stop();
}

#[test]
fn a_node_stops_when_the_engine_contradicts_its_log() {
    let engine = reliable_engine();
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
    for version in 0..3 {
        node.log.append(vec![append(1, version, version, 1)]).unwrap();
    }
    node.stop();

    // The engine has lost its last group.
    engine.truncate(2);
    let node = SharedLogNode::open(directory.path(), 2, engine.clone()).unwrap();
    let failed = node.log.append(vec![append(1, 3, 9, 1)]);
    assert!(matches!(failed, Err(LogFailure::Diverged { .. })), "{failed:?}");
    assert!(node.log.read_all(Position(0), 1).is_err(), "a read was accepted");
    node.stop();

    // A checkpoint from before the loss does not hide it.
    std::fs::remove_file(directory.path().join("engine.json")).unwrap();
    let node = SharedLogNode::open(directory.path(), 3, engine).unwrap();
    let failed = node.log.wait_until_caught_up(PATIENCE).and_then(|_| node.log.append(vec![append(1, 3, 9, 1)]));
    assert!(matches!(failed, Err(LogFailure::Diverged { .. })), "{failed:?}");
}

#[test]
fn a_running_node_stops_when_the_engine_has_lost_groups() {
    let engine = reliable_engine();
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
    for version in 0..3 {
        node.log.append(vec![append(1, version, version, 1)]).unwrap();
    }

    engine.truncate(1);
    let failed = node.log.append(vec![append(1, 3, 9, 1)]);
    assert!(matches!(failed, Err(LogFailure::Diverged { .. })), "{failed:?}");
    assert!(node.log.state().is_err(), "the node still reports a working log");
}

/// Engine that is full after `left` more groups.
struct FullEngine {
    inner: MemoryEngine,
    left: AtomicUsize,
}

impl Engine for FullEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.left.store(0, Ordering::SeqCst);
            return SendResult::Full { reason: "no space".to_owned() };
        }
        self.inner.send(group)
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        self.inner.follow(after, each)
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        self.inner.last()
    }

    fn announce(&self, message: &[u8]) {
        self.inner.announce(message);
    }

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        self.inner.listen(each);
    }
}

#[test]
fn a_failure_after_a_recorded_group_is_an_unknown_outcome() {
    // Given an engine that takes one more group
    let directory = tempfile::tempdir().unwrap();
    let engine = FullEngine { inner: reliable_engine(), left: AtomicUsize::new(1) };
    let node = SharedLogNode::open(directory.path(), 1, engine).unwrap();

    // When appends need two groups
    let failed = node.log.append((1..=10).map(|stream| large_append(stream, 0, 60_000)).collect());

    // Then the failure does not say that nothing was recorded
    assert!(matches!(failed, Err(LogFailure::OutcomeUnknown { .. })), "{failed:?}");
    assert_eq!(node.events().len(), 8, "a group of at most 512 KiB holds eight of the appends");

    // And if nothing was recorded, the failure says so
    let failed = node.log.append(vec![append(3, 0, 1, 1)]);
    assert!(matches!(failed, Err(LogFailure::Full { .. })), "{failed:?}");
}

#[test]
fn a_thread_that_panics_stops_the_node() {
    // Given a node whose thread panics when it announces a commit
    let directory = tempfile::tempdir().unwrap();
    let (local, _) =
        SledLog::open(&SledLogOptions::new(directory.path()), &Environment::manual(AT, 7), |_| {}).unwrap();
    let options = SharedLogOptions {
        generation: LogGeneration::FIRST,
        directory: directory.path().to_owned(),
        session: Uuid::from_u128(1),
        write_timeout: PATIENCE,
        metrics: ClusterMetrics::default(),
    };
    let on_commits = Box::new(|_: &[EncodedCommit]| panic!("a fault of the program"));
    let log = SharedLog::open(Arc::new(local), Arc::new(reliable_engine()), options, on_commits).unwrap();

    // When it applies a group, then the append does not wait, and the node says that it has stopped
    let failed = log.append(vec![append(1, 0, 1, 1)]);
    assert!(matches!(failed, Err(LogFailure::OutcomeUnknown { .. })), "{failed:?}");
    assert!(matches!(log.state(), Err(LogFailure::Storage { .. })));
}

#[test]
fn bytes_that_are_not_a_group_stop_the_node() {
    let engine = reliable_engine();
    let directory = tempfile::tempdir().unwrap();
    let node = SharedLogNode::open(directory.path(), 1, engine.clone()).unwrap();
    engine.store(b"\x02 of a newer release".to_vec());
    let failed = node.log.wait_until_caught_up(PATIENCE);
    assert!(matches!(failed, Err(LogFailure::Diverged { .. })), "{failed:?}");
}

#[test]
fn a_node_with_another_log_stops() {
    let engine = reliable_engine();
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let node = SharedLogNode::open(first.path(), 1, engine.clone()).unwrap();
    let options = SledLogOptions::new(second.path());
    drop(SledLog::open(&options, &Environment::manual(AT, 8), |_| {}).unwrap());
    let other = SharedLogNode::open(second.path(), 2, engine).unwrap();

    node.log.append(vec![append(1, 0, 1, 1)]).unwrap();
    let failed = other.log.wait_until_caught_up(PATIENCE);
    assert!(matches!(failed, Err(LogFailure::Diverged { .. })), "{failed:?}");
}
