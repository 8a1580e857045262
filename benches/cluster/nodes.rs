//! Nodes of the measured cluster, and their content.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::http::{Connection, request, send_all};
use crate::nats_servers::{NatsServerSettings, NatsServers};
use crate::service::{Service, TOKEN, block_on, cpu_time_of};
use crate::{MEMBERS, REGISTRY_NODES};

/// Length of a changelog, for events of about 400 bytes.
const CHANGELOG: usize = 300;

/// Fills a registry with the nodes that are changed.
pub fn fill(address: &str) {
    block_on(async {
        let publisher = request("POST", "/publishers", TOKEN, r#"{"id": "acme"}"#);
        send_all(address, vec![vec![publisher].into_iter()]).await;
        let create = |number: usize| {
            let node = request("POST", "/publishers/acme/nodes", TOKEN, &format!(r#"{{"id": "node-{number}"}}"#));
            let version = r#"{"node_version": {"version": "1.0.0"}}"#;
            [node, request("POST", &format!("/publishers/acme/nodes/node-{number}/versions"), TOKEN, version)]
        };
        let all: Vec<_> = (0..REGISTRY_NODES).flat_map(create).collect();
        send_all(address, vec![all.into_iter()]).await;
    });
}

/// Returns a request that changes a changelog to another text than before. Each client has its own nodes.
pub fn change(client: usize, turn: u64) -> Vec<u8> {
    // The largest number of clients is 64 by default.
    let nodes_each = REGISTRY_NODES / 64;
    let number = client * nodes_each + usize::try_from(turn).unwrap_or(0) % nodes_each;
    let letter = char::from(b'a' + u8::try_from(turn % 26).unwrap_or(0));
    let body = serde_json::json!({"changelog": letter.to_string().repeat(CHANGELOG)}).to_string();
    request("PUT", &format!("/publishers/acme/nodes/node-{number}/versions/1.0.0"), TOKEN, &body)
}

/// Cluster whose nodes are started one after the other.
pub struct BenchCluster {
    servers: NatsServers,
    root: PathBuf,
    settings: Vec<(String, String)>,
    /// Running nodes; `None` for a node that was killed.
    pub nodes: Vec<Option<Service>>,
}

impl BenchCluster {
    /// Starts the NATS servers and creates the data directories of the nodes without starting any.
    pub fn init(root: &Path, sync_interval: &str) -> Self {
        // `NatsServerSettings` takes only a static text.
        let sync_interval = String::leak(sync_interval.to_owned());
        let servers = NatsServers::start_with(NatsServerSettings { sync_interval, ..NatsServerSettings::default() });
        let options = servers.options();
        let files = root.join("files");
        std::fs::create_dir(&files).expect("a directory");

        let mut settings = vec![
            ("MEDIARY_CLUSTER__ENGINE".to_owned(), options.servers.join(",")),
            ("MEDIARY_CLUSTER__FILES".to_owned(), files.display().to_string()),
        ];
        if sync_interval == "always" {
            settings.push(("MEDIARY_CLUSTER__MONITOR".to_owned(), options.monitors.join(",")));
        }

        let cluster = Self { servers, root: root.to_owned(), settings, nodes: Vec::new() };
        let first = Service::start(&cluster.data_dir(0), 0);
        fill(&first.address);
        first.stop();
        cluster.run(&cluster.data_dir(0), &["cluster", "init"]);
        let backup = cluster.backup_dir();
        cluster.run(&cluster.data_dir(0), &["backup", &backup]);
        (1..=MEMBERS).for_each(|node| cluster.run(&cluster.data_dir(node), &["restore", &backup]));
        cluster
    }

    fn data_dir(&self, node: usize) -> PathBuf {
        self.root.join(format!("node-{node}"))
    }

    fn backup_dir(&self) -> String {
        self.root.join("backup").display().to_string()
    }

    /// Runs a command of the program to its end; panics if it fails.
    fn run(&self, data_dir: &Path, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
        command.arg("--data-dir").arg(data_dir).args(arguments).envs(self.settings.iter().cloned());
        command.env_remove("MEDIARY_TEST_NATS_SERVER").env_remove("MEDIARY_TEST_POSTGRES_BIN");
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts nodes until `members` run.
    pub fn start_up_to(&mut self, members: usize) {
        while self.nodes.len() < members {
            let node = self.start(self.nodes.len());
            self.nodes.push(Some(node));
        }
    }

    /// Starts a node and waits until it is ready.
    pub fn start(&self, node: usize) -> Service {
        Service::start_with(&self.data_dir(node), 0, None, &self.settings)
    }

    pub fn addresses(&self) -> Vec<&str> {
        self.nodes.iter().flatten().map(|node| node.address.as_str()).collect()
    }

    /// Returns the CPU time of all nodes in seconds.
    pub fn node_cpu_time(&self) -> f64 {
        self.nodes.iter().flatten().map(Service::cpu_time).sum()
    }

    /// Returns the CPU time of all NATS servers in seconds.
    pub fn server_cpu_time(&self) -> f64 {
        self.servers.process_ids().into_iter().map(cpu_time_of).sum()
    }

    /// Starts one more node on the first backup. Returns how many events it applied, and how much longer its start took
    /// than that of the first node.
    pub fn join_another(&self) -> (u64, Duration) {
        let backup_position = self.backup_position();
        let first = self.nodes[0].as_ref().expect("a running node").ready_after;
        let joining = self.start(MEMBERS);
        let events = log_position(&joining.address) - backup_position;
        let time = joining.ready_after.saturating_sub(first);
        joining.stop();
        (events, time)
    }

    fn backup_position(&self) -> u64 {
        let text = std::fs::read_to_string(self.data_dir(0).join("cluster.json")).expect("a member of a cluster");
        let membership: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        membership["base"][0].as_u64().expect("a position")
    }
}

/// Returns the position of a node's log.
fn log_position(address: &str) -> u64 {
    let text = block_on(async {
        let mut connection = Connection::open(address).await;
        let response = connection.exchange(&request("GET", "/metrics", "", "")).await;
        String::from_utf8_lossy(response.body).into_owned()
    });
    let value = text.lines().find_map(|line| line.strip_prefix("mediary_log_position "));
    value.expect("a position").parse().expect("a number")
}
