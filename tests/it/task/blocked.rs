//! Reasons that block a task, shown to its owner while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::stream::Reader;
use crate::image::{UPSCALER, ended, submit};
use crate::support::files::{FileServer, file, status, vacant_port};
use crate::support::picture::png;
use crate::support::vendor_sim::{Conduct, Kind, Mode, VendorSim};
use crate::support::{TestApp, TestUser, client};
use crate::vendor::{API_KEY, remote, sim, upscale};

/// Waits until the task is blocked, and returns it.
pub async fn blocked_task(app: &TestApp, user: &TestUser, task: &str) -> Value {
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = Reader::open(&client(), &url, &user.token, None).await;
    loop {
        let told = reader.next().await.expect("it waits");
        if told.task.get("blocked_by").is_some() {
            assert!(["snapshot", "progress"].contains(&told.name.as_str()), "it is no change of the task");
            return told.task;
        }
    }
}

/// Waits until the task is no longer blocked and has succeeded.
async fn goes_on(app: &TestApp, user: &TestUser, task: &str) {
    assert_eq!(ended(app, user, UPSCALER, task).await["status"], "COMPLETED");
    let shown = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!(shown.get("blocked_by"), None, "{shown}");
}

#[actix_web::test]
async fn a_picture_that_cannot_be_fetched_yet_is_told_with_the_reason_and_no_place_in_a_queue() {
    // Given a picture at an address without a listener
    let (socket, address) = vacant_port();
    let url = format!("http://{address}/image.png");
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    // When the task is started
    let task = submit(&app, &alice, UPSCALER, json!({"image": &url})).await;
    let told = blocked_task(&app, &alice, &task).await;
    // Then the task shows the reason, its start and the next attempt, without error numbers of this machine
    let blocked_by = &told["blocked_by"];
    assert_eq!(blocked_by["code"], "input_unavailable");
    assert_eq!(blocked_by["message"], format!("{url} could not be fetched: cannot connect: Connection refused"));
    let time = |name: &str| blocked_by[name].as_str().expect("a time").to_owned();
    assert!(time("since") < time("next_attempt_at"), "{blocked_by}");
    assert_eq!((&told["state"], told.get("queue_position")), (&json!("CREATED"), None));
    // And lists show it too
    let list = app.get_as(&alice.token, "/tasks").await.expect(200).json();
    assert_eq!(list["tasks"][0]["blocked_by"]["code"], "input_unavailable");
    // And when the server listens, the task continues
    let _server = FileServer::listening(socket.listen(64).expect("a listener"), |_| file(&png(8, 8)));
    goes_on(&app, &alice, &task).await;
    app.stop().await;
}

#[actix_web::test]
async fn a_deadline_says_what_kept_the_task_last() {
    // Given a short deadline, and a picture at an address without a listener
    let (_socket, address) = vacant_port();
    let url = format!("http://{address}/image.png");
    let little = |settings: &mut mediary::config::Settings| settings.tasks.deadline = Duration::from_secs(2);
    let app = TestApp::start_with(little, Environment::system()).await;
    let alice = app.user("alice").await;
    // When the deadline has passed
    let task = submit(&app, &alice, UPSCALER, json!({"image": &url})).await;
    let error = ended(&app, &alice, UPSCALER, &task).await["error"].clone();
    // Then the failure keeps the reason shown before
    let kept = "could not be fetched: cannot connect: Connection refused";
    assert_eq!(error["code"], "deadline_exceeded");
    assert_eq!(error["message"], format!("not finished within 2 seconds; last blocked by: {url} {kept}"));
    app.stop().await;
}

#[actix_web::test]
async fn a_server_of_pictures_in_trouble_is_told_by_its_status() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let server = FileServer::answering(|_| status("503 Service Unavailable", "")).await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/image.png?key=secret")})).await;
    let told = blocked_task(&app, &alice, &task).await;
    let message = format!("{} could not be fetched: the server responded with status 503", server.url("/image.png"));
    assert_eq!(told["blocked_by"]["message"], message);
    // And after a cancellation only the end is shown
    let path = format!("/tasks/{task}/cancel");
    let cancelled = app.post_as(&alice.token, &path, json!({})).await.expect(200).json();
    assert_eq!((&cancelled["state"], cancelled.get("blocked_by")), (&json!("FAILED"), None));
    app.stop().await;
}

#[actix_web::test]
async fn whoever_comes_while_a_task_is_hindered_is_told_when_that_is_over() {
    // Given a task in progress at a vendor that then cannot be polled
    let down = Arc::new(AtomicBool::new(false));
    let fails = down.clone();
    let vendor = VendorSim::behaving(sim(Mode::Neither, Duration::from_hours(1)), move |asked| {
        if asked.kind == Kind::Poll && fails.load(Ordering::SeqCst) {
            return Conduct::Answer("500 Internal Server Error", "{}".to_owned());
        }
        Conduct::Usual
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base, Mode::Neither), Environment::system()).await;
    let alice = app.user("alice").await;
    let task = submit(&app, &alice, UPSCALER, upscale("patient")).await;
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = Reader::open(&client(), &url, &alice.token, None).await;
    while reader.next().await.expect("it is made").task["state"] != "IN_PROGRESS" {}
    down.store(true, Ordering::SeqCst);
    blocked_task(&app, &alice, &task).await;
    // When a new reader sees the blocked state at once, and the vendor recovers
    let mut late = Reader::open(&client(), &url, &alice.token, None).await;
    let snapshot = late.next().await.expect("a snapshot");
    assert_eq!(
        (snapshot.name.as_str(), snapshot.task["blocked_by"].is_object()),
        ("snapshot", true),
        "{}",
        snapshot.task
    );
    down.store(false, Ordering::SeqCst);
    // Then the stream reports the end of the block, although it is not recorded
    loop {
        let told = late.next().await.expect("it is made");
        assert_eq!(told.name, "progress");
        if told.task.get("blocked_by").is_none() {
            break;
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_vendor_that_is_not_reached_is_told_without_what_only_the_operator_knows() {
    // Given a vendor at an address without a listener
    let (socket, address) = vacant_port();
    let base = format!("http://{address}");
    let app = TestApp::start_with(|settings| remote(settings, &base, Mode::Neither), Environment::system()).await;
    let alice = app.user("alice").await;
    // When a task is started
    let task = submit(&app, &alice, UPSCALER, upscale("patient")).await;
    let told = blocked_task(&app, &alice, &task).await;
    // Then its owner sees the block, without the vendor's address or the system's error text
    let blocked_by = &told["blocked_by"];
    assert_eq!(blocked_by["code"], "vendor_unreachable");
    let said = blocked_by.to_string();
    for secret in ["127.0.0.1", &address.port().to_string(), API_KEY, "os error", "http"] {
        assert!(!said.contains(secret), "{said}");
    }
    assert_eq!(told.get("queue_position"), None);
    // And when the vendor listens, the task continues
    let listener = socket.listen(64).expect("a listener");
    let _vendor = VendorSim::on(listener, sim(Mode::Neither, Duration::ZERO), |_| Conduct::Usual);
    goes_on(&app, &alice, &task).await;
    app.stop().await;
}
