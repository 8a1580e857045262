//! `mediary cluster leave`, with which one directory continues the log alone: interruptions, several directories, and
//! what the command must find out or remove first.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use mediary::app::{AloneEvidence, App, leave_cluster};
use mediary::environment::{Environment, FailPoint, LeaveStep};
use mediary::events::shared::engine::{Engine, EngineFault, EngineSignal, EngineUnreachable, SendResult};
use mediary::events::shared::format::Group;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::cluster::{TestCluster, node_settings, restored_backup_of};
use crate::support::{TestApp, settings};

/// Runs the command on a directory. With `last_step`, ends it after that step, as if the process was killed; the error
/// is `killed` then.
fn leave(dir: &TempDir, files: &Path, engine: &MemoryEngine, last_step: Option<LeaveStep>) -> Result<(), String> {
    leave_with(dir, files, Arc::new(engine.clone()), AloneEvidence::Heard, last_step)
}

/// Like [`leave`], on any engine, and with other evidence that no node runs.
fn leave_with(
    dir: &TempDir,
    files: &Path,
    engine: Arc<dyn Engine>,
    evidence: AloneEvidence,
    last_step: Option<LeaveStep>,
) -> Result<(), String> {
    let mut settings = settings(dir);
    node_settings(&mut settings, files);
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |fail_point, _| {
        if let FailPoint::Leave(step) = fail_point
            && Some(step) == last_step
        {
            panic!("killed after {step:?}");
        }
    }));
    let run = || leave_cluster(&settings, &environment, evidence, |_| Ok(engine)).map_err(|error| format!("{error:#}"));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("killed".to_owned()))
}

fn is_node(dir: &TempDir) -> bool {
    dir.path().join("cluster.json").exists()
}

/// Returns a copy of a stopped node's directory.
pub fn copy_of(dir: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let contents = dir.path().join(".");
    assert!(Command::new("cp").arg("-a").arg(contents).arg(copy.path()).status().unwrap().success());
    copy
}

/// Returns an engine with the same groups.
pub fn copy_of_engine(engine: &MemoryEngine) -> MemoryEngine {
    let copy = MemoryEngine::new(EngineFaults::default(), Environment::system());
    engine.groups().into_iter().for_each(|group| copy.store(group));
    copy
}

#[actix_web::test]
async fn of_two_directories_only_one_goes_on_alone_wherever_it_is_interrupted() {
    // Given two stopped nodes, for each step of the command
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    cluster.settle().await;
    let TestCluster { engine, files, nodes } = cluster;
    let mut dirs = Vec::new();
    for node in nodes {
        dirs.push(node.stop().await);
    }

    let cases = LeaveStep::ALL.map(|step| {
        let [first, second] = [&dirs[0], &dirs[1]].map(copy_of);
        (step, first, second, copy_of_engine(&engine))
    });
    let run = |(step, first, second, engine): (LeaveStep, TempDir, TempDir, MemoryEngine)| {
        // When the command is killed on the first after the step, then runs on the second, and again on the first
        assert_eq!(leave(&first, files.path(), &engine, Some(step)), Err("killed".to_owned()));
        let second_result = leave(&second, files.path(), &engine, None);
        let first_result = leave(&first, files.path(), &engine, None);
        (step, first, second, second_result, first_result)
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let threads = cases.map(|case| scope.spawn(move || run(case)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    for (step, first, second, second_result, first_result) in outcomes {
        // Then the first leaves, unless it had sent nothing; the error on the other says where to continue
        let (winner, loser) = if step == LeaveStep::MarkerWritten {
            assert_eq!(second_result, Ok(()), "{step:?}");
            assert!(first_result.unwrap_err().contains("on another directory"), "{step:?}");
            (second, first)
        } else {
            assert!(second_result.unwrap_err().contains("Complete it there"), "{step:?}");
            assert_eq!(first_result, Ok(()), "{step:?}");
            (first, second)
        };

        // And only the one that left starts alone, and has everything
        assert_eq!((is_node(&winner), is_node(&loser)), (false, true), "{step:?}");
        let alone = TestApp::start_in(winner, |_| {}, Environment::system()).await;
        alone.get("/publishers/acme").await.expect(200);
        alone.stop().await;
        let Err(error) = App::start(settings(&loser), Environment::system()).await else {
            panic!("the other directory starts alone")
        };
        assert!(error.to_string().contains("is a node of a cluster"), "{error}");
    }
}

#[actix_web::test]
async fn a_log_that_an_earlier_release_ended_is_not_continued() {
    // Given a log with the closing group of the first release with clusters, which has no id
    let mut cluster = TestCluster::start(1).await;
    let node = cluster.nodes.pop().unwrap();
    let head = node.app.log().journal_head();
    let dir = node.stop().await;
    let sequence = cluster.engine.groups().len() as u64;
    cluster.engine.store(Group::closing(u64::MAX, sequence, head.chain).encode().unwrap());

    // Then no directory mistakes that group for the end of its own attempt
    let refused = leave(&dir, cluster.files.path(), &cluster.engine, None).unwrap_err();
    assert!(refused.contains("an earlier release") && is_node(&dir), "{refused}");
}

/// Engine that delivers no messages between nodes.
struct DeafEngine(MemoryEngine);

impl Engine for DeafEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        self.0.send(group)
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        self.0.follow(after, each)
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        self.0.last()
    }

    fn announce(&self, _: &[u8]) {}

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        self.0.listen(each);
    }
}

#[actix_web::test]
async fn a_command_that_does_not_hear_itself_cannot_tell_that_no_node_runs() {
    // Given a stopped node, and another one that runs
    let mut cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;
    let dir = cluster.nodes.pop().unwrap().stop().await;
    let (engine, files) = (cluster.engine.clone(), cluster.files.path().to_owned());
    let leave_deaf = |evidence| leave_with(&dir, &files, Arc::new(DeafEngine(engine.clone())), evidence, None);

    // When the other node runs, then the command fails although the operator states that all nodes have stopped
    let refused = leave_with(&dir, &files, Arc::new(engine.clone()), AloneEvidence::Stated, None).unwrap_err();
    assert!(refused.contains("is running: stop it first"), "{refused}");

    // When the engine delivers no messages, or does not respond, then the command fails, and sends nothing
    cluster.nodes[0].publisher("acme", &alice).await;
    cluster.nodes.pop().unwrap().stop().await;
    let groups = engine.groups().len();
    let refused = leave_deaf(AloneEvidence::Heard).unwrap_err();
    assert!(refused.contains("cannot tell") && refused.contains("--all-stopped"), "{refused}");
    engine.set_reachable(false);
    let refused = leave(&dir, &files, &engine, None).unwrap_err();
    assert!(refused.contains("cannot tell"), "{refused}");
    engine.set_reachable(true);
    assert_eq!((engine.groups().len(), is_node(&dir)), (groups, true));

    // Unless the operator states that all nodes have stopped
    assert_eq!(leave_deaf(AloneEvidence::Stated), Ok(()));
    let alone = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    alone.get("/publishers/acme").await.expect(200);
    alone.stop().await;
}

#[actix_web::test]
async fn copies_of_data_of_users_erased_on_another_node_are_removed() {
    // Given a node with a stored response and a snapshot that contain a user's data
    let mut cluster = TestCluster::start(2).await;
    let second = cluster.nodes.pop().unwrap();
    let request = second.request(Method::POST, "/admin/users").bearer_auth(second.admin_token());
    let body = json!({"name": "alice", "email": "alice@example.org"});
    let alice = second.send(request.header("idempotency-key", "key").json(&body)).await.expect(201).json();
    cluster.nodes[0].user("bob").await;
    let dir = second.stop().await;
    let stored_responses = || count_files_below(&dir.path().join("answers"));
    assert_eq!(stored_responses(), 1);
    let snapshot = dir.path().join("snapshots/models");
    std::fs::create_dir_all(snapshot.parent().unwrap()).unwrap();
    std::fs::write(&snapshot, "alice@example.org").unwrap();

    // When the user is erased on the other node, and this one leaves without having run since
    let first = cluster.nodes.pop().unwrap();
    let path = format!("/admin/users/{}", alice["id"].as_str().unwrap());
    first.delete_as(first.admin_token(), &path).await.expect(204);
    first.stop().await;
    assert_eq!(leave(&dir, cluster.files.path(), &cluster.engine, None), Ok(()));

    // Then both are removed, and the service that continues alone has applied the erasure
    assert!(!snapshot.exists());
    assert_eq!(stored_responses(), 0);
    let alone = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let users = alone.get_as(alone.admin_token(), "/admin/users").await.expect(200).text();
    assert!(users.contains("bob") && !users.contains("alice"), "{users}");
    alone.stop().await;
}

#[actix_web::test]
async fn a_restored_backup_leaves_with_the_shared_files() {
    // Given a backup of a node, and a file that was stored in the shared directory later
    let mut cluster = TestCluster::start(1).await;
    let node = cluster.nodes.pop().unwrap().stop().await;
    let restored = restored_backup_of(node.path());
    let (engine, files) = (cluster.engine.clone(), cluster.files.path().to_owned());
    std::fs::create_dir_all(files.join("media/results")).unwrap();
    std::fs::write(files.join("media/results/shared"), "later").unwrap();

    // When the restored backup, which has never run, leaves
    assert_eq!(leave(&restored, &files, &engine, None), Ok(()));

    // Then its own directory has that file
    assert!(!restored.path().join("media").is_symlink());
    assert_eq!(std::fs::read_to_string(restored.path().join("media/results/shared")).unwrap(), "later");
}

fn count_files_below(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count_files_below(&path) } else { 1 }).sum()
}

#[actix_web::test]
async fn a_directory_with_its_files_needs_neither_the_shared_ones_nor_the_stream() {
    // Given a directory on which the command was killed after it had copied the shared files
    let mut cluster = TestCluster::start(1).await;
    let dir = cluster.nodes.pop().unwrap().stop().await;
    let (engine, files) = (cluster.engine.clone(), cluster.files.path().to_owned());
    let empty = MemoryEngine::new(EngineFaults::default(), Environment::system());
    assert_eq!(leave(&dir, &files, &engine, Some(LeaveStep::FilesCopied)), Err("killed".to_owned()));

    // When the shared directory and the stream are gone, then the command completes
    drop(cluster);
    assert_eq!(leave(&dir, &files, &empty, None), Ok(()));
    TestApp::start_in(dir, |_| {}, Environment::system()).await.stop().await;
}
