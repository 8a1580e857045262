//! Remote music vendor, against a simulator.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mediary::config::{Secret, Settings};
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use reqwest::Method;
use serde_json::{Value, json};

use super::{GENERATE, MusicListener, states, wait_for_end};
use crate::support::eventually::eventually;
use crate::support::form::form;
use crate::support::music_sim::{
    MusicSim, STREAM_HEAD, StreamAction, complete, duration, error_response, lines, normal_lines, sound, title,
};
use crate::support::process::{Process, TOKEN, command};
use crate::support::{TestApp, TestUser};

const API_KEY: &str = "vendor-secret-43";
const FIELDS: [(&str, &str); 2] = [("prompt", "calm"), ("duration", "2")];

/// Settings that select the vendor at this address.
pub fn remote(settings: &mut Settings, base: &str) {
    let vendor = &mut settings.music_vendors[0];
    vendor.selection.profile = mediary::config::VendorProfile::Mediary;
    "remote-music".clone_into(&mut vendor.selection.name);
    vendor.url = Some(base.to_owned());
    vendor.api_key = Some(Secret::new(API_KEY));
    "X-Vendor-Key".clone_into(&mut vendor.auth_header);
    vendor.breaker_failures = 1_000_000;
}

async fn served_by(vendor: &MusicSim) -> TestApp {
    let base = vendor.base();
    TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await
}

fn audio_text(lines: &[Value]) -> String {
    let chunks = lines.iter().filter(|line| line["type"] == "audio_chunk");
    let bytes = chunks.flat_map(|chunk| STANDARD.decode(chunk["data"].as_str().expect("data")).expect("base64"));
    String::from_utf8(bytes.collect()).expect("text of the vendor")
}

#[actix_web::test]
async fn a_vendor_is_called_with_the_same_api_and_its_music_passed_on() {
    // Given a service with a vendor
    let vendor = MusicSim::with_behavior(|_| lines(&normal_lines())).await;
    let base = vendor.base();
    let change = |settings: &mut Settings| {
        remote(settings, &base);
        settings.music.billing_rate_per_sec = 10;
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let user = app.user("listener").await;

    // When music is requested
    let listener = MusicListener::request(&app, &user, &[("prompt", " calm in Größe 大 "), ("duration", "2")]).await;
    let task = listener.task.clone();
    let all_lines = listener.collect().await;

    // Then the vendor got one request in the original form, with the id of the task and its key
    let record = vendor.record();
    let [request] = &record.requests[..] else { panic!("asked {} times", record.requests.len()) };
    assert!(request.head.starts_with(&format!("POST {GENERATE} HTTP/1.1\r\n")), "{}", request.head);
    assert_eq!((request.field("prompt"), request.field("duration")), (Some("calm in Größe 大"), Some("2")));
    assert_eq!((request.header("x-vendor-key"), request.header("authorization")), (Some(API_KEY), None));
    assert_eq!(request.header("idempotency-key"), Some(task.as_str()));

    // And its lines are forwarded, with the task id and the prices of this service
    let kinds: Vec<_> = all_lines.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["duration", "title", "audio_chunk", "audio_chunk", "generated_audio", "complete"]);
    assert_eq!(all_lines[0], json!({"type": "duration", "duration_sec": 2.0}));
    assert_eq!((&all_lines[1], audio_text(&all_lines).as_str()), (&title(), "one two"));
    assert_eq!(all_lines[2], sound("one "));
    assert_eq!((&all_lines[4]["duration_sec_by_stream"], &all_lines[4]["billing"]), (&json!([1.9]), &json!(19.0)));
    assert_eq!(all_lines[5], json!({"type": "complete", "task_id": task}));
    let task = wait_for_end(&app, &user, &task).await;
    assert_eq!((&task["kind"], states(&task)), (&json!("music"), vec!["created", "processing", "success"]));
    app.stop().await;
}

#[actix_web::test]
async fn lines_are_passed_on_as_they_arrive() {
    let vendor = MusicSim::with_behavior(|_| {
        [lines(&[duration(), title(), sound("one")]), vec![StreamAction::Silence]].concat()
    })
    .await;
    let app = served_by(&vendor).await;
    let user = app.user("listener").await;
    let mut listener = MusicListener::request(&app, &user, &FIELDS).await;
    for kind in ["duration", "title", "audio_chunk"] {
        assert_eq!(listener.line().await.expect("a line")["type"], kind);
    }

    // And a disconnecting client closes the connection to the vendor, and that is recorded
    let task = listener.task.clone();
    assert_eq!(vendor.record().closed, 0);
    drop(listener);
    vendor.wait_until(|record| record.closed == 1).await;
    let task = wait_for_end(&app, &user, &task).await;
    assert_eq!((&task["state"], &task["error"]["code"]), (&json!("failed"), &json!("client_gone")));
    app.stop().await;
}

#[actix_web::test]
async fn cancelling_closes_the_vendor_connection_at_any_time() {
    let vendor = MusicSim::with_behavior(|_| vec![StreamAction::Silence]).await;
    let app = served_by(&vendor).await;
    let user = app.user("listener").await;
    let listener = MusicListener::request(&app, &user, &FIELDS).await;
    let path = format!("/tasks/{}/cancel", listener.task);
    vendor.wait_until(|record| record.requests.len() == 1).await;
    app.post_as(&user.token, &path, json!({})).await.expect(200);
    let last = listener.collect().await.pop().expect("a last line");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("cancelled")));
    vendor.wait_until(|record| record.closed == 1).await;
    app.stop().await;
}

#[actix_web::test]
async fn a_slow_reader_slows_the_vendor_down() {
    // Given a vendor with endless music, and a client that reads one line and then nothing
    let chunk = sound(&"x".repeat(40_000)).to_string() + "\n";
    let vendor = MusicSim::with_behavior(move |_| {
        [lines(&[duration(), title()]), vec![StreamAction::SendForever(chunk.clone())]].concat()
    })
    .await;
    let app = served_by(&vendor).await;
    let user = app.user("listener").await;
    let mut listener = MusicListener::request(&app, &user, &FIELDS).await;
    assert!(listener.line().await.is_some());

    // When the vendor can send no more, then it has sent only what the buffers on the way hold
    let mut bytes_sent = 0;
    eventually("the vendor pauses", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = std::mem::replace(&mut bytes_sent, vendor.record().sent);
        assert!(
            bytes_sent < 64 << 20,
            "{bytes_sent} bytes were taken from the vendor for a listener who reads nothing"
        );
        bytes_sent == before && before > 0
    })
    .await;

    // And it continues when the client does
    for _ in 0..3_000 {
        assert!(listener.line().await.is_some());
        if vendor.record().sent > bytes_sent {
            break;
        }
    }
    assert!(vendor.record().sent > bytes_sent, "the vendor did not continue");
    drop(listener);
    app.stop().await;
}

#[actix_web::test]
async fn a_stalled_reader_releases_the_vendor_and_slot_at_the_deadline() {
    // Given the only slot, held by a client that reads one line of endless music and then nothing
    let chunk = sound(&"x".repeat(40_000)).to_string() + "\n";
    let vendor = MusicSim::with_behavior(move |_| {
        [lines(&[duration()]), vec![StreamAction::SendForever(chunk.clone())]].concat()
    })
    .await;
    let base = vendor.base();
    let change = |settings: &mut Settings| {
        remote(settings, &base);
        (settings.music.streams, settings.tasks.deadline) = (1, Duration::from_secs(10));
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    let (slow, quick) = (app.user("slow").await, app.user("quick").await);
    let mut listener = MusicListener::request(&app, &slow, &FIELDS).await;
    assert!(listener.line().await.is_some());

    // When the task times out, then the vendor's connection is closed, the task has failed, and the slot is free
    let task = listener.task.clone();
    vendor.wait_until(|record| record.closed == 1).await;
    assert_eq!(wait_for_end(&app, &slow, &task).await["error"]["code"], "deadline_exceeded");
    vendor.set_behavior(|_| lines(&normal_lines()));
    let last = MusicListener::request(&app, &quick, &FIELDS).await.collect().await.pop().expect("a last line");
    assert_eq!(last["type"], "complete");

    // And the client gets the error when it continues to read
    let last = listener.collect().await.pop().expect("a last line");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("deadline_exceeded")));
    app.stop().await;
}

#[actix_web::test]
async fn the_vendor_key_is_never_disclosed_even_if_the_vendor_echoes_it() {
    let with_key = json!({"type": "title", "title": format!("for {API_KEY}"), "display_tags": [API_KEY]});
    let failing = json!({"type": "error", "code": API_KEY, "message": format!("{API_KEY} has no credit")});
    let vendor = MusicSim::with_behavior(move |request| match request.field("prompt") {
        Some("refused") => error_response("400 Bad Request", &json!({"message": format!("bad {API_KEY}")}).to_string()),
        _ => lines(&[duration(), with_key.clone(), failing.clone()]),
    })
    .await;
    let app = served_by(&vendor).await;
    let user = app.user("listener").await;
    for prompt in ["refused", "failing"] {
        let listener = MusicListener::request(&app, &user, &[("prompt", prompt)]).await;
        let task = listener.task.clone();
        let lines_text = json!(listener.collect().await).to_string();
        let task_text = wait_for_end(&app, &user, &task).await.to_string();
        let events = app.get_as(app.admin_token(), "/admin/events?limit=1000").await.expect(200).text();
        assert!(
            ![&lines_text, &task_text, &events].iter().any(|text| text.contains(API_KEY)),
            "{lines_text}\n{task_text}"
        );
        assert!(lines_text.contains("********") && task_text.contains("********"), "{lines_text}\n{task_text}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_open_circuit_rejects_requests_without_recording_them() {
    // Given a vendor that fails
    let vendor = MusicSim::with_behavior(|_| error_response("500 Internal Server Error", "{}")).await;
    let base = vendor.base();
    let change = |settings: &mut Settings| {
        remote(settings, &base);
        settings.music_vendors[0].breaker_failures = 2;
        settings.music_vendors[0].breaker_pause = Duration::from_secs(30);
        settings.limits.submissions_per_day = 2;
    };
    let environment = Environment::manual(Timestamp::parse("2026-11-22T12:00:00Z").expect("a time"), 7);
    let app = TestApp::start_with(change, environment.clone()).await;
    let (user, other) = (app.user("listener").await, app.user("other").await);
    let circuit = async || {
        let state = app.get_as(app.admin_token(), "/admin/state").await.expect(200).json();
        let vendors = state["vendors"].as_array().expect("a list").clone();
        let music = vendors.iter().find(|vendor| vendor["name"] == "remote-music").expect("it is shown");
        music["circuit"].as_str().expect("a state").to_owned()
    };
    assert_eq!(circuit().await, "closed");

    // When it has failed twice
    for _ in 0..2 {
        let last = MusicListener::request(&app, &user, &FIELDS).await.collect().await.pop().expect("a last line");
        assert_eq!(last["code"], "outcome_unknown");
    }
    assert_eq!(circuit().await, "open");

    // Then it gets no requests
    let request = |user: &TestUser| form(app.request(Method::POST, GENERATE).bearer_auth(&user.token), &FIELDS);
    let problem = app.send(request(&other)).await;
    assert_eq!((problem.status, problem.json()["error"].as_str()), (503, Some("overloaded")));
    assert!(problem.header("retry-after").is_some_and(|after| after == "31"), "{:?}", problem.headers);
    assert_eq!(vendor.record().requests.len(), 2);
    for (user, count) in [(&user, 2), (&other, 0)] {
        let tasks = app.get_as(&user.token, "/tasks").await.expect(200).json();
        assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(count));
    }

    // And after the pause one success closes the circuit; a request over its quota does not use the probe
    vendor.set_behavior(|_| lines(&normal_lines()));
    environment.advance(Duration::from_secs(30));
    let problem = app.send(request(&user)).await;
    assert_eq!((problem.status, problem.json()["error"].as_str()), (429, Some("quota_exceeded")));
    assert_eq!(circuit().await, "open");
    assert_eq!(app.send(request(&other)).await.status, 200);
    assert_eq!(circuit().await, "closed");
    app.stop().await;
}

#[actix_web::test]
async fn a_crash_during_a_vendor_call_gives_outcome_unknown_without_a_retry() {
    // Given a service that is killed while its vendor processes a request, and another while it receives the response
    let vendor = MusicSim::with_behavior(|asked| match asked.field("prompt") {
        Some("heard") => [lines(&[duration()]), vec![StreamAction::Silence]].concat(),
        _ => vec![StreamAction::Send(STREAM_HEAD.to_owned()), StreamAction::Silence],
    })
    .await;
    for (index, (prompt, code)) in [("asked", "outcome_unknown"), ("heard", "interrupted")].into_iter().enumerate() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let start = || {
            let mut command = command(dir.path());
            Process::from_command(command.env("MEDIARY_VENDORS__MUSIC__URL", vendor.base()))
        };
        let process = start();
        let request = crate::support::client().request(Method::POST, process.url(GENERATE)).bearer_auth(TOKEN);
        let mut response = form(request, &[("prompt", prompt)]).send().await.expect("a response");
        let task = response.headers()["x-task-id"].to_str().expect("an id").to_owned();
        vendor.wait_until(|record| record.requests.len() == index + 1).await;
        if prompt == "heard" {
            assert!(response.chunk().await.expect("a line").is_some());
        }
        process.kill();

        // When it starts again, then the task has failed with the right reason, and the vendor got one request
        let process = start();
        let body = crate::support::client().get(process.url(&format!("/tasks/{task}"))).bearer_auth(TOKEN);
        let body: Value = body.send().await.expect("a response").json().await.expect("JSON");
        assert_eq!((&body["state"], &body["error"]["code"]), (&json!("failed"), &json!(code)));
        assert_eq!(vendor.record().requests.len(), index + 1);
        process.kill();
    }
}

#[actix_web::test]
async fn lines_after_complete_are_ignored() {
    let vendor = MusicSim::with_behavior(|_| {
        [lines(&[duration(), title(), sound("one"), complete(), sound("two")]), vec![StreamAction::Silence]].concat()
    })
    .await;
    let app = served_by(&vendor).await;
    let user = app.user("listener").await;
    let all_lines = MusicListener::request(&app, &user, &FIELDS).await.collect().await;
    assert_eq!((audio_text(&all_lines).as_str(), &all_lines[all_lines.len() - 1]["type"]), ("one", &json!("complete")));
    vendor.wait_until(|record| record.closed == 1).await;
    app.stop().await;
}
