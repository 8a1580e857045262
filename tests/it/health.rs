//! Health and readiness, and properties of all responses: entity tags, compression, cross-origin headers.

use std::sync::Arc;

use mediary::environment::{CommitStep, Environment, FailPoint};
use parking_lot::{Condvar, Mutex};
use reqwest::Method;
use serde_json::json;

use crate::support::eventually::eventually;
use crate::support::{TestApp, TestResponse};

/// Disk whose syncs hang while the test wants it.
#[derive(Default)]
struct HangingDisk {
    is_hanging: Mutex<bool>,
    changed: Condvar,
}

impl HangingDisk {
    fn sync(&self) {
        self.changed.wait_while(&mut self.is_hanging.lock(), |is_hanging| *is_hanging);
    }

    fn hang(&self) {
        *self.is_hanging.lock() = true;
    }

    fn recover(&self) {
        *self.is_hanging.lock() = false;
        self.changed.notify_all();
    }
}

#[actix_web::test]
async fn a_running_service_is_healthy_and_ready() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/health").await.expect(200).text(), "OK");
    app.get("/ready").await.expect(200);
    assert!(!app.get("/.well-known/webhook-key").await.expect(200).text().is_empty());
    app.stop().await;
}

#[actix_web::test]
async fn a_hanging_disk_is_reported() {
    // Given a disk that the test can make hang
    let disk = Arc::new(HangingDisk::default());
    let disk_of_service = Arc::clone(&disk);
    let handler = move |point, _: &str| {
        if point == FailPoint::After(CommitStep::Written) {
            disk_of_service.sync();
        }
    };
    let app = TestApp::start_with(|_| {}, Environment::system().with_fail_point_handler(Arc::new(handler))).await;
    let pending_seconds = async || {
        let text = app.get("/metrics").await.expect(200).text();
        let line =
            text.lines().find_map(|line| line.strip_prefix("mediary_journal_sync_pending_seconds ").map(str::to_owned));
        line.expect("the metric").parse::<f64>().expect("a number")
    };
    app.get("/ready").await.expect(200);
    disk.hang();

    // When a change is made
    let token = app.admin_token().to_owned();
    let change = app.request(Method::POST, "/publishers").bearer_auth(token).json(&json!({"id": "acme"}));
    let change = actix_web::rt::spawn(change.send());

    // Then the duration of the sync is reported, and after some seconds the service is not ready; reads continue
    eventually("the service is not ready", async || app.get("/ready").await.status != 200).await;
    let seconds = pending_seconds().await;
    assert!(seconds >= 5.0, "the metric is {seconds}");
    app.get("/nodes").await.expect(200);

    // And when the disk works again, so does the service
    disk.recover();
    assert_eq!(change.await.expect("the request is still waiting").expect("a response").status(), 201);
    app.get("/ready").await.expect(200);
    eventually("no sync is pending", async || pending_seconds().await <= 0.0).await;
    app.stop().await;
}

#[actix_web::test]
async fn a_known_etag_returns_304() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    let first = app.get("/nodes").await.expect(200);
    let tag = first.header("etag").expect("a tag").to_owned();
    assert!(tag.starts_with('"'), "{tag} is not a strong entity tag");
    let get_with_tag = |tag: &str| app.send(app.request(Method::GET, "/nodes").header("if-none-match", tag));

    let not_modified = get_with_tag(&format!("\"other\", {tag}")).await.expect(304);
    assert_eq!((not_modified.body.len(), not_modified.header("etag")), (0, Some(tag.as_str())));

    app.node("acme", "face-tools", &owner).await;
    let changed = get_with_tag(&tag).await.expect(200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    app.stop().await;
}

#[actix_web::test]
async fn compressed_responses_have_their_own_etag() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    for n in 0..10 {
        app.node("acme", &format!("node-{n}"), &owner).await;
    }
    let get_with_coding =
        |coding: &'static str| app.send(app.request(Method::GET, "/nodes").header("accept-encoding", coding));
    let plain = app.get("/nodes").await.expect(200);
    let gzip = get_with_coding("gzip").await.expect(200);
    let brotli = get_with_coding("br").await.expect(200);

    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!((gzip.header("content-encoding"), &gzip.body[..2]), (Some("gzip"), &[0x1f, 0x8b][..]));
    assert_eq!(brotli.header("content-encoding"), Some("br"));
    assert!(gzip.body.len().max(brotli.body.len()) < plain.body.len(), "a compressed body is not smaller");
    let tags = [&plain, &gzip, &brotli].map(|response| response.header("etag").expect("a tag").to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    for response in [&plain, &gzip] {
        let varies = response.headers.get_all("vary").iter();
        let varies: Vec<_> = varies.map(|value| value.to_str().unwrap().to_ascii_lowercase()).collect();
        assert_eq!(varies.iter().filter(|value| value.contains("accept-encoding")).count(), 1, "{varies:?}");
    }
    for tag in &tags {
        let request = app.request(Method::GET, "/nodes").header("accept-encoding", "gzip").header("if-none-match", tag);
        app.send(request).await.expect(304);
    }
    let small = app.send(app.request(Method::GET, "/health").header("accept-encoding", "gzip")).await.expect(200);
    assert_eq!((small.header("content-encoding"), small.text().as_str()), (None, "OK"));
    app.stop().await;
}

#[actix_web::test]
async fn other_origins_may_read() {
    let app = TestApp::start().await;
    let response = app.send(app.request(Method::GET, "/nodes").header("origin", "https://a.example")).await.expect(200);
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    assert!(
        response
            .header("access-control-expose-headers")
            .is_some_and(|names| names.contains("x-total-count") && names.contains("preference-applied"))
    );
    let preflight = app.request(Method::OPTIONS, "/nodes").header("origin", "https://a.example");
    app.send(preflight.header("access-control-request-method", "GET")).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn declining_compression_changes_no_header() {
    let app = TestApp::start().await;
    let sorted = |response: &TestResponse, name: &str| {
        let values = response.headers.get_all(name).iter().flat_map(|value| value.to_str().unwrap().split(','));
        let mut values: Vec<String> = values.map(|value| value.trim().to_ascii_lowercase()).collect();
        values.sort();
        values
    };
    for path in ["/nodes", "/health", "/nodes/none", "/nowhere"] {
        let default = app.get(path).await;
        let identity = app.send(app.request(Method::GET, path).header("accept-encoding", "identity")).await;
        assert_eq!((default.status, &default.body), (identity.status, &identity.body), "{path}");
        for name in ["access-control-expose-headers", "vary", "etag", "content-type", "content-encoding"] {
            assert_eq!(sorted(&default, name), sorted(&identity, name), "{path} {name}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_repeated_command_changes_nothing() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    app.publisher("acme", &owner).await;
    let update = || app.put_as(&owner.token, "/publishers/acme", json!({"description": "tools", "name": null}));
    let first = update().await.expect(200).json();
    let head = app.app.models().read().position;
    let second = update().await.expect(200).json();
    assert_eq!(first, second);
    assert_eq!(app.app.models().read().position, head, "an event was recorded");
    assert_eq!(first["name"], "acme", "null changed the name");
    app.stop().await;
}
