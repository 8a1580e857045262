//! `mediary cluster rebuild-engine`: planned, after the loss of a stream, interrupted, and on several directories.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use mediary::app::{
    AloneEvidence, App, EngineAccess, EngineOpener, RebuildOptions, check_cluster, init_cluster, leave_cluster,
    rebuild_engine,
};
use mediary::cluster::generation::GenerationRecord;
use mediary::cluster::shared_files::{read_generation, record_generation};
use mediary::environment::{Environment, FailPoint, RebuildStep};
use mediary::events::journal::{ChainHash, JournalHead};
use mediary::events::shared::engine::{Engine, EngineOpenError};
use mediary::events::shared::engine_check::CheckStatus;
use mediary::events::shared::format::Group;
use mediary::events::shared::generation::LogGeneration;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::events::stream::Position;
use parking_lot::Mutex;
use tempfile::TempDir;
use uuid::Uuid;

use super::leave::{copy_of, copy_of_engine};
use crate::support::cluster::{TestCluster, node_settings, restored_backup_of};
use crate::support::process::run;
use crate::support::{TestApp, TestUser, settings};

/// Streams of a log, by generation.
#[derive(Clone, Default)]
struct MemoryStreams(Arc<Mutex<BTreeMap<u64, MemoryEngine>>>);

impl MemoryStreams {
    fn with_first(first: &MemoryEngine) -> Self {
        let streams = Self::default();
        streams.0.lock().insert(1, first.clone());
        streams
    }

    fn get(&self, generation: u64) -> MemoryEngine {
        self.0.lock()[&generation].clone()
    }

    fn remove(&self, generation: u64) {
        self.0.lock().remove(&generation);
    }

    fn generations(&self) -> Vec<u64> {
        self.0.lock().keys().copied().collect()
    }

    fn open(&self, log: LogGeneration) -> Result<Arc<dyn Engine>, EngineOpenError> {
        let stream = self.0.lock().get(&log.number).cloned();
        let stream = stream.ok_or_else(|| EngineOpenError::Missing(format!("there is no stream of {log}")))?;
        Ok(Arc::new(stream))
    }

    fn opener(&self) -> EngineOpener {
        let streams = self.clone();
        Arc::new(move |log| streams.open(log))
    }

    /// Starts a node.
    async fn start(&self, dir: TempDir, files: &Path) -> TestApp {
        TestApp::start_on_streams(dir, |settings| node_settings(settings, files), self.opener()).await
    }

    fn create(&self, log: LogGeneration) -> Arc<dyn Engine> {
        let new = || MemoryEngine::new(EngineFaults::default(), Environment::system());
        Arc::new(self.0.lock().entry(log.number).or_insert_with(new).clone())
    }

    /// Begins the next generation with a directory. Returns its number.
    fn rebuild(&self, dir: &TempDir, files: &Path, options: RebuildOptions) -> Result<u64, String> {
        self.rebuild_in(dir, files, options, &Environment::system())
    }

    fn rebuild_in(
        &self,
        dir: &TempDir,
        files: &Path,
        options: RebuildOptions,
        environment: &Environment,
    ) -> Result<u64, String> {
        let engine = EngineAccess {
            open: &|log| Ok(self.open(log)?),
            create: &|log| Ok(self.create(log)),
            delete: &|log| {
                self.remove(log.number);
                Ok(())
            },
        };
        let settings = settings_of(dir, files);
        let run = || rebuild_engine(&settings, environment, options, &engine);
        let rebuilt = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(anyhow::anyhow!("killed")));
        rebuilt.map(|begun| begun.log().number).map_err(|error| format!("{error:#}"))
    }

    /// Ends after a step, as if the process was killed.
    fn rebuild_killed_after(&self, dir: &TempDir, files: &Path, step: RebuildStep) {
        let environment = on_step(step, move || panic!("killed after {step:?}"));
        assert_eq!(self.rebuild_in(dir, files, PLANNED, &environment), Err("killed".to_owned()), "{step:?}");
    }

    /// Takes a directory out of the cluster.
    fn leave(&self, dir: &TempDir, files: &Path) -> Result<(), String> {
        let settings = settings_of(dir, files);
        leave_cluster(&settings, &Environment::system(), AloneEvidence::Heard, |log| Ok(self.open(log)?))
            .map_err(|error| format!("{error:#}"))
    }

    /// Returns why a node does not start.
    async fn start_error(&self, dir: &TempDir, files: &Path) -> String {
        match App::start_with_opener(settings_of(dir, files), Environment::system(), Some(self.opener())).await {
            Ok(_) => panic!("it starts"),
            Err(error) => error.to_string(),
        }
    }
}

const PLANNED: RebuildOptions =
    RebuildOptions { evidence: AloneEvidence::Heard, is_lost: false, deletes_former: false };
const LOST: RebuildOptions = RebuildOptions { is_lost: true, ..PLANNED };

fn settings_of(dir: &TempDir, files: &Path) -> mediary::config::Settings {
    let mut settings = settings(dir);
    node_settings(&mut settings, files);
    settings
}

/// Environment that calls a function at a step.
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
    /// Has the publisher `acme`.
    current: TempDir,
    /// Has stopped before that.
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

/// Starts nodes on directories with the same log, and checks that they share one.
async fn assert_nodes_share_a_log(
    mut cluster: TestCluster,
    engine: MemoryEngine,
    dirs: Vec<TempDir>,
    alice: &TestUser,
) {
    cluster.engine = engine;
    for dir in dirs {
        cluster.start_node(dir, |_| {}).await;
    }
    for (index, node) in cluster.nodes.iter().enumerate() {
        node.get("/publishers/acme").await.expect(200);
        node.publisher(&format!("of-node-{index}"), alice).await;
        cluster.settle().await;
    }
    let heads: Vec<_> = cluster.nodes.iter().map(|node| node.app.log().journal_head()).collect();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
    let TestCluster { nodes, files: _files, .. } = cluster;
    for node in nodes {
        run(node.stop().await.path(), &["audit", "verify"]).expect(0);
    }
}

fn is_ended(engine: &MemoryEngine) -> bool {
    engine.groups().iter().any(|group| Group::decode(group).unwrap().closing_attempt().is_some())
}

#[actix_web::test]
async fn a_planned_rebuild_continues_in_an_empty_stream_with_every_node_of_the_same_log() {
    // Given a node, and a copy of it
    let StoppedCluster { mut cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    let other = copy_of(&current);

    // When one of them begins the next generation, twice
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    assert!(is_ended(&streams.get(1)) && streams.get(2).groups().is_empty());
    assert_eq!(streams.rebuild(&current, &files, RebuildOptions { deletes_former: true, ..PLANNED }), Ok(3));
    assert_eq!(streams.generations(), [3]);

    // Then a check names the generation, and the other one joins it at its start, and so does a backup
    let settings = settings_of(&other, &files);
    let report = check_cluster(&settings, |_| Ok(Vec::new()), |log| Ok(streams.open(log)?)).unwrap();
    assert!(report.is_suitable() && report.log.is_some_and(|log| log.number == 3));
    assert!(
        report.checks.iter().any(|check| check.status == CheckStatus::Risk && check.finding.contains("generation 3"))
    );
    cluster.engine = streams.get(3);
    cluster.start_node(current, |_| {}).await;
    let state = cluster.nodes[0].get_as(cluster.nodes[0].admin_token(), "/admin/state").await.expect(200).json();
    assert_eq!(state["cluster"]["generation"], 3);
    let current = cluster.nodes.pop().unwrap().stop().await;
    let restored = restored_backup_of(current.path());
    assert_nodes_share_a_log(cluster, streams.get(3), vec![current, other, restored], &alice).await;
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
        // When the first is killed after the step, and the second begins one too
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
        // Then there is one generation, which the second has begun only if the first had sent nothing
        assert_eq!(first_result, Ok(2), "{step:?}");
        assert_eq!(streams.generations(), [1, 2], "{step:?}");
        assert!(is_ended(&streams.get(1)) && streams.get(2).groups().is_empty(), "{step:?}");
        match step {
            RebuildStep::MarkerWritten => assert_eq!(second_result, Ok(2)),
            RebuildStep::LogEnded | RebuildStep::StreamCreated => {
                assert!(second_result.unwrap_err().contains("Complete it there"), "{step:?}");
            }
            _ => assert!(second_result.unwrap_err().contains("replace it by a backup"), "{step:?}"),
        }

        // And both run in it: the second reads what it lacks from the former stream
        let node = streams.start(first, shared.path()).await;
        node.user("bob").await;
        node.stop().await;
        let node = streams.start(second, shared.path()).await;
        node.get("/publishers/acme").await.expect(200);
        assert!(node.get_as(node.admin_token(), "/admin/users").await.expect(200).text().contains("bob"), "{step:?}");
        node.stop().await;
    }
}

#[actix_web::test]
async fn a_rebuild_and_a_leave_do_not_both_continue() {
    for step in [RebuildStep::LogEnded, RebuildStep::GenerationRecorded] {
        // Given a directory that was interrupted, and another one with the same log
        let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
        let other = copy_of(&current);
        streams.rebuild_killed_after(&current, &files, step);

        // When it leaves
        assert_eq!(streams.leave(&current, &files), Ok(()), "{step:?}");

        // Then the other one neither continues nor starts
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

    // When it is rebuilt, then the operator must say that the stream is lost
    let refused = streams.rebuild(&current, &files, PLANNED).unwrap_err();
    assert!(refused.contains("there is no stream") && refused.contains("--lost"), "{refused}");
    assert_eq!(streams.generations(), [0; 0]);
    assert_eq!(streams.rebuild(&current, &files, LOST), Ok(2));

    // Then a node that was behind is refused, also if its stream comes back: empty, in part, or with other groups
    let assert_refused = async |behind: &TempDir, reason: &str| {
        let base = read_generation(&files, log_id(&files)).unwrap().unwrap().base().to_string();
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
    let ended = copy_of_engine(&partial);
    ended.store(Group::closing(7, 0, ChainHash([7; 32])).encode().unwrap());
    for (stream, reason) in [
        (empty, "former stream"),
        (partial, "former stream does not bring it there: it has no end"),
        (ended, "ends at"),
    ] {
        streams.0.lock().insert(1, stream.clone());
        let groups = stream.groups().len();
        assert_refused(&copy_of(&behind), reason).await;
        assert_eq!(stream.groups().len(), groups, "nothing was sent");
    }

    // And the others have everything
    assert_nodes_share_a_log(cluster, streams.get(2), vec![current, other], &alice).await;
}

fn log_id(files: &Path) -> Uuid {
    std::fs::read_to_string(files.join("log-id")).unwrap().parse().unwrap()
}

#[actix_web::test]
async fn a_stream_that_lost_its_end_is_not_continued() {
    // Given a stream without its last group, and one that is empty
    let StoppedCluster { cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    for groups in [streams.get(1).groups().len() - 1, 0] {
        streams.get(1).truncate(groups);

        // When it is rebuilt, then the operator must delete the rest, whose name is given
        let refused = streams.rebuild(&current, &files, LOST).unwrap_err();
        assert!(refused.contains("but the node has applied group"), "{refused}");
        assert!(refused.contains("nats stream rm MDY_") && refused.contains("--lost"), "{refused}");
        assert_eq!(streams.generations(), [1]);
    }

    streams.remove(1);
    assert_eq!(streams.rebuild(&current, &files, LOST), Ok(2));
    assert_nodes_share_a_log(cluster, streams.get(2), vec![current], &alice).await;
}

#[actix_web::test]
async fn a_directory_that_is_overtaken_by_another_one_does_not_begin_a_generation() {
    // Given a directory that is rebuilt without its stream
    let StoppedCluster { cluster: _cluster, streams, files, current, .. } = StoppedCluster::new().await;
    streams.remove(1);

    // When another one with another log begins the generation meanwhile
    let head = JournalHead { position: Position(5), chain: ChainHash([7; 32]) };
    let log = LogGeneration { log_id: log_id(&files), number: 2 };
    let other = GenerationRecord::new(log, head.into());
    let (shared, record) = (files.clone(), other.clone());
    let environment = on_step(RebuildStep::StreamCreated, move || {
        record_generation(&shared, &record, Uuid::from_u128(7)).unwrap();
    });
    let refused = streams.rebuild_in(&current, &files, LOST, &environment).unwrap_err();

    // Then the first one does not continue
    assert!(refused.contains("another directory has begun generation 2"), "{refused}");
    assert!(refused.contains("position 5 (chain 070707070707)"), "{refused}");
    assert_eq!(read_generation(&files, log.log_id).unwrap(), Some(other));
    assert!(streams.start_error(&current, &files).await.contains("replace it by a backup"));

    // And groups that another program has sent to a stream are no new one
    streams.get(2).store(b"a group".to_vec());
    std::fs::remove_file(files.join("log-generation-2")).unwrap();
    let refused = streams.rebuild(&current, &files, LOST).unwrap_err();
    assert!(refused.contains("has groups of generation 2") && refused.contains("stream rm"), "{refused}");
}

#[actix_web::test]
async fn a_shared_directory_that_was_restored_learns_the_generation_from_a_node() {
    // Given a cluster of the second generation, whose shared directory does not know it
    let StoppedCluster { mut cluster, streams, files, alice, current, .. } = StoppedCluster::new().await;
    assert_eq!(streams.rebuild(&current, &files, PLANNED), Ok(2));
    let recorded = read_generation(&files, log_id(&files)).unwrap();
    std::fs::remove_file(files.join("log-generation-2")).unwrap();

    // When a node starts, then it does
    cluster.engine = streams.get(2);
    cluster.start_node(current, |_| {}).await;
    assert_eq!(read_generation(&files, log_id(&files)).unwrap(), recorded);
    cluster.nodes[0].publisher("other", &alice).await;
    let current = cluster.nodes.pop().unwrap().stop().await;

    // When the last node leaves, and makes a new cluster, then it begins after all earlier generations
    assert_eq!(streams.leave(&current, &files), Ok(()));
    init_cluster(&settings_of(&current, &files), &Environment::system(), |log| Ok(streams.create(log))).unwrap();
    assert_eq!(streams.generations(), [1, 2, 3]);
    assert_nodes_share_a_log(cluster, streams.get(3), vec![current], &alice).await;
}
