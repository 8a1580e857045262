//! Error responses: one shape for every kind of failure, without internal details.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mediary::environment::{Environment, FailPoint};
use mediary::events::log::EventLog;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{TestApp, TestResponse};

/// Checks the shape of contract 2 and returns the body.
#[track_caller]
fn problem(response: &TestResponse, status: u16, code: &str) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert!(response.header("x-request-id").is_some_and(|id| !id.is_empty()));
    let body = response.json();
    assert_eq!(body["error"], code, "{body}");
    assert_eq!(body["status"], status);
    assert_eq!(body["type"], format!("urn:mediary:error:{code}"));
    assert_eq!(body["message"], body["detail"]);
    assert!(body["title"].is_string() && body["details"].is_array() && body["instance"].is_string(), "{body}");
    body
}

#[actix_web::test]
async fn unknown_paths_are_404_and_malformed_ones_400() {
    let app = TestApp::start().await;
    for path in ["//", "/none", "/nodes/", "/nodes/a/b", "/publishers/acme/none", "/NODES", "/nodes/%2e%2e%2fusers"] {
        assert_eq!(problem(&app.get(path).await, 404, "not_found")["instance"], path);
    }
    for path in ["/nodes/%ff", "/nodes/%zz", "/nodes/a%00"] {
        problem(&app.get(path).await, 400, "malformed_request");
    }
    problem(&app.get("/nodes?page=%ff").await, 400, "malformed_request");
    app.stop().await;
}

#[actix_web::test]
async fn missing_and_invalid_credentials_are_401() {
    let app = TestApp::start().await;
    let response = app.get("/users").await;
    problem(&response, 401, "unauthorized");
    assert_eq!(response.header("www-authenticate"), Some("Bearer"));
    for header in ["Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "mdu_x", "Bearer ä"] {
        let response = app.send(app.request(Method::GET, "/users").header("authorization", header)).await;
        problem(&response, 401, "unauthorized");
    }
    let spelled = format!("bEARER  {}", app.admin_token());
    app.send(app.request(Method::GET, "/users").header("authorization", spelled)).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn a_token_may_be_sent_in_either_header() {
    let app = TestApp::start().await;
    let admin = app.admin_token().to_owned();
    app.send(app.request(Method::GET, "/users").header("x-api-key", &admin)).await.expect(200);

    let both = |key: &str| {
        let request = app.request(Method::GET, "/users").header("authorization", format!("Bearer {admin}"));
        app.send(request.header("x-api-key", key))
    };
    both(&admin).await.expect(200);
    problem(&both("mdu_other").await, 401, "unauthorized");
    app.stop().await;
}

#[actix_web::test]
async fn bodies_that_are_not_json_are_400() {
    let app = TestApp::start().await;
    let post = |body: Vec<u8>| {
        let request = app.request(Method::POST, "/bulk/nodes/versions").header("content-type", "application/json");
        app.send(request.body(body))
    };
    let body = problem(&post(b"{\n \"a\": }".to_vec()).await, 400, "malformed_body");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.contains("line 2 column 7")), "{body}");

    let long_list = format!("{{\"a\": [0{}]}}", ",0".repeat(100_000));
    let body = problem(&post(long_list.into()).await, 400, "malformed_body");
    assert_eq!(body["detail"], "the body has more than 100000 elements");

    let deep = format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64));
    for invalid in
        [b"".to_vec(), b"{".to_vec(), b"{} {}".to_vec(), b"\"\xff\"".to_vec(), b"\"\\ud800\"".to_vec(), deep.into()]
    {
        problem(&post(invalid).await, 400, "malformed_body");
    }
    problem(&post(b"[]".to_vec()).await, 400, "invalid_input");
    app.stop().await;
}

#[actix_web::test]
async fn bodies_with_another_content_type_are_415() {
    let app = TestApp::start().await;
    let post = |name: &'static str, value: &'static str| {
        let request = app.request(Method::POST, "/bulk/nodes/versions").header(name, value);
        app.send(request.body("{\"node_versions\": [{\"node_id\": \"a\", \"version\": \"1.0.0\"}]}"))
    };
    for invalid in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"] {
        problem(&post("content-type", invalid).await, 415, "unsupported_media_type");
    }
    problem(&post("content-encoding", "gzip").await, 415, "unsupported_media_type");
    post("content-type", "application/json; charset=UTF-8").await.expect(200);
    post("x-other", "no content type").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn oversized_bodies_are_413_and_headers_431() {
    let app = TestApp::start().await;
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(2 << 20));
    let request = app.request(Method::POST, "/bulk/nodes/versions").header("content-type", "application/json");
    problem(&app.send(request.body(large)).await, 413, "payload_too_large");
    let request = app.request(Method::GET, "/nodes").header("x-long", "x".repeat(40_000));
    problem(&app.send(request).await, 431, "headers_too_large");
    let request = app.request(Method::GET, "/nodes").header("x-long", "x".repeat(30_000));
    app.send(request).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn malformed_http_gets_the_documented_bare_status() {
    let app = TestApp::start().await;
    let many_headers = format!("GET /nodes HTTP/1.1\r\n{}\r\n", "x-many: x\r\n".repeat(97));
    for (request, status) in
        [("nonsense\r\n\r\n", "400"), ("GET /nodes HTTP/1.1\r\nno header\r\n\r\n", "400"), (&many_headers, "431")]
    {
        let mut connection = TcpStream::connect(app.url("").trim_start_matches("http://")).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).await.unwrap();
        assert_eq!(response.split(' ').nth(1), Some(status), "{response}");
        assert!(response.ends_with("\r\n\r\n"), "{response}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_chunked_body_without_a_length_is_limited_too() {
    let app = TestApp::start().await;
    let address = app.url("").trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let head = "POST /bulk/nodes/versions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..40 {
        // The service may close the connection before everything is sent.
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut response = vec![0; 12];
    stream.read_exact(&mut response).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&response), "HTTP/1.1 413");
    app.stop().await;
}

#[actix_web::test]
async fn framework_errors_are_problem_responses() {
    let app = TestApp::start().await;
    let request = app.request(Method::GET, "/nodes").header("accept-encoding", "identity;q=0, *;q=0");
    problem(&app.send(request).await, 406, "not_acceptable");
    let preflight = app.request(Method::OPTIONS, "/nodes").header("origin", "https://a.example");
    let preflight = preflight.header("access-control-request-method", "PUT");
    problem(&app.send(preflight).await, 403, "forbidden");
    app.stop().await;
}

#[actix_web::test]
async fn a_handler_panic_is_a_500_and_keeps_the_connection() {
    let handler = |point, path: &str| assert!(point != FailPoint::Handler || path != "/ready", "made to fail");
    let app = TestApp::start_with(|_| {}, Environment::system().with_fail_point_handler(Arc::new(handler))).await;
    let body = problem(&app.get("/ready").await, 500, "internal_error");
    assert!(!body.to_string().contains("made to fail"), "{body}");
    let mut connection = TcpStream::connect(app.url("").trim_start_matches("http://")).await.unwrap();
    for (path, status) in [("/ready", "500"), ("/health", "200"), ("/ready", "500")] {
        assert_eq!(status_of_get(&mut connection, path).await, status, "{path}");
    }
    app.stop().await;
}

/// Sends a request on an open connection, reads the response to its end and returns its status.
async fn status_of_get(connection: &mut TcpStream, path: &str) -> String {
    connection.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    connection.read_exact(&mut vec![0; length.parse().unwrap()]).await.unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

#[actix_web::test]
async fn every_invalid_field_is_reported_at_once() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    let body = json!({"id": "No Such", "name": 7, "logo": "ftp://x", "website": "x".repeat(3000), "support": ["a"]});
    let body = problem(&app.post_as(&owner.token, "/publishers", body).await, 400, "invalid_input");
    let errors = body["errors"].as_array().unwrap();
    let pointers: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/id", "/name", "/logo", "/support", "/website"]);
    assert_eq!(body["details"].as_array().map(Vec::len), Some(5));
    assert!(errors.iter().all(|error| error["reason"].as_str().is_some_and(|reason| reason.starts_with("must "))));
    app.stop().await;
}

#[actix_web::test]
async fn valid_request_ids_are_kept() {
    let app = TestApp::start().await;
    let request_with_id = |id: &'static str| app.send(app.request(Method::GET, "/none").header("x-request-id", id));
    assert_eq!(request_with_id("mine-1").await.header("x-request-id"), Some("mine-1"));
    assert_ne!(request_with_id("two words").await.header("x-request-id"), Some("two words"));
    let (first, second) = (app.get("/health").await, app.get("/health").await);
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    app.stop().await;
}

/// Returns an environment that calls `handler` before the command number `count` for the publisher `acme` is decided.
fn at_decision(count: usize, handler: impl Fn() + Send + Sync + 'static) -> Environment {
    let decisions = AtomicUsize::new(0);
    Environment::system().with_fail_point_handler(Arc::new(move |point, subject| {
        let is_match = point == FailPoint::Decide && subject == "publisher/acme";
        if is_match && decisions.fetch_add(1, Ordering::SeqCst) + 1 == count {
            handler();
        }
    }))
}

#[actix_web::test]
async fn an_actor_panic_is_one_500_and_the_actor_restarts() {
    let app = TestApp::start_with(|_| {}, at_decision(1, || panic!("injected by the test"))).await;
    let acme = || app.post_as(app.admin_token(), "/publishers", json!({"id": "acme"}));

    let problem = acme().await.expect(500);
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem.json()["status"], 500);
    // Nothing was recorded, and the next command starts a new actor
    app.get("/publishers/acme").await.expect(404);
    acme().await.expect(201);
    acme().await.expect(409);
}

#[actix_web::test]
async fn overload_is_a_503_with_retry_after_and_no_effect() {
    // Given a publisher with a mailbox of one command, whose actor is slow
    let slow = at_decision(2, || std::thread::sleep(std::time::Duration::from_secs(1)));
    let app = TestApp::start_with(|settings| settings.actors.mailbox = 1, slow).await;
    let names: Vec<String> = (0..40).map(|n| format!("name {n}")).collect();

    // When many commands arrive at once
    app.post_as(app.admin_token(), "/publishers", json!({"id": "acme"})).await.expect(201);
    let change = |name: &String| app.put_as(app.admin_token(), "/publishers/acme", json!({"name": name}));
    let responses = futures_util::future::join_all(names.iter().map(change)).await;

    // Then some are rejected with `Retry-After`, in the standard shape of errors, and the others succeed
    let (accepted, rejected): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 200);
    assert!(!accepted.is_empty() && !rejected.is_empty(), "{} done, {} refused", accepted.len(), rejected.len());
    for response in rejected {
        let response = response.expect(503);
        assert!(response.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
        assert_eq!(response.json()["status"], 503);
    }
    let events = app.app.log().head().0;
    assert_eq!(
        events,
        2 + accepted.len() as u64,
        "the log has the administrator, the publisher, and one change for each success"
    );
}
