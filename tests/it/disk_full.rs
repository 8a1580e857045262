//! Full disk: changes are rejected with a reason, reads continue, changes resume without a restart, nothing is half
//! done.
//!
//! The tests fill a disk in three ways: a faked measurement and a limit of the file size work on any machine; a small
//! in-memory file system needs permission to mount, and its tests print that they are skipped without it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mediary::disk_space::{DiskSpace, FileSystemSpace, StorageStatus};
use mediary::environment::Environment;
use mediary::events::log::{EventLog, LogFailure};
use mediary::events::sled_log::SledLog;
use mediary::events::stream::{Position, Version};
use reqwest::{Client, Method, RequestBuilder};
use rustix::process::{Resource, Rlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::journal::{LogFixture, all, write_group};
use crate::samples::{append, task_stream};
use crate::support::eventually::{eventually, eventually_blocking};
use crate::support::process::{Process, TOKEN, command, run};
use crate::support::{client, picture};

mod log_lines;
mod uploads;

/// Length of a changelog in characters of four bytes each: few changes fill a disk.
const TEXT_CHARACTERS: usize = 19_000;
const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

#[test]
fn a_full_log_rejects_writes_serves_reads_and_recovers() {
    // Given a log whose free disk space is set by the test
    let free_bytes = Arc::new(AtomicU64::new(u64::MAX));
    let measured_bytes = Arc::clone(&free_bytes);
    let mut log_fixture = LogFixture::new();
    let measure = move |_: &Path| Ok(FileSystemSpace { device: 1, free: measured_bytes.load(Ordering::SeqCst) });
    log_fixture.options.space = DiskSpace::with_measure(&log_fixture.path(""), 1 << 20, Arc::new(measure));
    let log = log_fixture.open().0;
    write_group(&log, 0);
    let before = all(&log);

    // When there is less than the reserve
    free_bytes.store(1000, Ordering::SeqCst);
    let started = Instant::now();
    let failure = eventually_blocking("an append is rejected", || {
        log.append(vec![append(7, started.elapsed().as_secs(), 9, 1), append(1, 9, 9, 1)]).err()
    });

    // Then appends are rejected with the reason, and reads continue
    let expected = "disk full: 0 MiB free, 1 MiB reserved (storage.reserve_mib)";
    assert!(matches!(&failure, LogFailure::Full { reason } if reason == expected), "{failure}");
    let events = all(&log);
    assert_eq!(events[..before.len()], before);
    assert_eq!((log.storage().state, log.storage().free_bytes), (StorageStatus::Full, Some(1000)));

    // And once there is space, appends continue with the next versions
    free_bytes.store(u64::MAX, Ordering::SeqCst);
    eventually_blocking("an append is accepted", || {
        log.append(vec![append(1, 1, 10, 1)]).is_ok_and(|done| done[0].is_ok())
    });
    assert_eq!(log.read_stream(&task_stream(1), Version(0)).unwrap().len(), 2);
    assert_eq!((log.head(), log.storage().state), (Position(events.len() as u64 + 1), StorageStatus::Ok));
}

#[test]
fn a_failed_segment_creation_leaves_the_log_unchanged() {
    // Given space for the reserve, but not for another segment
    let free_bytes = Arc::new(AtomicU64::new(u64::MAX));
    let measured_bytes = Arc::clone(&free_bytes);
    let mut log_fixture = LogFixture::new();
    let measure = move |_: &Path| Ok(FileSystemSpace { device: 1, free: measured_bytes.load(Ordering::SeqCst) });
    log_fixture.options.space = DiskSpace::with_measure(&log_fixture.path(""), 1, Arc::new(measure));
    let log = log_fixture.open().0;
    write_group(&log, 0);
    free_bytes.store(100, Ordering::SeqCst);

    // When the current segment is full
    let mut index = 1;
    let failure = eventually_blocking("an append that needs another segment is rejected", || {
        let outcome = log.append(vec![append(1, index, index, 1), append(1, index + 1, index, 1)]);
        index += if outcome.is_ok() { 2 } else { 0 };
        outcome.err()
    });

    // Then appends are rejected, and nothing of the group nor a partial segment remains
    assert!(failure.to_string().contains("a new journal segment needs"), "{failure}");
    assert_eq!(log.head(), Position(index + 1));
    assert!(!log_fixture.path("journal/next.tmp").exists());

    // And the same group is accepted once there is space
    free_bytes.store(u64::MAX, Ordering::SeqCst);
    eventually_blocking("the group is accepted", || {
        log.append(vec![append(1, index, index, 1), append(1, index + 1, index, 1)])
            .is_ok_and(|done| done.iter().all(Result::is_ok))
    });
    let events = all(&log);
    drop(log);
    assert_eq!(all(&log_fixture.open().0), events);
}

#[actix_web::test]
async fn a_file_size_limit_counts_as_a_full_disk() {
    let data = tempfile::tempdir().unwrap();
    let service = LimitedService::start(data.path(), 0);
    service.fill_registry().await;

    // When no file may grow beyond the current size of the journal and sled
    service.limit_files(Some(600_000));
    let written = service.write_until_refused().await;

    // Then reads continue
    service.check_reads(written).await;

    // And without the limit the same process accepts changes again
    service.limit_files(None);
    service.write_until_accepted().await;
    service.check_log_after_stop(data.path());
}

#[actix_web::test]
async fn a_result_waits_for_disk_space() {
    // Given a service whose limit of file sizes suffices for its log
    let data = tempfile::tempdir().unwrap();
    let service = LimitedService::start(data.path(), 0);
    service.limit_files(Some(700_000));

    // When a job produces a larger file
    let job = json!({"image": picture::base64_png(300, 300), "scale_factor": "4x"});
    let (status, _, submitted) = service.send(service.request(Method::POST, UPSCALER).json(&job)).await;
    assert_eq!(status, 200, "{submitted}");
    let log_text = || service.process.log_text();
    eventually_blocking("it waits", || log_text().contains("engine job waits for disk space or file descriptors"));

    // Then the task has not failed, and completes once there is space
    let path = format!("/tasks/{}", submitted["data"]["task_id"].as_str().expect("an id"));
    let task = async || service.send(service.request(Method::GET, &path)).await.2;
    let waiting_task = task().await;
    assert_eq!(waiting_task["state"], "IN_PROGRESS", "{waiting_task}");
    service.limit_files(None);
    eventually("the task completes", async || task().await["state"] == "COMPLETED").await;
}

#[actix_web::test]
async fn writes_are_rejected_while_no_file_descriptor_is_free() {
    let data = tempfile::tempdir().unwrap();
    let service = LimitedService::start(data.path(), 0);
    service.fill_registry().await;

    // When no more files can be opened, not even the next segment of the journal
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let no_files = Rlimit { current: Some(0), maximum };
    let before = rustix::process::prlimit(Some(service.process.pid()), Resource::Nofile, no_files).unwrap();
    assert_eq!(before, Rlimit { current: maximum, maximum }, "a service may open as many files as it is allowed to");
    let written = service.write_until_refused().await;

    // Then reads continue
    service.check_reads(written).await;

    // And once files can be opened, the same process accepts changes again
    rustix::process::prlimit(Some(service.process.pid()), Resource::Nofile, before).unwrap();
    service.write_until_accepted().await;
    service.check_log_after_stop(data.path());
}

#[actix_web::test]
async fn a_full_file_system_rejects_writes_until_it_has_space() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("SKIPPED: no small file system can be mounted here; the limit of file sizes is tested instead");
        return;
    };
    let data = disk.path("data");
    let service = LimitedService::start(&data, 4);
    let stored = service.fill_registry().await;

    // When another program fills the disk
    disk.fill();
    service.write_until_refused().await;

    // Then every kind of change is rejected, with the same code and `Retry-After`
    for (method, path, body) in [
        (Method::POST, "/publishers", json!({"id": "late"})),
        (Method::PUT, "/publishers/acme", json!({"name": "Late"})),
        (Method::DELETE, "/publishers/acme", json!(null)),
        (Method::POST, UPSCALER, json!({"image": picture::base64_png(8, 8)})),
        (Method::PUT, stored["upload"].as_str().unwrap(), json!("no zip")),
    ] {
        let reply = service.send(service.request(method.clone(), path).json(&body)).await;
        assert_refused(&reply, &format!("{method} {path}"));
    }
    // A stored response is replayed, and reads continue
    let retried_request = service.request(Method::POST, "/publishers").header("idempotency-key", "k1");
    let (status, _, body) = service.send(retried_request.json(&json!({"id": "acme", "name": "acme"}))).await;
    assert_eq!((status, &body["id"]), (201, &json!("acme")));
    service.check_reads(0).await;
    let (status, retry, body) = service.send(service.request(Method::GET, "/ready")).await;
    assert_eq!((status, retry.is_some(), &body["error"]), (503, true, &json!("not_ready")));
    let output = run(&data, &["health"]).expect(1).err;
    assert!(
        output.contains("too little disk space")
            && body["detail"].as_str().is_some_and(|detail| output.contains(detail)),
        "{output}"
    );
    // A service that starts on the full disk serves reads too
    service.process.kill();
    let service = LimitedService::start(&data, 4);
    service.check_reads(0).await;
    assert_refused(&service.write(0).await, "after the start");

    // And once there is space, changes are accepted without another restart
    disk.empty();
    service.write_until_accepted().await;
    service.check_log_after_stop(&data);
}

#[actix_web::test]
async fn a_disk_that_is_full_to_the_last_byte_loses_nothing() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("SKIPPED: no small file system can be mounted here; the limit of file sizes is tested instead");
        return;
    };

    // Given no reserve, so that the journal and sled themselves hit the full disk
    let data = disk.path("data");
    let service = LimitedService::start(&data, 0);
    service.fill_registry().await;
    disk.fill();
    let written = service.write_until_refused().await;
    service.check_reads(written).await;
    disk.empty();
    service.write_until_accepted().await;
    service.check_log_after_stop(&data);
}

/// Service as a process whose resources the test limits, and a client of it.
struct LimitedService {
    process: Process,
    client: Client,
}

/// Status, `Retry-After` and JSON body of a response.
type RawReply = (u16, Option<String>, Value);

impl LimitedService {
    fn start(data: &Path, reserve_mib: u64) -> Self {
        let mut command = command(data);
        command.env("MEDIARY_STORAGE__RESERVE_MIB", reserve_mib.to_string());
        Self { process: Process::from_command(&mut command), client: client() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = if path.starts_with("http") { path.to_owned() } else { self.process.url(path) };
        self.client.request(method, url).bearer_auth(TOKEN)
    }

    async fn send(&self, request: RequestBuilder) -> RawReply {
        let response = request.send().await.expect("a response");
        let retry = response.headers().get("retry-after").map(|seconds| seconds.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, retry, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    /// Creates a publisher with an idempotency key, a node, and a version that waits for its archive.
    async fn fill_registry(&self) -> Value {
        let keyed = self.request(Method::POST, "/publishers").header("idempotency-key", "k1");
        assert_eq!(self.send(keyed.json(&json!({"id": "acme", "name": "acme"}))).await.0, 201);
        let node = json!({"id": "tools", "name": "tools"});
        assert_eq!(self.send(self.request(Method::POST, "/publishers/acme/nodes").json(&node)).await.0, 201);
        let token = self.request(Method::POST, "/publishers/acme/tokens").json(&json!({"name": "ci"}));
        let token = self.send(token).await.2["token"].clone();
        let version = json!({"personal_access_token": token, "node": {}, "node_version": {"version": "1.0.0"}});
        let path = "/publishers/acme/nodes/tools/versions";
        let (status, _, published) = self.send(self.request(Method::POST, path).json(&version)).await;
        assert_eq!(status, 201, "{published}");
        json!({"upload": published["signedUrl"]})
    }

    /// Gives the version a large changelog.
    async fn write(&self, index: usize) -> RawReply {
        let changelog = format!("{index} {}", "𝒳".repeat(TEXT_CHARACTERS));
        let path = "/publishers/acme/nodes/tools/versions/1.0.0";
        self.send(self.request(Method::PUT, path).json(&json!({"changelog": changelog}))).await
    }

    /// Writes until a change is rejected; returns the number of accepted ones.
    async fn write_until_refused(&self) -> usize {
        for index in 1..400 {
            let reply = self.write(index).await;
            if reply.0 != 200 {
                assert_refused(&reply, "a change");
                return index - 1;
            }
        }
        panic!("the disk was never full");
    }

    async fn write_until_accepted(&self) {
        eventually("changes are accepted again", async || {
            let reply = self.write(1).await;
            if reply.0 != 200 {
                assert_refused(&reply, "a change before there was room");
            }
            reply.0 == 200
        })
        .await;
        let (status, ..) = self.send(self.request(Method::GET, "/ready")).await;
        assert_eq!(status, 200);
    }

    /// Asserts that existing data is readable, and that the last acknowledged change is the last one in the log.
    async fn check_reads(&self, written: usize) {
        for path in ["/health", "/publishers", "/publishers/acme", "/nodes", "/nodes/tools/versions"] {
            assert_eq!(self.send(self.request(Method::GET, path)).await.0, 200, "{path}");
        }
        let (status, _, version) = self.send(self.request(Method::GET, "/nodes/tools/versions/1.0.0")).await;
        assert_eq!(status, 200);
        if written > 0 {
            let version_number = version["changelog"].as_str().unwrap().split(' ').next().unwrap();
            assert_eq!(version_number, written.to_string(), "the last acknowledged change is the current one");
        }
    }

    fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        rustix::process::prlimit(Some(self.process.pid()), Resource::Fsize, limit).expect("limits can be set");
    }

    /// Asserts that journal and sled agree, from the first event to the last.
    fn check_log_after_stop(self, data: &Path) {
        let (status, errors) = self.process.terminate();
        assert!(status.success(), "{status}: {errors}");
        let options = mediary::app::log_options(data, &mediary::config::Settings::default());
        let mut commits = Vec::new();
        let opened = SledLog::open(&options, &Environment::system(), |commit| commits.extend_from_slice(commit));
        let (log, report) = opened.unwrap();
        assert_eq!((report.torn_tail, report.repairs), (None, Vec::new()));
        assert_eq!(all(&log), commits);
        for folder in ["archives/incoming", "log/journal"] {
            for entry in fs::read_dir(data.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(!name.contains(".part") && !name.contains(".draft"), "{folder}/{name} was left behind");
            }
        }
    }
}

/// Asserts that a change was rejected because the disk is full.
fn assert_refused((status, retry, body): &RawReply, label: &str) {
    assert_eq!((*status, &body["error"]), (507, &json!("insufficient_storage")), "{label}: {body}");
    assert_eq!(retry.as_deref(), Some("30"), "{label}");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("nothing was changed") && detail.contains("once there is room"), "{label}: {detail}");
    assert!(!detail.contains("/data"), "{label}: {detail}");
}

/// File system in memory, so small that a test can fill it.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts a file system; `None` if this is not allowed.
    pub fn mount(mib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"]).arg(folder.path());
        let mounted = mount.stderr(std::process::Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Uses all remaining space.
    fn fill(&self) {
        let mut ballast = fs::File::create(self.path("ballast")).unwrap();
        while ballast.write_all(&[1; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.path("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
