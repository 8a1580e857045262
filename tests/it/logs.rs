//! Structured log lines: one per request, with all fields to find and count it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client;
use crate::support::process::{Process, command, faulty_service};

#[actix_web::test]
async fn every_request_is_logged_with_outcome_and_caller() {
    let data = tempfile::tempdir().unwrap();
    let mut command = command(data.path());
    command.env_remove("MEDIARY_ADMIN_TOKEN").args(["--log-format", "json"]);
    command.env("MEDIARY_LIMITS__TRUSTED_PROXIES", "127.0.0.1");
    let service = Process::from_command(&mut command);
    let token = std::fs::read_to_string(data.path().join("admin-token")).unwrap().trim().to_owned();

    let send_with_id = async |id: &str, method: Method, path: &str, token: Option<&str>, body: Option<Value>| {
        let request = client().request(method, service.url(path)).header("x-request-id", id);
        let request = request.header("x-forwarded-for", "198.51.100.1, 203.0.113.77");
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        request.send().await.unwrap()
    };

    // When requests with different outcomes and callers are sent
    let publisher = json!({"id": "acme", "name": "Acme"});
    send_with_id("r-list", Method::GET, "/nodes?search=private-words", None, None).await;
    send_with_id("r-made", Method::POST, "/publishers", Some(&token), Some(publisher)).await;
    send_with_id("r-bad", Method::GET, "/users", Some("mdu_unknown-token"), None).await;
    send_with_id("r-none", Method::GET, "/no/such/path", None, None).await;
    send_with_id("r-link", Method::PUT, "/uploads/secret-of-a-link", None, None).await;
    send_with_id("r-page", Method::GET, "/", None, None).await;
    send_with_id("r-posted", Method::POST, "/", None, None).await;
    let token_response =
        send_with_id("r-pat", Method::POST, "/publishers/acme/tokens", Some(&token), Some(json!({"name": "ci"}))).await;
    let access = token_response.json::<Value>().await.unwrap()["token"].as_str().unwrap().to_owned();
    send_with_id("r-access", Method::GET, "/publishers/acme/nodes", Some(&access), None).await;
    let (_, log) = service.terminate();

    // Then each has one line with these fields
    let lines =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("not JSON: {line}")));
    let request_lines = lines.filter(|line| line["message"] == "answered");
    let lines: BTreeMap<_, _> =
        request_lines.map(|line| (line["request"].as_str().unwrap().to_owned(), line)).collect();
    for (id, method, route, status, caller) in [
        ("r-list", "GET", "/nodes", 200, "anonymous"),
        ("r-made", "POST", "/publishers", 201, "user"),
        ("r-bad", "GET", "/users", 401, "anonymous"),
        ("r-none", "GET", "unmatched", 404, "anonymous"),
        ("r-posted", "POST", "console", 405, "anonymous"),
        ("r-link", "PUT", "/uploads/{ticket}", 403, "anonymous"),
        ("r-access", "GET", "/publishers/{publisherId}/nodes", 200, "token"),
    ] {
        let line = &lines[id];
        let fields = ["method", "route", "status", "caller", "client"].map(|name| line[name].clone());
        // The client's network, without the last byte of its address
        let network = json!("203.0.113.0/24");
        assert_eq!(fields, [json!(method), json!(route), json!(status), json!(caller), network], "{line}");
        assert!(line["micros"].as_u64().is_some_and(|micros| micros > 0) && line["timestamp"].is_string(), "{line}");
    }
    assert!(!lines.contains_key("r-page"), "files of the console are logged only at level debug");
    assert_eq!(lines["r-made"]["actor"], "user/00000000-0000-4000-8000-000000000001");

    // And no line has a secret
    for secret in [token.as_str(), &access, "mdu_unknown-token", "secret-of-a-link", "private-words", "203.0.113.77"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

/// Returns the log lines of a service that panics, for `GET /nodes` with the request id `r-panic`.
async fn lines_of_a_panic(client_address: &str) -> Vec<Value> {
    let data = tempfile::tempdir().unwrap();
    let mut command = faulty_service(data.path());
    command.env("FAULT_PANIC_PATH", "/nodes").env_remove("RUST_BACKTRACE");
    command.env("MEDIARY_LOG__FORMAT", "json").env("MEDIARY_LOG__CLIENT", client_address);
    let service = Process::from_command(&mut command);
    let response = client().get(service.url("/nodes")).header("x-request-id", "r-panic").send().await.unwrap();
    assert_eq!(response.status(), 500);

    let (_, log) = service.terminate();
    log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect()
}

#[actix_web::test]
async fn panics_are_logged_with_the_request_id() {
    let lines = lines_of_a_panic("full").await;
    let panic = lines.iter().find(|line| line["message"] == "panicked").expect("the line of the panic");
    assert_eq!((&panic["reason"], &panic["span"]["id"]), (&json!("made to\nfail"), &json!("r-panic")), "{panic}");
    assert!(panic["at"].as_str().is_some_and(|at| at.contains("faults.rs:")), "{panic}");

    // The client address is logged as configured
    let client_in = |lines: &[Value]| {
        let line = lines.iter().find(|line| line["request"] == "r-panic").expect("the line of the request");
        line["client"].clone()
    };
    assert_eq!(client_in(&lines), json!("127.0.0.1"));
    assert_eq!(client_in(&lines_of_a_panic("none").await), Value::Null);
}
