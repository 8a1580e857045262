//! Log lines for machines: one for each request, with all that it takes to find and count it.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::client;
use crate::support::process::{Process, command};

#[actix_web::test]
async fn every_request_has_a_line_of_json_with_what_came_of_it_and_who_asked() {
    let data = tempfile::tempdir().unwrap();
    let mut command = command(data.path());
    command.env_remove("MEDIARY_ADMIN_TOKEN").args(["--log-format", "json"]);
    let service = Process::from_command(&mut command);
    let token = std::fs::read_to_string(data.path().join("admin-token")).unwrap().trim().to_owned();
    let ask = async |id: &str, method: Method, path: &str, token: Option<&str>, body: Option<Value>| {
        let request = client().request(method, service.url(path)).header("x-request-id", id);
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        request.send().await.unwrap()
    };
    let created = json!({"id": "acme", "name": "Acme"});
    ask("r-list", Method::GET, "/nodes?search=private-words", None, None).await;
    ask("r-made", Method::POST, "/publishers", Some(&token), Some(created)).await;
    ask("r-bad", Method::GET, "/users", Some("mdu_unknown-token"), None).await;
    ask("r-none", Method::GET, "/no/such/path", None, None).await;
    ask("r-link", Method::PUT, "/uploads/secret-of-a-link", None, None).await;
    let made = ask("r-pat", Method::POST, "/publishers/acme/tokens", Some(&token), Some(json!({"name": "ci"}))).await;
    let access = made.json::<Value>().await.unwrap()["token"].as_str().unwrap().to_owned();
    ask("r-access", Method::GET, "/publishers/acme/nodes", Some(&access), None).await;
    let (_, log) = service.terminate();

    let lines =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("no JSON: {line}")));
    let of_requests = lines.filter(|line| line["message"] == "answered");
    let lines: BTreeMap<_, _> = of_requests.map(|line| (line["request"].as_str().unwrap().to_owned(), line)).collect();
    for (id, method, route, status, caller) in [
        ("r-list", "GET", "/nodes", 200, "anonymous"),
        ("r-made", "POST", "/publishers", 201, "user"),
        ("r-bad", "GET", "/users", 401, "anonymous"),
        ("r-none", "GET", "unmatched", 404, "anonymous"),
        ("r-link", "PUT", "/uploads/{ticket}", 403, "anonymous"),
        ("r-access", "GET", "/publishers/{publisher_id}/nodes", 200, "token"),
    ] {
        let line = &lines[id];
        let told = ["method", "route", "status", "caller"].map(|name| line[name].clone());
        assert_eq!(told, [json!(method), json!(route), json!(status), json!(caller)], "{line}");
        assert!(line["micros"].as_u64().is_some_and(|micros| micros > 0) && line["timestamp"].is_string(), "{line}");
    }
    assert_eq!(lines["r-made"]["actor"], "user/00000000-0000-4000-8000-000000000001");
    for secret in [token.as_str(), &access, "mdu_unknown-token", "secret-of-a-link", "private-words"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}
