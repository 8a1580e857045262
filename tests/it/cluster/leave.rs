//! `mediary cluster leave`: interruptions and several directories.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use mediary::app::{App, leave_cluster};
use mediary::environment::{Environment, FailPoint, LeaveStep};
use mediary::events::shared::engine::Engine;
use mediary::events::shared::format::Group;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use tempfile::TempDir;

use crate::support::cluster::{TestCluster, node_settings};
use crate::support::{TestApp, settings};

/// Takes a directory out of the cluster. Ends after a step, as if the process was killed, if one is given.
fn leave(dir: &TempDir, files: &Path, engine: &MemoryEngine, last_step: Option<LeaveStep>) -> Result<(), String> {
    let mut settings = settings(dir);
    node_settings(&mut settings, files);
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |fail_point, _| {
        if let FailPoint::Leave(step) = fail_point
            && Some(step) == last_step
        {
            panic!("killed after {step:?}");
        }
    }));
    let engine: Arc<dyn Engine> = Arc::new(engine.clone());
    let run = || leave_cluster(&settings, &environment, |_| Ok(engine)).map_err(|error| format!("{error:#}"));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("killed".to_owned()))
}

fn is_node(dir: &TempDir) -> bool {
    dir.path().join("cluster.json").exists()
}

/// Copy of a stopped node's directory.
fn copy_of(dir: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let contents = dir.path().join(".");
    assert!(Command::new("cp").arg("-a").arg(contents).arg(copy.path()).status().unwrap().success());
    copy
}

/// Engine with the same groups.
fn copy_of_engine(engine: &MemoryEngine) -> MemoryEngine {
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
        // When the first is killed after the step, and the second leaves too
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
        // Then it is the first that goes on, unless it had sent nothing; the other one is told where to go on
        let (winner, loser) = if step == LeaveStep::MarkerWritten {
            assert_eq!(second_result, Ok(()), "{step:?}");
            assert!(first_result.unwrap_err().contains("on another directory"), "{step:?}");
            (second, first)
        } else {
            assert!(second_result.unwrap_err().contains("Complete it there"), "{step:?}");
            if step == LeaveStep::MembershipRemoved {
                assert!(first_result.unwrap_err().contains("no node of a cluster"), "{step:?}");
            } else {
                assert_eq!(first_result, Ok(()), "{step:?}");
            }
            (first, second)
        };

        // And only that one serves alone, with everything
        assert_eq!((is_node(&winner), is_node(&loser)), (false, true), "{step:?}");
        let alone = TestApp::start_in(winner, |_| {}, Environment::system()).await;
        alone.get("/publishers/acme").await.expect(200);
        alone.stop().await;
        let Err(error) = App::start(settings(&loser), Environment::system()).await else { panic!("it starts") };
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

    // Then no directory takes it for its own attempt
    let refused = leave(&dir, cluster.files.path(), &cluster.engine, None).unwrap_err();
    assert!(refused.contains("an earlier release") && is_node(&dir), "{refused}");
}
