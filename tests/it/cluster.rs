//! Clusters: services with one log, over an engine in memory. `nats.rs` runs the log on real servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mediary::app::{AloneEvidence, App, check_cluster, leave_cluster, verify_engine};
use mediary::environment::Environment;
use mediary::events::journal::ChainHash;
use mediary::events::log::EventLog;
use mediary::events::shared::engine::Engine;
use mediary::events::shared::engine_check::CheckStatus;
use mediary::events::shared::format::Group;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::events::stream::Position;
use mediary::outbound::address::AllowEntry;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::image::submit;
use crate::support::cluster::{TestCluster, init_first, node_settings, restored_backup_of};
use crate::support::eventually::{eventually, eventually_within};
use crate::support::files::vacant_port;
use crate::support::picture::base64_png;
use crate::support::process::{CommandOutput, command_on, run};
use crate::support::receiver::Receiver;
use crate::support::vendor_sim::{SimMode, SimRequestKind, VendorSim};
use crate::support::{TestApp, TestResponse, settings};
use crate::vendor::{remote, sim, upscale};
use crate::video::{START_END, of_prompt};

mod leave;
pub mod rebuild;

/// Time for another node to take over: 3 s of silence, 5 s of rest, and the next look for work.
const TAKEOVER: Duration = Duration::from_secs(15);
const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

#[actix_web::test]
async fn every_node_accepts_every_change_and_has_the_same_log() {
    // Given three nodes
    let cluster = TestCluster::start(3).await;
    let [first, second, third] = &cluster.nodes[..] else { panic!() };

    // When each adds to what another one has made
    let alice = first.user("alice").await;
    cluster.settle().await;
    second.publisher("acme", &alice).await;
    cluster.settle().await;
    third.node("acme", "tools", &alice).await;
    cluster.settle().await;

    // Then all have the same log and the same state, which is that of a rebuild
    for node in &cluster.nodes {
        assert_eq!(node.get("/nodes/tools").await.expect(200).json()["publisher"]["id"], "acme");
        let rebuilt = mediary::actors::projector::rebuild(&**node.app.log()).unwrap();
        eventually("the read models have everything", async || node.app.models().read().position == rebuilt.position)
            .await;
        assert_eq!(node.app.models().read().differences(&rebuilt), [""; 0]);
    }
    let heads: Vec<_> = cluster.nodes.iter().map(|node| node.app.log().journal_head()).collect();
    assert!(heads.iter().all(|head| *head == heads[0]), "{heads:?}");
    let all = |node: &TestApp| node.app.log().read_all(Position(0), usize::MAX).unwrap();
    assert_eq!(all(first), all(third));
    cluster.stop().await;
}

#[actix_web::test]
async fn concurrent_changes_of_one_object_are_all_decided() {
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    cluster.settle().await;

    // When both nodes create the same publisher and many nodes of another one at once
    let created = join_all(
        cluster
            .nodes
            .iter()
            .map(|node| node.post_as(&alice.token, "/publishers", json!({"id": "contested", "name": "contested"}))),
    )
    .await;
    let mut statuses: Vec<_> = created.iter().map(|response| response.status).collect();
    statuses.sort_unstable();

    // Then one of them wins, and the other learns it
    assert_eq!(statuses, [201, 409], "{:?}", created.iter().map(TestResponse::text).collect::<Vec<_>>());

    // And changes of the publisher are decided again instead of refused
    let rename = |number: usize| {
        let node = &cluster.nodes[number % 2];
        node.put_as(&alice.token, "/publishers/acme", json!({"name": format!("name {number}")}))
    };
    for response in join_all((0..20).map(rename)).await {
        response.expect(200);
    }
    cluster.settle().await;
    let names = join_all(cluster.nodes.iter().map(|node| node.get("/publishers/acme"))).await;
    assert_eq!(names[0].json()["name"], names[1].json()["name"]);
    cluster.stop().await;
}

#[actix_web::test]
async fn an_idempotency_key_has_one_effect_whichever_nodes_receive_it() {
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    cluster.settle().await;

    // When keys are sent to both nodes at once, and again until there is a response
    let send = async |node: &TestApp, key: String| {
        loop {
            let request = node.request(Method::POST, "/publishers/acme/tokens").bearer_auth(&alice.token);
            let response = node.send(request.header("idempotency-key", key.as_str()).json(&json!({"name": key}))).await;
            match response.status {
                201 => return response.json()["token"].as_str().unwrap().to_owned(),
                409 => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => panic!("{}", response.text()),
            }
        }
    };
    let keys: Vec<_> = (0..20).map(|number| format!("key-{number}")).collect();
    let answers = join_all(keys.iter().flat_map(|key| {
        let send = &send;
        cluster.nodes.iter().map(move |node| send(node, key.clone()))
    }))
    .await;

    // Then each has made one token, and both nodes return it
    for pair in answers.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    cluster.settle().await;
    let tokens = cluster.nodes[1].get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    assert_eq!(tokens.as_array().map(Vec::len), Some(keys.len()), "{tokens}");
    cluster.stop().await;
}

#[actix_web::test]
async fn no_budget_is_exceeded_by_submissions_to_several_nodes() {
    // Given a budget for two videos of 8 credits
    let cluster = TestCluster::start(2).await;
    let admin = &cluster.nodes[0];
    let alice = admin.user("alice").await;
    let path = format!("/admin/budgets/user/{}", alice.id);
    admin.put_as(admin.admin_token(), &path, json!({"credits": 16, "period": "total"})).await.expect(200);
    cluster.settle().await;

    // When 20 are submitted to both nodes at once
    let submit = |number: usize| {
        let node = &cluster.nodes[number % 2];
        node.post_as(&alice.token, START_END, of_prompt("a red ball"))
    };
    let responses = join_all((0..20).map(submit)).await;

    // Then two are admitted, and the others learn that the budget is used up, or that they came too often
    let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 402, 503].contains(status)), "{statuses:?}");
    cluster.stop().await;
}

#[actix_web::test]
async fn a_node_without_its_engine_refuses_changes_and_then_requests() {
    let cluster = TestCluster::start(1).await;
    let node = &cluster.nodes[0];
    let alice = node.user("alice").await;

    // When the engine is gone
    cluster.engine.set_reachable(false);
    let refused = node.post_as(&alice.token, "/publishers", json!({"id": "acme", "name": "acme"})).await.expect(503);

    // Then changes say that nothing was done, and soon nothing is answered: access may have been revoked elsewhere
    assert_eq!((refused.json()["error"].clone(), refused.header("retry-after")), (json!("not_ready"), Some("5")));
    eventually("requests are refused", async || node.get("/nodes").await.status == 503).await;
    node.get("/health").await.expect(200);
    eventually("the node is not ready", async || node.get("/ready").await.status == 503).await;

    // And everything works when it is back
    cluster.engine.set_reachable(true);
    eventually("the node is ready", async || node.get("/ready").await.status == 200).await;
    node.publisher("acme", &alice).await;
    cluster.stop().await;
}

#[actix_web::test]
async fn a_lost_response_of_the_engine_is_an_unknown_outcome() {
    // Given an engine whose responses and groups are lost
    let faults = EngineFaults { dropped: 1.0, ..EngineFaults::default() };
    let calm = MemoryEngine::new(EngineFaults::default(), Environment::system());
    let files = tempfile::tempdir().unwrap();
    let dir = init_first(files.path(), &calm).await;
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new(faults, Environment::system()));
    let change = |settings: &mut mediary::config::Settings| node_settings(settings, files.path());
    let node = TestApp::start_node(dir, change, Environment::system(), Some(engine)).await;

    // When a change is sent, then the response does not say that nothing was done
    let body = json!({"name": "alice", "email": "alice@example.org"});
    let response = node.post_as(node.admin_token(), "/admin/users", body).await.expect(503);
    assert_eq!(response.json()["error"], "outcome_unknown");
    node.stop().await;
}

#[actix_web::test]
async fn one_node_works_on_the_tasks_of_all_and_another_takes_over() {
    // Given tasks submitted to both nodes
    let mut cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;
    let submit = async |node: &TestApp| {
        let body = json!({"image": base64_png(8, 6), "scale_factor": "2x"});
        let task = node.post_as(&alice.token, UPSCALER, body).await.expect(200).json();
        task["data"]["task_id"].as_str().unwrap().to_owned()
    };
    let tasks = [submit(&cluster.nodes[0]).await, submit(&cluster.nodes[1]).await];

    // Then the node that runs longest completes them, and each node shows the results
    for node in &cluster.nodes {
        for task in &tasks {
            let result = completed(node, &alice.token, task).await;
            node.send(node.request(Method::GET, &path_of(&result))).await.expect(200);
        }
    }
    let view = cluster_of(&cluster.nodes[1]).await;
    let nodes = view["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().map(|node| node["owner"] == true).collect::<Vec<_>>(), [true, false], "{view}");
    assert_eq!(nodes[1]["session"], view["session"]);

    // When that node stops, then the other one completes new tasks
    let second = cluster.nodes.pop().unwrap();
    cluster.nodes.pop().unwrap().stop().await;
    let task = submit(&second).await;
    completed(&second, &alice.token, &task).await;
    second.stop().await;
}

async fn completed(node: &TestApp, token: &str, task: &str) -> String {
    let path = format!("{UPSCALER}/{task}");
    eventually_within(2 * TAKEOVER, "the task is completed", async || {
        let response = node.get_as(token, &path).await;
        let state = (response.status == 200).then(|| response.json())?;
        assert_ne!(state["data"]["status"], "FAILED", "{state}");
        let generated = state["data"]["generated"].as_array()?.first()?.as_str()?.to_owned();
        (state["data"]["status"] == "COMPLETED").then_some(generated)
    })
    .await
}

fn path_of(url: &str) -> String {
    url::Url::parse(url).unwrap().path().to_owned()
}

async fn cluster_of(node: &TestApp) -> Value {
    node.get_as(node.admin_token(), "/admin/state").await.expect(200).json()["cluster"].clone()
}

#[actix_web::test]
async fn an_erased_user_is_forgotten_by_every_node() {
    let cluster = TestCluster::start(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    let alice = first.user("alice").await;
    cluster.settle().await;

    // Given a node that has read the personal data
    assert_eq!(second.get_as(&alice.token, "/users").await.expect(200).json()["email"], "alice@example.org");

    // When another one erases the user
    first.delete_as(first.admin_token(), &format!("/admin/users/{}", alice.id)).await.expect(204);
    cluster.settle().await;

    // Then it accepts the user's tokens no longer, and nothing is left of the key
    eventually("the token is refused", async || second.get_as(&alice.token, "/users").await.status == 401).await;
    let users = second.get_as(second.admin_token(), "/admin/users").await.expect(200).text();
    assert!(!users.contains("alice@example.org"), "{users}");
    let name = &alice.id;
    let key = cluster.files.path().join("personal").join(&name[name.len() - 2..]).join(name);
    eventually("the key is destroyed", async || !key.exists()).await;
    cluster.stop().await;
}

#[actix_web::test]
async fn a_directory_that_does_not_fit_is_refused_with_the_remedy() {
    let engine = MemoryEngine::new(EngineFaults::default(), Environment::system());
    let files = tempfile::tempdir().unwrap();
    let node = init_first(files.path(), &engine).await;
    let start = async |dir: &tempfile::TempDir, is_member: bool| {
        let mut settings = settings(dir);
        if is_member {
            node_settings(&mut settings, files.path());
        }
        let engine: Option<Arc<dyn Engine>> = is_member.then(|| Arc::new(engine.clone()) as Arc<dyn Engine>);
        match App::start_with_engine(settings, Environment::system(), engine).await {
            Ok(_) => panic!("it starts"),
            Err(error) => error.to_string(),
        }
    };

    // A node without an engine, a directory of its own with one, and a node with other secrets do not start
    let message = start(&node, false).await;
    assert!(message.contains("cluster.engine") && message.contains("cluster leave"), "{message}");
    let alone = TestApp::start().await.stop().await;
    let message = start(&alone, true).await;
    assert!(message.contains("cluster init") && message.contains("backup"), "{message}");
    let other = restored_backup_of(node.path());
    std::fs::copy(alone.path().join("webhook-key"), other.path().join("webhook-key")).unwrap();
    let message = start(&other, true).await;
    assert!(message.contains("webhook-key") && message.contains("Copy"), "{message}");
}

#[actix_web::test]
async fn a_restored_backup_of_a_node_catches_up() {
    // Given a node with changes, and a backup of it
    let mut cluster = TestCluster::start(1).await;
    let alice = cluster.nodes[0].user("alice").await;
    let node = cluster.nodes.pop().unwrap().stop().await;
    let restored = restored_backup_of(node.path());

    // When the node continues
    cluster.start_node(node, |_| {}).await;
    cluster.nodes[0].publisher("acme", &alice).await;

    // Then another one starts on the backup and has everything
    cluster.start_node(restored, |_| {}).await;
    cluster.nodes[1].node("acme", "tools", &alice).await;
    cluster.settle().await;
    let heads: Vec<_> = cluster.nodes.iter().map(|node| node.app.log().journal_head()).collect();
    assert_eq!(heads[0], heads[1]);
    cluster.stop().await;
}

#[actix_web::test]
async fn the_last_node_leaves_with_everything_and_the_others_stop() {
    // Given a cluster with a node that is behind
    let mut cluster = TestCluster::start(2).await;
    let behind = cluster.nodes.pop().unwrap().stop().await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    let (engine, files) = (cluster.engine.clone(), cluster.files);
    let last = cluster.nodes.pop().unwrap().stop().await;

    // When the last node leaves, even if that is repeated after an interruption
    let mut node_settings_of = settings(&last);
    node_settings(&mut node_settings_of, files.path());
    let leave = || {
        let engine: Arc<dyn Engine> = Arc::new(engine.clone());
        leave_cluster(&node_settings_of, &Environment::system(), AloneEvidence::Heard, |_| Ok(engine))
    };
    leave().unwrap();
    assert!(leave().unwrap_err().to_string().contains("not a node of a cluster"));

    // Then it runs alone with everything
    let alone = TestApp::start_in(last, |_| {}, Environment::system()).await;
    alone.get("/publishers/acme").await.expect(200);
    alone.node("acme", "tools", &alice).await;
    alone.stop().await;

    // And another node does not continue with the old log, however often it is started
    let mut settings = settings(&behind);
    node_settings(&mut settings, files.path());
    for _ in 0..2 {
        let engine: Arc<dyn Engine> = Arc::new(engine.clone());
        let Err(error) = App::start_with_engine(settings.clone(), Environment::system(), Some(engine)).await else {
            panic!("it starts")
        };
        assert!(error.to_string().contains("has ended this log"), "{error}");
    }
}

/// Checks a node; returns the findings of the failed checks.
fn failed_checks(dir: &TempDir, files: &TempDir, engine: &MemoryEngine) -> Vec<String> {
    let mut settings = settings(dir);
    node_settings(&mut settings, files.path());
    let engine: Arc<dyn Engine> = Arc::new(engine.clone());
    let report = check_cluster(&settings, |_| Ok(Vec::new()), |_| Ok(Arc::clone(&engine))).unwrap();
    assert!(report.log.is_some() && report.checks.len() == 3, "{}", report.checks.len());
    let failed = report.checks.into_iter().filter(|check| check.status == CheckStatus::Failed);
    failed.map(|check| check.finding).collect()
}

#[actix_web::test]
async fn a_check_finds_what_a_start_refuses_and_changes_nothing() {
    // Given two nodes that have stopped, and a restored backup that has never started
    let mut cluster = TestCluster::start(2).await;
    let behind = cluster.nodes.pop().unwrap().stop().await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    let last = cluster.nodes.pop().unwrap().stop().await;
    let restored = restored_backup_of(last.path());
    std::fs::remove_file(restored.path().join("log/engine.json")).unwrap();
    let (engine, files) = (cluster.engine, cluster.files);

    // Then all of them fit, and the last one is as it was
    for node in [&behind, &last, &restored] {
        assert_eq!(failed_checks(node, &files, &engine), [""; 0]);
    }
    assert!(!restored.path().join("media").is_symlink() && !restored.path().join("log/engine.json").exists());

    // And other secrets, another log, another directory and an engine without the groups are found
    let assert_found = |found: &[String], expected: &str| {
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    };
    let alone = TestApp::start().await.stop().await;
    std::fs::copy(alone.path().join("webhook-key"), restored.path().join("webhook-key")).unwrap();
    assert_found(&failed_checks(&restored, &files, &engine), "webhook-key");
    std::fs::copy(last.path().join("cluster.json"), alone.path().join("cluster.json")).unwrap();
    assert_found(&failed_checks(&alone, &files, &engine), "restore a backup of a node");
    assert_found(&failed_checks(&last, &tempfile::tempdir().unwrap(), &engine), "is not mounted");
    let empty = MemoryEngine::new(EngineFaults::default(), Environment::system());
    assert_found(&failed_checks(&last, &files, &empty), "the engine has lost groups");

    // When the cluster ends and a late group arrives
    let mut settings = settings(&last);
    node_settings(&mut settings, files.path());
    let leaver: Arc<dyn Engine> = Arc::new(engine.clone());
    leave_cluster(&settings, &Environment::system(), AloneEvidence::Heard, |_| Ok(leaver)).unwrap();
    engine.store(engine.groups()[0].clone());

    // Then the other node no longer fits
    assert_found(&failed_checks(&behind, &files, &engine), "has ended this log");
}

#[test]
fn a_check_without_servers_cannot_run() {
    let [data, files] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let refused = run(data.path(), &["cluster", "check"]).expect(2).err;
    assert!(refused.contains("cluster.engine is not set"), "{refused}");

    let mut command = command_on(data.path(), &["cluster", "check", "--json"]);
    command.env("MEDIARY_CLUSTER__ENGINE", "nats://127.0.0.1:1").env("MEDIARY_CLUSTER__FILES", files.path());
    let failed = CommandOutput::from(command.output().unwrap()).expect(2);
    assert!(failed.out.is_empty() && failed.err.contains("127.0.0.1:1"), "{}", failed.err);
}

#[actix_web::test]
async fn a_client_sees_on_another_node_what_it_has_seen_on_the_first() {
    // Given a node that receives groups late
    let mut cluster = TestCluster::start(1).await;
    let node = cluster.nodes.pop().unwrap().stop().await;
    let late = restored_backup_of(node.path());
    cluster.start_node(node, |_| {}).await;
    let engine = cluster.engine.with_lag(Duration::from_millis(150));
    cluster.start_node_on(late, engine, |_| {}).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    let alice = first.user("alice").await;
    cluster.settle().await;

    for number in 0..5 {
        // When the first has made a change
        let body = json!({"id": format!("acme-{number}"), "name": "acme"});
        let created = first.post_as(&alice.token, "/publishers", body).await.expect(201);
        let position = created.header("x-log-position").expect("a position").to_owned();
        let path = format!("/publishers/acme-{number}");

        // Then the other has it for clients that name its position, or want everything
        let wanted = if number % 2 == 0 { position.as_str() } else { "latest" };
        let request = second.request(Method::GET, &path).header("x-log-position", wanted);
        let seen = second.send(request).await.expect(200);
        let reached: u64 = seen.header("x-log-position").unwrap().parse().unwrap();
        assert!(reached >= position.parse().unwrap(), "{reached} {position}");
    }
    cluster.stop().await;
}

#[actix_web::test]
async fn a_position_that_is_not_reached_or_not_valid_is_refused() {
    let cluster = TestCluster::start(1).await;
    let node = &cluster.nodes[0];
    let read = async |position: &str| {
        let request = node.request(Method::GET, "/nodes").header("x-log-position", position);
        node.send(request).await
    };

    // A position of the future is waited for, and then refused
    let behind = read("1000000000").await.expect(503);
    assert_eq!((behind.json()["error"].clone(), behind.header("retry-after")), (json!("behind"), Some("1")));

    // An invalid position is rejected with its value
    for invalid in ["-1", "1.5", "Latest", "99999999999999999999"] {
        let response = read(invalid).await.expect(400);
        assert!(response.text().contains(invalid), "{}", response.text());
    }

    // Probes are answered anyway, and without the engine nothing answers at the latest position
    node.send(node.request(Method::GET, "/health").header("x-log-position", "1000000000")).await.expect(200);
    cluster.engine.set_reachable(false);
    assert_eq!(read("latest").await.expect(503).json()["error"], "behind");
    cluster.stop().await;
}

#[actix_web::test]
async fn many_reads_of_the_latest_state_share_a_group() {
    let cluster = TestCluster::start(2).await;
    let before = cluster_of(&cluster.nodes[0]).await["sequence"].as_u64().unwrap();

    // When many clients want the latest state at once
    let read = |number: usize| {
        let node = &cluster.nodes[number % 2];
        node.send(node.request(Method::GET, "/nodes").header("x-log-position", "latest"))
    };
    for response in join_all((0..100).map(read)).await {
        response.expect(200);
    }

    // Then the engine got a few groups
    let after = cluster_of(&cluster.nodes[0]).await["sequence"].as_u64().unwrap();
    assert!(after > before && after - before < 50, "{before} {after}");
    cluster.stop().await;
}

#[actix_web::test]
async fn a_node_whose_log_differs_from_that_of_most_others_stops() {
    let cluster = TestCluster::start(1).await;
    let node = &cluster.nodes[0];
    let gauge = async |name: &str| {
        let text = node.get("/metrics").await.expect(200).text();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("mediary_cluster_{name} ")));
        line.and_then(|value| value.parse::<f64>().ok())
    };
    let tell_another_log = |session: u128| {
        let beat = json!({
            "session": uuid::Uuid::from_u128(session), "started_micros": i64::MAX, "now_micros": 0, "url": "http://other",
            "release": "1", "position": 1, "sequence": 0, "hears_itself": true, "chain": "00".repeat(32),
        });
        cluster.engine.announce(beat.to_string().as_bytes());
    };

    // When one other node has another log, then no majority says which is right, and operators see the difference
    eventually("the difference is shown", async || {
        tell_another_log(1);
        (gauge("nodes").await, gauge("nodes_differing").await) == (Some(2.0), Some(1.0))
    })
    .await;
    assert_eq!(gauge("stopped").await, Some(0.0));
    assert_eq!(cluster_of(node).await["nodes"][1]["differs"], true);
    node.get("/nodes").await.expect(200);

    // When two have, then the node stops, and answers nothing but probes and metrics
    eventually("the node has stopped", async || {
        (1..=2).for_each(tell_another_log);
        gauge("stopped").await == Some(1.0)
    })
    .await;
    assert_eq!(node.get("/nodes").await.expect(503).json()["error"], "not_ready");
    node.get("/ready").await.expect(503);
    cluster.stop().await;
}

#[actix_web::test]
async fn a_node_counts_groups_and_appends() {
    let cluster = TestCluster::start(2).await;
    let samples = async |node: &TestApp| {
        let text = node.get("/metrics").await.expect(200).text();
        let samples = text.lines().filter_map(|line| line.strip_prefix("mediary_cluster_")?.rsplit_once(' '));
        samples.map(|(name, value)| (name.to_owned(), value.parse::<f64>().unwrap())).collect::<HashMap<_, _>>()
    };
    let before = samples(&cluster.nodes[1]).await;

    // When one node makes changes, some of which lose against the other's
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;
    let create = |node: usize| {
        cluster.nodes[node % 2].post_as(&alice.token, "/publishers", json!({"id": "acme", "name": "acme"}))
    };
    join_all((0..8).map(create)).await;
    cluster.settle().await;

    // Then the other one has counted what the engine gave it
    let after = samples(&cluster.nodes[1]).await;
    let increase = |name: &str| after[name] - before[name];
    assert!(increase("groups_total{outcome=\"decided\"}") >= 2.0, "{after:?}");
    assert!(increase("appends_total{outcome=\"admitted\"}") >= 2.0, "{after:?}");
    assert!(increase("group_bytes_total") > 100.0 && increase("sequence") >= 2.0, "{after:?}");
    assert!(increase("group_sends_total") >= increase("group_duration_seconds_count"), "{after:?}");
    assert!(after["stopped"] + after["nodes_differing"] < 0.5, "{after:?}");
    eventually("both nodes are heard", async || samples(&cluster.nodes[1]).await["nodes"] > 1.5).await;
    cluster.stop().await;
}

#[actix_web::test]
async fn all_nodes_share_pictures_and_webhooks() {
    // Given two nodes that hear each other
    let receiver = Receiver::start().await;
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;

    // When one of them receives many jobs
    let mut tasks = Vec::new();
    for _ in 0..24 {
        let body = json!({"image": base64_png(8, 6), "scale_factor": "2x", "webhook_url": receiver.url("/hook")});
        let task = cluster.nodes[0].post_as(&alice.token, UPSCALER, body).await.expect(200).json();
        tasks.push(task["data"]["task_id"].as_str().unwrap().to_owned());
    }
    for task in &tasks {
        completed(&cluster.nodes[1], &alice.token, task).await;
    }

    // Then both have drawn some, and each was drawn once
    let mut submissions = Vec::new();
    for node in &cluster.nodes {
        let text = node.get("/metrics").await.expect(200).text();
        let is_submission =
            |line: &&str| line.starts_with("mediary_vendor_calls_total{") && line.contains("\"submit\"");
        let counts = text.lines().filter(is_submission).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        submissions.push(counts.sum::<u64>());
    }
    assert!(submissions.iter().all(|count| *count > 0), "{submissions:?}");
    assert_eq!(submissions.iter().sum::<u64>(), 24, "{submissions:?}");
    eventually("all webhooks arrive", async || receiver.received().len() >= 24).await;
    cluster.stop().await;
}

#[actix_web::test]
async fn every_node_shows_why_a_task_waits() {
    // Given two nodes, and a task whose picture cannot be fetched
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;
    let (_socket, address) = vacant_port();
    let body = json!({"image": format!("http://{address}/image.png"), "scale_factor": "2x"});
    let task = cluster.nodes[0].post_as(&alice.token, UPSCALER, body).await.expect(200).json();
    let path = format!("/tasks/{}", task["data"]["task_id"].as_str().unwrap());

    // Then both show the reason, although only one of them has tried
    for node in &cluster.nodes {
        eventually("the reason is shown", async || {
            let task = node.get_as(&alice.token, &path).await;
            task.status == 200 && task.json()["blocked_by"]["code"] == "input_unavailable"
        })
        .await;
    }
    cluster.stop().await;
}

#[actix_web::test]
async fn a_vendor_webhook_reaches_the_node_that_polls() {
    // Given two nodes that poll once an hour, and an unfinished job
    let vendor = VendorSim::start(sim(SimMode::Neither, Duration::from_hours(2))).await;
    let base = vendor.base();
    let rare_polls = |settings: &mut mediary::config::Settings| {
        remote(settings, &base, SimMode::Neither);
        settings.public_url = Some("http://media.example".to_owned());
        settings.egress.allow = vec![AllowEntry::parse("127.0.0.1").unwrap()];
        let hour = Duration::from_hours(1);
        (settings.image_vendors[0].poll_min, settings.image_vendors[0].poll_max) = (hour, hour);
    };
    let cluster = TestCluster::start_with(2, rare_polls).await;
    let user = cluster.nodes[0].user("u").await;
    cluster.settle().await;
    let task = submit(&cluster.nodes[0], &user, UPSCALER, upscale("told")).await;
    eventually("the vendor is polled", async || vendor.request_count(SimRequestKind::Poll) > 0).await;

    // When the vendor calls the node that does not poll
    let url = vendor.webhook("told").expect("a webhook URL");
    let path = url.strip_prefix("http://media.example").expect("below the public URL");
    assert_eq!(cluster_of(&cluster.nodes[1]).await["nodes"][0]["owner"], true, "the first one polls");
    vendor.finish_all();
    cluster.nodes[1].post(path, json!({})).await.expect(200);

    // Then the job ends long before the next poll
    completed(&cluster.nodes[1], &user.token, &task).await;
    cluster.stop().await;
}

#[actix_web::test]
async fn verify_reads_the_engine_and_tells_what_is_wrong() {
    // Given a cluster whose nodes have made changes
    let cluster = TestCluster::start(2).await;
    let alice = cluster.nodes[0].user("alice").await;
    cluster.settle().await;
    cluster.nodes[1].publisher("acme", &alice).await;
    let engine = cluster.engine.clone();
    cluster.stop().await;

    // Then the engine is sound
    let contents = verify_engine(&engine).unwrap();
    assert_eq!((contents.groups, &contents.findings[..]), (engine.groups().len() as u64, &[][..]));
    assert!(contents.proposals >= 3 && contents.bytes > 300, "{contents:?}");

    // When it has damaged bytes, and the group of a node with another log
    let last = engine.groups().len() as u64;
    let of_other = |chain: u8| Group {
        session: uuid::Uuid::from_u128(7),
        counter: u64::from(chain),
        sequence_seen: last,
        chain_seen: ChainHash([chain; 32]),
        entries: Vec::new(),
    };
    engine.store(b"damaged".to_vec());
    engine.store(of_other(1).encode().unwrap());
    engine.store(of_other(2).encode().unwrap());

    // Then both are reported
    let findings = verify_engine(&engine).unwrap().findings;
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].starts_with(&format!("group {} cannot be read", last + 1)), "{findings:?}");
    let differing = format!("groups {} and {} had different logs after group {last}", last + 2, last + 3);
    assert!(findings[1].contains(&differing), "{findings:?}");
}
