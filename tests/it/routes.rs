//! Who gets how far on every route, and that there is no route of which this is not known.

use mediary::domain::policy::Action;
use mediary::http::routes::rows;
use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, TestApp};

/// What an empty body, or none, is answered with, for each caller in the order of [`CALLERS`].
#[rustfmt::skip]
const EXPECTED: &[(&str, &str, Action, [u16; 7])] = &[
    ("GET",  "/health",                                                                  Action::ReadServiceState,    [200, 200, 200, 200, 200, 200, 200]),
    ("GET",  "/ready",                                                                   Action::ReadServiceState,    [200, 200, 200, 200, 200, 200, 200]),
    ("GET",  "/.well-known/webhook-key",                                                 Action::ReadServiceState,    [200, 200, 200, 200, 200, 200, 200]),
    ("GET",  "/media/{file}",                                                            Action::ReadResult,          [404, 404, 404, 404, 404, 404, 404]),
    ("GET",  "/users",                                                                   Action::ReadOwnAccount,      [401, 200, 200, 200, 403, 403, 200]),
    ("GET",  "/admin/users",                                                             Action::Administer,          [401, 403, 403, 403, 403, 403, 200]),
    ("POST", "/admin/users",                                                             Action::Administer,          [401, 403, 403, 403, 403, 403, 201]),
    ("POST", "/admin/users/{user_id}/tokens",                                            Action::Administer,          [401, 403, 403, 403, 403, 403, 404]),
    ("POST", "/publishers",                                                              Action::CreatePublisher,     [401, 400, 400, 400, 403, 403, 400]),
    ("GET",  "/publishers/{publisher_id}",                                               Action::ReadRegistry,        [200, 200, 200, 200, 200, 200, 200]),
    ("PUT",  "/publishers/{publisher_id}",                                               Action::UpdatePublisher,     [401, 403, 200, 403, 403, 403, 200]),
    ("POST", "/publishers/{publisher_id}/tokens",                                        Action::ManagePublisherTokens, [401, 403, 400, 403, 403, 403, 400]),
    ("GET",  "/publishers/{publisher_id}/nodes",                                         Action::ListPublisherNodes,  [401, 200, 200, 200, 200, 200, 200]),
    ("POST", "/publishers/{publisher_id}/nodes",                                         Action::CreateNode,          [401, 403, 400, 403, 400, 403, 400]),
    ("POST", "/publishers/{publisher_id}/nodes/{node_id}/versions",                      Action::PublishVersion,      [401, 403, 400, 403, 400, 403, 400]),
    ("PUT",  "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}",         Action::ReviseVersion,       [401, 403, 200, 403, 200, 403, 200]),
    ("GET",  "/nodes",                                                                   Action::ReadRegistry,        [200, 200, 200, 200, 200, 200, 200]),
    ("GET",  "/nodes/{node_id}",                                                         Action::ReadRegistry,        [200, 200, 200, 200, 200, 200, 200]),
    ("POST", "/bulk/nodes/versions",                                                     Action::ReadRegistry,        [400, 400, 400, 400, 400, 400, 400]),
    ("POST", "/proxy/imagevendor/v1/ai/image-upscaler",                                  Action::SubmitImageTask,     [401, 400, 400, 400, 403, 403, 400]),
    ("GET",  "/proxy/imagevendor/v1/ai/image-upscaler/{task_id}",                        Action::ReadImageTask,       [401, 404, 404, 404, 403, 403, 404]),
];

const CALLERS: [&str; 7] =
    ["anonymous", "a user", "the owner", "another's owner", "its token", "another's token", "an administrator"];

#[test]
fn every_route_has_its_authorization_rows() {
    let rows = rows();
    let mut served: Vec<_> = rows.iter().map(|row| (row.method.as_str(), row.path, row.action)).collect();
    let mut known: Vec<_> = EXPECTED.iter().map(|(method, path, action, _)| (*method, *path, *action)).collect();
    served.sort();
    known.sort();

    assert_eq!(
        served, known,
        "a route without an authorization row here or with another action, or a row without a route"
    );
}

#[actix_web::test]
async fn every_caller_gets_as_far_as_the_table_says() {
    let app = TestApp::start().await;
    let (owner, stranger) = (app.user("owner").await, app.user("stranger").await);
    app.publisher("acme", &owner).await;
    app.publisher("other", &stranger).await;
    let node = json!({"id": "face-tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&owner.token, "/publishers/acme/nodes", node).await.expect(201);
    let bystander = app.user("bystander").await;
    let (own, other) = (app.access_token("acme", &owner).await, app.access_token("other", &stranger).await);
    let tokens = [None, Some(&bystander.token), Some(&owner.token), Some(&stranger.token), Some(&own), Some(&other)];
    let tokens = [&tokens.map(|token| token.map(String::as_str))[..], &[Some(app.admin_token())]].concat();

    for (method, template, _, statuses) in EXPECTED {
        let path = path(template);
        for ((caller, token), status) in CALLERS.iter().zip(&tokens).zip(statuses) {
            let answer = ask(&app, method, &path, *token).await;
            assert_eq!(answer.status, *status, "{method} {path} by {caller}: {}", answer.text());
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_bad_token_is_refused_even_where_none_is_needed() {
    let app = TestApp::start().await;
    for (method, template, ..) in EXPECTED {
        let answer = ask(&app, method, &path(template), Some("mdu_nonsense")).await.expect(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""), "{method} {template}");
    }
    app.stop().await;
}

fn path(template: &str) -> String {
    let filled = template.replace("{publisher_id}", "acme").replace("{node_id}", "face-tools");
    let unknown = "00000000-0000-4000-8000-00000000abcd";
    let filled = filled.replace("{version_id}", "1.0.0").replace("{user_id}", unknown).replace("{task_id}", unknown);
    filled.replace("{file}", &format!("{}.png", "0".repeat(64)))
}

async fn ask(app: &TestApp, method: &str, path: &str, token: Option<&str>) -> Answer {
    let method: Method = method.parse().expect("a method");
    let request = app.request(method.clone(), path);
    let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    app.send(if method == Method::GET { request } else { request.json(&json!({})) }).await
}

#[actix_web::test]
async fn a_method_that_a_path_does_not_have_is_answered_with_those_it_has() {
    let app = TestApp::start().await;
    for (method, path, allow) in [
        (Method::DELETE, "/nodes", "GET, HEAD"),
        (Method::PATCH, "/publishers/acme", "GET, HEAD, PUT"),
        (Method::GET, "/publishers", "POST"),
        (Method::POST, "/health", "GET, HEAD"),
        (Method::OPTIONS, "/nodes", "GET, HEAD"),
    ] {
        let answer = app.send(app.request(method.clone(), path)).await.expect(405);
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        assert_eq!(answer.json()["error"], "method_not_allowed");
    }
    app.stop().await;
}

#[actix_web::test]
async fn head_answers_as_get_does_without_the_body() {
    let app = TestApp::start().await;
    for path in ["/health", "/nodes", "/.well-known/webhook-key"] {
        let (get, head) = (app.get(path).await, app.send(app.request(Method::HEAD, path)).await);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length", "etag"] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
    }
    app.send(app.request(Method::HEAD, "/nodes/none")).await.expect(404);
    app.stop().await;
}
