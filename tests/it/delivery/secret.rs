//! Webhook secret of an account: creation, rotation, end, signatures, and confidentiality.

use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{manual_clock, wait_until_settled};
use crate::image::PRECISION;
use crate::support::receiver::{ReceivedRequest, Receiver};
use crate::support::{TestApp, TestUser, picture};

const SECRET: &str = "/users/webhook-secret";

async fn rotate(app: &TestApp, user: &TestUser) -> Value {
    app.post_as(&user.token, SECRET, json!({})).await.expect(200).json()
}

/// Waits for the only callback of a new task.
async fn receive_callback(app: &TestApp, user: &TestUser, receiver: &Receiver) -> ReceivedRequest {
    let body = json!({"image": picture::base64_png(8, 8), "webhook_url": receiver.url("/hook")});
    let task = crate::image::submit(app, user, PRECISION, body).await;
    wait_until_settled(app, &user.token, &task).await;
    receiver.received().pop().unwrap()
}

/// Returns the symmetric signatures of a callback.
fn signatures(callback: &ReceivedRequest) -> Vec<String> {
    let signatures: Vec<_> = callback.header("webhook-signature").split(' ').map(str::to_owned).collect();
    assert!(signatures[0].starts_with("v1a,"), "{signatures:?}");
    signatures[1..].to_vec()
}

#[actix_web::test]
async fn a_rotated_secret_signs_for_another_day() {
    let environment = manual_clock();
    let (app, receiver) = (TestApp::start_with(|_| {}, environment.clone()).await, Receiver::start().await);
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    assert!(signatures(&receive_callback(&app, &ada, &receiver).await).is_empty());
    let first = rotate(&app, &ada).await;
    assert_eq!(first.get("previous_until"), None);
    let callback = receive_callback(&app, &ada, &receiver).await;
    assert_eq!(signatures(&callback), [callback.signature_with(&first)]);

    // When it is rotated, and the service restarts
    environment.advance(Duration::from_mins(1));
    let second = rotate(&app, &ada).await;
    assert_eq!(second["previous_until"], "2027-01-16T08:01:00.000000Z");
    let app = TestApp::start_in(app.stop().await, |_| {}, environment.clone()).await;

    // Then both secrets sign, the new one first, and only for this user
    let callback = receive_callback(&app, &ada, &receiver).await;
    assert_eq!(signatures(&callback), [callback.signature_with(&second), callback.signature_with(&first)]);
    assert!(signatures(&receive_callback(&app, &bob, &receiver).await).is_empty());

    // And after a day only the new one signs
    environment.advance(Duration::from_hours(24));
    let callback = receive_callback(&app, &ada, &receiver).await;
    assert_eq!(signatures(&callback), [callback.signature_with(&second)]);

    // And none signs once they are ended
    for _ in 0..2 {
        app.delete_as(&ada.token, SECRET).await.expect(204);
    }
    assert!(signatures(&receive_callback(&app, &ada, &receiver).await).is_empty());
}

#[actix_web::test]
async fn at_most_four_older_secrets_sign() {
    let app = TestApp::start_with(|_| {}, manual_clock()).await;
    let ada = app.user("ada").await;
    for _ in 0..5 {
        rotate(&app, &ada).await;
    }
    let problem = app.post_as(&ada.token, SECRET, json!({})).await.expect(409).json();
    assert!(problem["detail"].as_str().unwrap().contains("2027-01-16T08:00:00"), "{problem}");
    app.delete_as(&ada.token, SECRET).await.expect(204);
    rotate(&app, &ada).await;
}

#[actix_web::test]
async fn an_idempotent_rotation_returns_the_same_secret() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let keyed = || app.request(reqwest::Method::POST, SECRET).bearer_auth(&ada.token).header("Idempotency-Key", "k-1");
    let first = app.send(keyed().json(&json!({}))).await.expect(200).json();
    let repeated = app.send(keyed().json(&json!({}))).await.expect(200);
    assert_eq!((repeated.header("idempotent-replayed"), repeated.json()), (Some("true"), first));
}

#[actix_web::test]
async fn a_webhook_secret_ends_with_the_erasure_of_its_user() {
    let (app, receiver) = (TestApp::start().await, Receiver::start().await);

    // Given a user without other encrypted data
    let id =
        app.post_as(app.admin_token(), "/admin/users", json!({"name": "Ada"})).await.expect(201).json()["id"].clone();
    let tokens = format!("/admin/users/{}/tokens", id.as_str().unwrap());
    let token = app.post_as(app.admin_token(), &tokens, json!({"name": "t"})).await.expect(201).json();
    let ada = TestUser { id: id.as_str().unwrap().to_owned(), token: token["token"].as_str().unwrap().to_owned() };
    let secret = rotate(&app, &ada).await;
    let callback = receive_callback(&app, &ada, &receiver).await;
    assert_eq!(signatures(&callback), [callback.signature_with(&secret)]);
    let key = app.dir.path().join("personal").join(&ada.id[ada.id.len() - 2..]).join(&ada.id);
    assert!(key.is_file(), "the user has no key");

    // When the user is erased
    app.delete_as(&ada.token, "/users").await.expect(204);

    // Then the key of the secret is gone
    assert!(!key.exists());
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert!(app.app.models().read().users.profiles().all(|user| user.webhook_secrets.is_empty()));
}
