//! `blocked_by`: the reason that blocks a task, shown to its owner while the task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::stream::TaskStreamReader;
use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::files::{FileServer, file, status, vacant_port};
use crate::support::picture::png;
use crate::support::vendor_sim::{SimBehavior, SimMode, SimRequestKind, VendorSim};
use crate::support::{TestApp, TestUser, client};
use crate::vendor::{API_KEY, remote, sim, upscale};

/// Waits until the task is blocked, and returns it.
pub async fn blocked_task(app: &TestApp, user: &TestUser, task: &str) -> Value {
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = TaskStreamReader::open(&client(), &url, &user.token, None).await;
    loop {
        let event = reader.next().await.expect("the task is still waiting");
        if event.task.get("blocked_by").is_some() {
            assert!(
                ["snapshot", "progress"].contains(&event.name.as_str()),
                "being blocked was recorded as a change of the task"
            );
            return event.task;
        }
    }
}

/// Waits until the task is no longer blocked and has succeeded.
async fn assert_unblocked_and_completed(app: &TestApp, user: &TestUser, task: &str) {
    assert_eq!(wait_for_end(app, user, UPSCALER, task).await["status"], "COMPLETED");
    let body = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(body.get("blocked_by"), None, "{body}");
}

#[actix_web::test]
async fn an_unfetched_picture_is_shown_in_blocked_by_without_a_queue_position() {
    // Given a picture at an address without a listener
    let (socket, address) = vacant_port();
    let url = format!("http://{address}/image.png");
    let app = TestApp::start().await;
    let alice = app.user("alice").await;

    // When the task is started
    let task = submit(&app, &alice, UPSCALER, json!({"image": &url})).await;
    let blocked_event = blocked_task(&app, &alice, &task).await;

    // Then the task shows the reason, its start and the next attempt, without error numbers of this machine
    let blocked_by = &blocked_event["blocked_by"];
    assert_eq!(blocked_by["code"], "input_unavailable");
    assert_eq!(blocked_by["message"], format!("{url} could not be fetched: cannot connect: Connection refused"));
    let time = |name: &str| blocked_by[name].as_str().expect("a time").to_owned();
    assert!(time("since") < time("next_attempt_at"), "{blocked_by}");
    assert_eq!((&blocked_event["state"], blocked_event.get("queue_position")), (&json!("CREATED"), None));

    // And lists show it too
    let list = app.get_as(&alice.token, "/tasks").await.expect(200).json();
    assert_eq!(list["tasks"][0]["blocked_by"]["code"], "input_unavailable");

    // And when the server listens, the task continues
    let _server = FileServer::on_listener(socket.listen(64).expect("a listener"), |_| file(&png(8, 8)));
    assert_unblocked_and_completed(&app, &alice, &task).await;
    app.stop().await;
}

#[actix_web::test]
async fn deadline_exceeded_includes_the_last_blocker() {
    // Given a short deadline of tasks, and a picture at an address without a listener
    let (_socket, address) = vacant_port();
    let url = format!("http://{address}/image.png");
    let short_deadline = |settings: &mut mediary::config::Settings| settings.tasks.deadline = Duration::from_secs(10);
    let app = TestApp::start_with(short_deadline, Environment::system()).await;
    let alice = app.user("alice").await;

    // When the deadline has passed
    let task = submit(&app, &alice, UPSCALER, json!({"image": &url})).await;
    let error = wait_for_end(&app, &alice, UPSCALER, &task).await["error"].clone();

    // Then the failure keeps the reason shown before
    let expected_reason = "could not be fetched: cannot connect: Connection refused";
    assert_eq!(error["code"], "deadline_exceeded");
    assert_eq!(error["message"], format!("not finished within 10 seconds; last blocked by: {url} {expected_reason}"));
    app.stop().await;
}

#[actix_web::test]
async fn blocked_by_has_the_status_of_the_picture_server() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::with_replies(|_| status("503 Service Unavailable", "")).await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png?key=secret")})).await;
    let blocked_event = blocked_task(&app, &alice, &task).await;
    let message = format!("{} could not be fetched: the server responded with status 503", server.url("/image.png"));
    assert_eq!(blocked_event["blocked_by"]["message"], message);

    // And after a cancellation the reason is no longer shown
    let path = format!("/tasks/{task}/cancel");
    let cancelled = app.post_as(&alice.token, &path, json!({})).await.expect(200).json();
    assert_eq!((&cancelled["state"], cancelled.get("blocked_by")), (&json!("FAILED"), None));
    app.stop().await;
}

#[actix_web::test]
async fn a_stream_reports_when_a_task_is_unblocked() {
    // Given a task in progress at a vendor that then cannot be polled
    let down = Arc::new(AtomicBool::new(false));
    let fails = down.clone();
    let vendor = VendorSim::with_behavior(sim(SimMode::Neither, Duration::from_hours(1)), move |request| {
        if request.kind == SimRequestKind::Poll && fails.load(Ordering::SeqCst) {
            return SimBehavior::Respond("500 Internal Server Error", "{}".to_owned());
        }
        SimBehavior::Normal
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base, SimMode::Neither), Environment::system()).await;
    let alice = app.user("alice").await;
    let task = submit(&app, &alice, UPSCALER, upscale("patient")).await;
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = TaskStreamReader::open(&client(), &url, &alice.token, None).await;
    while reader.next().await.expect("an event").task["state"] != "IN_PROGRESS" {}
    down.store(true, Ordering::SeqCst);
    blocked_task(&app, &alice, &task).await;

    // When a new reader sees the blocked state at once, and the vendor recovers
    let mut late_reader = TaskStreamReader::open(&client(), &url, &alice.token, None).await;
    let snapshot = late_reader.next().await.expect("a snapshot");
    assert_eq!(
        (snapshot.name.as_str(), snapshot.task["blocked_by"].is_object()),
        ("snapshot", true),
        "{}",
        snapshot.task
    );
    down.store(false, Ordering::SeqCst);

    // Then the stream reports the end of the block, although it is not recorded
    loop {
        let event = late_reader.next().await.expect("an event");
        assert_eq!(event.name, "progress");
        if event.task.get("blocked_by").is_none() {
            break;
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn blocked_by_hides_vendor_internals() {
    // Given a vendor at an address without a listener
    let (socket, address) = vacant_port();
    let base = format!("http://{address}");
    let app = TestApp::start_with(|settings| remote(settings, &base, SimMode::Neither), Environment::system()).await;
    let alice = app.user("alice").await;

    // When a task is started
    let task = submit(&app, &alice, UPSCALER, upscale("patient")).await;
    let blocked_event = blocked_task(&app, &alice, &task).await;

    // Then its owner sees the block, without the vendor's address or the system's error text
    let blocked_by = &blocked_event["blocked_by"];
    assert_eq!(blocked_by["code"], "vendor_unreachable");
    let blocked_text = blocked_by.to_string();
    for secret in ["127.0.0.1", &address.port().to_string(), API_KEY, "os error", "http"] {
        assert!(!blocked_text.contains(secret), "{blocked_text}");
    }
    assert_eq!(blocked_event.get("queue_position"), None);

    // And when the vendor listens, the task continues
    let listener = socket.listen(64).expect("a listener");
    let _vendor = VendorSim::on_listener(listener, sim(SimMode::Neither, Duration::ZERO), |_| SimBehavior::Normal);
    assert_unblocked_and_completed(&app, &alice, &task).await;
    app.stop().await;
}
