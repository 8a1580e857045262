//! Slow starts: probes are answered, and signals are handled.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::client;
use crate::support::eventually::eventually;
use crate::support::process::{Process, command, command_on, run};

/// Start that waits for the key of upload links on a pipe.
struct WaitingStart {
    data: TempDir,
    /// Named pipe in place of the key file. The start continues once `key` is written to it.
    pipe: PathBuf,
    key: String,
    base: String,
    child: Child,
}

impl WaitingStart {
    fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        Process::start(data.path()).terminate();
        let pipe = data.path().join("url-key");
        let key = fs::read_to_string(&pipe).unwrap();
        fs::remove_file(&pipe).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_mediary"));
        serve.args(["serve", "--listen", &address, "--data-dir"]).arg(data.path()).stdin(Stdio::null());
        let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { data, pipe, key, base: format!("http://{address}"), child }
    }

    /// Waits until the path has this status, and returns the body.
    async fn wait_for_status(&self, path: &str, status: u16) -> String {
        eventually(format!("{path} answers {status}"), async || {
            let response = client().get(format!("{}{path}", self.base)).send().await.ok()?;
            if response.status().as_u16() != status {
                return None;
            }
            assert!(response.headers().contains_key("x-request-id"));
            Some(response.text().await.unwrap())
        })
        .await
    }

    /// Runs `mediary health`; returns the exit code and the output.
    fn health(&self) -> (Option<i32>, String) {
        let output = run(self.data.path(), &["health", "--url", &self.base]);
        (output.code, format!("{}{}", output.out, output.err))
    }

    fn data(&self) -> &Path {
        self.data.path()
    }
}

impl Drop for WaitingStart {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[actix_web::test]
async fn a_start_reports_liveness_before_readiness() {
    // Given a start in progress
    let start = WaitingStart::start();

    // Then it is healthy, and answers other requests that it is starting
    assert_eq!(start.wait_for_status("/health", 200).await, "OK");
    for path in ["/ready", "/nodes"] {
        let actual = start.wait_for_status(path, 503).await;
        assert!(actual.contains("\"error\":\"not_ready\"") && actual.contains("the service is starting"), "{actual}");
    }
    assert!(start.wait_for_status("/metrics", 200).await.contains("mediary_ready 0"));
    let (code, actual) = start.health();
    assert!(code == Some(1) && actual.contains("is not ready") && actual.contains("starting"), "{code:?} {actual}");

    // When it can continue, then it becomes ready at the same address
    fs::write(&start.pipe, &start.key).unwrap();
    start.wait_for_status("/ready", 200).await;
    start.wait_for_status("/nodes", 200).await;
    let (code, actual) = start.health();
    assert!(code == Some(0) && actual.contains("is ready"), "{code:?} {actual}");

    // And the health command finds the address by the directory too
    let here = run(start.data(), &["health"]).expect(0);
    assert!(here.out.contains(&start.base), "{}", here.out);
}

#[actix_web::test]
async fn sigterm_during_startup_exits_with_0_and_the_next_start_continues() {
    for signal in [Signal::TERM, Signal::INT] {
        // Given a start in progress
        let mut start = WaitingStart::start();
        start.wait_for_status("/health", 200).await;

        // When it gets a signal, then it stops
        kill_process(Pid::from_child(&start.child), signal).unwrap();
        assert_eq!(start.child.wait().unwrap().code(), Some(0));

        // And the next start is not affected
        fs::remove_file(&start.pipe).unwrap();
        fs::write(&start.pipe, &start.key).unwrap();
        run(start.data(), &["audit", "verify"]).expect(0);
        let next = Process::from_command(&mut command(start.data()));
        assert!(!next.printed().contains("found"), "{}", next.printed());
    }
}

#[test]
fn an_unreachable_service_is_unhealthy() {
    let data = tempfile::tempdir().unwrap();
    let unused_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stderr = run(data.path(), &["health", "--url", &format!("http://{unused_address}")]).expect(1).err;
    assert!(stderr.contains("no service answers at"), "{stderr}");
}

#[test]
fn health_does_not_trust_the_address_of_a_dead_service() {
    // Given a crashed service, and another one that listens on its port
    let (died, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Process::start(died.path());
    let listen = service.url("").strip_prefix("http://").unwrap().to_owned();
    service.kill();
    let _other_service = Process::from_command(&mut command_on(other.path(), &["serve", "--listen", &listen]));

    // When the health of the first is requested, by its directory or with settings that name its address, then it is
    // down
    for settings in [None, Some(("MEDIARY_LISTEN", &listen))] {
        let output = command_on(died.path(), &["health"]).envs(settings).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains("no service runs on"), "{stderr}");
    }
    run(other.path(), &["health"]).expect(0).assert_contains(&[&listen]);
}

#[test]
fn an_immediate_sigterm_exits_with_0() {
    // Given a start that is still reading its settings
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("settings.toml");
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    let data = dir.path().join("data");
    let mut start =
        command_on(&data, &["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings).spawn().unwrap();
    let writer = fs::OpenOptions::new().write(true).open(&settings).unwrap();

    // When it gets a signal, then it stops as soon as it can
    kill_process(Pid::from_child(&start), Signal::TERM).unwrap();
    drop(writer);
    assert_eq!(start.wait().unwrap().code(), Some(0));
    assert!(!data.join("address").exists());
}

#[test]
fn a_shutdown_is_logged() {
    let data = tempfile::tempdir().unwrap();
    let (status, actual) = Process::start(data.path()).terminate();
    assert!(status.code() == Some(0) && actual.contains("stopping"), "{actual}");
}
