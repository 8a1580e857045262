//! Clusters of real processes on real NATS servers, from `mediary cluster init` to `mediary cluster leave`.
//! `postgres_cluster.rs` runs the same on PostgreSQL.
//!
//! These tests need nats-server, so `cargo test` ignores them and `tests/cluster/run` runs them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use mediary::events::shared::generation::LogGeneration;
use mediary::events::shared::nats::NatsEngine;
use mediary::events::shared::postgres::{PostgresEngine, PostgresOptions};

use crate::image::UPSCALER;
use crate::support::client;
use crate::support::engine_proxy::EngineProxy;
use crate::support::eventually::{eventually, within};
use crate::support::nats_servers::{NatsServerSettings, NatsServers};
use crate::support::picture::base64_png;
use crate::support::postgres_server::PostgresServer;
use crate::support::process::{CommandOutput, Process, TOKEN, command, command_on, program, run};

pub mod chaos;

/// Number of nodes.
pub const NODES: usize = 3;

/// Servers of the engine of a cluster.
pub enum EngineServers {
    Nats(NatsServers),
    Postgres(PostgresServer),
}

impl EngineServers {
    /// Deletes a generation of a log; returns `false` if there is none.
    fn delete(&self, log: LogGeneration) -> bool {
        match self {
            Self::Nats(servers) => NatsEngine::delete(servers.options(), log).unwrap(),
            Self::Postgres(server) => {
                PostgresEngine::delete(PostgresOptions::from_url(&server.url()).unwrap(), log).unwrap()
            }
        }
    }

    /// Creates a generation of a log.
    fn create(&self, log: LogGeneration) {
        match self {
            Self::Nats(servers) => drop(NatsEngine::create(servers.options(), log).unwrap()),
            Self::Postgres(server) => {
                drop(PostgresEngine::create(PostgresOptions::from_url(&server.url()).unwrap(), log).unwrap());
            }
        }
    }
}

/// Settings of a cluster that name its engine.
#[derive(Clone)]
pub struct EngineSettings {
    url: String,
    monitors: Vec<String>,
}

impl EngineSettings {
    fn of_nats(servers: &NatsServers) -> Self {
        let options = servers.options();
        Self { url: options.servers.join(","), monitors: options.monitors }
    }

    /// Returns the addresses of the servers, which run on this machine.
    fn addresses(&self) -> Vec<SocketAddr> {
        let after_host = self.url.split("127.0.0.1:").skip(1);
        let ports = after_host.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")))).collect()
    }

    /// Returns the same servers behind a proxy.
    fn behind(&self, proxy: &EngineProxy) -> Self {
        let replace = |url: String, (server, stand_in): (&SocketAddr, &SocketAddr)| {
            url.replace(&server.to_string(), &stand_in.to_string())
        };
        let url = self.addresses().iter().zip(proxy.addresses()).fold(self.url.clone(), replace);
        Self { url, monitors: self.monitors.clone() }
    }
}

/// Data directories of the nodes of a cluster, and the servers of its engine.
pub struct NodeDirectories {
    pub servers: Arc<Mutex<EngineServers>>,
    engine: EngineSettings,
    /// The network between each node and the engine, for nodes of [`NodeDirectories::node_behind_proxy`].
    pub proxies: Vec<EngineProxy>,
    files: TempDir,
    home: TempDir,
}

impl NodeDirectories {
    /// Creates a cluster on three NATS servers.
    pub fn init() -> Self {
        let servers = NatsServers::start();
        let engine = EngineSettings::of_nats(&servers);
        Self::init_on(EngineServers::Nats(servers), engine)
    }

    /// Creates a cluster on a PostgreSQL server.
    pub fn init_on_postgres() -> Self {
        let server = PostgresServer::start();
        let engine = EngineSettings { url: server.url(), monitors: Vec::new() };
        Self::init_on(EngineServers::Postgres(server), engine)
    }

    /// Makes the first node of a new directory, and the others of its backup.
    fn init_on(servers: EngineServers, engine: EngineSettings) -> Self {
        let [files, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let proxies = (0..NODES).map(|_| EngineProxy::start(&engine.addresses())).collect();
        let cluster = Self { servers: Arc::new(Mutex::new(servers)), engine, proxies, files, home };
        let (status, errors) = Process::start(&cluster.data_dir(0)).terminate();
        assert!(status.success(), "{errors}");

        cluster.run(0, &["cluster", "init"]).expect(0).assert_contains(&["first node"]);
        let backup = cluster.home.path().join("backup");
        let backup = backup.to_str().unwrap();
        cluster.run(0, &["backup", backup]).expect(0);
        for index in 1..NODES {
            run(&cluster.data_dir(index), &["restore", backup]).expect(0);
        }
        cluster
    }

    pub fn data_dir(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("node-{}", index + 1))
    }

    /// Returns the name of the stream.
    pub fn stream(&self) -> String {
        format!("MDY_{}", self.log_id().simple())
    }

    fn log_id(&self) -> Uuid {
        let membership = std::fs::read(self.data_dir(0).join("cluster.json")).unwrap();
        let membership: Value = serde_json::from_slice(&membership).unwrap();
        membership["log_id"].as_str().unwrap().parse().unwrap()
    }

    /// Returns a command that starts a node.
    pub fn node(&self, index: usize) -> Command {
        self.node_on(&self.data_dir(index), &self.engine)
    }

    /// Returns a command that starts a node whose network to the engine can be cut.
    pub fn node_behind_proxy(&self, index: usize) -> Command {
        self.node_on(&self.data_dir(index), &self.engine.behind(&self.proxies[index]))
    }

    /// Returns a command that starts a node on a directory and an engine.
    fn node_on(&self, data_dir: &Path, engine: &EngineSettings) -> Command {
        let mut command = command(data_dir);
        command.args(["--engine", &engine.url]);
        self.set_files(&mut command, engine);
        command
    }

    /// Runs a command of the program to its end, with the settings of the cluster.
    fn run(&self, index: usize, arguments: &[&str]) -> CommandOutput {
        self.run_on(&self.data_dir(index), &self.engine, arguments)
    }

    /// Runs a command on a directory and an engine.
    fn run_on(&self, data_dir: &Path, engine: &EngineSettings, arguments: &[&str]) -> CommandOutput {
        let mut command = command_on(data_dir, arguments);
        command.env("MEDIARY_CLUSTER__ENGINE", &engine.url);
        self.set_files(&mut command, engine);
        CommandOutput::from(command.output().unwrap())
    }

    fn set_files(&self, command: &mut Command, engine: &EngineSettings) {
        command.env("MEDIARY_CLUSTER__FILES", self.files.path());
        command.env("MEDIARY_CLUSTER__MONITOR", engine.monitors.join(","));
    }
}

/// Sends a request as the administrator; returns the status and the body.
async fn send(process: &Process, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let mut request = client().request(method, process.url(path)).bearer_auth(TOKEN);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = within(path, request.send()).await.unwrap();
    let status = response.status().as_u16();
    (status, response.json().await.unwrap_or_default())
}

async fn get(process: &Process, path: &str) -> (u16, Value) {
    send(process, Method::GET, path, None).await
}

async fn post(process: &Process, path: &str, body: Value) -> (u16, Value) {
    send(process, Method::POST, path, Some(body)).await
}

async fn wait_until_found(process: &Process, path: &str) {
    eventually(format!("{path} is there"), async || get(process, path).await.0 == 200).await;
}

#[actix_web::test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
async fn a_service_becomes_a_cluster_and_a_service_again() {
    become_a_cluster_and_a_service_again(&NodeDirectories::init()).await;
}

/// Starts the nodes of a cluster made of a service and its backup, and takes the last one out. Returns what it has printed.
pub async fn become_a_cluster_and_a_service_again(cluster: &NodeDirectories) -> Vec<String> {
    let mut printed = Vec::new();

    // When the nodes start
    let mut nodes: Vec<_> = (0..NODES).map(|index| Process::from_command(&mut cluster.node(index))).collect();

    // Then each shows all of them, and which one works
    for node in &nodes {
        let three_nodes = async || {
            let status = status(node).expect(0).out;
            printed.push(status.clone());
            let rows: Vec<_> = status.lines().filter(|line| line.contains("http://127.0.0.1:")).collect();
            rows.len() == NODES
                && rows.iter().all(|row| row.contains("present"))
                && rows.iter().filter(|row| row.contains("owner")).count() == 1
                && rows.iter().filter(|row| row.contains("(asked)")).count() == 1
        };
        eventually("three nodes are present", three_nodes).await;
    }

    // And a report to one node reaches the others
    for (index, node) in nodes.iter().enumerate() {
        let id = format!("acme-{index}");
        let created = post(node, "/publishers", json!({"id": id})).await;
        assert_eq!(created.0, 201, "{created:?}");
        for other in &nodes {
            wait_until_found(other, &format!("/publishers/{id}")).await;
        }
    }
    let result = complete_task(&nodes).await;
    printed.push(cluster.run(0, &["cluster", "check"]).expect(0).assert_contains(&["fits its cluster"]).out);

    // And no node leaves while another one runs
    printed.push(get(&nodes[0], "/admin/state").await.1.to_string());
    let (status, errors) = nodes.remove(0).terminate();
    assert!(status.success(), "{errors}");
    printed.push(errors);
    let refused = cluster.run(0, &["cluster", "leave"]).expect(1).err;
    assert!(refused.contains("is running: stop it first"), "{refused}");
    printed.push(cluster.run(0, &["config", "--all"]).expect(0).out);
    let created = post(&nodes[0], "/publishers", json!({"id": "late"})).await;
    assert_eq!(created.0, 201, "{created:?}");

    // When all have stopped and the one that is behind leaves
    for node in nodes {
        let (status, errors) = node.terminate();
        assert!(status.success(), "{errors}");
        printed.push(errors);
    }
    cluster.run(0, &["cluster", "leave"]).expect(0).assert_contains(&["is no longer a node"]);
    run(&cluster.data_dir(0), &["audit", "verify"]).expect(0);

    // Then it serves alone, with everything
    let alone = Process::start(&cluster.data_dir(0));
    for id in ["acme-0", "acme-1", "acme-2", "late"] {
        assert_eq!(get(&alone, &format!("/publishers/{id}")).await.0, 200, "{id}");
    }
    assert_eq!(get(&alone, &result).await.0, 200);
    assert_eq!(post(&alone, "/publishers", json!({"id": "alone"})).await.0, 201);

    // And the others no longer start
    let refused = start_error(cluster.node(1));
    assert!(refused.contains("has ended this log"), "{refused}");
    printed.push(refused);
    printed
        .push(cluster.run(1, &["cluster", "check"]).expect(1).assert_contains(&["FAILED", "has ended this log"]).out);
    printed
}

#[actix_web::test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
async fn a_cluster_continues_after_the_loss_of_its_stream_and_frees_its_space() {
    lose_the_stream_and_free_its_space(&NodeDirectories::init()).await;
}

/// Creates a publisher on one of the nodes and waits until all have it.
async fn create_on(node: &Process, nodes: &[Process], id: &str) {
    let created = post(node, "/publishers", json!({"id": id})).await;
    assert_eq!(created.0, 201, "{created:?}");
    for other in nodes {
        wait_until_found(other, &format!("/publishers/{id}")).await;
    }
}

fn terminate_all(nodes: Vec<Process>) {
    for node in nodes {
        let (status, errors) = node.terminate();
        assert!(status.success(), "{errors}");
    }
}

/// Deletes the stream of a cluster and continues with what its nodes have; then begins a new stream to free space.
pub async fn lose_the_stream_and_free_its_space(cluster: &NodeDirectories) {
    let start = |index: usize| Process::from_command(&mut cluster.node(index));
    let first = LogGeneration::from(cluster.log_id());

    // Given two nodes with the same changes, and one that lacks the last
    let mut nodes: Vec<_> = (0..NODES).map(start).collect();
    for (index, node) in nodes.iter().enumerate() {
        create_on(node, &nodes, &format!("acme-{index}")).await;
    }
    terminate_all(vec![nodes.pop().unwrap()]);
    create_on(&nodes[1], &nodes, "late").await;
    // Killed, because a node that stops may record something that the other one does not get.
    drop(nodes);

    // When the stream is deleted, then no node starts, and the operator must confirm the loss
    assert!(cluster.servers.lock().delete(first));
    let refused = start_error(cluster.node(0));
    assert!(refused.contains("check that the URL"), "{refused}");
    let refused = cluster.run(0, &["cluster", "rebuild-engine"]).expect(1).err;
    assert!(refused.contains("add --lost"), "{refused}");
    let refused = cluster.run(0, &["cluster", "rebuild-engine", "--lost"]).expect(1).err;
    assert!(refused.contains("add --all-stopped"), "{refused}");
    let printed = cluster.run(0, &["cluster", "rebuild-engine", "--lost", "--all-stopped"]).expect(0).out;
    assert!(printed.contains("generation 2") && printed.contains("make a new backup"), "{printed}");
    assert!(!printed.contains("can be deleted"), "{printed}");

    // Then both continue with everything, and the third does not, even if the stream comes back
    cluster.run(1, &["cluster", "check"]).expect(0).assert_contains(&["risk", "begins at position"]);
    let nodes: Vec<_> = (0..2).map(start).collect();
    for id in ["acme-0", "acme-1", "acme-2", "late"] {
        wait_until_found(&nodes[1], &format!("/publishers/{id}")).await;
    }
    create_on(&nodes[1], &nodes, "second").await;
    status(&nodes[0]).expect(0).assert_contains(&["of generation 2"]);
    for returns in [false, true] {
        if returns {
            cluster.servers.lock().create(first);
        }
        let refused = start_error(cluster.node(2));
        assert!(refused.contains("generation 2") && refused.contains("replace it by a backup"), "{refused}");
    }

    // When a node stops before the last change, and the other one begins a new stream
    let [first_node, last] = <[Process; 2]>::try_from(nodes).ok().unwrap();
    terminate_all(vec![first_node]);
    let refused = cluster.run(0, &["cluster", "rebuild-engine", "--all-stopped"]).expect(1).err;
    assert!(refused.contains("is running: stop it first"), "{refused}");
    create_on(&last, &[], "third").await;
    terminate_all(vec![last]);
    let groups = |index: usize| {
        let printed = cluster.run(index, &["cluster", "verify"]).expect(0).out;
        let (_, counted) = printed.split_once(": ").unwrap();
        counted.split_once(' ').unwrap().0.parse::<u64>().unwrap()
    };
    assert!(groups(1) >= 2);
    let printed = cluster.run(1, &["cluster", "rebuild-engine"]).expect(0).assert_contains(&["generation 3"]).out;
    assert!(printed.contains(&first.next().name()), "{printed}");
    assert_eq!(groups(1), 0);

    // Then the first one reads the rest from the former stream, and the log is sound
    let nodes: Vec<_> = (0..2).map(start).collect();
    wait_until_found(&nodes[0], "/publishers/third").await;
    create_on(&nodes[0], &nodes, "fourth").await;
    terminate_all(nodes);
    cluster.run(0, &["cluster", "rebuild-engine", "--delete-old"]).expect(0).assert_contains(&["generation 4"]);
    let generations = (0..4).map(|number| cluster.servers.lock().delete(LogGeneration { number: number + 1, ..first }));
    assert_eq!(generations.collect::<Vec<_>>(), [false, false, false, true]);
    for index in 0..2 {
        run(&cluster.data_dir(index), &["audit", "verify"]).expect(0);
    }
}

/// Has a picture upscaled that is submitted to the last node. Returns the path of the result.
async fn complete_task(nodes: &[Process]) -> String {
    let (_, user) = post(&nodes[0], "/admin/users", json!({"name": "alice"})).await;
    let path = format!("/admin/users/{}/tokens", user["id"].as_str().unwrap());
    let last = nodes.last().unwrap();
    let token = eventually("the last node knows the user", async || {
        let (status, token) = post(last, &path, json!({"name": "test"})).await;
        (status == 201).then(|| token["token"].as_str().unwrap().to_owned())
    })
    .await;

    let body = json!({"image": base64_png(8, 6), "scale_factor": "2x"});
    let submitted = client().post(last.url(UPSCALER)).bearer_auth(&token).json(&body).send().await.unwrap();
    assert_eq!(submitted.status(), 200);
    let submitted: Value = submitted.json().await.unwrap();
    let path = format!("{UPSCALER}/{}", submitted["data"]["task_id"].as_str().unwrap());
    let result = eventually("the task is completed", async || {
        let response = client().get(last.url(&path)).bearer_auth(&token).send().await.unwrap();
        let task: Value = response.json().await.unwrap();
        assert_ne!(task["data"]["status"], "FAILED", "{task}");
        let is_completed = task["data"]["status"] == "COMPLETED";
        is_completed.then(|| task["data"]["generated"][0].as_str().unwrap().to_owned())
    })
    .await;

    let result = url::Url::parse(&result).unwrap().path().to_owned();
    for node in nodes {
        wait_until_found(node, &result).await;
    }
    result
}

fn status(node: &Process) -> CommandOutput {
    let mut command = program();
    command.args(["cluster", "status", "--url", &node.url("")]).env("MEDIARY_TOKEN", TOKEN);
    CommandOutput::from(command.output().unwrap())
}

fn start_error(mut command: Command) -> String {
    match Process::try_start(&mut command) {
        Ok(_) => panic!("it starts"),
        Err(errors) => errors,
    }
}

#[actix_web::test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
async fn a_node_that_does_not_fit_its_engine_is_refused_with_the_remedy() {
    let cluster = NodeDirectories::init();

    // Servers of another cluster do not have the stream
    let others = NatsServers::start_with(NatsServerSettings { servers: 1, ..NatsServerSettings::default() });
    let refused = start_error(cluster.node_on(&cluster.data_dir(0), &EngineSettings::of_nats(&others)));
    assert!(refused.contains("no stream") && refused.contains("check that the URLs"), "{refused}");

    // A node does not start alone, nor does a service with an engine
    let refused = start_error(command(&cluster.data_dir(0)));
    assert!(refused.contains("cluster.engine is not set"), "{refused}");
    let service = tempfile::tempdir().unwrap();
    drop(Process::start(service.path()));
    let refused = start_error(cluster.node_on(service.path(), &cluster.engine));
    assert!(refused.contains("cluster init"), "{refused}");

    // A directory joins no second cluster
    let refused = cluster.run(0, &["cluster", "init"]).expect(1).err;
    assert!(refused.contains("is a node of a cluster already"), "{refused}");

    // And nothing of this has changed a node
    let node = Process::from_command(&mut cluster.node(1));
    assert_eq!(post(&node, "/publishers", json!({"id": "acme"})).await.0, 201);
    assert!(node.terminate().0.success());
}

#[test]
#[ignore = "needs nats-server; run by tests/cluster/run"]
fn a_check_tells_a_usable_engine_from_one_that_is_not() {
    let cluster = NodeDirectories::init();
    let check = |data_dir: &Path, engine: &EngineSettings| cluster.run_on(data_dir, engine, &["cluster", "check"]);

    // A service that is not a node yet learns about the servers only, a node also about its log
    let service = tempfile::tempdir().unwrap();
    check(service.path(), &cluster.engine).expect(0).assert_contains(&["ok ", "is not a node"]);
    let json = cluster.run(0, &["cluster", "check", "--json"]).expect(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["ok"], json["log_id"].is_string()), (&json!(true), true), "{json}");
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["status"] == "ok"), "{json}");

    // Servers that sync late are refused with the remedy
    let settings = NatsServerSettings { servers: 1, sync_interval: "2m", ..NatsServerSettings::default() };
    let late_servers = NatsServers::start_with(settings);
    let late = EngineSettings::of_nats(&late_servers);
    check(service.path(), &late).expect(1).assert_contains(&["FAILED", "sync_interval", "does not start"]);

    // A stream that was deleted is reported
    let stream = cluster.stream();
    if let EngineServers::Nats(servers) = &*cluster.servers.lock() {
        servers.administer(async |jetstream| jetstream.delete_stream(&stream).await).unwrap();
    }
    check(&cluster.data_dir(0), &cluster.engine).expect(1).assert_contains(&["FAILED", "no stream"]);

    // Without servers, there is no result
    let NodeDirectories { servers, .. } = &cluster;
    if let EngineServers::Nats(servers) = &mut *servers.lock() {
        (0..3).for_each(|index| servers.kill(index));
    }
    let failed = check(&cluster.data_dir(0), &cluster.engine).expect(2);
    assert!(failed.out.is_empty(), "{}", failed.out);
}
