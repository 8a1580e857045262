//! Clusters whose files are in an S3 bucket: nodes in this process, an engine in memory, and a real S3 server.
//!
//! These tests need moto, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mediary::app::{
    AloneEvidence, App, EngineAccess, check_cluster, files_of, init_cluster, leave_cluster, rebuild_engine,
};
use mediary::backup::create::create;
use mediary::backup::restore::restore;
use mediary::config::Settings;
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::shared::engine::Engine;
use mediary::events::shared::engine_check::CheckStatus;
use mediary::events::shared::memory_engine::{EngineFaults, MemoryEngine};
use mediary::media::part_files::{FileSharing, PartFiles};
use mediary::media::store::MediaStore;
use mediary::verification::directory;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::rebuild::{MemoryStreams, PLANNED};
use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::cluster::{init_on, node_settings};
use crate::support::eventually::{eventually, eventually_blocking};
use crate::support::form::form_of_bytes;
use crate::support::picture::{base64_png, png};
use crate::support::receiver::Receiver;
use crate::support::s3_server::S3Server;
use crate::support::zip::valid_archive;
use crate::support::{TestApp, TestResponse, TestUser, settings};
use crate::video::START_END;

const BUCKET: &str = "mediary";
const PREFIX: &str = "files/of/cluster";
/// Time in which a request must get its 503 although the bucket does not respond.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(25);

/// Nodes whose files are in a bucket.
struct BucketCluster {
    server: S3Server,
    engine: MemoryEngine,
    nodes: Vec<TestApp>,
}

impl BucketCluster {
    /// Starts `nodes` nodes, made of one service with the user alice.
    async fn start(nodes: usize) -> (Self, TestUser) {
        let server = S3Server::start();
        server.create_bucket(BUCKET).await;
        let engine = MemoryEngine::new(EngineFaults::default(), Environment::system());
        let app = TestApp::start().await;
        let alice = app.user("alice").await;
        let mut cluster = Self { server, engine, nodes: Vec::new() };

        let first = app.stop().await;
        cluster.init(&first).unwrap();
        let mut dirs: Vec<_> = (1..nodes).map(|_| cluster.restored_backup_of(first.path())).collect();
        dirs.insert(0, first);
        for dir in dirs {
            cluster.start_node(dir).await;
        }
        (cluster, alice)
    }

    fn set(&self, settings: &mut Settings) {
        node_settings(settings, Path::new(""));
        self.server.set_files(settings, BUCKET, PREFIX);
    }

    fn settings_of(&self, dir: &TempDir) -> Settings {
        let mut settings = settings(dir);
        self.set(&mut settings);
        settings
    }

    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.engine.clone())
    }

    fn init(&self, dir: &TempDir) -> Result<(), String> {
        init_on(&self.settings_of(dir), &Arc::new(self.engine.clone()))
    }

    async fn start_node(&mut self, dir: TempDir) {
        let engine = Some(self.engine());
        let node = TestApp::start_node(dir, |settings| self.set(settings), Environment::system(), engine).await;
        self.nodes.push(node);
    }

    async fn start_error(&self, settings: Settings) -> String {
        match App::start_with_engine(settings, Environment::system(), Some(self.engine())).await {
            Ok(_) => panic!("it starts"),
            Err(error) => error.to_string(),
        }
    }

    fn restored_backup_of(&self, node: &Path) -> TempDir {
        let mut settings = self.settings_of(&tempfile::tempdir().unwrap());
        settings.data_dir = PathBuf::from(node);
        let data = files_of(node, &settings.cluster, &Environment::system()).unwrap();
        let backup = tempfile::tempdir().unwrap();
        let report = create(&data, backup.path(), &Environment::system(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings, [""; 0]);
        let restored = tempfile::tempdir().unwrap();
        restore(backup.path(), restored.path(), &mut |_, _| {}).unwrap();
        restored
    }

    async fn settle(&self) {
        eventually("all nodes have the same events", async || {
            let heads: Vec<_> = self.nodes.iter().map(|node| node.app.log().head()).collect();
            heads.iter().all(|head| *head == heads[0])
        })
        .await;
    }

    /// Returns the keys of the objects in a directory of the bucket.
    fn keys(&self, directory: &str) -> Vec<String> {
        let bucket = self.server.bucket(BUCKET, PREFIX);
        bucket.list(directory).unwrap().into_iter().map(|entry| entry.key).collect()
    }

    fn failed_checks(&self, settings: &Settings) -> Vec<String> {
        let report = check_cluster(settings, |_| Ok(Vec::new()), |_| Ok(self.engine())).unwrap();
        let failed = report.checks.into_iter().filter(|check| check.status == CheckStatus::Failed);
        failed.map(|check| check.finding).collect()
    }

    async fn stop(self) -> Vec<TempDir> {
        let mut dirs = Vec::new();
        for node in self.nodes {
            dirs.push(node.stop().await);
        }
        dirs
    }
}

/// Returns the files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Returns the path of a media URL.
fn path_of(url: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    url[url::Position::BeforePath..].to_owned()
}

/// Publishes a version with an archive; returns the path of the archive.
async fn publish(node: &TestApp, user: &TestUser, id: &str) -> String {
    node.node("acme", id, user).await;
    let path = format!("/publishers/acme/nodes/{id}/versions");
    let version =
        node.post_as(&user.token, &path, json!({"node_version": {"version": "1.0.0"}})).await.expect(201).json();
    let link = path_of(&text(&version["signedUrl"]));
    node.send(node.request(Method::PUT, &link).body(valid_archive())).await.expect(200);
    format!("/nodes/{id}/versions/1.0.0/download")
}

/// Uploads a picture as an input file; returns its path.
async fn upload(node: &TestApp, user: &TestUser, bytes: &[u8]) -> String {
    let request = node.request(Method::POST, "/files").bearer_auth(&user.token);
    let file = node.send(form_of_bytes(request, &[("file", bytes)])).await.expect(200).json();
    path_of(&text(&file["url"]))
}

/// Has a picture upscaled; returns the path of the result.
async fn upscale(node: &TestApp, user: &TestUser, picture: &str) -> String {
    let id = submit(node, user, UPSCALER, json!({"image": picture, "scale_factor": "2x"})).await;
    let task = wait_for_end(node, user, UPSCALER, &id).await;
    assert_eq!(task["status"], "COMPLETED", "{task}");
    path_of(&text(&task["generated"][0]))
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn nodes_share_archives_inputs_and_results() {
    // Given two nodes
    let (mut cluster, alice) = BucketCluster::start(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    first.publisher("acme", &alice).await;

    // When one gets an archive and an input
    let archive = publish(first, &alice, "tools").await;
    let input = upload(first, &alice, &png(12, 8)).await;
    cluster.settle().await;

    // Then the other answers HEAD requests and 304s without fetching anything
    let name = cluster.keys("media/uploads").remove(0);
    let digest = name.split('.').nth(2).unwrap();
    let head = second.send(second.request(Method::HEAD, &input)).await.expect(200);
    assert_eq!(head.header("content-length"), Some(png(12, 8).len().to_string().as_str()));
    let conditional = second.request(Method::GET, &input).header("if-none-match", format!("\"{digest}\""));
    second.send(conditional).await.expect(304);
    assert!(files_below(&second.dir.path().join("media/uploads")).is_empty());

    // And it serves both, and uses the input
    assert_eq!(second.get(&archive).await.expect(200).body, valid_archive());
    second.get("/nodes/tools/versions/1.0.0/files").await.expect(200);
    assert_eq!(second.get(&input).await.expect(200).body, png(12, 8));
    let result = upscale(second, &alice, &second.url(&input)).await;
    cluster.settle().await;
    let picture = first.get(&result).await.expect(200).body;
    assert_eq!(second.get(&result).await.expect(200).body, picture);
    first.get(&format!("{result}?thumbnail=small")).await.expect(200);
    first.get(&result.replace(&result[7..9], "zz")).await.expect(404);

    // And after a restart with empty copies too, and the account knows its file
    for _ in 0..2 {
        let dir = cluster.nodes.remove(0).stop().await;
        for tree in ["archives", "media"] {
            std::fs::remove_dir_all(dir.path().join(tree)).unwrap();
        }
        cluster.start_node(dir).await;
    }
    for node in &cluster.nodes {
        for (path, bytes) in [(&archive, &valid_archive()), (&input, &png(12, 8)), (&result, &picture)] {
            assert!(node.get(path).await.expect(200).body == *bytes, "{path}");
        }
        let export = node.get_as(&alice.token, "/users/export").await;
        assert!(export.expect(200).text().contains(&input), "{input}");
    }
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn an_erased_user_is_unreadable_on_every_node_and_gone_from_the_bucket() {
    // Given two nodes that have read the personal data of two users
    let (cluster, alice) = BucketCluster::start(2).await;
    let [first, second] = &cluster.nodes[..] else { panic!() };
    let bob = second.user("bob").await;
    upload(second, &alice, &png(12, 8)).await;
    cluster.settle().await;
    for node in &cluster.nodes {
        for (user, name) in [(&alice, "alice"), (&bob, "bob")] {
            let email = node.get_as(&user.token, "/users").await.expect(200).json()["email"].clone();
            assert_eq!(email, format!("{name}@example.org"));
        }
    }
    assert!(cluster.keys("personal").iter().any(|key| key.ends_with(&alice.id)));
    assert_eq!(cluster.keys("media/uploads").len(), 1);

    // When one node erases a user
    first.delete_as(first.admin_token(), &format!("/admin/users/{}", alice.id)).await.expect(204);
    cluster.settle().await;

    // Then neither shows the personal data, and the key and the uploaded file are nowhere
    for node in &cluster.nodes {
        let users = node.get_as(node.admin_token(), "/admin/users").await.expect(200).text();
        assert!(!users.contains("alice@example.org") && users.contains("bob@example.org"), "{users}");
        eventually("the copies are removed", async || {
            let files = ["personal", "media/uploads"].map(|tree| files_below(&node.dir.path().join(tree))).concat();
            files.iter().all(|file| !file.to_string_lossy().contains(&alice.id))
        })
        .await;
    }
    eventually("the bucket has nothing of the user", async || {
        let keys = ["personal", "media/uploads", "erasing"].map(|directory| cluster.keys(directory)).concat();
        keys.iter().all(|key| !key.contains(&alice.id)) && keys.iter().any(|key| key.ends_with(&bob.id))
    })
    .await;
    first.delete_as(first.admin_token(), &format!("/admin/users/{}", alice.id)).await.expect(404);
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn an_interrupted_erasure_and_a_restored_key_end_at_the_next_start() {
    // Given a backup with the key of a user, whose erasure the bucket does not complete
    let (mut cluster, alice) = BucketCluster::start(2).await;
    let restored = cluster.restored_backup_of(cluster.nodes[0].dir.path());
    let path = format!("/admin/users/{}", alice.id);
    let key = cluster.keys("personal").into_iter().find(|key| key.ends_with(&alice.id)).unwrap();
    let bytes = cluster.server.bucket(BUCKET, PREFIX).get(&key).unwrap().unwrap();
    cluster.nodes[0].delete_as(cluster.nodes[0].admin_token(), &path).await.expect(204);
    cluster.settle().await;
    eventually("the erasure is complete", async || cluster.keys("erasing").is_empty()).await;
    let bucket = cluster.server.bucket(BUCKET, PREFIX);
    bucket.put(&key, bytes).unwrap();
    bucket.put(&format!("erasing/{}", alice.id), Vec::new().into()).unwrap();
    assert!(restored.path().join(&key).exists());

    // When a node starts on the backup
    cluster.start_node(restored).await;

    // Then the key is nowhere
    assert!(!cluster.nodes[2].dir.path().join(&key).exists());
    assert!(!cluster.keys("personal").contains(&key) && cluster.keys("erasing").is_empty());
    cluster.stop().await;
}

/// Checks that a request gets a 503 with `Retry-After` in time.
async fn assert_unavailable(response: impl Future<Output = TestResponse>) {
    let response = tokio::time::timeout(REFUSAL_TIME_MAX, response).await.expect("a response in time").expect(503);
    assert_eq!(response.json()["error"], "not_ready", "{}", response.text());
    assert!(response.header("retry-after").is_some());
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn without_the_bucket_requests_for_its_files_get_503_until_it_is_back() {
    // Given a node that has no copies
    let (mut cluster, alice) = BucketCluster::start(1).await;
    let bob = cluster.nodes[0].user("bob").await;
    cluster.nodes[0].publisher("acme", &alice).await;
    let membership = format!("/publishers/acme/members/{}", bob.id);
    cluster.nodes[0].put_as(&alice.token, &membership, json!({})).await.expect(200);
    let archive = publish(&cluster.nodes[0], &alice, "tools").await;
    let input = upload(&cluster.nodes[0], &alice, &png(12, 8)).await;
    let result = upscale(&cluster.nodes[0], &alice, &base64_png(12, 8)).await;
    let dir = cluster.nodes.remove(0).stop().await;
    for tree in ["archives", "media", "personal"] {
        std::fs::remove_dir_all(dir.path().join(tree)).unwrap();
    }
    cluster.start_node(dir).await;
    let node = &cluster.nodes[0];

    // When the bucket does not respond
    cluster.server.network.cut();

    // Then whatever needs it gets a 503 with Retry-After in time, and other requests continue
    let submission = json!({"image": node.url(&input), "scale_factor": "2x"});
    let inline = json!({"image": base64_png(20, 10), "scale_factor": "2x"});
    let user = json!({"name": "carol", "email": "carol@example.org"});
    let erasure = format!("/admin/users/{}", bob.id);
    assert_unavailable(node.get(&archive)).await;
    for path in [&result, &input, "/nodes/tools/versions/1.0.0/files"] {
        assert_unavailable(node.get(path)).await;
    }
    assert_unavailable(node.get_as(&alice.token, "/users")).await;
    for body in [submission.clone(), inline.clone()] {
        assert_unavailable(node.post_as(&alice.token, UPSCALER, body)).await;
    }
    assert_unavailable(node.post_as(node.admin_token(), "/admin/users", user.clone())).await;
    assert_unavailable(node.delete_as(node.admin_token(), &erasure)).await;
    node.get("/nodes/tools").await.expect(200);
    node.post_as(&alice.token, "/publishers", json!({"id": "other"})).await.expect(201);
    // The refused erasure has not removed the user from the publisher.
    node.post_as(&bob.token, "/publishers/acme/nodes", json!({"id": "masks"})).await.expect(201);

    // And when it is back, everything works, and nothing is lost
    cluster.server.network.restore();
    eventually("the archive is served", async || node.get(&archive).await.status == 200).await;
    for path in [&result, &input] {
        node.get(path).await.expect(200);
    }
    assert_eq!(node.get_as(&alice.token, "/users").await.expect(200).json()["email"], "alice@example.org");
    for body in [submission, inline] {
        let id = submit(node, &alice, UPSCALER, body).await;
        assert_eq!(wait_for_end(node, &alice, UPSCALER, &id).await["status"], "COMPLETED");
    }
    node.post_as(node.admin_token(), "/admin/users", user).await.expect(201);
    node.delete_as(node.admin_token(), &erasure).await.expect(204);
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn a_node_that_has_used_the_bucket_starts_without_it() {
    let (mut cluster, alice) = BucketCluster::start(1).await;
    let restored = cluster.restored_backup_of(cluster.nodes[0].dir.path());
    let dir = cluster.nodes.remove(0).stop().await;
    cluster.server.network.cut();

    let refused = cluster.start_error(cluster.settings_of(&restored)).await;
    assert!(refused.contains("s3://mediary") && refused.contains("no response"), "{refused}");
    cluster.start_node(dir).await;
    cluster.nodes[0].get_as(&alice.token, "/users").await.expect(200);
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn a_backup_of_a_node_without_copies_is_whole() {
    // Given a node without copies of an archive, a result and a key
    let (mut cluster, alice) = BucketCluster::start(1).await;
    cluster.nodes[0].publisher("acme", &alice).await;
    let archive = publish(&cluster.nodes[0], &alice, "tools").await;
    let result = upscale(&cluster.nodes[0], &alice, &base64_png(12, 8)).await;
    let dir = cluster.nodes.remove(0).stop().await;
    for tree in ["archives", "media", "personal"] {
        std::fs::remove_dir_all(dir.path().join(tree)).unwrap();
    }

    // When a backup is restored
    let restored = cluster.restored_backup_of(dir.path());

    // Then it has everything, and a second one finds everything in the first
    let report = directory::verify(restored.path(), None, &Environment::system(), &mut |_, _| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!((report.files.archives, report.files.pictures), (1, 2));
    for tree in ["archives", "media/results", "personal"] {
        assert!(!files_below(&restored.path().join(tree)).is_empty(), "{tree}");
    }
    cluster.start_node(restored).await;
    for path in [&archive, &result] {
        cluster.nodes[0].get(path).await.expect(200);
    }
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn the_last_node_leaves_with_every_file() {
    // Given a node without copies
    let (mut cluster, alice) = BucketCluster::start(2).await;
    cluster.nodes[0].publisher("acme", &alice).await;
    let archive = publish(&cluster.nodes[0], &alice, "tools").await;
    let result = upscale(&cluster.nodes[0], &alice, &base64_png(12, 8)).await;
    let input = upload(&cluster.nodes[0], &alice, &png(12, 8)).await;
    cluster.settle().await;
    drop(cluster.nodes.remove(0).stop().await);
    let dir = cluster.nodes.remove(0).stop().await;
    for tree in ["archives", "media", "personal"] {
        std::fs::remove_dir_all(dir.path().join(tree)).unwrap();
    }

    // When it leaves
    let settings = cluster.settings_of(&dir);
    let leave = leave_cluster(&settings, &Environment::system(), AloneEvidence::Heard, |_| Ok(cluster.engine()));
    leave.unwrap();

    // Then it serves everything without the bucket
    cluster.server.network.cut();
    assert!(!dir.path().join("bucket-cache").exists());
    let alone = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    for path in [&archive, &result, &input] {
        alone.get(path).await.expect(200);
    }
    assert_eq!(alone.get_as(&alice.token, "/users").await.expect(200).json()["email"], "alice@example.org");

    // And the bucket cannot be used again: it may have keys of users who have been erased since
    alone.publisher("later", &alice).await;
    let dir = alone.stop().await;
    cluster.server.network.restore();
    cluster.engine = MemoryEngine::new(EngineFaults::default(), Environment::system());
    let refused = cluster.init(&dir).unwrap_err();
    assert!(refused.contains("earlier cluster") && refused.contains("choose another"), "{refused}");
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn a_cluster_with_a_bucket_continues_in_a_new_stream_and_is_left() {
    // Given two stopped nodes
    let (mut cluster, alice) = BucketCluster::start(2).await;
    cluster.nodes[0].publisher("acme", &alice).await;
    cluster.settle().await;
    let other = cluster.nodes.remove(1).stop().await;
    let first = cluster.nodes.remove(0).stop().await;
    let streams = MemoryStreams::with_first(&cluster.engine);
    let access = EngineAccess {
        open: &|log| Ok(streams.open(log)?),
        create: &|log| streams.create(log),
        list: &|log_id| Ok(streams.list(log_id)),
        delete: &|log| anyhow::bail!("{log} is deleted"),
    };

    // When one of them begins a new stream, then the bucket records it, and the other one joins
    let begun = rebuild_engine(&cluster.settings_of(&first), &Environment::system(), PLANNED, &access).unwrap();
    assert_eq!(begun.log().number, 2);
    assert_eq!(cluster.keys("log-generations"), ["log-generations/1", "log-generations/2"]);
    let node = TestApp::start_on_streams(other, |settings| cluster.set(settings), streams.opener()).await;
    node.get("/publishers/acme").await.expect(200);
    let other = node.stop().await;

    // When it leaves, then only the configured kind of location is accepted, and the bucket records the end
    let leave = |settings: &Settings| {
        let open = |log| Ok(streams.open(log)?);
        leave_cluster(settings, &Environment::system(), AloneEvidence::Heard, open)
            .map_err(|error| format!("{error:#}"))
    };
    let shared_dir = tempfile::tempdir().unwrap();
    let mut elsewhere = cluster.settings_of(&other);
    node_settings(&mut elsewhere, shared_dir.path());
    let refused = leave(&elsewhere).unwrap_err();
    assert!(refused.contains("a directory") && refused.contains("a bucket"), "{refused}");
    leave(&cluster.settings_of(&other)).unwrap();
    assert_eq!(cluster.keys("log-left"), ["log-left/2"]);

    // When it begins a new cluster, then the used bucket is refused before there is a stream, and another prefix works
    for generation in [1, 2] {
        streams.remove(generation);
    }
    let mut settings = cluster.settings_of(&other);
    let refused = init_cluster(&settings, &Environment::system(), &access).unwrap_err().to_string();
    assert!(refused.contains("earlier cluster"), "{refused}");
    assert_eq!(streams.generations(), [0; 0]);
    cluster.server.set_files(&mut settings, BUCKET, "another");
    init_cluster(&settings, &Environment::system(), &access).unwrap();
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn an_unsuitable_bucket_is_refused_with_the_remedy() {
    let (mut cluster, _) = BucketCluster::start(1).await;
    for bucket in ["versioned", "foreign"] {
        cluster.server.create_bucket(bucket).await;
    }
    cluster.server.enable_versioning("versioned").await;
    cluster.server.bucket("foreign", "").put("note", b"x".as_slice().into()).unwrap();
    let member = cluster.nodes.remove(0).stop().await;
    let other = TestApp::start().await.stop().await;
    let with_bucket = |dir: &TempDir, bucket: &str, prefix: &str| {
        let mut settings = cluster.settings_of(dir);
        cluster.server.set_files(&mut settings, bucket, prefix);
        settings
    };
    let init = |bucket: &str, prefix: &str| {
        let settings = with_bucket(&other, bucket, prefix);
        let engine = MemoryEngine::new(EngineFaults::default(), Environment::system());
        init_on(&settings, &Arc::new(engine)).unwrap_err()
    };

    // An init refuses the bucket of another log, one that is not empty, one with versions, and one that does not exist
    for (bucket, prefix, expected) in [
        (BUCKET, PREFIX, "choose another bucket or prefix"),
        ("foreign", "", "is not empty"),
        ("versioned", "", "keeps versions"),
        ("missing", "", "s3://missing"),
    ] {
        let refused = init(bucket, prefix);
        assert!(refused.contains(expected) && refused.contains(bucket), "{bucket}: {refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
        assert!(!other.path().join("cluster.json").exists());
    }
    assert_eq!(cluster.server.bucket("foreign", "").list("").unwrap().len(), 1);

    // A start and a check refuse the same
    for (bucket, expected) in [("foreign", "has no object log-id"), ("missing", "s3://missing")] {
        let settings = with_bucket(&member, bucket, "");
        let refused = cluster.start_error(settings.clone()).await;
        assert!(refused.contains(expected), "{bucket}: {refused}");
        assert!(cluster.failed_checks(&settings)[0].contains(expected));
    }
    let versioned = cluster.failed_checks(&with_bucket(&member, "versioned", ""));
    assert!(versioned.len() == 2 && versioned[1].contains("keeps versions"), "{versioned:?}");
    assert_eq!(cluster.failed_checks(&cluster.settings_of(&member)), [""; 0]);

    // The credentials must be there
    let mut settings = cluster.settings_of(&member);
    settings.cluster.s3.credentials = Some(member.path().join("nowhere"));
    let refused = cluster.start_error(settings).await;
    assert!(refused.contains("cluster.s3_credentials") && refused.contains("does not exist"), "{refused}");

    // A directory in place of the bucket is refused, and nothing is removed
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(member.path().join("archives/ab")).unwrap();
    let mut settings = cluster.settings_of(&member);
    node_settings(&mut settings, directory.path());
    let refused = cluster.start_error(settings).await;
    assert!(refused.contains("are in a bucket") && refused.contains("cluster leave"), "{refused}");
    assert!(member.path().join("archives/ab").exists() && !member.path().join("archives").is_symlink());
    cluster.start_node(member).await;

    // And so is the bucket of the cluster once it keeps versions
    let member = cluster.nodes.remove(0).stop().await;
    cluster.server.enable_versioning(BUCKET).await;
    let refused = cluster.start_error(cluster.settings_of(&member)).await;
    assert!(refused.contains("keeps versions"), "{refused}");
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn an_interrupted_init_continues() {
    // Given a service with many keys
    let (cluster, _) = BucketCluster::start(0).await;
    let app = TestApp::start().await;
    app.user("alice").await;
    let dir = app.stop().await;
    for number in 0..500 {
        let name = uuid::Uuid::from_u128(number).to_string();
        let directory = dir.path().join("personal").join(&name[name.len() - 2..]);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(name), [7; 32]).unwrap();
    }
    cluster.server.create_bucket("second").await;
    let mut settings = cluster.settings_of(&dir);
    cluster.server.set_files(&mut settings, "second", "");
    let bucket = cluster.server.bucket("second", "");
    let init = || init_on(&settings, &Arc::new(MemoryEngine::new(EngineFaults::default(), Environment::system())));
    let uploaded = || {
        let listed = bucket.list("personal").unwrap().into_iter();
        listed.map(|entry| dir.path().join(entry.key)).collect::<BTreeSet<_>>()
    };
    let keys = || files_below(&dir.path().join("personal")).into_iter().collect::<BTreeSet<_>>();

    // When the bucket becomes unreachable while an init uploads them, and a user is erased after that
    std::thread::scope(|scope| {
        let interrupted = scope.spawn(init);
        eventually_blocking("some keys are there", || !uploaded().is_empty());
        cluster.server.network.cut();
        let failed = interrupted.join().unwrap().unwrap_err();
        assert!(failed.contains("s3://second"), "{failed}");
    });
    cluster.server.network.restore();
    let erased = uploaded().pop_first().unwrap();
    assert!(uploaded().len() < keys().len() && !dir.path().join("cluster.json").exists());
    std::fs::remove_file(&erased).unwrap();

    // Then another attempt continues, and only the keys that the service has remain
    init().unwrap();
    assert_eq!(uploaded(), keys());
    assert!(!keys().contains(&erased));

    // And one that was interrupted after the upload changes nothing
    std::fs::remove_file(dir.path().join("cluster.json")).unwrap();
    init().unwrap();
    assert_eq!(uploaded(), keys());
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn without_the_bucket_webhooks_wait_for_their_signature_and_video_tasks_for_their_payload() {
    // Given a node without copies of a payload and of the key of an account that has a webhook secret
    let (mut cluster, alice) = BucketCluster::start(1).await;
    let receiver = Receiver::start().await;
    let node = &cluster.nodes[0];
    node.publisher("acme", &alice).await;
    node.node("acme", "tools", &alice).await;
    let secret = node.post_as(&alice.token, "/users/webhook-secret", json!({})).await.expect(200).json();
    let webhook = json!({"url": receiver.url("/hook"), "events": ["version.published"]});
    node.post_as(&alice.token, "/publishers/acme/webhooks", webhook).await.expect(201);
    let body = json!({"prompt": "p", "payload": "order 41"});
    let task = node.post_as(&alice.token, START_END, body).await.expect(200).json();
    let task = format!("/proxy/videovendor/tasks/{}/creations", text(&task["task_id"]));
    let dir = cluster.nodes.remove(0).stop().await;
    for tree in ["media", "personal"] {
        std::fs::remove_dir_all(dir.path().join(tree)).unwrap();
    }
    cluster.start_node(dir).await;
    let node = &cluster.nodes[0];

    // When the bucket does not respond
    cluster.server.network.cut();
    let version = json!({"node_version": {"version": "1.0.0"}});
    node.post_as(&alice.token, "/publishers/acme/nodes/tools/versions", version).await.expect(201);

    // Then the task gets 503, and the webhook is not sent without the signature
    assert_unavailable(node.get_as(&alice.token, &task)).await;
    assert_unavailable(node.get_as(&alice.token, &task)).await;
    assert_eq!(receiver.received().len(), 0);

    // And both are complete when it is back
    cluster.server.network.restore();
    let received = receiver.wait_until(|received| !received.is_empty()).await;
    assert!(received[0].header("webhook-signature").ends_with(&received[0].signature_with(&secret)));
    assert_eq!(node.get_as(&alice.token, &task).await.expect(200).json()["payload"], "order 41");
    cluster.stop().await;
}

#[actix_web::test]
#[ignore = "needs moto; run by tests/cluster/run"]
async fn expired_files_vanish_from_the_bucket_and_from_every_node() {
    // Given an input and a result on two nodes that no event refers to in time
    let (cluster, alice) = BucketCluster::start(2).await;
    let result = upscale(&cluster.nodes[0], &alice, &base64_png(12, 8)).await;
    let input = upload(&cluster.nodes[0], &alice, &png(12, 8)).await;
    cluster.settle().await;
    for path in [&result, &input] {
        cluster.nodes[1].get(path).await.expect(200);
    }
    let settings = cluster.nodes.iter().map(|node| cluster.settings_of(&node.dir)).collect::<Vec<_>>();
    assert!(["media/inputs", "media/results", "media/uploads"].iter().all(|tree| !cluster.keys(tree).is_empty()));
    let BucketCluster { server, nodes, .. } = cluster;
    let mut dirs = Vec::new();
    for node in nodes {
        dirs.push(node.stop().await);
    }

    // When both sweep two days later, and one of them the bucket too
    let later = Environment::system().now().saturating_add(Duration::from_hours(48));
    let environment = Environment::manual(later, 1);
    for (dir, settings) in dirs.iter().zip(&settings) {
        let files = files_of(dir.path(), &settings.cluster, &environment).unwrap();
        let part_files = PartFiles::new(FileSharing::Shared, &environment);
        let store = MediaStore::open_with(files.subtree("media"), part_files).unwrap();
        let store = store.with_environment(environment.clone());
        store.sweep_bucket(&|_| false).unwrap();
        store.sweep(&|_| false).unwrap();
    }

    // Then nothing is left
    let bucket = server.bucket(BUCKET, PREFIX);
    assert_eq!(bucket.list("media").unwrap(), []);
    for dir in &dirs {
        assert_eq!(files_below(&dir.path().join("media")), Vec::<PathBuf>::new());
    }
}
