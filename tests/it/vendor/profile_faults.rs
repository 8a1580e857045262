//! Faults of the vendor, for every shipped profile of images and videos, and their effect on the task. All profiles
//! share one table, because the features of the protocol determine the outcome. `docs/vendors.md` describes the
//! outcomes.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use mediary::config::{Secret, Settings, VendorProfile};
use mediary::environment::Environment;
use mediary::vendors::profile::SHIPPED_PROFILES;

use super::API_KEY;
use crate::image::submit;
use crate::support::profile_sim::{FaultEffect, PROTOCOLS, ProfileSim, RequestPhase, SimFault, SimJobEnd, SimProtocol};
use crate::support::scripted_vendor::Delivery;
use crate::support::{TestApp, TestUser};
use crate::video::wait_for_task_end;

const ALWAYS: u32 = u32::MAX;

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProfileOutcome {
    /// Completed, with one charge.
    Done,
    /// Completed if the vendor can be searched for the key of the task; otherwise failed with an unknown outcome. One
    /// charge.
    Unknown,
    /// Failed with this code, after this many charges.
    Fails(&'static str, usize),
}

use ProfileOutcome::{Done, Fails, Unknown};

struct ProfileFaultRow {
    name: String,
    end: SimJobEnd,
    polls: u32,
    fault: Option<SimFault>,
    outcome: ProfileOutcome,
}

fn fault_row(phase: RequestPhase, times: u32, effect: FaultEffect, outcome: ProfileOutcome) -> ProfileFaultRow {
    let fault = Some(SimFault { phase, times, effect });
    ProfileFaultRow { name: format!("{phase:?} {effect:?}"), end: SimJobEnd::Result, polls: 1, fault, outcome }
}

fn end_row(end: SimJobEnd, polls: u32, outcome: ProfileOutcome) -> ProfileFaultRow {
    ProfileFaultRow { name: format!("{end:?} after {polls}"), end, polls, fault: None, outcome }
}

fn submission_rows(protocol: &SimProtocol) -> Vec<ProfileFaultRow> {
    use FaultEffect::{Delivered, Error, ErrorWithPause, Html, LateError, OtherJson};
    let mut rows = Vec::new();
    let mut add = |times, effect, outcome| rows.push(fault_row(RequestPhase::Submission, times, effect, outcome));

    // The response does not show whether a job was started.
    for delivery in [Delivery::HangUp, Delivery::Cut, Delivery::Silence] {
        add(1, Delivered(delivery), Unknown);
    }
    for effect in [Html, OtherJson, LateError(409), LateError(502), LateError(504)] {
        add(1, effect, Unknown);
    }
    add(1, LateError(500), if protocol.profile == "a1111" { Fails("vendor_refused", 1) } else { Unknown });
    for status in [302, 408, 503] {
        // The protocol of this service defines that these statuses mean that no job was started.
        if protocol.profile == "mediary" {
            add(2, Error(status), Done);
        } else {
            add(1, LateError(status), Unknown);
        }
    }

    // The response shows that no job was started.
    for status in [400, 413, 422] {
        add(1, Error(status), Fails("vendor_refused", 0));
    }
    for status in [401, 402, 404] {
        add(2, Error(status), Done);
    }
    add(2, ErrorWithPause(429), Done);
    rows
}

fn other_rows(protocol: &SimProtocol) -> Vec<ProfileFaultRow> {
    use FaultEffect::{Delivered, Error, ErrorWithPause, Html, OtherJson};
    let mut rows = Vec::new();
    let transient = [
        Delivered(Delivery::HangUp),
        Delivered(Delivery::Cut),
        Html,
        OtherJson,
        Error(401),
        Error(500),
        Error(503),
        ErrorWithPause(429),
    ];

    let mut phases = Vec::new();
    phases.extend(protocol.has_uploads().then_some(RequestPhase::Upload));
    phases.extend((!protocol.is_synchronous).then_some(RequestPhase::Poll));
    phases.extend((protocol.profile == "fal").then_some(RequestPhase::Results));
    for phase in phases {
        rows.extend(transient.map(|effect| fault_row(phase, 2, effect, Done)));
    }
    if !protocol.is_synchronous {
        rows.push(fault_row(RequestPhase::Poll, 1, Error(404), Done));
        rows.push(fault_row(RequestPhase::Poll, 1, Delivered(Delivery::Silence), Done));
        rows.push(end_row(SimJobEnd::Result, 5, Done));
        rows.push(end_row(SimJobEnd::Forgotten, 1, Fails("vendor_lost", 1)));
    }
    if protocol.has_downloads() {
        let fleeting = [Error(404), Error(500), Error(503), Delivered(Delivery::Cut), Delivered(Delivery::HangUp)];
        rows.extend(fleeting.map(|effect| fault_row(RequestPhase::Download, 2, effect, Done)));
        let unavailable = Fails("result_unavailable", 1);
        rows.push(fault_row(RequestPhase::Download, ALWAYS, Error(404), unavailable));
    }

    let failure = if protocol.is_synchronous { "vendor_refused" } else { "vendor_failed" };
    rows.push(end_row(SimJobEnd::Failed, 1, Fails(failure, 1)));
    rows.push(end_row(SimJobEnd::Nothing, 1, Fails("result_invalid", 1)));
    rows.push(end_row(SimJobEnd::WrongFile, 1, Fails("result_invalid", 1)));
    rows
}

async fn service_for(sim: &ProfileSim) -> (TestApp, TestUser) {
    let (base, protocol) = (sim.base(), sim.protocol);
    let change = move |settings: &mut Settings| {
        let vendors = if protocol.is_video() { &mut settings.video_vendors } else { &mut settings.image_vendors };
        let vendor = &mut vendors[0];
        vendor.selection.profile = VendorProfile::find(protocol.profile, None).expect("a shipped profile");
        vendor.url = Some(base);
        vendor.api_key = Some(Secret::new(API_KEY));
        (vendor.poll_min, vendor.poll_max) = (Duration::from_millis(10), Duration::from_millis(50));
        (vendor.retry_min, vendor.retry_max) = (Duration::from_millis(10), Duration::from_millis(50));
        (vendor.lost_after, vendor.breaker_failures) = (Duration::from_secs(10), 1_000_000);
        // Short, because some responses never come, but long enough for an immediate response on a busy machine.
        (vendor.submit_timeout, vendor.poll_timeout) = (Duration::from_secs(8), Duration::from_secs(8));
        vendor.result_timeout = Duration::from_secs(8);
        settings.limits.submissions_per_caller = 100_000;
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("u").await;
    (app, user)
}

/// Runs the rows one after another. Describes those whose outcome is not the expected one.
async fn mismatches(protocol: SimProtocol) -> Vec<String> {
    let sim = ProfileSim::start(protocol).await;
    let (app, user) = service_for(&sim).await;
    let mut mismatches = Vec::new();

    for row in submission_rows(&protocol).into_iter().chain(other_rows(&protocol)) {
        sim.prepare(row.end, row.polls, row.fault);
        let task = submit(&app, &user, protocol.path, (protocol.body)()).await;
        wait_for_task_end(&app, &task).await;

        let ended = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
        let code = ended["error"]["code"].as_str().unwrap_or("").to_owned();
        let expected = match row.outcome {
            Done => ("", 1),
            Unknown if protocol.is_searchable => ("", 1),
            Unknown => ("outcome_unknown", 1),
            Fails(code, charges) => (code, charges),
        };
        if (code.as_str(), sim.charges()) != expected {
            let profile = protocol.profile;
            let job = protocol.job;
            let name = row.name;
            let charges = sim.charges();
            let error = &ended["error"];
            mismatches
                .push(format!("{profile} {job}: {name}: expected {expected:?}, is {:?}: {error}", (code, charges)));
        }
    }

    app.stop().await;
    mismatches
}

#[actix_web::test]
async fn every_fault_of_every_profile_has_its_outcome() {
    let mismatches: Vec<_> = join_all(PROTOCOLS.map(mismatches)).await.concat();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}

#[test]
fn every_shipped_profile_is_in_a_table_of_faults() {
    for profile in SHIPPED_PROFILES {
        // `music/vendor_faults.rs` has the table of streams.
        let is_tested = profile == "sonilo" || PROTOCOLS.iter().any(|protocol| protocol.profile == profile);
        assert!(is_tested, "{profile}");
    }
}

#[actix_web::test]
async fn every_profile_sends_the_key_as_documented() {
    for protocol in PROTOCOLS {
        // Given the vendor of a profile
        let sim = ProfileSim::start(protocol).await;
        let (app, user) = service_for(&sim).await;

        // When a job is submitted
        let task = submit(&app, &user, protocol.path, (protocol.body)()).await;
        wait_for_task_end(&app, &task).await;

        // Then its key is where the documentation says
        let (header, expected) = match protocol.profile {
            "magnific" => ("x-freepik-api-key", API_KEY.to_owned()),
            "a1111" => ("authorization", format!("Basic {}", STANDARD.encode(API_KEY))),
            "fal" => ("authorization", format!("Key {API_KEY}")),
            "vidu" => ("authorization", format!("Token {API_KEY}")),
            _ => ("authorization", format!("Bearer {API_KEY}")),
        };
        let submissions = sim.submissions();
        assert_eq!(submissions.len(), 1, "{}", protocol.profile);
        assert_eq!(submissions[0].header(header), expected, "{}", protocol.profile);
        app.stop().await;
    }
}
