//! Rejected music requests, which have no effect.

use mediary::environment::Environment;
use reqwest::Method;
use serde_json::{Value, json};

use super::{GENERATE, MusicListener};
use crate::support::form::{form, form_of_bytes};
use crate::support::{TestApp, TestUser};

/// Sends a form that must be rejected. Returns the JSON pointers of the invalid fields.
async fn pointers_of_rejected(app: &TestApp, user: &TestUser, fields: &[(&str, &[u8])]) -> Vec<String> {
    let request = form_of_bytes(app.request(Method::POST, GENERATE).bearer_auth(&user.token), fields);
    let problem = app.send(request).await.expect(400).json();
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("no fields are named: {problem}"));
    errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}

async fn list_tasks(app: &TestApp, user: &TestUser) -> Value {
    app.get_as(&user.token, "/tasks").await.expect(200).json()["tasks"].clone()
}

#[actix_web::test]
async fn every_invalid_field_is_reported_without_effect() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let (too_long, far_too_long) = ("日".repeat(2_001), "x".repeat(20_000));
    let prompts: [&[(&str, &[u8])]; 7] = [
        &[],
        &[("prompt", b"")],
        &[("prompt", b" \n\t ")],
        &[("prompt", too_long.as_bytes())],
        &[("prompt", far_too_long.as_bytes())],
        &[("prompt", b"\xff\xfe")],
        &[("prompt", b"one"), ("prompt", b"another")],
    ];
    for fields in prompts {
        assert_eq!(pointers_of_rejected(&app, &user, fields).await, ["/prompt"], "{fields:?}");
    }

    let fields: [(&str, &[u8]); 2] = [("prompt", far_too_long.as_bytes()), ("duration", &[b'9'; 99])];
    let request = form_of_bytes(app.request(Method::POST, GENERATE).bearer_auth(&user.token), &fields);
    let detail = app.send(request).await.expect(400).json()["detail"].to_string();
    for allowed in ["/prompt must have 1 to 2000 characters", "/duration must be an integer from 1 to 360 (seconds)"] {
        assert!(detail.contains(allowed), "{allowed} is not in: {detail}");
    }

    for duration in ["0", "361", "-1", "1.5", "ten", "99999999999999999999999", "٣", "1 2"] {
        let fields: [(&str, &[u8]); 2] = [("prompt", b"calm"), ("duration", duration.as_bytes())];
        assert_eq!(pointers_of_rejected(&app, &user, &fields).await, ["/duration"], "{duration}");
    }

    let both_fields: [(&str, &[u8]); 2] = [("prompt", b""), ("duration", b"400")];
    assert_eq!(pointers_of_rejected(&app, &user, &both_fields).await, ["/prompt", "/duration"]);
    assert_eq!(list_tasks(&app, &user).await, json!([]));
    app.stop().await;
}

#[actix_web::test]
async fn prompts_of_2000_characters_are_accepted_in_any_alphabet() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let longest_prompt = format!("  {}\n", "𝄞".repeat(2_000));
    let mut listener = MusicListener::request(&app, &user, &[("prompt", &longest_prompt), ("duration", "360")]).await;
    assert_eq!(listener.line().await.map(|line| line["duration_sec"].clone()), Some(json!(360.0)));
    app.stop().await;
}

#[actix_web::test]
async fn bodies_other_than_forms_are_rejected() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let post = || app.request(Method::POST, GENERATE).bearer_auth(&user.token);
    let json = app.post_as(&user.token, GENERATE, json!({"prompt": "calm"})).await;
    assert_eq!((json.status, json.json()["error"].as_str()), (415, Some("unsupported_media_type")));

    for (kind, body) in [
        ("multipart/form-data", "--x\r\n"),
        ("multipart/form-data; boundary=x", ""),
        ("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\ncalm"),
        ("multipart/form-data; boundary=x", "no form at all"),
    ] {
        let response = app.send(post().header("content-type", kind).body(body)).await;
        assert_eq!(response.status, 400, "{kind} {body:?}: {}", response.text());
    }

    let large = "x".repeat(300_000);
    let response = app.send(form(post(), &[("prompt", "calm"), ("other", &large)])).await;
    assert_eq!((response.status, response.json()["error"].as_str()), (413, Some("payload_too_large")));
    app.stop().await;
}

#[actix_web::test]
async fn music_needs_a_token_and_streams_are_limited() {
    // Given a service with one stream slot, which a client uses
    let app = TestApp::start_with(|settings| settings.music.streams = 1, Environment::system()).await;
    let user = app.user("listener").await;
    let fields = [("prompt", "calm"), ("duration", "300")];
    let anonymous = app.send(form(app.request(Method::POST, GENERATE), &fields)).await;
    assert_eq!(anonymous.status, 401);
    let listener = MusicListener::request(&app, &user, &fields).await;

    // When another client, or the same one, requests music
    // Then it gets `Retry-After`, and no task is recorded
    let other = app.user("other").await;
    for (caller, expected) in [(&other, (503, Some("overloaded"))), (&user, (429, Some("too_many_streams")))] {
        let request = form(app.request(Method::POST, GENERATE).bearer_auth(&caller.token), &fields);
        let response = app.send(request).await;
        assert_eq!((response.status, response.json()["error"].as_str()), expected);
        assert_eq!(response.header("retry-after"), Some("5"));
    }
    assert_eq!(list_tasks(&app, &user).await.as_array().map(Vec::len), Some(1));

    // And once the first client has disconnected, the slot is free
    let task = listener.task.clone();
    drop(listener);
    super::wait_for_end(&app, &user, &task).await;
    drop(MusicListener::request(&app, &user, &fields).await);
    app.stop().await;
}
