//! Callbacks of image tasks: every change of status, signed, in order per task, at least once, even after a restart.

use std::time::Duration;

use mediary::actors::projector::rebuild;
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::eventually::{eventually, eventually_on};
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::{TestApp, picture};

mod faults;
mod listing;
mod secret;

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

async fn submit(app: &TestApp, webhook: &str) -> String {
    let body = json!({"image": picture::base64_png(16, 16), "webhook_url": webhook});
    let task = app.post_as(app.admin_token(), UPSCALER, body).await.expect(200).json();
    task["data"]["task_id"].as_str().unwrap().to_owned()
}

fn statuses(received: &[ReceivedRequest]) -> Vec<String> {
    received.iter().map(ReceivedRequest::status).collect()
}

/// Returns an environment whose clock only the test advances.
fn manual_clock() -> Environment {
    Environment::manual(Timestamp::from_micros(1_800_000_000_000_000), 7)
}

#[actix_web::test]
async fn webhooks_report_every_status_change_in_order() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let task = submit(&app, &receiver.url("/hook?x=1")).await;

    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(statuses(&received), ["IN_PROGRESS", "COMPLETED"]);
    let (first, last) = (received[0].json(), received[1].json());
    assert_eq!(first, json!({"generated": [], "status": "IN_PROGRESS", "task_id": task}));
    assert_eq!(last["generated"].as_array().unwrap().len(), 1);
    assert!(received.iter().all(|callback| callback.path == "/hook?x=1"));

    // And the callback has the same content as a status read
    let task_body = app.get_as(app.admin_token(), &format!("{UPSCALER}/{task}")).await.expect(200).json();
    assert_eq!(task_body["data"], last);
}

#[actix_web::test]
async fn webhooks_are_signed_with_the_published_key() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    submit(&app, &receiver.url("/hook")).await;
    let received = receiver.wait_until(|received| received.len() == 2).await;

    let key_text = app.get("/.well-known/webhook-key").await.expect(200).text();
    let key = verifying_key(&key_text);
    for callback in &received {
        let id = callback.header("webhook-id");
        let at = callback.header("webhook-timestamp");
        let signed_content = [id.as_bytes(), b".", at.as_bytes(), b".", &callback.body].concat();
        let signature = callback.header("webhook-signature").strip_prefix("v1a,").unwrap();
        let signature = ed25519_dalek::Signature::from_slice(&decoded(signature)).unwrap();
        key.verify_strict(&signed_content, &signature).unwrap();
        assert!(key.verify_strict(b"something else", &signature).is_err());
    }
    assert_ne!(received[0].header("webhook-id"), received[1].header("webhook-id"));
}

fn verifying_key(key_text: &str) -> ed25519_dalek::VerifyingKey {
    let key = key_text.split("whpk_").nth(1).expect("a whpk_ key");
    let key = key.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && !"+/=".contains(c));
    ed25519_dalek::VerifyingKey::from_bytes(&decoded(key).try_into().unwrap()).unwrap()
}

fn decoded(base64: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(base64).unwrap()
}

#[actix_web::test]
async fn a_failed_delivery_is_retried_with_its_id_before_later_ones() {
    // Given a receiver that fails twice
    let receiver = Receiver::with_replies(|attempt, _| match attempt {
        1 => "HTTP/1.1 500 Internal Server Error".to_owned(),
        2 => "HTTP/1.1 302 Found\r\nlocation: /elsewhere".to_owned(),
        _ => "HTTP/1.1 200 OK".to_owned(),
    })
    .await;
    let environment = manual_clock();
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let task = submit(&app, &receiver.url("/hook")).await;

    // When time passes by the schedule of contract 8: 5 s, then 5 min, each at most a tenth longer
    receiver.wait_until(|received| received.len() == 1).await;
    wait_for_completion(&app, &task).await;
    wait_for_attempts(&app, &task, 1).await;
    environment.advance(Duration::from_millis(5500));
    receiver.wait_until(|received| received.len() == 2).await;
    wait_for_attempts(&app, &task, 2).await;
    environment.advance(Duration::from_secs(330));
    let received = receiver.wait_until(|received| received.len() == 4).await;

    // Then the first message arrived three times under one id, and the second only afterwards
    assert_eq!(statuses(&received), ["IN_PROGRESS", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"]);
    assert!(received[..3].iter().all(|callback| callback.header("webhook-id") == received[0].header("webhook-id")));
    assert!(received.iter().all(|callback| callback.path == "/hook"), "a redirect was followed");
}

#[actix_web::test]
async fn a_410_stops_a_delivery() {
    let receiver = Receiver::with_replies(|attempt, _| match attempt {
        1 => "HTTP/1.1 410 Gone".to_owned(),
        _ => "HTTP/1.1 200 OK".to_owned(),
    })
    .await;
    let app = TestApp::start().await;
    submit(&app, &receiver.url("/hook")).await;
    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(statuses(&received), ["IN_PROGRESS", "COMPLETED"]);
}

#[actix_web::test]
async fn a_dead_receiver_does_not_delay_others() {
    // Given a receiver that accepts connections and never responds, and more callbacks to it than may be sent at the
    // same time: 8 to one receiver, and 9 (set here) in total
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead_url = format!("http://{}/hook", dead.local_addr().unwrap());
    let few = |settings: &mut mediary::config::Settings| {
        settings.callbacks.concurrency = 9;
        // Longer than any wait of the tests.
        settings.callbacks.timeout = Duration::from_mins(5);
    };
    let app = TestApp::start_with(few, Environment::system()).await;
    let receiver = Receiver::start().await;
    for _ in 0..20 {
        submit(&app, &dead_url).await;
    }

    // When another receiver has a callback due
    submit(&app, &receiver.url("/hook")).await;

    // Then it gets the callback before the timeout of the first receiver
    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(statuses(&received), ["IN_PROGRESS", "COMPLETED"]);
}

#[actix_web::test]
async fn pending_deliveries_continue_after_a_restart() {
    // Given a receiver that is down
    let down = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = down.local_addr().unwrap();
    drop(down);
    let app = TestApp::start().await;
    let task = submit(&app, &format!("http://{address}/hook")).await;
    wait_for_completion(&app, &task).await;
    let dir = app.stop().await;

    // When the receiver is back and the service restarts
    let receiver = Receiver::start_on(address).await;
    let later_clock = manual_clock();
    later_clock.advance(Duration::from_hours(24 * 365));
    let app = TestApp::start_in(dir, |_| {}, later_clock).await;

    // Then it gets the missed callbacks, in order
    let received = receiver.wait_until(|received| received.len() == 2).await;
    assert_eq!(statuses(&received), ["IN_PROGRESS", "COMPLETED"]);
    assert!(received.iter().all(|callback| callback.task_id() == task));
    drop(app);
}

#[actix_web::test]
async fn denied_private_addresses_are_not_called() {
    let receiver = Receiver::start().await;
    let deny =
        |settings: &mut mediary::config::Settings| settings.egress.private = mediary::config::PrivateAccess::Deny;
    let app = TestApp::start_with(deny, Environment::system()).await;
    let task = submit(&app, &receiver.url("/hook")).await;
    wait_for_completion(&app, &task).await;
    wait_for_attempts(&app, &task, 1).await;
    let attempt = listed(&app, app.admin_token(), &task).await[0]["attempts"][0].clone();
    assert_eq!(attempt["reason"], "the egress rules forbid calls to this address");
    assert!(receiver.received().is_empty());
}

#[actix_web::test]
async fn read_models_equal_a_rebuild_after_tasks_and_deliveries() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);
    let user = app.user("alice").await;
    app.publisher("acme", &user).await;
    app.node("acme", "face-tools", &user).await;
    let task = submit(&app, &receiver.url("/hook")).await;
    // The models that the writer updated event by event, once the last delivery is recorded
    wait_until_settled(&app, app.admin_token(), &task).await;
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
    let dir = app.stop().await;

    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    assert_eq!(rebuild(&**app.app.log()).unwrap(), *app.app.models().read());
}

/// Returns the deliveries of a task, as its owner reads them.
pub async fn listed(app: &TestApp, token: &str, task: &str) -> Vec<Value> {
    let response = app.get_as(token, &format!("/tasks/{task}/deliveries")).await.expect(200).json();
    response["deliveries"].as_array().unwrap().clone()
}

/// Waits until the deliveries of a task satisfy the predicate.
pub async fn wait_for_deliveries(
    app: &TestApp,
    token: &str,
    task: &str,
    condition: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    eventually_on(app.app.models().delivery_changes(), "the deliveries are as expected", async || {
        let deliveries = listed(app, token, task).await;
        condition(&deliveries).then_some(deliveries)
    })
    .await
}

/// Waits until the task and all its deliveries have ended.
pub async fn wait_until_settled(app: &TestApp, token: &str, task: &str) -> Vec<Value> {
    let is_final = |status: &Value| ["COMPLETED", "FAILED"].contains(&status.as_str().unwrap());
    wait_for_deliveries(app, token, task, |deliveries| {
        let all_settled = deliveries.iter().all(|delivery| delivery["state"] != "pending");
        all_settled && deliveries.last().is_some_and(|last| is_final(&last["status"]))
    })
    .await
}

/// Waits until `attempts` attempts of the task's first delivery are recorded.
async fn wait_for_attempts(app: &TestApp, task: &str, attempts: usize) {
    let has_attempts = |deliveries: &[Value]| {
        deliveries.first().is_some_and(|item| item["attempts"].as_array().unwrap().len() >= attempts)
    };
    wait_for_deliveries(app, app.admin_token(), task, has_attempts).await;
}

/// Waits until the task has succeeded.
async fn wait_for_completion(app: &TestApp, task: &str) -> Value {
    eventually("the task completes", async || {
        let task_body = app.get_as(app.admin_token(), &format!("{UPSCALER}/{task}")).await.expect(200).json();
        assert_ne!(task_body["data"]["status"], "FAILED", "{task_body}");
        (task_body["data"]["status"] == "COMPLETED").then_some(task_body)
    })
    .await
}
