//! Memory of request bodies: unknown fields are not kept, waiting requests hold no body, each caller has a limited
//! share.

use std::sync::Arc;

use futures_util::future::{join_all, select_all};
use mediary::config::Settings;
use mediary::domain::network::Network;
use mediary::environment::{Environment, FailPoint};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestApp;
use crate::support::eventually::{eventually, within};
use crate::support::picture::base64_png;

const VIDEO: &str = "/proxy/videovendor/start-end2video";
/// Number of elements in unknown fields of one body, close to the limit.
const JUNK: usize = 98_000;

/// Starts a service that starts no task.
async fn idle() -> TestApp {
    let handler = |point, _: &str| assert!(point != FailPoint::Reactor, "made to fail");
    TestApp::start_with(|_| {}, Environment::system().with_fail_point_handler(Arc::new(handler))).await
}

/// Adds an unknown field with [`JUNK`] elements to a job.
fn with_junk(job: &Value) -> String {
    let known_text = job.to_string();
    let junk = "0,".repeat(JUNK);
    format!("{{\"junk\":[{junk}0],{}", &known_text[1..])
}

fn waiting_request(app: &TestApp, body: String) -> reqwest::RequestBuilder {
    let request = app.request(Method::POST, VIDEO).header("content-type", "application/json");
    request.header("prefer", "wait=60").body(body)
}

/// Waits until at least `count` tasks are unfinished.
async fn wait_until_submitted(app: &TestApp, count: usize) {
    let all_submitted = async || app.app.models().read().tasks.unfinished_count() >= count;
    eventually("all are submitted", all_submitted).await;
}

#[actix_web::test]
async fn waiting_requests_do_not_block_others() {
    // Given a service on which thirteen anonymous callers wait for videos, with bodies full of unknown fields
    let app = idle().await;
    let body = with_junk(&json!({"prompt": "a cat", "model": "vq2-turbo", "duration": 1}));
    assert!(body.len() > 190_000, "the body is too small");
    let requests: Vec<_> =
        (0..13).map(|_| tokio::task::spawn_local(waiting_request(&app, body.clone()).send())).collect();
    wait_until_submitted(&app, 13).await;

    // When other callers submit pictures
    let responses = join_all((0..4).map(|_| {
        let body = json!({"images": [base64_png(8, 8)], "model": "vq2-turbo", "duration": 1});
        app.send(app.request(Method::POST, VIDEO).json(&body))
    }));
    let responses = within("responses", responses).await;

    // Then these are served, and the thirteen still wait
    for response in responses {
        response.expect(200);
    }
    assert!(requests.iter().all(|request| !request.is_finished()));
    requests.iter().for_each(tokio::task::JoinHandle::abort);
}

#[actix_web::test]
async fn a_delayed_response_echoes_the_request() {
    let app = TestApp::start().await;
    let image = base64_png(16, 16);
    let body = with_junk(&json!({"images": [image], "model": "vq2-turbo", "duration": 1, "payload": "p"}));

    let response = within("a response", app.send(waiting_request(&app, body))).await.expect(200);

    assert_eq!(response.header("preference-applied"), Some("wait=60"));
    let response = response.json();
    assert_eq!(
        (&response["state"], &response["images"], &response["payload"]),
        (&json!("success"), &json!([image]), &json!("p"))
    );
    app.stop().await;
}

#[actix_web::test]
async fn a_caller_at_its_share_does_not_block_others() {
    // Given a service behind a proxy, which distinguishes callers
    let trusting = |settings: &mut Settings| {
        settings.limits.trusted_proxies = vec![Network::parse("127.0.0.1").unwrap()];
    };
    let app = TestApp::start_with(trusting, Environment::system()).await;
    let address = app.app.address();

    // When one caller begins many bodies and completes none
    let (length, partial_body) = (2 << 20, vec![b' '; (2 << 20) - 1]);
    let mut connections = Vec::new();
    for _ in 0..34 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /bulk/nodes/versions HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.1\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        // The service may reject and close before everything is sent.
        let _ = connection.write_all(&partial_body).await;
        connections.push(connection);
    }

    // Then bodies beyond its share are rejected
    let first = connections.iter_mut().map(|connection| {
        Box::pin(async {
            let mut response = vec![0; 12];
            connection.read_exact(&mut response).await.map(|_| String::from_utf8_lossy(&response).into_owned())
        })
    });
    let (response, ..) = within("a refusal", select_all(first)).await;
    assert_eq!(response.unwrap(), "HTTP/1.1 503");

    // And another caller with an equally large body is served
    let body = json!({"node_versions": [{"node_id": "a", "version": "1.0.0"}], "junk": "x".repeat(2_000_000)});
    let request = app.request(Method::POST, "/bulk/nodes/versions").header("x-forwarded-for", "203.0.113.2");
    app.send(request.json(&body)).await.expect(200);
    drop(connections);
}
