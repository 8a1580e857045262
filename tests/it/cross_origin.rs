//! Cross-origin requests of browsers: a page of an origin that is not allowed changes nothing, with any kind of request
//! that the browser sends without a preflight.

use mediary::config::AllowedOrigins;
use mediary::environment::Environment;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::support::form::form;
use crate::support::zip::valid_archive;
use crate::support::{TestApp, TestResponse, TestUser};
use crate::video::{START_END, of_prompt};

const FOREIGN: &str = "https://evil.example";
const NAMED: &str = "https://app.example";
const MUSIC: &str = "/proxy/musicvendor/t2m/generate";

/// Service that allows one origin, or reads from all, and a user whose publisher has a node and an upload link.
struct OriginFixture {
    app: TestApp,
    owner: TestUser,
    link: String,
    task: String,
}

impl OriginFixture {
    async fn with_origins(allowed: AllowedOrigins) -> Self {
        let app = TestApp::start_with(|settings| settings.cors.allowed_origins = allowed, Environment::system()).await;
        let owner = app.user("owner").await;
        app.publisher("acme", &owner).await;
        let version = json!({"node_version": {"version": "1.0.0"}});
        let publication =
            app.post_as(&owner.token, "/publishers/acme/nodes/tools/versions", version).await.expect(201).json();
        let url = publication["signedUrl"].as_str().unwrap();
        let link = url[url.find("/uploads/").unwrap()..].to_owned();
        let submission = app.post(START_END, of_prompt("p")).await.expect(200).json();
        let task = submission["task_id"].as_str().unwrap().to_owned();
        // Cancels the video, so that only the test's own requests are recorded.
        app.post(&format!("/proxy/videovendor/tasks/{task}/cancel"), json!({})).await.expect(200);
        Self { app, owner, link, task }
    }

    async fn with_named_origin() -> Self {
        Self::with_origins(AllowedOrigins::Listed(vec![NAMED.to_owned()])).await
    }

    fn signed_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.app.request(method, path).bearer_auth(&self.owner.token)
    }

    /// Returns requests that change something, with the status for an authorised caller; browsers send some of them
    /// without a preflight.
    fn changes(&self) -> Vec<(RequestBuilder, u16)> {
        let cancel = format!("/proxy/videovendor/tasks/{}/cancel", self.task);
        vec![
            (self.app.request(Method::POST, START_END).body(of_prompt("untyped").to_string()), 200),
            (self.app.request(Method::POST, START_END).json(&of_prompt("typed")), 200),
            (self.app.request(Method::POST, &cancel), 200),
            (form(self.signed_request(Method::POST, MUSIC), &[("prompt", "a song"), ("duration", "1")]), 200),
            (self.signed_request(Method::PUT, "/publishers/acme").json(&json!({"description": "changed"})), 200),
            (self.app.request(Method::PUT, &self.link).body(valid_archive()), 200),
            (self.signed_request(Method::DELETE, "/publishers/acme/nodes/tools"), 204),
            (self.signed_request(Method::PATCH, "/publishers/acme"), 405),
        ]
    }

    /// Sends every change from a page of this origin, with additional headers.
    async fn change_all(&self, origin: &str, other_headers: &[(&str, &str)]) -> Vec<(TestResponse, u16)> {
        let mut responses = Vec::new();
        for (request, expected) in self.changes() {
            let request = other_headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            responses.push((self.app.send(request.header("origin", origin)).await, expected));
        }
        responses
    }
}

#[actix_web::test]
async fn an_unlisted_origin_cannot_write() {
    for (allowed, readable) in [
        (AllowedOrigins::Any, true),
        (AllowedOrigins::Listed(vec![NAMED.to_owned()]), false),
        (AllowedOrigins::Listed(Vec::new()), false),
    ] {
        // Given a service and its history
        let fixture = OriginFixture::with_origins(allowed).await;
        let before = fixture.app.app.models().read().position.0;

        // When pages of other origins try to change something, even with a user's credentials
        for origin in [FOREIGN, "null", "https://app.example.evil.example", "http://127.0.0.1:1", "file://"] {
            for (response, _) in fixture.change_all(origin, &[("sec-fetch-site", "cross-site")]).await {
                // Then each gets the reason, as far as it may read it, and nothing changes
                assert_eq!(
                    response.expect_refusal(origin).header("access-control-allow-origin"),
                    readable.then_some("*")
                );
            }
        }
        let path = format!("/admin/events?after={before}");
        let recorded = fixture.app.get_as(fixture.app.admin_token(), &path).await.expect(200).json();
        // Uses of the fixture's tokens may be recorded later.
        let recorded_changes =
            recorded["events"].as_array().unwrap().iter().filter(|event| event["type"] != "TokenUsed");
        assert_eq!(recorded_changes.count(), 0, "{recorded}");
        fixture.app.stop().await;
    }
}

trait ExpectRefusal {
    fn expect_refusal(&self, origin: &str) -> &Self;
}

impl ExpectRefusal for TestResponse {
    #[track_caller]
    fn expect_refusal(&self, origin: &str) -> &Self {
        let body = self.json();
        assert_eq!((self.status, &body["error"]), (403, &json!("forbidden")), "{body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.starts_with(&format!("pages of {origin} may not ")), "{detail}");
        assert!(detail.contains("cors.allowed_origins"), "{detail}");
        assert!(self.header("x-request-id").is_some());
        self
    }
}

#[actix_web::test]
async fn a_listed_origin_can_write() {
    let fixture = OriginFixture::with_named_origin().await;
    for (response, expected) in fixture.change_all(NAMED, &[("sec-fetch-site", "cross-site")]).await {
        assert_eq!(response.header("access-control-allow-origin"), Some(NAMED));
        response.expect(expected);
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn same_origin_pages_can_write() {
    let post = |app: &TestApp| app.request(Method::POST, START_END).json(&of_prompt("p"));

    // Given a service without a public URL: reached by its address, by another name, and behind an unknown proxy
    let fixture = OriginFixture::with_origins(AllowedOrigins::Listed(Vec::new())).await;
    let (base, port) = (fixture.app.url(""), fixture.app.app.address().port());
    for (response, expected) in fixture.change_all(&base, &[]).await {
        response.expect(expected);
    }
    let (localhost, host) = (format!("http://localhost:{port}"), format!("localhost:{port}"));
    let app = &fixture.app;
    app.send(post(app).header("origin", localhost).header("host", host)).await.expect(200);
    let proxied = post(app).header("origin", "https://media.example").header("sec-fetch-site", "same-origin");
    app.send(proxied).await.expect(200);
    let unproven = post(app).header("origin", "https://media.example");
    app.send(unproven).await.expect_refusal("https://media.example");
    fixture.app.stop().await;

    // Given a service with a public URL, behind a proxy that sends another host
    let change = |settings: &mut mediary::config::Settings| {
        settings.public_url = Some("https://media.example/base".to_owned());
    };
    let app = TestApp::start_with(change, Environment::system()).await;
    app.send(post(&app).header("origin", "https://media.example")).await.expect(200);
    app.send(post(&app).header("origin", "http://media.example")).await.expect_refusal("http://media.example");
    app.stop().await;
}

#[actix_web::test]
async fn read_only_origins_can_read() {
    let any_origin = TestApp::start().await;
    let listed = OriginFixture::with_named_origin().await;
    for (app, readable) in [(&any_origin, Some("*")), (&listed.app, None)] {
        for method in [Method::GET, Method::HEAD] {
            let response = app.send(app.request(method, "/nodes").header("origin", FOREIGN)).await.expect(200);
            assert_eq!(response.header("access-control-allow-origin"), readable);
        }
    }
    any_origin.stop().await;
    listed.app.stop().await;
}

#[actix_web::test]
async fn preflights_are_answered_with_the_allowed_methods() {
    let any_origin = TestApp::start().await;
    let listed = OriginFixture::with_named_origin().await;
    let preflight_from = async |app: &TestApp, origin: &str, method: &str| {
        let request = app.request(Method::OPTIONS, "/nodes").header("origin", origin);
        app.send(request.header("access-control-request-method", method)).await
    };
    preflight_from(&any_origin, FOREIGN, "GET").await.expect(200);

    for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
        let response = preflight_from(&listed.app, NAMED, method).await.expect(200);
        assert_eq!(response.header("access-control-allow-origin"), Some(NAMED));
        preflight_from(&listed.app, FOREIGN, method).await.expect_refusal(FOREIGN);
    }

    for (app, origin, method) in
        [(&any_origin, FOREIGN, "PUT"), (&any_origin, "null", "POST"), (&listed.app, NAMED, "PATCH")]
    {
        let response = preflight_from(app, origin, method).await;
        let detail = format!("pages of {origin} may not send {method} (see `cors.allowed_origins`)");
        assert_eq!((response.status, &response.json()["detail"]), (403, &json!(detail)));
    }
    any_origin.stop().await;
    listed.app.stop().await;
}

#[actix_web::test]
async fn cors_exposes_the_headers_that_clients_need() {
    let app = TestApp::start().await;
    let plain = app.get("/nodes").await;
    let page = app.send(app.request(Method::GET, "/nodes").header("origin", FOREIGN)).await;
    for response in [plain, page] {
        let exposed = response.header("access-control-expose-headers").unwrap();
        for name in ["date", "allow", "etag", "x-request-id"] {
            assert!(exposed.split(", ").any(|exposed| exposed == name), "{name} in {exposed}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_write_operation_rejects_cross_origin_requests_and_documents_it() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").await.expect(200).json();
    let mut attempts = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let Some(method) = [Method::POST, Method::PUT, Method::DELETE]
                .into_iter()
                .find(|candidate| candidate.as_str().eq_ignore_ascii_case(method))
            else {
                continue;
            };

            // Given a page of another origin, or one whose `Origin` was removed on the way
            let path = path.replace(['{', '}'], "");
            for (name, value) in [("origin", FOREIGN), ("sec-fetch-site", "cross-site")] {
                let response = app.send(app.request(method.clone(), &path).header(name, value)).await;
                assert_eq!((response.status, &response.json()["error"]), (403, &json!("forbidden")), "{method} {path}");
            }

            // Then the OpenAPI document lists the error
            let component = operation["responses"]["403"]["$ref"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
            let codes = &document.pointer(component.trim_start_matches('#')).unwrap()["x-error-codes"];
            assert!(codes.as_array().unwrap().contains(&json!("forbidden")), "{method} {path}: {codes}");
            attempts += 1;
        }
    }
    assert!(attempts > 40, "{attempts}");
    let metrics = app.get("/metrics").await.expect(200).text();
    let expected_metric =
        format!("mediary_http_requests_total{{method=\"any\",route=\"unmatched\",status=\"403\"}} {}", 2 * attempts);
    assert!(metrics.contains(&expected_metric), "{expected_metric}");
    app.stop().await;
}
