//! `mediary cluster rebuild-engine`, which begins the next generation of a log in an empty stream: planned, after the
//! loss of a stream, interrupted, and on several directories.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mediary::app::{
    AloneEvidence, App, EngineAccess, EngineOpener, RebuildOptions, check_cluster, init_cluster, leave_cluster,
    rebuild_engine,
};
use mediary::cluster::generation::GenerationRecord;
use mediary::cluster::shared_location::SharedLocation;
use mediary::environment::{Environment, FailPoint, RebuildStep};
use mediary::events::journal::{ChainHash, JournalHead};
use mediary::events::shared::engine::{Engine, EngineOpenError};
use mediary::events::shared::engine_check::CheckStatus;
use mediary::events::shared::format::Group;
use mediary::events::shared::generation::LogGeneration;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::events::stream::Position;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::leave::{copy_of, copy_of_engine};
use crate::support::cluster::{TestCluster, node_settings, restored_backup_of};
use crate::support::eventually::eventually;
use crate::support::process::run;
use crate::support::{TestApp, TestUser, settings};

/// Engine in memory: the streams of a log, by generation.
#[derive(Clone, Default)]
pub struct MemoryStreams {
    streams: Arc<Mutex<BTreeMap<u64, MemoryEngine>>>,
    /// Number of attempts of a rebuild to open a stream that fail as if the stream did not exist.
    missing_opens: usize,
}

fn missing_stream(log: LogGeneration) -> EngineOpenError {
    EngineOpenError::Missing(format!("there is no stream of {log}"))
}

impl MemoryStreams {
    /// Returns an engine with only the stream of the first generation.
    pub fn with_first(first: &MemoryEngine) -> Self {
        let streams = Self::default();
        streams.streams.lock().insert(1, first.clone());
        streams
    }

    fn get(&self, generation: u64) -> MemoryEngine {
        self.streams.lock()[&generation].clone()
    }

    pub fn remove(&self, generation: u64) {
        self.streams.lock().remove(&generation);
    }

    pub fn generations(&self) -> Vec<u64> {
        self.streams.lock().keys().copied().collect()
    }

    pub fn open(&self, log: LogGeneration) -> Result<Arc<dyn Engine>, EngineOpenError> {
        let stream = self.streams.lock().get(&log.number).cloned();
        Ok(Arc::new(stream.ok_or_else(|| missing_stream(log))?))
    }

    pub fn opener(&self) -> EngineOpener {
        let streams = self.clone();
        Arc::new(move |log| streams.open(log))
    }

    /// Starts a node on a directory.
    async fn start_node(&self, dir: TempDir, files: &Path) -> TestApp {
        TestApp::start_on_streams(dir, |settings| node_settings(settings, files), self.opener()).await
    }

    /// Creates a stream, or opens an existing one that is empty, as real engines do.
    pub fn create(&self, log: LogGeneration) -> anyhow::Result<Arc<dyn Engine>> {
        let new = || MemoryEngine::new(EngineFaults::default(), Environment::system());
        let stream = self.streams.lock().entry(log.number).or_insert_with(new).clone();
        anyhow::ensure!(stream.groups().is_empty(), "the stream of {log} exists");
        Ok(Arc::new(stream))
    }

    pub fn list(&self, log_id: Uuid) -> Vec<LogGeneration> {
        self.generations().into_iter().map(|number| LogGeneration { log_id, number }).collect()
    }

    /// Runs `cluster init`, which makes a directory the first node of a new cluster.
    fn init(&self, dir: &TempDir, files: &Path) -> Result<(), String> {
        let engine = EngineAccess {
            open: &|log| Ok(self.open(log)?),
            create: &|log| self.create(log),
            list: &|log_id| Ok(self.list(log_id)),
            delete: &|log| anyhow::bail!("{log} is deleted"),
        };
        init_cluster(&settings_of(dir, files), &Environment::system(), &engine).map_err(|error| format!("{error:#}"))
    }

    /// Runs `cluster check` on a directory. Returns the status and the finding about its generation.
    fn check(&self, dir: &TempDir, files: &Path) -> (CheckStatus, String) {
        let settings = settings_of(dir, files);
        let report = check_cluster(&settings, |_| Ok(Vec::new()), |log| Ok(self.open(log)?)).unwrap();
        let about_generation = report.checks.into_iter().find(|check| check.finding.contains("begins at"));
        about_generation.map(|check| (check.status, check.finding)).expect("a check of the generation")
    }

    /// Runs the command on a directory. Returns the number of the generation that it began, or the error.
    fn rebuild(&self, dir: &TempDir, files: &Path, options: RebuildOptions) -> Result<u64, String> {
        self.rebuild_in(dir, files, options, &Environment::system())
    }

    /// Like [`MemoryStreams::rebuild`], in an environment in which a fail point may panic; the error is `killed` then.
    fn rebuild_in(
        &self,
        dir: &TempDir,
        files: &Path,
        options: RebuildOptions,
        environment: &Environment,
    ) -> Result<u64, String> {
        let opens = AtomicUsize::new(0);
        let engine = EngineAccess {
            open: &|log| match opens.fetch_add(1, Ordering::Relaxed) {
                earlier_opens if earlier_opens < self.missing_opens => Err(missing_stream(log).into()),
                _ => Ok(self.open(log)?),
            },
            create: &|log| self.create(log),
            list: &|log_id| Ok(self.list(log_id)),
            delete: &|log| {
                self.remove(log.number);
                Ok(())
            },
        };
        let settings = settings_of(dir, files);
        let run = || rebuild_engine(&settings, environment, options, &engine);
        let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(anyhow::anyhow!("killed")));
        result.map(|begun| begun.log().number).map_err(|error| format!("{error:#}"))
    }

    /// Runs the command on a directory; ends it after a step, as if the process was killed.
    fn rebuild_killed_after(&self, dir: &TempDir, files: &Path, step: RebuildStep) {
        let environment = on_step(step, move || panic!("killed after {step:?}"));
        assert_eq!(self.rebuild_in(dir, files, PLANNED, &environment), Err("killed".to_owned()), "{step:?}");
    }

    /// Runs `cluster leave`, which takes a directory out of the cluster.
    fn leave(&self, dir: &TempDir, files: &Path) -> Result<(), String> {
        let settings = settings_of(dir, files);
        leave_cluster(&settings, &Environment::system(), AloneEvidence::Heard, |log| Ok(self.open(log)?))
            .map_err(|error| format!("{error:#}"))
    }

    /// Returns the error with which a node does not start; panics if it starts.
    async fn start_error(&self, dir: &TempDir, files: &Path) -> String {
        match App::start_with_opener(settings_of(dir, files), Environment::system(), Some(self.opener())).await {
            Ok(_) => panic!("the node starts"),
            Err(error) => error.to_string(),
        }
    }
}

/// Planned rebuild: the former stream exists.
pub const PLANNED: RebuildOptions =
    RebuildOptions { evidence: AloneEvidence::Heard, is_lost: false, deletes_former: false };
/// Rebuild after the loss of the stream; the operator states that all nodes have stopped.
const LOST: RebuildOptions = RebuildOptions { evidence: AloneEvidence::Stated, is_lost: true, ..PLANNED };

fn location_of(files: &Path) -> SharedLocation {
    SharedLocation::Directory(files.to_owned())
}

fn settings_of(dir: &TempDir, files: &Path) -> mediary::config::Settings {
    let mut settings = settings(dir);
    node_settings(&mut settings, files);
    settings
}

/// Returns an environment that calls a function at a step.
fn on_step(step: RebuildStep, call: impl Fn() + Send + Sync + 'static) -> Environment {
    Environment::system().with_fail_point_handler(Arc::new(move |fail_point, _| {
        if fail_point == FailPoint::Rebuild(step) {
            call();
        }
    }))
}

/// Cluster whose nodes have stopped.
struct StoppedCluster {
    cluster: TestCluster,
    streams: MemoryStreams,
    files: PathBuf,
    alice: TestUser,
    /// Directory of the node that stopped last. It has everything, including the publisher `acme`.
    current: TempDir,
    /// Directory of the node that stopped before the publisher was created.
    behind: TempDir,
}

impl StoppedCluster {
    async fn new() -> Self {
        let mut cluster = TestCluster::start(2).await;
        let alice = cluster.nodes[0].user("alice").await;
        cluster.settle().await;
        let behind = cluster.nodes.pop().unwrap().stop().await;
        cluster.nodes[0].publisher("acme", &alice).await;
        let current = cluster.nodes.pop().unwrap().stop().await;
        let streams = MemoryStreams::with_first(&cluster.engine);
        let files = cluster.files.path().to_owned();
        Self { cluster, streams, files, alice, current, behind }
    }
}

/// Starts nodes on these directories. Asserts that all have the publisher `acme`, that every node can write, and that
/// their logs are the same and verify.
async fn assert_nodes_share_a_log(
    mut cluster: TestCluster,
    streams: &MemoryStreams,
    dirs: Vec<TempDir>,
    alice: &TestUser,
) {
    for dir in dirs {
        cluster.nodes.push(streams.start_node(dir, cluster.files.path()).await);
    }
    for (index, node) in cluster.nodes.iter().enumerate() {
        node.get("/publishers/acme").await.expect(200);
        node.publisher(&format!("of-node-{index}"), alice).await;
        cluster.settle().await;
    }
    let heads: Vec<_> = cluster.nodes.iter().map(|node| node.app.log().journal_head()).collect();
    assert!(heads.iter().all(|head| *head == heads[0]), "the logs differ: {heads:?}");
    let TestCluster { nodes, files: _files, .. } = cluster;
    for node in nodes {
        run(node.stop().await.path(), &["audit", "verify"]).expect(0);
    }
}

/// Returns `true` if the stream has a group that closes the log.
fn is_closed(engine: &MemoryEngine) -> bool {
    engine.groups().iter().any(|group| Group::decode(group).unwrap().closing_attempt().is_some())
}

#[actix_web::test]
async fn a_planned_rebuild_continues_in_an_empty_stream_with_every_node_of_the_same_log() {
    // Given the directory of a stopped node, and a copy of it
    let StoppedCluster { mut cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    let other = copy_of(&current);

    // When the first of them begins the next generation, twice
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    assert!(is_closed(&streams.get(1)) && streams.get(2).groups().is_empty());
    assert_eq!(streams.rebuild(&current, &files, RebuildOptions { deletes_former: true, ..PLANNED }), Ok(3));
    assert_eq!(streams.generations(), [3]);

    // Then a check names the generation, and the copy and a restored backup join it when they start
    let settings = settings_of(&other, &files);
    let report = check_cluster(&settings, |_| Ok(Vec::new()), |log| Ok(streams.open(log)?)).unwrap();
    assert!(report.is_suitable() && report.log.is_some_and(|log| log.number == 3));
    assert!(
        report.checks.iter().any(|check| check.status == CheckStatus::Risk && check.finding.contains("generation 3"))
    );
    cluster.nodes.push(streams.start_node(current, &files).await);
    let state = cluster.nodes[0].get_as(cluster.nodes[0].admin_token(), "/admin/state").await.expect(200).json();
    assert_eq!(state["cluster"]["generation"], 3);
    let current = cluster.nodes.pop().unwrap().stop().await;
    let restored = restored_backup_of(current.path());
    assert_nodes_share_a_log(cluster, &streams, vec![current, other, restored], &alice).await;
}

#[actix_web::test]
async fn of_two_directories_only_one_begins_a_generation_wherever_it_is_interrupted() {
    // Given two stopped nodes, for each step of the command
    let StoppedCluster { cluster: _cluster, streams, current, behind, files, .. } = StoppedCluster::new().await;
    let cases = RebuildStep::ALL.map(|step| {
        let shared = tempfile::tempdir().unwrap();
        std::fs::copy(files.join("log-id"), shared.path().join("log-id")).unwrap();
        let dirs = [&current, &behind].map(|dir| {
            let copy = copy_of(dir);
            for tree in ["archives", "media", "personal"] {
                std::fs::remove_file(copy.path().join(tree)).unwrap();
            }
            copy
        });
        (step, dirs, shared, MemoryStreams::with_first(&copy_of_engine(&streams.get(1))))
    });
    let run = |(step, [first, second], shared, streams): (RebuildStep, [TempDir; 2], TempDir, MemoryStreams)| {
        // When the command is killed on the first after the step, then runs on the second, and again on the first
        streams.rebuild_killed_after(&first, shared.path(), step);
        let second_result = streams.rebuild(&second, shared.path(), PLANNED);
        let first_result = streams.rebuild(&first, shared.path(), PLANNED);
        (step, [first, second], shared, streams, second_result, first_result)
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let threads = cases.map(|case| scope.spawn(move || run(case)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    for (step, [first, second], shared, streams, second_result, first_result) in outcomes {
        // Then there is one new generation; the second began it only if the first had sent nothing
        assert_eq!(first_result, Ok(2), "{step:?}");
        assert_eq!(streams.generations(), [1, 2], "{step:?}");
        assert!(is_closed(&streams.get(1)) && streams.get(2).groups().is_empty(), "{step:?}");
        match step {
            RebuildStep::MarkerWritten => assert_eq!(second_result, Ok(2)),
            RebuildStep::LogEnded | RebuildStep::StreamCreated => {
                assert!(second_result.unwrap_err().contains("Complete it there"), "{step:?}");
            }
            _ => assert!(second_result.unwrap_err().contains("start the node first"), "{step:?}"),
        }

        // And both run in it; the second reads the events that it lacks from the former stream
        let node = streams.start_node(first, shared.path()).await;
        node.user("bob").await;
        node.stop().await;
        let node = streams.start_node(second, shared.path()).await;
        node.get("/publishers/acme").await.expect(200);
        assert!(node.get_as(node.admin_token(), "/admin/users").await.expect(200).text().contains("bob"), "{step:?}");
        node.stop().await;
    }
}

#[actix_web::test]
async fn a_rebuild_and_a_leave_do_not_both_continue() {
    for step in [RebuildStep::LogEnded, RebuildStep::GenerationRecorded] {
        // Given a directory on which a rebuild was interrupted, and a copy with the same log
        let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
        let other = copy_of(&current);
        streams.rebuild_killed_after(&current, &files, step);

        // When the first directory leaves the cluster
        assert_eq!(streams.leave(&current, &files), Ok(()), "{step:?}");

        // Then the copy neither continues the log nor starts, and the first starts alone
        let refused = streams.rebuild(&other, &files, PLANNED).unwrap_err();
        assert!(refused.contains("has ended the log"), "{step:?}: {refused}");
        assert!(streams.start_error(&other, &files).await.contains("has ended this log"), "{step:?}");
        TestApp::start_in(current, |_| {}, Environment::system()).await.stop().await;
    }
}

#[actix_web::test]
async fn after_the_loss_of_the_stream_only_directories_with_everything_continue() {
    // Given a cluster without its stream
    let StoppedCluster { cluster, streams, files, alice, current, behind } = StoppedCluster::new().await;
    let other = copy_of(&current);
    let former = streams.get(1);
    streams.remove(1);

    // When it is rebuilt, then the operator must state that the stream is lost and that all nodes have stopped
    let refused = streams.rebuild(&current, &files, PLANNED).unwrap_err();
    assert!(refused.contains("there is no stream") && refused.contains("--lost"), "{refused}");
    let refused = streams.rebuild(&current, &files, RebuildOptions { is_lost: true, ..PLANNED }).unwrap_err();
    assert!(refused.contains("cannot hear running nodes") && refused.contains("--all-stopped"), "{refused}");

    // And the journal must contain everything that the directory has applied, according to its checkpoint
    let checkpoint = current.path().join("log/engine.json");
    let applied = std::fs::read_to_string(&checkpoint).unwrap();
    let mut foreign: Value = serde_json::from_str(&applied).unwrap();
    foreign["chain"] = json!("07".repeat(32));
    std::fs::write(&checkpoint, foreign.to_string()).unwrap();
    let refused = streams.rebuild(&current, &files, LOST).unwrap_err();
    assert!(refused.contains("does not contain the end of the last checkpoint"), "{refused}");
    assert!(!current.path().join("cluster-leave.json").exists());
    std::fs::write(&checkpoint, applied).unwrap();

    // When the operator states both, and the journal is complete
    assert_eq!(streams.generations(), [0; 0]);
    assert_eq!(streams.rebuild(&current, &files, LOST), Ok(2));

    // Then a directory that is behind is rejected, even if the former stream comes back: empty, in part, or with
    // another end
    let assert_refused = async |behind: &TempDir, reason: &str| {
        let base = location_of(&files).read_generation(log_id(&files)).unwrap().unwrap().base().to_string();
        let start_error = streams.start_error(behind, &files).await;
        assert!(start_error.contains(reason), "{reason}: {start_error}");
        for refused in [
            start_error,
            streams.rebuild(behind, &files, LOST).unwrap_err(),
            streams.leave(behind, &files).unwrap_err(),
        ] {
            assert!(refused.contains("generation 2") && refused.contains(&base), "{refused}");
            assert!(refused.contains("replace it by a backup"), "{refused}");
        }
    };
    assert_refused(&behind, "there is no stream").await;
    let empty = MemoryEngine::new(EngineFaults::default(), Environment::system());
    let partial = copy_of_engine(&former);
    partial.truncate(former.groups().len() - 1);
    let closed_elsewhere = copy_of_engine(&partial);
    closed_elsewhere.store(Group::closing(7, 0, ChainHash([7; 32])).encode().unwrap());
    for (stream, reason) in [
        (empty, "former stream"),
        (partial, "former stream does not bring it there (it has no end)"),
        (closed_elsewhere, "ends at"),
    ] {
        streams.streams.lock().insert(1, stream.clone());
        let groups = stream.groups().len();
        assert_refused(&copy_of(&behind), reason).await;
        assert_eq!(stream.groups().len(), groups, "a group was sent to the stream");
    }

    // And the directories that had everything continue
    assert_nodes_share_a_log(cluster, &streams, vec![current, other], &alice).await;
}

fn log_id(files: &Path) -> Uuid {
    std::fs::read_to_string(files.join("log-id")).unwrap().parse().unwrap()
}

#[actix_web::test]
async fn a_stream_that_lost_its_end_is_not_continued() {
    // Given a stream that lost its last group, and then all groups
    let StoppedCluster { cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    for groups in [streams.get(1).groups().len() - 1, 0] {
        streams.get(1).truncate(groups);

        // When it is rebuilt, then the operator must first delete the stream, which the error names
        let refused = streams.rebuild(&current, &files, LOST).unwrap_err();
        assert!(refused.contains("but the node has applied group"), "{refused}");
        assert!(refused.contains("nats stream rm MDY_") && refused.contains("--lost"), "{refused}");
        assert_eq!(streams.generations(), [1]);
    }

    // And once it is deleted, the rebuild succeeds
    streams.remove(1);
    assert_eq!(streams.rebuild(&current, &files, LOST), Ok(2));
    assert_nodes_share_a_log(cluster, &streams, vec![current], &alice).await;
}

#[actix_web::test]
async fn a_directory_that_is_overtaken_by_another_one_does_not_begin_a_generation() {
    // Given a directory whose stream is lost
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    streams.remove(1);

    // When a directory with another log begins the generation while this one is rebuilt
    let head = JournalHead { position: Position(5), chain: ChainHash([7; 32]) };
    let log = LogGeneration { log_id: log_id(&files), number: 2 };
    let other = GenerationRecord::new(log, head.into());
    let (shared, record) = (files.clone(), other.clone());
    let environment = on_step(RebuildStep::StreamCreated, move || {
        location_of(&shared).record_generation(&record, Uuid::from_u128(7)).unwrap();
    });
    let refused = streams.rebuild_in(&current, &files, LOST, &environment).unwrap_err();

    // Then this one does not continue
    assert!(refused.contains("another directory has begun generation 2"), "{refused}");
    assert!(refused.contains("position 5 (chain 070707070707)"), "{refused}");
    assert_eq!(location_of(&files).read_generation(log.log_id).unwrap(), Some(other));
    assert!(streams.start_error(&current, &files).await.contains("replace it by a backup"));
}

/// Returns a copy of a directory, and a new shared directory for it that records no generation.
fn moved_copy_of(dir: &TempDir, files: &Path) -> (TempDir, TempDir) {
    let shared = tempfile::tempdir().unwrap();
    std::fs::copy(files.join("log-id"), shared.path().join("log-id")).unwrap();
    let copy = copy_of(dir);
    for tree in ["archives", "media", "personal"] {
        std::fs::remove_file(copy.path().join(tree)).unwrap();
    }
    (copy, shared)
}

/// Returns a copy of a directory that is not a node of a cluster.
fn alone_copy_of(dir: &TempDir) -> TempDir {
    let copy = restored_backup_of(dir.path());
    for file in ["cluster.json", "log/engine.json"] {
        let _ = std::fs::remove_file(copy.path().join(file));
    }
    copy
}

#[actix_web::test]
async fn a_running_node_stops_once_the_shared_directory_has_a_later_generation() {
    // Given a running node
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    let node = streams.start_node(current, &files).await;
    node.get("/publishers/acme").await.expect(200);

    // When the shared directory records that another directory continues the log without the stream
    let log = LogGeneration { log_id: log_id(&files), number: 2 };
    let record = GenerationRecord::new(log, JournalHead { position: Position(5), chain: ChainHash([7; 32]) }.into());
    location_of(&files).record_generation(&record, Uuid::from_u128(7)).unwrap();

    // Then the node rejects all requests
    eventually("requests are rejected", async || node.get("/publishers/acme").await.status == 503).await;
    node.stop().await;
}

#[actix_web::test]
async fn a_stream_that_the_servers_do_not_know_yet_is_not_lost() {
    // Given an engine that does not find the stream at first
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    let streams = MemoryStreams { missing_opens: 2, ..streams };

    // When the log is rebuilt as lost, then the stream is found and closed nevertheless
    assert_eq!(streams.rebuild(&current, &files, LOST), Ok(2));
    assert!(is_closed(&streams.get(1)));
}

#[actix_web::test]
async fn a_second_cluster_does_not_begin_beside_one_of_a_later_generation() {
    // Given a cluster of the second generation whose first stream is deleted, and a restored backup that is not a node
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    assert_eq!(streams.rebuild(&current, &files, RebuildOptions { deletes_former: true, ..PLANNED }), Ok(2));
    let alone = alone_copy_of(&current);
    let shared = tempfile::tempdir().unwrap();

    // When the backup begins a cluster with another shared directory, then it is rejected
    let refused = streams.init(&alone, shared.path()).unwrap_err();
    assert!(refused.contains("generation 2") && refused.contains("was not ended"), "{refused}");
    assert_eq!(streams.generations(), [2]);

    // But once the cluster has ended, the new one begins after all earlier generations
    assert_eq!(streams.leave(&current, &files), Ok(()));
    assert_eq!(streams.init(&alone, shared.path()), Ok(()));
    assert_eq!(streams.generations(), [2, 3]);
}

#[actix_web::test]
async fn a_second_directory_does_not_take_over_the_empty_stream_of_the_first() {
    // Given a directory that has begun a cluster but written nothing yet, and an older copy of it
    let StoppedCluster { cluster: _cluster, current, behind, .. } = StoppedCluster::new().await;
    let streams = MemoryStreams::default();
    let shared = tempfile::tempdir().unwrap();
    assert_eq!(streams.init(&alone_copy_of(&current), shared.path()), Ok(()));

    // When the copy begins one too, then it is rejected with the remedy
    let older = alone_copy_of(&behind);
    let refused = streams.init(&older, shared.path()).unwrap_err();
    assert!(refused.contains("was not ended") && refused.contains("delete the stream"), "{refused}");

    // And once that stream is deleted, it begins the next generation
    streams.remove(1);
    assert_eq!(streams.init(&older, shared.path()), Ok(()));
    assert_eq!(streams.generations(), [2]);
}

#[actix_web::test]
async fn a_directory_of_a_former_generation_records_nothing_in_another_shared_directory() {
    // Given a directory of the second generation, while the log has the third
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    let (stale, shared) = moved_copy_of(&current, &files);
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(3));

    // When it starts or is rebuilt with a shared directory that records no generation, then it fails and records none
    let refused = streams.start_error(&stale, shared.path()).await;
    assert!(refused.contains("has ended this log"), "{refused}");
    streams.remove(2);
    let refused = streams.rebuild(&stale, shared.path(), LOST).unwrap_err();
    assert!(refused.contains("no record of generation 2") && refused.contains("log-generations/2"), "{refused}");
    assert_eq!(location_of(shared.path()).read_generation(log_id(&files)).unwrap(), None);
}

#[actix_web::test]
async fn a_generation_does_not_begin_twice_after_the_shared_directory_has_forgotten_it() {
    // Given a directory of the first generation, whose stream is lost, and a second generation whose record is lost too
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    let other = copy_of(&current);
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    std::fs::remove_file(files.join("log-generations/2")).unwrap();
    streams.remove(1);

    // When it is rebuilt, then the stream of the second generation is found, and the error does not propose to delete
    // it
    let refused = streams.rebuild(&other, &files, LOST).unwrap_err();
    assert!(refused.contains("has the stream of generation 2") && refused.contains("log-generations/2"), "{refused}");
    assert!(!refused.contains("stream rm"), "{refused}");
    assert!(!other.path().join("cluster-leave.json").exists());
    assert_eq!(streams.generations(), [2]);
}

#[actix_web::test]
async fn a_directory_that_differs_from_the_stream_is_not_told_to_delete_it() {
    // Given a stream with a group from a node that had another log
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    let stream = streams.get(1);
    let last = stream.groups().len() as u64;
    let group = Group { counter: 1, ..Group::closing(7, last, ChainHash([7; 32])) };
    stream.store(Group { entries: Vec::new(), session: Uuid::from_u128(7), ..group }.encode().unwrap());

    // When the directory is rebuilt, then the error asks for another directory, and not for the deletion of the stream
    let refused = streams.rebuild(&current, &files, PLANNED).unwrap_err();
    assert!(refused.contains("diverged") && refused.contains("Use another directory"), "{refused}");
    assert!(!refused.contains("stream rm") && !refused.contains("--lost"), "{refused}");
}

#[actix_web::test]
async fn after_a_leave_no_other_directory_continues_the_log() {
    // Given a directory that has left its cluster, whose stream was deleted since
    let StoppedCluster { cluster: _cluster, streams, files, current, behind, .. } = StoppedCluster::new().await;
    let other = copy_of(&current);
    let alone = alone_copy_of(&behind);
    assert_eq!(streams.leave(&current, &files), Ok(()));
    streams.remove(1);

    // When a copy continues without the stream, or an older directory begins a cluster, then the error names the remedy
    for result in [streams.rebuild(&other, &files, LOST), streams.init(&alone, &files).map(|()| 0)] {
        let refused = result.unwrap_err();
        assert!(refused.contains("on another directory has ended the cluster"), "{refused}");
        assert!(refused.contains("log-left/1"), "{refused}");
    }
    assert_eq!(streams.generations(), [0; 0]);

    // And the directory that has left begins the next cluster, which the others do not join with their old log
    assert_eq!(streams.init(&current, &files), Ok(()));
    assert_eq!(streams.generations(), [2]);
    assert!(streams.start_error(&behind, &files).await.contains("generation 2"));
}

#[actix_web::test]
async fn a_check_finds_whether_a_directory_can_join_the_latest_generation() {
    // Given a directory that has everything before the latest generation, and one that is behind
    let StoppedCluster { cluster: _cluster, streams, files, current, behind, .. } = StoppedCluster::new().await;
    let other = copy_of(&current);
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));

    // Then a check says that the first can join, and the second only as long as the former stream exists
    let (status, finding) = streams.check(&other, &files);
    assert!(status == CheckStatus::Risk && finding.contains("a start joins it"), "{status:?} {finding}");
    let (status, finding) = streams.check(&behind, &files);
    assert!(status == CheckStatus::Risk && finding.contains("rest of the former stream"), "{status:?} {finding}");
    streams.remove(1);
    let (status, finding) = streams.check(&behind, &files);
    assert!(status == CheckStatus::Failed && finding.contains("replace it"), "{status:?} {finding}");
}

#[actix_web::test]
async fn a_shared_directory_that_was_restored_learns_the_generation_from_a_node() {
    // Given a cluster of the second generation, whose shared directory has lost the record of it
    let StoppedCluster { mut cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    let recorded = location_of(&files).read_generation(log_id(&files)).unwrap();
    std::fs::remove_file(files.join("log-generations/2")).unwrap();

    // When a node starts, then it records the generation again
    cluster.nodes.push(streams.start_node(current, &files).await);
    assert_eq!(location_of(&files).read_generation(log_id(&files)).unwrap(), recorded);
    cluster.nodes[0].publisher("other", &alice).await;
    let current = cluster.nodes.pop().unwrap().stop().await;

    // When the last node leaves and begins a new cluster, then that begins after all earlier generations
    assert_eq!(streams.leave(&current, &files), Ok(()));
    assert_eq!(streams.init(&current, &files), Ok(()));
    assert_eq!(streams.generations(), [1, 2, 3]);
    assert_nodes_share_a_log(cluster, &streams, vec![current], &alice).await;
}
