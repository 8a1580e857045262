//! `egress.private = "auto"`: only a plainly local service reaches private addresses, and the start logs the rule.

use mediary::config::Settings;
use mediary::domain::network::Network;
use mediary::environment::Environment;
use reqwest::Method;
use serde_json::json;

use super::canary::Canary;
use crate::delivery::wait_until_settled;
use crate::image::PRECISION;
use crate::support::TestApp;
use crate::support::process::{Process, command};

type SettingsChange = fn(&mut Settings);

/// Settings of a service behind a reverse proxy on the same machine, one at a time, with the `Host` that the proxy
/// forwards.
const PROXIED: [(SettingsChange, &str); 3] = [
    (|settings| settings.public_url = Some("https://media.example".to_owned()), "media.example"),
    (|settings| settings.limits.trusted_proxies = vec![Network::parse("127.0.0.1").unwrap()], "127.0.0.1"),
    (|settings| settings.allowed_hosts = vec!["media.example".to_owned()], "media.example"),
];

/// Submits a task with an input and a callback on the canary, waits until both were tried, and returns the task.
async fn try_both(app: &TestApp, canary: &Canary, host: &str) -> String {
    let url = format!("http://127.0.0.1:{}", canary.port());
    let body = json!({"image": format!("{url}/input"), "webhook_url": format!("{url}/hook")});
    let request = app.request(Method::POST, PRECISION).bearer_auth(app.admin_token()).header("host", host);
    let response = app.send(request.json(&body)).await.expect(200).json();
    response["data"]["task_id"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn a_service_behind_a_proxy_does_not_call_private_addresses() {
    for (change, host) in PROXIED {
        // Given a service on loopback whose settings indicate a proxy
        let canary = Canary::start();
        let app = TestApp::start_with(change, Environment::system()).await;

        // When a client behind the proxy names a private address as input and callback
        let task = try_both(&app, &canary, host).await;
        let is_rejected = |found: &[serde_json::Value]| {
            found.first().is_some_and(|delivery| {
                let reason = delivery["attempts"][0]["reason"].as_str();
                reason.is_some_and(|reason| reason.starts_with("the egress rules forbid"))
            })
        };
        crate::delivery::wait_for_deliveries(&app, app.admin_token(), &task, is_rejected).await;

        // Then no connection is made to it
        let body = app.get_as(app.admin_token(), &format!("/tasks/{task}")).await.expect(200).json();
        assert_eq!(body["error"]["code"], "input_unavailable", "{body}");
        assert!(canary.requests().is_empty(), "{host}: {:?}", canary.requests());
        app.stop().await;
    }
}

#[actix_web::test]
async fn a_local_service_calls_private_addresses_only_for_local_hosts() {
    // Given a service with the default settings
    let canary = Canary::start();
    let app = TestApp::start().await;
    let url = format!("http://127.0.0.1:{}", canary.port());

    // When a request with another Host names a private address, then it is rejected and leaves no task
    let body = json!({"image": format!("{url}/input"), "webhook_url": format!("{url}/hook")});
    let foreign_request =
        app.request(Method::POST, PRECISION).bearer_auth(app.admin_token()).header("host", "evil.example");
    app.send(foreign_request.json(&body)).await.expect(421);
    let tasks = app.get_as(app.admin_token(), "/tasks").await.expect(200).json();
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(0), "{tasks}");

    // When a local request does, then input and callback are reached
    let task = try_both(&app, &canary, "localhost").await;
    wait_until_settled(&app, app.admin_token(), &task).await;
    assert_eq!(canary.requests(), ["GET /input HTTP/1.1", "POST /hook HTTP/1.1"]);
    app.stop().await;
}

#[test]
fn the_start_logs_the_rule_and_its_reason() {
    for (name, value, expected) in [
        ("MEDIARY_WORKERS", "1", "private=\"allowed\" reason=\"the service is local\""),
        ("MEDIARY_LIMITS__TRUSTED_PROXIES", "127.0.0.1", "private=\"denied\" reason=\"limits.trusted_proxies is set\""),
        ("MEDIARY_EGRESS__PRIVATE", "deny", "private=\"denied\" reason=\"egress.private is deny\""),
    ] {
        let data = tempfile::tempdir().unwrap();
        let (_, log) = Process::from_command(command(data.path()).env(name, value)).terminate();

        let line = log.lines().find(|line| line.contains("egress rule")).unwrap_or_else(|| panic!("no line in {log}"));
        assert!(line.contains(expected), "{line}");
    }
}
