//! Equality of requests, and the response to a repeated one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use mediary::environment::Environment;
use reqwest::Method;
use serde_json::json;

use super::{KEY, START, assert_problem, assert_replay, replayed, user_body};
use crate::support::TestApp;
use crate::support::eventually::eventually;

#[actix_web::test]
async fn a_replay_has_the_same_bytes_and_headers() {
    // Given a publisher created with a key, and changed since
    let app = TestApp::start().await;
    let (ada, body) = (app.user("ada").await, json!({"id": "acme", "name": "Acme"}));
    let first = app.post_once("k-1", &ada.token, "/publishers", &body).await.expect(201);
    app.put_as(&ada.token, "/publishers/acme", json!({"name": "Changed", "description": "x".repeat(2000)})).await;

    // When the request is repeated, then it gets the first response
    let second = app.post_once("k-1", &ada.token, "/publishers", &body).await;
    assert_replay(&first, &second);
    assert!(first.header("location").is_some_and(|location| location.ends_with("/publishers/acme")));

    // And after a restart as well, without a second effect
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    let third = app.post_once("k-1", &ada.token, "/publishers", &body).await;
    assert_eq!((third.status, third.text()), (first.status, first.text()));
    assert!(replayed(&third));
    assert_eq!(app.recorded("PublisherCreated"), 1);
    assert_eq!(app.get("/publishers/acme").await.json()["name"], "Changed");
    app.stop().await;
}

#[actix_web::test]
async fn a_replayed_put_does_not_undo_later_changes() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let (first_body, second_body) = (json!({"name": "One"}), json!({"name": "Two"}));
    let first = app.put_once("k-1", &ada.token, "/publishers/acme", &first_body).await.expect(200);
    app.put_once("k-2", &ada.token, "/publishers/acme", &second_body).await.expect(200);
    let repeated = app.put_once("k-1", &ada.token, "/publishers/acme", &first_body).await;
    assert_replay(&first, &repeated);
    assert_eq!(app.get("/publishers/acme").await.json()["name"], "Two");
    app.stop().await;
}

#[actix_web::test]
async fn a_rejection_is_replayed_after_its_cause_is_gone() {
    // Given requests that are rejected for various reasons
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    for (key, body, status) in
        [("taken", json!({"id": "acme"}), 409), ("wrong", json!({"id": "Not an id"}), 400), ("empty", json!({}), 400)]
    {
        let first = app.post_once(key, &ada.token, "/publishers", &body).await.expect(status);
        let repeated = app.post_once(key, &ada.token, "/publishers", &body).await;
        assert_replay(&first, &repeated);
    }

    // When the rejected requests would now succeed
    let unban = format!("/admin/users/{}/unban", ada.id);
    let reason = json!({"reason": "sorry"});
    let early_conflict = app.post_once("early", app.admin_token(), &unban, &reason).await.expect(409);
    let ban = format!("/admin/users/{}/ban", ada.id);
    app.post_as(app.admin_token(), &ban, json!({"reason": "spam"})).await.expect(204);

    // Then the old key still has the old response, and a new key is a new request
    assert_replay(&early_conflict, &app.post_once("early", app.admin_token(), &unban, &reason).await);
    assert_eq!(app.recorded("KeyClaimed"), 0, "nothing was carried out");
    app.post_once("late", app.admin_token(), &unban, &reason).await.expect(204);
    app.stop().await;
}

#[actix_web::test]
async fn a_response_without_a_body_is_replayed() {
    // Given a ban that has been lifted since
    let app = TestApp::start().await;
    let (ada, reason) = (app.user("ada").await, json!({"reason": "spam"}));
    let ban = format!("/admin/users/{}/ban", ada.id);
    let first = app.post_once("k", app.admin_token(), &ban, &reason).await.expect(204);
    let unban = format!("/admin/users/{}/unban", ada.id);
    app.post_as(app.admin_token(), &unban, json!({"reason": "sorry"})).await.expect(204);

    // When it is repeated, then the response is the same and the ban stays lifted
    assert_replay(&first, &app.post_once("k", app.admin_token(), &ban, &reason).await);
    app.post_as(&ada.token, "/publishers", json!({"id": "acme"})).await.expect(201);

    // And with another key it is another ban
    app.post_once("k-2", app.admin_token(), &ban, &reason).await.expect(204);
    app.post_once("k-3", &ada.token, "/publishers", &json!({"id": "more"})).await.expect(403);
    app.stop().await;
}

#[actix_web::test]
async fn a_post_lookup_is_replayed() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let query = json!({"node_versions": [{"node_id": "tools", "version": "1.0.0"}]});
    let look_up = |key: &str| app.request(Method::POST, "/bulk/nodes/versions").header(KEY, key).json(&query);
    let first = app.send(look_up("k-1")).await.expect(200);
    let node = json!({"id": "tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&ada.token, "/publishers/acme/nodes", node).await.expect(201);
    assert_replay(&first, &app.send(look_up("k-1")).await);
    assert_eq!(app.send(look_up("k-2")).await.json()["node_versions"][0]["status"], "success");
    app.stop().await;
}

#[actix_web::test]
async fn temporary_rejections_are_not_stored() {
    // Given a caller without permission
    let app = TestApp::start().await;
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    app.publisher("acme", &ada).await;
    let body = json!({"name": "Bob's"});
    app.put_once("k", &bob.token, "/publishers/acme", &body).await.expect(403);
    app.put_once("k", "mdu_nonsense", "/publishers/acme", &body).await.expect(401);
    app.put_once("k", &bob.token, "/publishers/none", &body).await.expect(404);

    // When the key is used for a permitted request, then it is free
    let text = app.request(Method::POST, "/publishers").bearer_auth(&bob.token).header(KEY, "k");
    app.send(text.header("content-type", "text/plain").body("{}")).await.expect(415);
    let created = app.post_once("k", &bob.token, "/publishers", &json!({"id": "bobs"})).await.expect(201);
    assert!(!replayed(&created));
    app.stop().await;
}

#[actix_web::test]
async fn a_reused_key_with_another_request_is_rejected() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let body = json!({"id": "acme"});
    app.post_once("k", &ada.token, "/publishers", &body).await.expect(201);

    // When any part of the request differs, then it is rejected, even after a restart and with the response lost
    let mut app = app;
    for is_lost in [false, true] {
        let post = |path: &str| app.request(Method::POST, path).bearer_auth(&ada.token).header(KEY, "k");
        for other in [
            post("/publishers").json(&json!({"id": "other"})),
            post("/publishers?x=1").json(&body),
            post("/publishers/acme/nodes").json(&body),
            post("/publishers").header("content-type", "application/merge-patch+json").body(body.to_string()),
            app.request(Method::PUT, "/publishers/acme").bearer_auth(&ada.token).header(KEY, "k").json(&body),
        ] {
            assert_problem(&app.send(other).await, 422, "idempotency_key_reused");
        }
        let dir = app.stop().await;
        if !is_lost {
            fs::remove_dir_all(dir.path().join("answers")).unwrap();
        }
        app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    }
    assert_eq!((app.recorded("PublisherCreated"), app.recorded("NodeCreated")), (1, 0));
    app.stop().await;
}

#[actix_web::test]
async fn keys_belong_to_their_caller() {
    // Given a user and two tokens, all with the same key
    let app = TestApp::start().await;
    let (ada, bob) = (app.user("ada").await, app.user("bob").await);
    app.post_once("k", &ada.token, "/publishers", &json!({"id": "acme"})).await.expect(201);
    let others_response = app.post_once("k", &bob.token, "/publishers", &json!({"id": "bobs"})).await.expect(201);
    assert!(!replayed(&others_response));
    let first_token = app.access_token("acme", &ada).await;
    let second_token = app.access_token("acme", &ada).await;
    let nodes = "/publishers/acme/nodes";
    app.post_once("k", &first_token, nodes, &json!({"id": "one"})).await.expect(201);
    app.post_once("k", &second_token, nodes, &json!({"id": "two"})).await.expect(201);

    // Then another token of the same user is the same caller
    let path = format!("/admin/users/{}/tokens", ada.id);
    let second = app.post_as(app.admin_token(), &path, json!({"name": "second"})).await.expect(201).json();
    let body = json!({"id": "acme"});
    let repeated = app.post_once("k", second["token"].as_str().unwrap(), "/publishers", &body).await.expect(201);
    assert!(replayed(&repeated));

    // And a token in the body identifies a caller like one in the header
    let publish = json!({"personal_access_token": first_token, "node_version": {"version": "1.0.0"}});
    let versions = "/publishers/acme/nodes/one/versions";
    let without_header = || app.request(Method::POST, versions).header(KEY, "v").json(&publish);
    let first = app.send(without_header()).await.expect(201);
    assert_replay(&first, &app.send(without_header()).await);
    app.stop().await;
}

#[actix_web::test]
async fn a_new_token_is_replayed_and_never_stored_in_plain_text() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let (path, body) = ("/publishers/acme/tokens", json!({"name": "ci"}));
    let first = app.post_once("tell-me-once", &ada.token, path, &body).await.expect(201);
    let repeated = app.post_once("tell-me-once", &ada.token, path, &body).await;
    assert_replay(&first, &repeated);
    assert_eq!(app.recorded("TokenIssued"), 2, "ada's own and the publisher's");

    let token = first.json()["token"].as_str().unwrap().to_owned();
    let dir = app.stop().await;
    let mut files = 0;
    visit(dir.path(), &mut |bytes| {
        files += 1;
        for secret in [token.as_str(), "tell-me-once"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "a file contains a secret");
        }
    });
    assert!(files > 5, "only {files} files were looked at");
}

/// Visits every file below a directory.
fn visit(directory: &Path, see: &mut impl FnMut(&[u8])) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, see);
        } else {
            see(&fs::read(&path).unwrap());
        }
    }
}

#[actix_web::test]
async fn a_key_expires_after_a_day() {
    // Given a user created with a key, and a manual clock
    let environment = Environment::manual(START, 7);
    let app = TestApp::start_with(|_| {}, environment.clone()).await;
    let (admin, body) = (app.admin_token().to_owned(), user_body("ada"));
    let first = app.post_once("k", &admin, "/admin/users", &body).await.expect(201);

    // When the request is repeated within the day, then it is a replay
    environment.advance(Duration::from_hours(24) - Duration::from_micros(1));
    assert_replay(&first, &app.post_once("k", &admin, "/admin/users", &body).await);

    // When it is repeated after the day, then it is a new request and creates another user
    environment.advance(Duration::from_micros(1));
    let second = app.post_once("k", &admin, "/admin/users", &body).await.expect(201);
    assert!(!replayed(&second));
    assert_ne!(second.json()["id"], first.json()["id"]);

    // And a key that was used for something else is free again
    environment.advance(Duration::from_hours(24));
    let third = app.post_once("k", &admin, "/admin/users", &user_body("bob")).await.expect(201);
    assert_eq!(third.json()["name"], "bob");
    assert_eq!(app.count_users().await, 4);

    // And a start removes expired responses
    let dir = app.stop().await;
    let answers_dir = dir.path().join("answers");
    let count = || {
        let mut files = 0;
        visit(&answers_dir, &mut |_| files += 1);
        files
    };
    assert_eq!(count(), 1);
    environment.advance(Duration::from_hours(24));
    let app = TestApp::start_in(dir, |_| {}, environment).await;
    eventually("no response is stored", async || count() == 0).await;
    app.stop().await;
}

#[actix_web::test]
async fn an_invalid_key_is_rejected_where_keys_apply() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let long = "x".repeat(256);
    for invalid in ["", "two words", "schl\u{fc}ssel", &long] {
        let post = app.request(Method::POST, "/publishers").bearer_auth(&ada.token).json(&json!({"id": "acme"}));
        assert_problem(&app.send(post.header(KEY, invalid)).await, 400, "malformed_request");
        let get = app.request(Method::GET, "/users").bearer_auth(&ada.token);
        app.send(get.header(KEY, invalid)).await.expect(200);
    }

    let two_keys = app.request(Method::POST, "/publishers").bearer_auth(&ada.token).header(KEY, "a").header(KEY, "a");
    assert_problem(&app.send(two_keys.json(&json!({"id": "acme"}))).await, 400, "malformed_request");
    assert_eq!(app.recorded("PublisherCreated"), 0);

    // A read with a key always returns the current state
    let read_request = || app.request(Method::GET, "/publishers/acme").header(KEY, "k");
    app.send(read_request()).await.expect(404);
    app.publisher("acme", &ada).await;
    assert!(!replayed(&app.send(read_request()).await.expect(200)));
    app.stop().await;
}

#[actix_web::test]
async fn a_streamed_response_is_replayed() {
    // Given a lookup whose response is streamed
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let version = json!({"version": "1.0.0", "changelog": "x".repeat(500)});
    let node = json!({"id": "n", "latest_version": version});
    app.post_as(&ada.token, "/publishers/acme/nodes", node).await.expect(201);
    let look_up = |count: usize| {
        let body = json!({"node_versions": vec![json!({"node_id": "n", "version": "1.0.0"}); count]});
        app.request(Method::POST, "/bulk/nodes/versions").bearer_auth(&ada.token).header(KEY, "k").json(&body)
    };
    let first = app.send(look_up(1000)).await.expect(200);
    assert!(first.text().len() > 500_000, "the response is too small");

    // When its content has changed and it is repeated
    let change = json!({"changelog": "y"});
    app.put_as(&ada.token, "/publishers/acme/nodes/n/versions/1.0.0", change).await.expect(200);

    // Then it is the first response, and the key works for no other request
    assert_replay(&first, &app.send(look_up(1000)).await);
    app.send(look_up(999)).await.expect(422);
    app.stop().await;
}

#[actix_web::test]
async fn large_responses_are_replayed_in_the_requested_encoding() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let body = json!({"id": "acme", "description": "x".repeat(5000)});
    let post = |coding: &'static str| {
        let request = app.request(Method::POST, "/publishers").bearer_auth(&ada.token).header(KEY, "k");
        request.header("accept-encoding", coding).json(&body)
    };
    let gzipped = app.send(post("gzip")).await.expect(201);
    let plain = app.send(post("identity")).await.expect(201);
    assert_eq!((gzipped.header("content-encoding"), plain.header("content-encoding")), (Some("gzip"), None));
    assert_eq!(plain.json()["description"], body["description"]);
    assert_replay(&gzipped, &app.send(post("gzip")).await);
    app.stop().await;
}

#[actix_web::test]
async fn anonymous_keys_belong_to_the_address() {
    // Given a service behind a proxy, which distinguishes addresses
    let trusting = |settings: &mut mediary::config::Settings| {
        settings.limits.trusted_proxies = vec![mediary::domain::network::Network::parse("127.0.0.1").unwrap()];
    };
    let app = TestApp::start_with(trusting, Environment::system()).await;
    let submit_from_address = async |address: &str, prompt: &str| {
        let request = app.request(Method::POST, "/proxy/videovendor/start-end2video").header(KEY, "shared");
        let body = json!({"prompt": prompt, "model": "vq2-turbo", "duration": 1});
        app.send(request.header("x-forwarded-for", address).json(&body)).await
    };

    // When two addresses use the same key
    let first = submit_from_address("203.0.113.1", "a cat").await.expect(200);
    let other = submit_from_address("203.0.113.2", "a cat").await.expect(200);

    // Then neither gets the other's response or learns of its use
    assert!(!replayed(&other));
    assert_ne!(first.json()["task_id"], other.json()["task_id"]);
    submit_from_address("203.0.113.3", "a dog").await.expect(200);

    // And each gets its own again
    let repeated = submit_from_address("203.0.113.1", "a cat").await;
    assert!(replayed(&repeated));
    assert_eq!(repeated.json()["task_id"], first.json()["task_id"]);
    assert_problem(&submit_from_address("203.0.113.1", "a dog").await, 422, "idempotency_key_reused");
}
