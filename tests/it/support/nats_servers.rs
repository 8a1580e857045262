//! NATS servers as processes that can be killed and paused. `tests/cluster/run` provides the program.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::jetstream::Context;
use mediary::environment::Environment;
use mediary::events::shared::nats::NatsOptions;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::eventually::eventually_blocking;
use super::server_process::ServerProcess;

/// Environment variable with the path of `nats-server`.
const PROGRAM: &str = "MEDIARY_TEST_NATS_SERVER";
/// Cluster section of a server that no other server reaches: any free port, and a route to a port without a listener.
const ISOLATED: &str = r#"listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:1"]"#;
/// Timeout of a monitoring request.
const MONITOR_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings of the servers that tests change.
#[derive(Debug, Clone, Copy)]
pub struct NatsServerSettings {
    pub servers: usize,
    pub sync_interval: &'static str,
    pub max_payload: &'static str,
    pub max_file_store: &'static str,
}

impl Default for NatsServerSettings {
    fn default() -> Self {
        Self { servers: 3, sync_interval: "always", max_payload: "4MB", max_file_store: "4GB" }
    }
}

/// Cluster with fresh stores; killed on drop, and when the test process ends.
pub struct NatsServers {
    servers: Vec<NatsServer>,
    _stores: TempDir,
}

struct NatsServer {
    name: String,
    client_port: u16,
    monitor_port: u16,
    config: PathBuf,
    /// Configuration in which the other servers are unreachable.
    isolated_config: PathBuf,
    process: Option<ServerProcess>,
}

impl NatsServers {
    /// Starts three servers that sync every write.
    pub fn start() -> Self {
        Self::start_with(NatsServerSettings::default())
    }

    /// Starts servers and waits until JetStream works.
    pub fn start_with(settings: NatsServerSettings) -> Self {
        let stores = tempfile::tempdir().expect("a temporary directory");
        let ports: Vec<_> = free_ports(settings.servers * 3).chunks(3).map(<[u16]>::to_vec).collect();
        let routes: Vec<_> = ports.iter().map(|ports| format!("\"nats://127.0.0.1:{}\"", ports[2])).collect();
        let routes = routes.join(", ");

        let prepare = |(index, ports): (usize, &Vec<u16>)| {
            let name = format!("server-{}", index + 1);
            let write_config = |suffix: &str, cluster: &str| {
                let config = stores.path().join(format!("{name}{suffix}.conf"));
                let text = server_config(&name, ports, cluster, &stores.path().join(&name), settings);
                std::fs::write(&config, text).expect("a writable directory");
                config
            };
            let cluster = format!("listen: \"127.0.0.1:{}\", routes: [{routes}]", ports[2]);
            let config = write_config("", &cluster);
            let isolated_config = write_config("-isolated", ISOLATED);
            NatsServer { name, client_port: ports[0], monitor_port: ports[1], config, isolated_config, process: None }
        };
        let servers = ports.iter().enumerate().map(prepare).collect();
        let mut cluster = Self { servers, _stores: stores };
        (0..settings.servers).for_each(|index| cluster.restart(index));
        cluster.wait_until_healthy();
        cluster
    }

    /// Returns the options for clients of this cluster.
    pub fn options(&self) -> NatsOptions {
        let urls = self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.client_port));
        let monitors = self.servers.iter().map(|server| format!("http://127.0.0.1:{}", server.monitor_port));
        let mut options = NatsOptions::new(urls.collect());
        options.monitors = monitors.collect();
        options.replicas = self.servers.len();
        options
    }

    /// Returns the process ids of the running servers.
    #[allow(dead_code, reason = "for benches/cluster")]
    pub fn process_ids(&self) -> Vec<u32> {
        let running = self.servers.iter().filter_map(|server| server.process.as_ref());
        running.filter_map(|process| u32::try_from(process.server.as_raw_nonzero().get()).ok()).collect()
    }

    /// Waits until a stream has a leader, and returns the index of that server.
    pub fn leader_of(&self, stream: &str) -> usize {
        eventually_blocking(format!("stream {stream} has a leader"), || {
            let status = self.servers.iter().find_map(|server| server.monitor("/jsz?accounts=true&streams=true"))?;
            let streams =
                status["account_details"].as_array()?.iter().filter_map(|account| account["stream_detail"].as_array());
            let detail = streams.flatten().find(|detail| detail["name"] == stream)?;
            self.servers.iter().position(|server| detail["cluster"]["leader"] == server.name)
        })
    }

    /// Kills a server with SIGKILL, without a clean shutdown.
    pub fn kill(&mut self, index: usize) {
        drop(self.servers[index].process.take().expect("a running server"));
    }

    /// Starts a killed server again, on its store.
    pub fn restart(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.process = Some(start(&server.config));
    }

    /// Starts a killed server again, on its store. Clients can reach it, other servers cannot.
    pub fn restart_isolated(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.process = Some(start(&server.isolated_config));
    }

    /// Returns `true` if a server has clients.
    pub fn has_clients(&self, index: usize) -> bool {
        self.servers[index].monitor("/connz").is_some_and(|response| response["num_connections"] != 0)
    }

    /// Pauses all threads of a server.
    pub fn pause(&self, index: usize) {
        self.signal(index, Signal::STOP);
    }

    /// Continues a server that was paused.
    pub fn resume(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    /// Waits until every server has joined the cluster and caught up.
    pub fn wait_until_healthy(&self) {
        for server in &self.servers {
            let is_healthy = || server.monitor("/healthz").is_some_and(|health| health["status"] == "ok");
            eventually_blocking(format!("{} is healthy: {}", server.name, server.config.display()), is_healthy);
        }
    }

    /// Runs administrative requests on a new connection; blocks the thread.
    pub fn administer<T>(&self, requests: impl AsyncFnOnce(Context) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = async_nats::connect(self.options().servers).await.expect("a server that runs");
            requests(async_nats::jetstream::new(client)).await
        })
    }

    fn signal(&self, index: usize, signal: Signal) {
        let process = self.servers[index].process.as_ref().expect("a running server");
        kill_process(process.server, signal).expect("a process of this user");
    }
}

impl NatsServer {
    /// Returns the JSON of a monitoring path; `None` if the server does not respond.
    fn monitor(&self, path: &str) -> Option<Value> {
        let address = ([127, 0, 0, 1], self.monitor_port).into();
        let mut connection = TcpStream::connect_timeout(&address, MONITOR_TIMEOUT).ok()?;
        connection.set_read_timeout(Some(MONITOR_TIMEOUT)).ok()?;
        connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut response = String::new();
        connection.read_to_string(&mut response).ok()?;
        let (_, body) = response.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }
}

/// Starts a server; its log is beside its configuration.
fn start(config: &Path) -> ServerProcess {
    let program = std::env::var_os(PROGRAM)
        .unwrap_or_else(|| panic!("{PROGRAM} must be the path of nats-server; tests/cluster/run sets it"));
    let script =
        r#""$0" --config "$1" --log "$1.log" </dev/null >/dev/null 2>&1 & echo $!; read -r _; kill -9 $!; wait"#;
    ServerProcess::start(script, [program.as_os_str(), config.as_os_str()])
}

/// Returns the configuration of one server. `no_advertise` keeps clients from learning the addresses of the servers,
/// which would bypass a proxy.
fn server_config(name: &str, ports: &[u16], cluster: &str, store: &Path, settings: NatsServerSettings) -> String {
    let NatsServerSettings { servers, sync_interval, max_payload, max_file_store } = settings;
    let cluster =
        if servers > 1 { format!("cluster {{ name: test, no_advertise: true, {cluster} }}\n") } else { String::new() };
    let [client_port, monitor_port, ..] = ports[..] else { panic!("two ports") };
    let store = store.display();
    format!(
        "server_name: {name}\nlisten: \"127.0.0.1:{client_port}\"\nhttp: \"127.0.0.1:{monitor_port}\"\n\
         max_payload: {max_payload}\n\
         jetstream {{ store_dir: \"{store}\", sync_interval: {sync_interval}, max_memory_store: 256MB, \
         max_file_store: {max_file_store} }}\n{cluster}"
    )
}

/// Returns ports that are free now, below the ephemeral range of Linux, so that no connection takes the port of a
/// killed server before its restart.
pub fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        let port = 10_000 + u16::from_le_bytes(Environment::system().random_bytes()) % 22_000;
        listeners.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}
