//! kill -9 after every step of a commit, a new segment, a start, a stop and a stored file: acknowledged writes survive,
//! without gaps or duplicates, and the service starts without manual repair.
//!
//! The service that kills itself is the child program of the tests, so that the shipped program has no such code. The
//! suite kills it once after each step; `CRASH_STEPS=20 cargo test --test it fail_points` kills it 20 times.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use mediary::environment::{CommitStep, FailPoint};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::slow::crash::check::{ReportedStatuses, verify, verify_log};
use crate::slow::crash::load::{AcknowledgedWrites, write_until_killed};
use crate::support::form::form_of_bytes;
use crate::support::process::{Process, TOKEN, faulty_service, with_snapshots};
use crate::support::receiver::Receiver;
use crate::support::zip::valid_archive;
use crate::support::{client, picture};

/// Number of clients that write to the registry.
const WRITERS: usize = 4;
/// Deadline for reaching a step under load.
const REACHED_WITHIN: Duration = Duration::from_mins(1);
/// Name of a file in the data directory; passes of the step are counted only while it exists.
const ARMED: &str = "armed";
const PUBLISHER: &str = "/publishers/archivist";
/// Input files uploaded before each kill: with all kills below the limit of an account, 1000.
const INPUTS_PER_ROUND: u32 = 20;

/// Steps of the first start.
const FIRST_START_STEPS: &[CommitStep] = &[
    CommitStep::SigningKeyCreated,
    CommitStep::SegmentZeroed,
    CommitStep::SegmentHeaderSynced,
    CommitStep::SegmentRenamed,
    CommitStep::SegmentDirSynced,
    CommitStep::HeadCreated,
    CommitStep::HeadSynced,
];
/// Steps of a clean stop.
const STOP_STEPS: &[CommitStep] = &[CommitStep::HeadSynced, CommitStep::SledFlushed];

/// Returns a command that starts a service that kills itself when it has passed a step for the `pass`th time while
/// [`ARMED`] exists.
fn self_killing_service(directory: &Path, step: CommitStep, pass: u64) -> Command {
    let mut command = faulty_service(directory);
    command.env("CHILD_SEGMENT_BYTES", "32768");
    command.env("FAULT_KILL_AT", format!("{:?}", FailPoint::After(step))).env("FAULT_KILL_PASS", pass.to_string());
    command.env("FAULT_ARMED_BY", directory.join(ARMED));
    command
}

#[track_caller]
fn assert_killed_itself(status: ExitStatus, step: CommitStep) {
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{step:?} was not reached: {status}");
}

#[actix_web::test]
async fn a_first_start_killed_after_any_step_can_be_repeated() {
    for step in FIRST_START_STEPS {
        // Given a first start that was killed after a step. HEAD is first synced when the segment changes or the
        // service stops, so the service may get ready and be killed only while it stops.
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join(ARMED), "").unwrap();
        match Process::try_start(&mut self_killing_service(data.path(), *step, 1)) {
            Err(errors) => assert!(errors.contains("signal: 9"), "{step:?}: {errors}"),
            Ok(service) => assert_killed_itself(service.terminate().0, *step),
        }

        // When it is started again, then it accepts a command and stops cleanly, and the log is complete
        let service = Process::start(data.path());
        let created = client().post(service.url("/publishers")).bearer_auth(TOKEN).json(&json!({"id": "first"}));
        assert_eq!(created.send().await.unwrap().status(), 201, "{step:?}");
        let (status, errors) = service.terminate();
        assert!(status.success(), "{step:?}: {status}: {errors}");
        verify_log(data.path());
    }
}

#[actix_web::test]
async fn a_kill_after_any_step_loses_nothing() {
    let rounds: u64 = std::env::var("CRASH_STEPS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let data = tempfile::tempdir().unwrap();
    let receiver = Receiver::start().await;
    let acknowledged = Arc::new(Mutex::new(AcknowledgedWrites::default()));
    let files = AcknowledgedFiles::default();
    let mut rng = StdRng::seed_from_u64(0x57E9);
    let mut reached_steps = BTreeSet::new();
    let mut iteration = 0_u64;
    // The steps of a first start have their own test.
    assert!(Process::start(data.path()).terminate().0.success());

    let armed = data.path().join(ARMED);
    for round in 0..rounds {
        // Both excluded steps happen only at a first start.
        let is_repeated = |step: &&CommitStep| !matches!(step, CommitStep::SigningKeyCreated | CommitStep::HeadCreated);
        for step in CommitStep::ALL.iter().filter(is_repeated).copied() {
            // Given a service that was killed after the previous step
            iteration += 1;
            let pass = if may_happen_only_once(step) { 1 } else { rng.gen_range(1..=3 + round * 3) };
            // Sled is only removed if it is unusable, during the start.
            if step == CommitStep::SledRemoved {
                std::fs::remove_dir_all(data.path().join("log/sled")).unwrap();
                std::fs::write(data.path().join("log/sled"), "garbage").unwrap();
                std::fs::write(&armed, "").unwrap();
            }
            // Half of the starts may use a snapshot; the steps from the writing of a snapshot on need one.
            let mut command = self_killing_service(data.path(), step, pass);
            if step >= CommitStep::SnapshotWritten || iteration.is_multiple_of(2) {
                with_snapshots(&mut command);
            }
            let started = Process::try_start(&mut command);
            if step == CommitStep::SledRemoved {
                // The kill may come before or after the service prints its address.
                match started {
                    Ok(service) => assert_killed_itself(service.wait_for_exit(), step),
                    Err(errors) => assert!(errors.contains("signal: 9"), "{step:?}: {errors}"),
                }
                reached_steps.insert(step);
                std::fs::remove_file(&armed).unwrap();
                continue;
            }
            let service =
                started.unwrap_or_else(|errors| panic!("{step:?}: the service ended before it was ready: {errors}"));
            let so_far = acknowledged.lock().clone();
            verify(&service, &so_far).await;

            // When it is killed after this step, under load or while it stops
            std::fs::write(&armed, "").unwrap();
            let clients = start_clients(&service, iteration, &acknowledged, &files, &receiver);
            if STOP_STEPS.contains(&step) {
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert_killed_itself(service.terminate().0, step);
            } else {
                let exit = tokio::task::spawn_blocking(move || service.wait_for_exit());
                let exit = tokio::time::timeout(REACHED_WITHIN, exit).await;
                assert_killed_itself(exit.unwrap_or_else(|_| panic!("{step:?} was not reached")).unwrap(), step);
            }
            for client in clients {
                client.await.unwrap();
            }
            reached_steps.insert(step);
            std::fs::remove_file(&armed).unwrap();

            // Then the log has no gap or duplicate
            verify_log(data.path());
        }
    }

    // And every step was reached, here or at a first start
    reached_steps.extend([CommitStep::SigningKeyCreated, CommitStep::HeadCreated]);
    assert_eq!(reached_steps, CommitStep::ALL.iter().copied().collect(), "steps that were not reached");

    // And acknowledged writes are present, and every task ends and is reported
    let service = Process::start(data.path());
    let so_far = acknowledged.lock().clone();
    verify(&service, &so_far).await;
    verify_archives(&service, &files.archives).await;
    verify_inputs(&service, &files.inputs).await;
    let lacks_a_kind = so_far.tasks.is_empty() || files.archives.lock().is_empty() || files.inputs.lock().is_empty();
    assert!(!lacks_a_kind, "no task, no archive or no input file was acknowledged: the test shows nothing");
    let received = receiver
        .wait_until(|received| {
            ReportedStatuses::from_callbacks(received).all_ended(so_far.tasks.iter().map(|(_, id)| id))
        })
        .await;
    let statuses = ReportedStatuses::from_callbacks(&received);
    for (_, task) in &so_far.tasks {
        assert_eq!(statuses.statuses_of(task), ["IN_PROGRESS", "COMPLETED"], "task {task}");
    }
    let (status, errors) = service.terminate();
    assert!(status.success(), "{status}: {errors}");
    println!("killed {iteration} times after {} steps: {} events", reached_steps.len(), verify_log(data.path()));
}

/// Returns `true` for steps that one round of load may reach only once.
fn may_happen_only_once(step: CommitStep) -> bool {
    step >= CommitStep::HeadSynced
}

/// Files whose upload was acknowledged.
#[derive(Clone, Default)]
struct AcknowledgedFiles {
    /// Version numbers of the archives.
    archives: Arc<Mutex<Vec<String>>>,
    /// Paths of the input files, each with the width of its picture.
    inputs: Arc<Mutex<Vec<(String, u32)>>>,
}

/// Starts clients that write to the registry, upload archives, submit tasks and upload input files until the service is
/// killed.
fn start_clients(
    service: &Process,
    round: u64,
    acknowledged: &Arc<Mutex<AcknowledgedWrites>>,
    files: &AcknowledgedFiles,
    receiver: &Receiver,
) -> Vec<tokio::task::JoinHandle<()>> {
    let (base, webhook) = (service.url(""), receiver.url("/hook"));

    let registry_clients = (0..WRITERS).map(|writer| {
        let base = base.clone();
        let acknowledged = acknowledged.clone();
        let webhook = webhook.clone();
        actix_web::rt::spawn(async move { write_until_killed(base, writer, round, &acknowledged, &webhook).await })
    });
    let (archive_base, archives) = (base.clone(), files.archives.clone());
    let archive_client = async move { upload_archives_until_killed(&archive_base, round, &archives).await };
    let task_base = base.clone();
    let task_client = async move { submit_until_killed(&task_base).await };
    let (input_base, inputs) = (base.clone(), files.inputs.clone());
    let input_client = async move { upload_inputs_until_killed(&input_base, &inputs).await };
    let file_and_task_clients =
        [actix_web::rt::spawn(archive_client), actix_web::rt::spawn(task_client), actix_web::rt::spawn(input_client)];
    registry_clients.chain(file_and_task_clients).collect()
}

/// Sends a request; `None` if the connection breaks.
async fn send(method: Method, url: &str, body: &Value) -> Option<Value> {
    let response = client().request(method, url).bearer_auth(TOKEN).json(body).send().await.ok()?;
    response.json().await.ok()
}

/// Publishes versions with archives; records those whose upload was acknowledged.
async fn upload_archives_until_killed(base: &str, round: u64, archives: &Mutex<Vec<String>>) {
    let nodes = format!("{base}{PUBLISHER}/nodes");
    for (url, body) in
        [(format!("{base}/publishers"), json!({"id": "archivist"})), (nodes.clone(), json!({"id": "kept"}))]
    {
        if send(Method::POST, &url, &body).await.is_none() {
            return;
        }
    }
    for index in 0.. {
        let version = format!("{round}.{index}.0");
        let body = json!({"node_version": {"version": version}});
        let Some(published) = send(Method::POST, &format!("{nodes}/kept/versions"), &body).await else { return };
        let link = published["signedUrl"].as_str().unwrap_or_else(|| panic!("{published}")).to_owned();
        let mut archive = valid_archive();
        // The comment at the end of the ZIP file, after its length in two bytes, makes every archive different.
        let comment = version.as_bytes();
        let length_offset = archive.len() - 2;
        archive[length_offset] = u8::try_from(comment.len()).unwrap();
        archive.extend_from_slice(comment);
        let Ok(uploaded) = client().put(link).body(archive).send().await else { return };
        if uploaded.status() == 200 {
            archives.lock().push(version);
        } else {
            panic!("{}: {:?}", uploaded.status(), uploaded.text().await);
        }
    }
}

/// Submits pictures of increasing width, so that each task stores a file of its own.
async fn submit_until_killed(base: &str) {
    for width in 8.. {
        let body = json!({"image": picture::base64_png(width, 8)});
        if send(Method::POST, &format!("{base}/proxy/imagevendor/v1/ai/image-upscaler"), &body).await.is_none() {
            return;
        }
    }
}

/// Uploads input files, few enough for the limit of an account; records those whose upload was acknowledged.
async fn upload_inputs_until_killed(base: &str, inputs: &Mutex<Vec<(String, u32)>>) {
    for width in 1..=INPUTS_PER_ROUND {
        let request = client().post(format!("{base}/files")).bearer_auth(TOKEN);
        let sent = form_of_bytes(request, &[("file", &picture::png(width, 8))]).send().await;
        let Ok(response) = sent else { return };
        let status = response.status();
        let Ok(stored) = response.json::<Value>().await else { return };
        assert_eq!(status, 200, "{stored}");
        inputs.lock().push((format!("/files/{}", stored["id"].as_str().expect("an id")), width));
    }
}

/// Asserts that every acknowledged input file has its content.
async fn verify_inputs(service: &Process, inputs: &Mutex<Vec<(String, u32)>>) {
    let inputs = inputs.lock().clone();
    for (path, width) in inputs {
        let response = client().get(service.url(&path)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path} was acknowledged but is lost");
        assert_eq!(response.bytes().await.unwrap(), picture::png(width, 8), "{path} has other bytes");
    }
}

/// Asserts that every acknowledged version has its archive.
async fn verify_archives(service: &Process, archives: &Mutex<Vec<String>>) {
    let versions = archives.lock().clone();
    for version in versions {
        let url = service.url(&format!("/nodes/kept/versions/{version}/download"));
        let response = client().get(url).bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(response.status(), 200, "the archive of {version} was acknowledged but is lost");
        let archive = response.bytes().await.unwrap();
        assert!(archive.ends_with(version.as_bytes()), "{version} has the archive of another version");
    }
}
