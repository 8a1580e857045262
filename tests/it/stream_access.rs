//! Streams end at once when their credentials lose access, long before the next heartbeat.

use std::time::Duration;

use mediary::config::Settings;
use mediary::environment::Environment;
use reqwest::{Response, header::HeaderMap};
use serde_json::json;

use crate::image::UPSCALER;
use crate::music::{MusicListener, wait_for_end};
use crate::support::eventually::within;
use crate::support::files::FileServer;
use crate::support::{TestApp, TestUser, client};

/// Starts a service with a heartbeat longer than the deadline of the tests.
async fn silent() -> TestApp {
    let silent = |settings: &mut Settings| settings.streams.heartbeat = Duration::from_mins(5);
    TestApp::start_with(silent, Environment::system()).await
}

/// Revokes the token of a user.
async fn revoke(app: &TestApp, user: &TestUser) {
    let path = format!("/admin/users/{}/tokens", user.id);
    let tokens = app.get_as(app.admin_token(), &path).await.expect(200).json();
    let token = tokens[0]["id"].as_str().expect("an id");
    app.delete_as(app.admin_token(), &format!("{path}/{token}")).await.expect(204);
}

async fn ban(app: &TestApp, user: &TestUser) {
    let path = format!("/admin/users/{}/ban", user.id);
    let response = app.post_as(app.admin_token(), &path, json!({"reason": "spam"})).await;
    assert!([200, 204].contains(&response.status), "{}", response.text());
}

/// Opens a stream of events and reads its beginning.
async fn open(app: &TestApp, token: &str, path: &str) -> Response {
    let mut response = client().get(app.url(path)).bearer_auth(token).send().await.expect("a response");
    assert_eq!((response.status().as_u16(), is_events(response.headers())), (200, true));
    assert!(response.chunk().await.expect("a beginning").is_some());
    response
}

fn is_events(headers: &HeaderMap) -> bool {
    headers["content-type"] == "text/event-stream"
}

/// Reads a stream to its end.
async fn end_of(mut response: Response) {
    let drain = async { while response.chunk().await.expect("a whole answer").is_some() {} };
    within("the stream ends at once", drain).await;
}

#[actix_web::test]
async fn a_task_stream_ends_with_token_revocation_and_ban() {
    for is_banned in [false, true] {
        // Given a reader of a task whose picture does not arrive
        let app = silent().await;
        let server = FileServer::with_replies(|_| panic!("responses are held back")).await;
        server.hold();
        let alice = app.user("alice").await;
        let task = app.post_as(&alice.token, UPSCALER, json!({"image": server.url("/a.png")})).await.expect(200).json();
        let path = format!("/tasks/{}/events", task["data"]["task_id"].as_str().expect("an id"));
        let stream = open(&app, &alice.token, &path).await;

        // When the token is revoked, or its user banned, then the stream ends
        if is_banned {
            ban(&app, &alice).await;
        } else {
            revoke(&app, &alice).await;
        }
        end_of(stream).await;
    }
}

#[actix_web::test]
async fn an_event_stream_ends_with_token_revocation() {
    let app = silent().await;
    let operator = app.user("operator").await;
    let path = format!("/admin/users/{}", operator.id);
    app.put_as(app.admin_token(), &path, json!({"isAdmin": true})).await.expect(200);
    let stream = open(&app, &operator.token, "/admin/events/stream?type=NodeCreated").await;
    // Changes to other users leave it open.
    let other = app.user("other").await;
    revoke(&app, &other).await;

    revoke(&app, &operator).await;

    end_of(stream).await;
}

#[actix_web::test]
async fn a_music_stream_ends_with_token_revocation_and_an_error_line() {
    let app = silent().await;
    let user = app.user("listener").await;
    let mut listener =
        MusicListener::request(&app, &user, &[("prompt", "a long calm drone"), ("duration", "360")]).await;
    assert!(listener.line().await.is_some());
    let task = listener.task.clone();

    revoke(&app, &user).await;

    let lines = within("the stream ends at once", listener.collect()).await;
    let last = lines.last().expect("a last line");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("cancelled")), "{last}");
    assert!(last["message"].as_str().is_some_and(|message| message.contains("no longer valid")), "{last}");
    let admin = TestUser { id: String::new(), token: app.admin_token().to_owned() };
    let task = wait_for_end(&app, &admin, &task).await;
    assert_eq!((&task["state"], &task["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    app.stop().await;
}
