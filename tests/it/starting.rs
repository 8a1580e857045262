//! Slow starts: probes are answered, and signals are handled.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::client;
use crate::support::process::{Process, command, on, run};

const WITHIN: Duration = Duration::from_secs(20);

/// Start that waits for the key of upload links on a pipe.
struct Waiting {
    data: TempDir,
    pipe: PathBuf,
    key: String,
    base: String,
    child: Child,
}

impl Waiting {
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
    async fn answers(&self, path: &str, status: u16) -> String {
        let started = Instant::now();
        loop {
            if let Ok(answer) = client().get(format!("{}{path}", self.base)).send().await
                && answer.status().as_u16() == status
            {
                assert!(answer.headers().contains_key("x-request-id"));
                return answer.text().await.unwrap();
            }
            assert!(started.elapsed() < WITHIN, "{path} never answered {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn health(&self) -> (Option<i32>, String) {
        let done = run(self.data.path(), &["health", "--url", &self.base]);
        (done.code, format!("{}{}", done.out, done.err))
    }

    fn data(&self) -> &Path {
        self.data.path()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[actix_web::test]
async fn a_start_says_that_it_lives_and_is_not_ready_until_it_is() {
    // Given a start in progress
    let start = Waiting::start();
    // Then it is healthy, and answers other requests that it is starting
    assert_eq!(start.answers("/health", 200).await, "OK");
    for path in ["/ready", "/nodes"] {
        let told = start.answers(path, 503).await;
        assert!(told.contains("\"error\":\"not_ready\"") && told.contains("the service is starting"), "{told}");
    }
    assert!(start.answers("/metrics", 200).await.contains("mediary_ready 0"));
    let (code, told) = start.health();
    assert!(code == Some(1) && told.contains("is not ready") && told.contains("starting"), "{code:?} {told}");
    // When it can continue, then it becomes ready at the same address
    fs::write(&start.pipe, &start.key).unwrap();
    start.answers("/ready", 200).await;
    start.answers("/nodes", 200).await;
    let (code, told) = start.health();
    assert!(code == Some(0) && told.contains("is ready"), "{code:?} {told}");
    // And the health command finds the address by the directory too
    let here = run(start.data(), &["health"]).expect(0);
    assert!(here.out.contains(&start.base), "{}", here.out);
}

#[actix_web::test]
async fn a_start_that_is_told_to_stop_stops_with_0_and_the_next_one_goes_on() {
    for signal in [Signal::TERM, Signal::INT] {
        // Given a start in progress
        let mut start = Waiting::start();
        start.answers("/health", 200).await;
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
fn nobody_there_is_not_healthy() {
    let data = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let told = run(data.path(), &["health", "--url", &format!("http://{free}")]).expect(1).err;
    assert!(told.contains("no service answers at"), "{told}");
}

#[test]
fn who_answers_at_the_address_of_a_service_that_died_is_not_taken_for_it() {
    // Given a crashed service, and another one that listens on its port
    let (died, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let service = Process::start(died.path());
    let listen = service.url("").strip_prefix("http://").unwrap().to_owned();
    service.kill();
    let _other = Process::from_command(&mut on(other.path(), &["serve", "--listen", &listen]));
    // When the health of the first is requested, by its directory or with settings that name its address, then it is
    // down
    for settings in [None, Some(("MEDIARY_LISTEN", &listen))] {
        let done = on(died.path(), &["health"]).envs(settings).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(1) && told.contains("no service runs on"), "{told}");
    }
    run(other.path(), &["health"]).expect(0).says(&[&listen]);
}

#[test]
fn whoever_stops_a_start_at_once_sees_it_end_with_0() {
    // Given a start that is still reading its settings
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("settings.toml");
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    let data = dir.path().join("data");
    let mut start = on(&data, &["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings).spawn().unwrap();
    let writer = fs::OpenOptions::new().write(true).open(&settings).unwrap();
    // When it gets a signal, then it stops as soon as it can
    kill_process(Pid::from_child(&start), Signal::TERM).unwrap();
    drop(writer);
    assert_eq!(start.wait().unwrap().code(), Some(0));
    assert!(!data.join("address").exists());
}

#[test]
fn a_service_that_is_told_to_stop_says_that_it_does() {
    let data = tempfile::tempdir().unwrap();
    let (status, told) = Process::start(data.path()).terminate();
    assert!(status.code() == Some(0) && told.contains("stopping"), "{told}");
}
