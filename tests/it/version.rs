//! Node versions: publishing and revising.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const VERSIONS: &str = "/publishers/acme/nodes/face-tools/versions";

async fn app_with_publisher() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

fn publication(version: &str) -> Value {
    json!({"node": {"name": "Face tools"}, "node_version": {"version": version, "changelog": "new", "dependencies": ["numpy"]}})
}

#[actix_web::test]
async fn publishing_creates_a_pending_version() {
    let (app, alice) = app_with_publisher().await;
    let published = app.post_as(&alice.token, VERSIONS, publication("1.0.0")).await.expect(201).json();
    let version = &published["node_version"];
    assert_eq!((&version["status"], &version["node_id"]), (&json!("NodeVersionStatusPending"), &json!("face-tools")));
    assert_eq!((&version["dependencies"], &version["tags"]), (&json!(["numpy"]), &json!([])));
    assert_eq!(version.get("downloadUrl"), None);

    let node = app.get("/nodes/face-tools").await.expect(200).json();
    assert_eq!((&node["name"], node.get("latest_version")), (&json!("Face tools"), None));
    app.stop().await;
}

#[actix_web::test]
async fn publishing_without_a_body_is_401_before_400() {
    let (app, alice) = app_with_publisher().await;
    app.post_as(&alice.token, VERSIONS, publication("1.0.0")).await.expect(201);

    for path in [VERSIONS.to_owned(), format!("{VERSIONS}/1.0.0/upload")] {
        let response = app.send(app.request(Method::POST, &path)).await.expect(401);
        assert_eq!(response.header("www-authenticate"), Some("Bearer"), "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_token_in_the_body_replaces_the_header() {
    let (app, alice) = app_with_publisher().await;
    let bob = app.user("bob").await;
    app.publisher("other", &bob).await;
    let with_token = |token: Value, version: &str| {
        let mut body = publication(version);
        body["personal_access_token"] = token;
        body
    };
    let own_token = app.access_token("acme", &alice).await;
    let other_token = app.access_token("other", &bob).await;
    app.post(VERSIONS, with_token(json!(own_token), "1.0.0")).await.expect(201);
    app.post(VERSIONS, with_token(json!(other_token), "1.0.1")).await.expect(403);
    app.post(VERSIONS, with_token(json!("mdp_nonsense"), "1.0.1")).await.expect(401);

    for user_token in [alice.token.as_str(), app.admin_token()] {
        app.post(VERSIONS, with_token(json!(user_token), "1.0.1")).await.expect(401);
    }
    app.post(VERSIONS, with_token(json!(null), "1.0.1")).await.expect(401);
    app.post(VERSIONS, publication("1.0.1")).await.expect(401);
    app.post_as(&bob.token, VERSIONS, with_token(json!(own_token), "1.0.1")).await.expect(403);

    // Beside a header it has no effect, but a wrong one is rejected
    for invalid_token in ["mdp_nonsense", alice.token.as_str()] {
        let problem = app.post_as(&alice.token, VERSIONS, with_token(json!(invalid_token), "1.0.1")).await.expect(401);
        assert_eq!(problem.json()["error"], "unauthorized");
    }

    for (passed, version) in
        [(json!(own_token), "1.0.1"), (json!(other_token), "1.0.2"), (json!(""), "1.0.3"), (json!(null), "1.0.4")]
    {
        app.post_as(&alice.token, VERSIONS, with_token(passed, version)).await.expect(201);
    }

    let missing_publisher = VERSIONS.replace("acme", "none");
    app.post(&missing_publisher, with_token(json!(own_token), "1.0.1")).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn a_version_number_is_used_once() {
    let (app, alice) = app_with_publisher().await;
    app.post_as(&alice.token, VERSIONS, publication("1.0.0")).await.expect(201);
    for published_number in ["1.0.0", "1.0.0+build.2"] {
        let problem = app.post_as(&alice.token, VERSIONS, publication(published_number)).await.expect(409).json();
        assert_eq!(problem["error"], "already_exists");
    }
    app.post_as(&alice.token, &VERSIONS.replace("face-tools", "FACE-TOOLS"), publication("1.0.0")).await.expect(409);
    app.post_as(&alice.token, VERSIONS, publication("1.0.1-rc.1")).await.expect(201);
    app.stop().await;
}

#[actix_web::test]
async fn an_invalid_publication_reports_every_field() {
    let (app, alice) = app_with_publisher().await;
    let body = json!({
        "node": {"id": "other", "tags": ["x".repeat(201)]},
        "node_version": {"version": "v1", "dependencies": "numpy", "deprecated": 0},
    });
    let problem = app.post_as(&alice.token, VERSIONS, body).await.expect(400).json();
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(
        pointers,
        ["/node/id", "/node/tags/0", "/node_version/version", "/node_version/dependencies", "/node_version/deprecated"]
    );

    let missing = app.post_as(&alice.token, VERSIONS, json!({})).await.expect(400).json();
    assert_eq!(missing["errors"][0]["pointer"], "/node_version");
    app.post_as(&alice.token, &VERSIONS.replace("face-tools", "-"), publication("1.0.0")).await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn a_node_of_another_publisher_cannot_be_published_or_revised() {
    let (app, alice) = app_with_publisher().await;
    let bob = app.user("bob").await;
    app.publisher("other", &bob).await;
    app.post_as(&alice.token, VERSIONS, publication("1.0.0")).await.expect(201);
    let other_versions = VERSIONS.replace("acme", "other");
    app.post_as(&bob.token, &other_versions, publication("2.0.0")).await.expect(409);
    app.put_as(&bob.token, &format!("{other_versions}/1.0.0"), json!({"changelog": "mine"})).await.expect(404);
    app.put_as(&bob.token, &format!("{VERSIONS}/1.0.0"), json!({"changelog": "mine"})).await.expect(403);
    app.stop().await;
}

#[actix_web::test]
async fn a_version_is_revised_by_its_uuid_or_its_number() {
    let (app, alice) = app_with_publisher().await;
    let body = json!({"id": "face-tools", "latest_version": {"version": "1.0.0", "changelog": "first", "tags": ["a"]}});
    let node = app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(201).json();
    let id = node["latest_version"]["id"].as_str().unwrap();

    let revised =
        app.put_as(&alice.token, &format!("{VERSIONS}/{id}"), json!({"deprecated": true})).await.expect(200).json();
    assert_eq!((&revised["deprecated"], &revised["changelog"]), (&json!(true), &json!("first")));
    let body = json!({"changelog": "better", "deprecated": null, "tags": ["ignored"], "status": "ignored"});
    let revised = app.put_as(&alice.token, &format!("{VERSIONS}/1.0.0"), body).await.expect(200).json();
    assert_eq!((&revised["deprecated"], &revised["changelog"]), (&json!(true), &json!("better")));
    assert_eq!((&revised["tags"], &revised["id"]), (&json!(["a"]), &json!(id)));
    assert_eq!(app.get("/nodes/face-tools").await.json()["latest_version"], revised);

    for unknown in ["9.9.9", "00000000-0000-4000-8000-00000000abcd", "nonsense"] {
        app.put_as(&alice.token, &format!("{VERSIONS}/{unknown}"), json!({})).await.expect(404);
    }
    app.put_as(&alice.token, &format!("{VERSIONS}/1.0.0"), json!({"deprecated": "yes"})).await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn a_version_belongs_to_one_node_of_one_publisher() {
    let (app, alice) = app_with_publisher().await;
    let bob = app.user("bob").await;
    app.publisher("other", &bob).await;
    for (publisher, owner, node) in
        [("acme", &alice, "face-tools"), ("acme", &alice, "sibling"), ("other", &bob, "theirs")]
    {
        let body = json!({"id": node, "latest_version": {"version": "1.0.0"}});
        app.post_as(&owner.token, &format!("/publishers/{publisher}/nodes"), body).await.expect(201);
    }

    let id = app.get("/nodes/face-tools").await.json()["latest_version"]["id"].as_str().unwrap().to_owned();
    let body = || json!({"changelog": "mine"});
    for (token, wrong_path) in [
        (&alice.token, "/publishers/acme/nodes/sibling/versions"),
        (&alice.token, "/publishers/acme/nodes/theirs/versions"),
        (&alice.token, "/publishers/acme/nodes/none/versions"),
        (&bob.token, "/publishers/other/nodes/face-tools/versions"),
        (&bob.token, "/publishers/other/nodes/theirs/versions"),
    ] {
        app.put_as(token, &format!("{wrong_path}/{id}"), body()).await.expect(404);
        app.delete_as(token, &format!("{wrong_path}/{id}")).await.expect(404);
        app.put_as(app.admin_token(), &format!("{wrong_path}/{id}"), body()).await.expect(404);
    }
    app.put_as(&bob.token, &format!("{VERSIONS}/{id}"), body()).await.expect(403);
    app.put_as(&alice.token, &format!("{VERSIONS}/{}", id.to_uppercase()), body()).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn a_deleted_version_is_not_found_and_its_number_never_reused() {
    let (app, alice) = app_with_publisher().await;
    let body = json!({"id": "face-tools", "latest_version": {"version": "1.0.0"}});
    let node = app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(201).json();
    let id = node["latest_version"]["id"].as_str().unwrap();
    app.post_as(&alice.token, VERSIONS, publication("2.0.0")).await.expect(201);

    let token = app.access_token("acme", &alice).await;
    app.delete_as(&token, &format!("{VERSIONS}/{id}")).await.expect(403);

    for version in [id, "2.0.0"] {
        let deleted = app.delete_as(&alice.token, &format!("{VERSIONS}/{version}")).await.expect(204);
        assert!(deleted.body.is_empty());
        app.delete_as(&alice.token, &format!("{VERSIONS}/{version}")).await.expect(404);
        app.put_as(&alice.token, &format!("{VERSIONS}/{version}"), json!({"changelog": "x"})).await.expect(404);
    }

    for number in ["1.0.0", "1.0.0+build.2", "2.0.0"] {
        app.post_as(&alice.token, VERSIONS, publication(number)).await.expect(409);
    }
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json().get("latest_version"), None);
    app.stop().await;
}

#[actix_web::test]
async fn a_changelog_may_have_20_000_characters_of_any_width() {
    let (app, alice) = app_with_publisher().await;
    let long = "\u{1f600}".repeat(20_000);
    let body = json!({"id": "face-tools", "latest_version": {"version": "1.0.0", "changelog": long,
        "tags": vec!["\u{1f600}".repeat(200); 100], "dependencies": vec!["\u{1f600}".repeat(200); 100]}});
    let node = app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(201).json();
    assert_eq!(node["latest_version"]["changelog"], long);

    let revised = format!("{}x", &long[4..]);
    let path = format!("{VERSIONS}/1.0.0");
    let response = app.put_as(&alice.token, &path, json!({"changelog": revised})).await.expect(200).json();
    assert_eq!((&response["changelog"], &response["tags"]), (&json!(revised), &node["latest_version"]["tags"]));

    let problem = app.put_as(&alice.token, &path, json!({"changelog": format!("{long}x")})).await.expect(400).json();
    assert_eq!(problem["errors"][0]["pointer"], "/changelog");
    app.stop().await;
}

#[actix_web::test]
async fn admin_fields_of_versions_are_ignored_from_others() {
    let (app, alice) = app_with_publisher().await;
    let body = json!({"id": "face-tools", "latest_version": {"version": "1.0.0", "status": 1, "tags_admin": 2, "createdAt": 3}});
    app.post_as(&alice.token, "/publishers/acme/nodes", body).await.expect(201);

    let path = format!("{VERSIONS}/1.0.0");
    let before = app.get("/nodes/face-tools/versions/1.0.0").await.expect(200).json();
    let facts = json!({
        "tags_admin": ["checked"], "host_node_extract_status": "success", "createdAt": "2024-01-01T00:00:00.000000Z",
        "status": "NodeVersionStatusFlagged", "status_reason": "odd imports",
    });
    let invalid_fields =
        json!({"tags_admin": 1, "host_node_extract_status": 2, "createdAt": 3, "status": "4", "status_reason": 5});
    for body in [&facts, &invalid_fields] {
        assert_eq!(app.put_as(&alice.token, &path, body.clone()).await.expect(200).json(), before);
    }

    let ruled = app.put_as(app.admin_token(), &path, facts.clone()).await.expect(200).json();
    for (field, value) in facts.as_object().unwrap() {
        assert_eq!(&ruled[field], value, "{field}");
    }

    let problem = app.put_as(app.admin_token(), &path, invalid_fields).await.expect(400).json();
    assert_eq!(problem["errors"].as_array().map(Vec::len), Some(5));

    let impossible = json!({"status": "NodeVersionStatusPending"});
    app.put_as(app.admin_token(), &path, impossible).await.expect(409);
    app.stop().await;
}
