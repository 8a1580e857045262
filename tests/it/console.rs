//! Console as served: content security policy, caching, compression, and no other files.

use std::collections::BTreeSet;

use mediary::config::{OidcSettings, Settings};
use mediary::environment::Environment;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse};

const POLICY: [&str; 11] = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "media-src 'self' blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
];

#[actix_web::test]
async fn the_policy_admits_exactly_the_origin_of_the_issuer() {
    let with_client = |client_id: Option<&str>| {
        let client_id = client_id.map(str::to_owned);
        move |settings: &mut Settings| {
            let issuer = "https://login.example.org/realms/main".to_owned();
            let audience = "mediary".to_owned();
            settings.auth.oidc = Some(OidcSettings { issuer, audience, client_id, jwks_url: None });
        }
    };
    for (client_id, directive) in
        [(None, "connect-src 'self'"), (Some("console"), "connect-src 'self' https://login.example.org")]
    {
        let app = TestApp::start_with(with_client(client_id), Environment::system()).await;
        let page = app.get("/").await.expect(200);
        assert!(policy_of(&page).contains(directive), "{:?}", policy_of(&page));

        let expected = client_id.map(|client_id| {
            json!({"issuer": "https://login.example.org/realms/main", "client_id": client_id, "audience": "mediary"})
        });
        assert_eq!(app.get("/sign-in").await.expect(200).json().get("oidc"), expected.as_ref());
        app.stop().await;
    }
}

/// Returns the paths of the scripts, style sheets and icon to which the page refers.
fn files_of(page: &str) -> BTreeSet<String> {
    let after = |name: &'static str| page.split(name).skip(1).filter_map(|remaining| remaining.split('"').next());
    after("href=\"")
        .chain(after("src=\""))
        .filter(|path| path.starts_with("console/"))
        .map(|path| format!("/{path}"))
        .collect()
}

/// Returns the directives of the content security policy.
fn policy_of(response: &TestResponse) -> BTreeSet<&str> {
    response.header("content-security-policy").unwrap_or_default().split(';').map(str::trim).collect()
}

#[actix_web::test]
async fn the_console_is_served_at_the_root_and_at_the_paths_of_its_pages() {
    let app = TestApp::start().await;

    let root = app.get("/").await.expect(200);

    assert_eq!(root.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(root.text().contains("<title>Mediary</title>"));
    for path in ["/docs", "/studio", "/account", "/state", "/audit", "/budgets", "/moderation"] {
        assert_eq!(app.get(path).await.expect(200).body, root.body, "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_file_has_its_type_and_security_headers() {
    let app = TestApp::start().await;
    let page = app.get("/").await.expect(200).text();
    let files = files_of(&page);
    assert!(files.len() > 15, "{files:?}");

    for path in files.iter().map(String::as_str).chain(["/", "/docs"]) {
        let file = app.get(path).await.expect(200);

        // Only a document has policies; the others are subject to those of their document.
        let extension = path.rsplit_once('.').map(|(_, extension)| extension);
        let is_document = !matches!(extension, Some("js" | "css"));
        assert_eq!(file.header("content-security-policy").is_some(), is_document, "{path}");
        if is_document {
            assert_eq!(policy_of(&file), BTreeSet::from(POLICY), "{path}");
        }

        let expected = match extension {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(file.header("content-type"), Some(expected), "{path}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(file.header("referrer-policy"), is_document.then_some("no-referrer"), "{path}");
        assert_eq!(file.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
        assert!(file.header("set-cookie").is_none(), "{path}");
        assert!(file.header("x-request-id").is_some(), "{path}");
        assert!(file.header("access-control-allow-origin").is_none(), "{path}");
        assert!(file.header("access-control-expose-headers").is_none(), "{path}");
        assert_eq!(file.header("vary"), Some("accept-encoding"), "{path}");

        let addresses = file.text().replace("http://www.w3.org/2000/svg", "");
        let is_own_file = !path.contains("/vendor/");
        assert!(
            !is_own_file || !(addresses.contains("src=\"http") || addresses.contains("href=\"http")),
            "{path} leads elsewhere"
        );
    }
    app.stop().await;
}

#[actix_web::test]
async fn unchanged_files_return_304() {
    let app = TestApp::start().await;
    for path in ["/", "/console/app.js", "/console/style.css"] {
        let first = app.get(path).await.expect(200);
        let tag = first.header("etag").expect("a tag").to_owned();
        assert!(tag.starts_with('"'), "{tag} is not a strong tag");
        assert_eq!(first.header("cache-control"), Some("no-cache"));

        let repeated = app.send(app.request(Method::GET, path).header("if-none-match", &tag)).await.expect(304);
        assert!(repeated.body.is_empty());
        assert_eq!(repeated.header("etag"), Some(tag.as_str()));
        app.send(app.request(Method::GET, path).header("if-none-match", "\"another\"")).await.expect(200);
    }
    let tags: BTreeSet<_> = [app.get("/").await, app.get("/console/app.js").await]
        .iter()
        .map(|response| response.header("etag").map(str::to_owned))
        .collect();
    assert_eq!(tags.len(), 2, "different files have different tags");
    app.stop().await;
}

#[actix_web::test]
async fn files_are_compressed_on_request() {
    let app = TestApp::start().await;
    let plain = app.get("/console/style.css").await.expect(200);
    for coding in ["gzip", "br"] {
        let request = app.request(Method::GET, "/console/style.css").header("accept-encoding", coding);
        let compressed = app.send(request).await.expect(200);
        assert_eq!(compressed.header("content-encoding"), Some(coding));
        assert!(compressed.body.len() * 2 < plain.body.len(), "{coding}: {} bytes", compressed.body.len());
        assert_ne!(compressed.header("etag"), plain.header("etag"), "another representation has another tag");
    }
    app.stop().await;
}

#[actix_web::test]
async fn only_the_files_are_served_read_only() {
    let app = TestApp::start().await;
    for path in [
        "/console",
        "/console/",
        "/console/none.js",
        "/console/index.html",
        "/console/../mod.rs",
        "/console/%2e%2e/mod.rs",
        "/console/vendor/",
        "/console//app.js",
        "/console/app.js/",
        "/Console/app.js",
        "/index.html",
        "/docs/",
    ] {
        let response = app.get(path).await.expect(404);
        assert_eq!(response.header("content-type"), Some("application/problem+json"), "{path}");
    }

    for method in [Method::POST, Method::PUT, Method::DELETE] {
        let response = app.send(app.request(method.clone(), "/console/app.js")).await.expect(405);
        assert_eq!(response.header("allow"), Some("GET, HEAD"), "{method}");
        app.send(app.request(method, "/")).await.expect(405);
    }

    let get = app.get("/").await;
    let head = app.send(app.request(Method::HEAD, "/")).await.expect(200);
    assert!(head.body.is_empty());
    assert_eq!(head.header("etag"), get.header("etag"));
    app.stop().await;
}

#[actix_web::test]
async fn console_files_ignore_tokens() {
    let app = TestApp::start().await;
    app.get_as("mdu_nonsense", "/").await.expect(200);
    app.stop().await;
}

/// Replaces references to schemas by their content.
fn resolve(value: &Value, document: &Value) -> Value {
    match value {
        Value::Object(members) => match members.get("$ref").and_then(Value::as_str) {
            Some(target) => resolve(document.pointer(&target[1..]).expect("the schema"), document),
            None => members.iter().map(|(name, member)| (name.clone(), resolve(member, document))).collect(),
        },
        Value::Array(entries) => entries.iter().map(|entry| resolve(entry, document)).collect(),
        other => other.clone(),
    }
}

#[actix_web::test]
async fn the_studio_loads_only_the_jobs_of_the_document() {
    for max_images in [1, 3] {
        // Given a service with a limit of images per video
        let app = TestApp::start_with(|settings| settings.video.max_images = max_images, Environment::system()).await;
        let whole = app.get("/openapi.json").await.expect(200);
        let document = whole.json();

        // When the list of jobs and the jobs are loaded
        let list = app.get("/console/job-list.json").await.expect(200).json();
        let file = app.get("/console/jobs.json").await.expect(200);
        assert_eq!(file.header("content-type"), Some("application/json"));
        assert!(file.body.len() * 5 < whole.body.len(), "{} of {} bytes", file.body.len(), whole.body.len());

        // Then they are the submissions of the document, with the same bodies, callers and types of response
        let jobs = file.json();
        let paths = jobs["paths"].as_object().expect("paths");
        assert_eq!(paths.len(), 12);
        assert_eq!(list["paths"].as_object().map(serde_json::Map::len), Some(12));
        for (path, methods) in paths {
            let (job, operation) = (&methods["post"], &document["paths"][path]["post"]);
            for field in ["operationId", "summary", "description", "tags", "security"] {
                assert_eq!(job[field], operation[field], "{field} of {path}");
            }
            for field in ["operationId", "summary", "tags"] {
                assert_eq!(list["paths"][path]["post"][field], operation[field], "{field} of {path}");
            }
            for (media_type, body) in job["requestBody"]["content"].as_object().expect("a body") {
                let expected = &operation["requestBody"]["content"][media_type]["schema"];
                assert_eq!(resolve(&body["schema"], &jobs), resolve(expected, &document), "body of {path}");
            }
            let types = |operation: &Value| -> Vec<String> {
                operation["responses"]["200"]["content"].as_object().expect("a response").keys().cloned().collect()
            };
            assert_eq!(types(job), types(operation), "{path}");
        }
        for field in ["kind", "state"] {
            let pointer = format!("/components/schemas/Task/properties/{field}");
            let schema_in = |document: &Value| resolve(document.pointer(&pointer).expect("the field"), document);
            assert_eq!(schema_in(&jobs), schema_in(&document), "{field} of a task");
        }
        app.stop().await;
    }
}

/// Returns the operations of a document with their paths and methods.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    let methods = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    methods.collect()
}

#[actix_web::test]
async fn the_reference_loads_a_list_and_single_operations_of_the_document() {
    // Given the whole document of a service with a limit of images per video
    let app = TestApp::start_with(|settings| settings.video.max_images = 2, Environment::system()).await;
    let whole = app.get("/openapi.json").await.expect(200);
    let document = whole.json();
    let expected = operations(&document);

    // When the list is loaded
    let file = app.get("/console/reference.json").await.expect(200);
    assert_eq!(file.header("content-type"), Some("application/json"));
    assert!(file.body.len() * 20 < whole.body.len(), "{} of {} bytes", file.body.len(), whole.body.len());

    // Then it has every operation of the document
    let list = file.json();
    assert_eq!(list["info"], document["info"]);
    let listed = operations(&list);
    assert_eq!(listed.len(), expected.len());
    for ((path, method, entry), (expected_path, expected_method, operation)) in listed.into_iter().zip(expected) {
        assert_eq!((path, method), (expected_path, expected_method));
        for field in ["operationId", "summary", "tags"] {
            assert_eq!(entry[field], operation[field], "{field} of {path}");
        }

        // And each is a document of its own, with everything that it refers to and that the reference shows
        let id = entry["operationId"].as_str().expect("an id");
        let part = app.get(&format!("/console/reference/{id}.json")).await.expect(200).json();
        let part_operations = operations(&part);
        let [(part_path, part_method, shown)] = part_operations[..] else {
            panic!("{id} has {} operations", part_operations.len())
        };
        assert_eq!((part_path, part_method), (path, method));
        for field in ["operationId", "summary", "description", "tags", "security", "parameters", "requestBody"] {
            assert_eq!(resolve(&shown[field], &part), resolve(&operation[field], &document), "{field} of {id}");
        }
        for (status, response) in operation["responses"].as_object().expect("responses") {
            let shown = &shown["responses"][status];
            assert_eq!(shown["description"], response["description"], "{status} of {id}");
            if status.as_str() < "400" {
                assert_eq!(resolve(&shown["content"], &part), resolve(&response["content"], &document), "{id}");
            }
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn parts_of_the_document_are_cached_and_compressed_as_other_files() {
    let app = TestApp::start().await;
    for path in [
        "/console/reference.json",
        "/console/reference/upscaleImage.json",
        "/console/jobs.json",
        "/console/job-list.json",
    ] {
        let plain = app.get(path).await.expect(200);
        let tag = plain.header("etag").expect("a tag").to_owned();
        app.send(app.request(Method::GET, path).header("if-none-match", &tag)).await.expect(304);
        for coding in ["gzip", "br"] {
            let compressed =
                app.send(app.request(Method::GET, path).header("accept-encoding", coding)).await.expect(200);
            assert_eq!(compressed.header("content-encoding"), Some(coding), "{path}");
            assert!(compressed.body.len() * 3 < plain.body.len(), "{path}: {} bytes", compressed.body.len());
        }
    }

    for path in ["/console/reference/", "/console/reference/none.json", "/console/reference/upscaleImage"] {
        app.get(path).await.expect(404);
    }
    app.stop().await;
}
