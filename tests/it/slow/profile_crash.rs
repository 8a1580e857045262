//! kill -9 at every step of a vendor job, with every shipped profile for images and videos: no job is paid for twice,
//! and no accepted job is lost.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mediary::environment::{FailPoint, VendorStep};
use serde_json::{Value, json};

use crate::support::client;
use crate::support::eventually::eventually_within;
use crate::support::process::{Process, TOKEN, faulty_service};
use crate::support::profile_sim::{PROTOCOLS, ProfileSim, SimJobEnd, SimProtocol};

/// Deadline for reaching a step.
const REACHED_WITHIN: Duration = Duration::from_secs(20);
/// Deadline for the end of a task after the crash.
const ENDED_WITHIN: Duration = Duration::from_mins(1);

/// Returns the steps that a protocol passes through.
fn steps(protocol: &SimProtocol) -> Vec<VendorStep> {
    let is_passed = |step: &VendorStep| !(protocol.is_synchronous && *step == VendorStep::Polled);
    VendorStep::ALL.into_iter().filter(is_passed).collect()
}

/// Returns a command that starts the service with the simulated vendor, and kills it at `kill_at`.
fn service(directory: &Path, sim: &ProfileSim, kill_at: Option<VendorStep>) -> Command {
    let mut command = faulty_service(directory);
    let medium = if sim.protocol.is_video() { "VIDEO" } else { "IMAGE" };
    let base = sim.base();
    let settings = [
        ("PROFILE", sim.protocol.profile),
        ("URL", base.as_str()),
        ("API_KEY", "vendor-secret-41"),
        ("SEARCH_SETTLES", "200ms"),
        ("POLL_MIN", "10ms"),
        ("POLL_MAX", "50ms"),
        ("RETRY_MIN", "10ms"),
        ("RETRY_MAX", "50ms"),
        ("LOST_AFTER", "2s"),
        ("BREAKER_FAILURES", "1000000"),
    ];
    for (name, value) in settings {
        command.env(format!("MEDIARY_VENDORS__{medium}__{name}"), value);
    }
    if let Some(step) = kill_at {
        command.env("FAULT_KILL_AT", format!("{:?}", FailPoint::Vendor(step))).env("FAULT_KILL_PASS", "1");
    }
    command
}

async fn get(process: &Process, path: &str) -> Value {
    let response = client().get(process.url(path)).bearer_auth(TOKEN).send().await.expect("a response");
    response.json().await.expect("JSON")
}

/// Submits a task, lets the service kill itself at `step`, starts it again, and waits until the task ends. Returns an
/// error if the step was not reached, or if the task was lost or paid for twice.
async fn crash_at(sim: &ProfileSim, step: VendorStep) -> Result<(), String> {
    let protocol = &sim.protocol;
    let directory = tempfile::tempdir().expect("a directory");
    sim.prepare(SimJobEnd::Result, 1, None);

    let process = Process::from_command(&mut service(directory.path(), sim, Some(step)));
    let request = client().post(process.url(protocol.path)).bearer_auth(TOKEN).json(&(protocol.body)());
    // The response may be lost with the service.
    let _ = request.send().await;
    let exit = tokio::task::spawn_blocking(move || process.wait_for_exit());
    let is_reached = tokio::time::timeout(REACHED_WITHIN, exit).await.is_ok();
    if !is_reached {
        return Err("was not reached".to_owned());
    }

    let process = Process::from_command(&mut service(directory.path(), sim, None));
    let has_ended = async || get(&process, "/admin/state").await["queues"]["tasks"] == 0;
    eventually_within(ENDED_WITHIN, "the task ends", has_ended).await;
    let submitted = get(&process, "/admin/events?type=TaskSubmitted").await["events"].as_array().map_or(0, Vec::len);
    let failures = get(&process, "/admin/events?type=TaskFailed").await["events"].clone();
    let (status, errors) = process.terminate();
    assert!(status.success(), "{status}: {errors}");

    let charges = sim.charges();
    let failure = failures[0]["data"].to_string();
    // A submission may have been accepted between the record of its intent and that of its acceptance. Without a search
    // at the vendor, the service cannot know. A synchronous vendor returns its result with the acceptance, so the
    // result is stored before the acceptance is recorded.
    let is_before_acceptance = match step {
        VendorStep::IntentRecorded | VendorStep::Responded => true,
        VendorStep::ResultFetched | VendorStep::ResultStored => protocol.is_synchronous,
        _ => false,
    };
    let may_be_unknown = !protocol.is_searchable && is_before_acceptance && charges <= 1;
    let is_unknown = failure.contains("outcome_unknown") && may_be_unknown;
    let is_completed = failures == json!([]) && charges == 1;
    if submitted == 1 && (is_completed || is_unknown) {
        return Ok(());
    }
    Err(format!("{submitted} tasks submitted, {charges} charges, failures: {failures}"))
}

#[actix_web::test]
async fn nothing_is_paid_for_twice_with_any_profile() {
    let mut mismatches = Vec::new();
    for protocol in PROTOCOLS {
        let sim = ProfileSim::start(protocol).await;
        for step in steps(&protocol) {
            if let Err(reason) = crash_at(&sim, step).await {
                mismatches.push(format!("{} {}: {step:?}: {reason}", protocol.profile, protocol.job));
            }
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
