//! Bans: remaining permissions, lifting a ban, and protection against locking out all administrators.

use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse, TestUser};

/// Creates the publisher `acme` of alice with the node `face-tools`, and one of its tokens.
async fn acme() -> (TestApp, TestUser, String) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let node = json!({"id": "face-tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, "/publishers/acme/nodes", node).await.expect(201);
    let token = app.access_token("acme", &alice).await;
    (app, alice, token)
}

async fn post_with_reason(app: &TestApp, path: &str) -> TestResponse {
    app.post_as(app.admin_token(), path, json!({"reason": "it spreads spam"})).await
}

#[track_caller]
fn assert_banned(response: TestResponse) {
    let problem = response.expect(403).json();
    assert_eq!(problem["error"], "banned", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("it spreads spam"), "{problem}");
}

/// Returns the ids of a list of nodes.
fn listed(page: &Value) -> Vec<&str> {
    page["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn a_banned_user_can_read_but_not_write_until_unbanned() {
    let (app, alice, token) = acme().await;
    let user = format!("/admin/users/{}", alice.id);
    post_with_reason(&app, &format!("{user}/ban")).await.expect(204);

    let account = app.get_as(&alice.token, "/users").await.expect(200).json();
    let status = (&account["status"], &account["status_reason"], &account["statusReason"]);
    assert_eq!(status, (&json!("UserStatusBanned"), &Value::Null, &json!("it spreads spam")));
    app.get_as(&alice.token, "/publishers/acme/nodes").await.expect(200);
    app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200);
    assert_banned(app.put_as(&alice.token, "/publishers/acme", json!({"name": "x"})).await);
    assert_banned(app.post_as(&alice.token, "/publishers", json!({"id": "other"})).await);
    assert_banned(app.post_as(&alice.token, "/publishers/acme/nodes", json!({"id": "b"})).await);
    // Nor may a token that the user created earlier.
    assert_banned(app.post_as(&token, "/publishers/acme/nodes", json!({"id": "b"})).await);
    app.get_as(&token, "/publishers/acme/nodes").await.expect(200);

    post_with_reason(&app, &format!("{user}/unban")).await.expect(204);
    app.put_as(&alice.token, "/publishers/acme", json!({"name": "x"})).await.expect(200);
    app.post_as(&token, "/publishers/acme/nodes", json!({"id": "b"})).await.expect(201);
    assert_eq!(app.get_as(&alice.token, "/users").await.json().get("status"), None);
    app.stop().await;
}

#[actix_web::test]
async fn only_administrators_change_a_banned_publisher() {
    let (app, alice, token) = acme().await;
    post_with_reason(&app, "/admin/publishers/acme/ban").await.expect(204);

    let body = app.get("/publishers/acme").await.expect(200).json();
    let actual = (&body["status"], &body["status_detail"]);
    assert_eq!(actual, (&json!("PublisherStatusBanned"), &json!("it spreads spam")));
    assert_banned(app.put_as(&alice.token, "/publishers/acme", json!({"name": "x"})).await);
    assert_banned(app.delete_as(&alice.token, "/publishers/acme").await);
    assert_banned(app.post_as(&alice.token, "/publishers/acme/tokens", json!({"name": "x"})).await);
    let version = "/publishers/acme/nodes/face-tools/versions/1.0.0";
    for token in [&alice.token, &token] {
        assert_banned(app.post_as(token, "/publishers/acme/nodes", json!({"id": "b"})).await);
        assert_banned(app.put_as(token, version, json!({"changelog": "x"})).await);
        app.get_as(token, "/publishers/acme/nodes").await.expect(200);
    }
    app.put_as(app.admin_token(), "/publishers/acme", json!({"name": "Renamed"})).await.expect(200);
    app.put_as(app.admin_token(), version, json!({"changelog": "x"})).await.expect(200);
    // The owner is not banned and can use other publishers.
    app.publisher("second", &alice).await;

    post_with_reason(&app, "/admin/publishers/acme/unban").await.expect(204);
    let body = app.put_as(&alice.token, "/publishers/acme", json!({"name": "x"})).await.expect(200).json();
    assert_eq!((&body["status"], body.get("status_detail")), (&json!("PublisherStatusActive"), None));
    app.post_as(&token, "/publishers/acme/nodes", json!({"id": "b"})).await.expect(201);
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_list_banned_publishers() {
    let (app, alice, _) = acme().await;
    app.publisher("good", &alice).await;
    post_with_reason(&app, "/admin/publishers/acme/ban").await.expect(204);

    let ids = async |token: &str, query: &str| {
        let page = app.get_as(token, &format!("/publishers{query}")).await.expect(200).json();
        let publishers = page["publishers"].as_array().unwrap().iter();
        let ids: Vec<_> = publishers.map(|publisher| publisher["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(page["total"].as_u64(), Some(ids.len() as u64));
        ids
    };
    assert_eq!(ids(&alice.token, "?include_banned=true").await, ["good"]);
    assert_eq!(ids(app.admin_token(), "").await, ["good"]);
    assert_eq!(ids(app.admin_token(), "?include_banned=false").await, ["good"]);
    assert_eq!(ids(app.admin_token(), "?include_banned=true").await, ["acme", "good"]);

    let own_publishers = app.get_as(&alice.token, "/users/publishers").await.expect(200).json();
    assert_eq!(
        (&own_publishers[0]["id"], &own_publishers[0]["status"]),
        (&json!("acme"), &json!("PublisherStatusBanned"))
    );
    app.stop().await;
}

#[actix_web::test]
async fn a_banned_node_rejects_changes_and_leaves_the_lists() {
    let (app, alice, token) = acme().await;
    app.node("acme", "good", &alice).await;
    // Ids are case-insensitive: this is the same node.
    post_with_reason(&app, "/admin/nodes/FACE-tools/ban").await.expect(204);
    let node = app.get("/nodes/face-tools").await.expect(200).json();
    assert_eq!((&node["status"], &node["status_detail"]), (&json!("NodeStatusBanned"), &json!("it spreads spam")));
    assert_eq!(listed(&app.get("/nodes").await.expect(200).json()), ["good"]);
    let version = "/publishers/acme/nodes/face-tools/versions/1.0.0";
    for token in [&alice.token, &token] {
        assert_banned(app.put_as(token, version, json!({"changelog": "x"})).await);
    }
    app.put_as(&alice.token, "/publishers/acme", json!({"name": "x"})).await.expect(200);

    post_with_reason(&app, "/admin/nodes/face-tools/unban").await.expect(204);
    app.put_as(&token, version, json!({"changelog": "x"})).await.expect(200);
    assert_eq!(listed(&app.get("/nodes").await.expect(200).json()), ["face-tools", "good"]);
    app.stop().await;
}

#[actix_web::test]
async fn writing_back_a_node_of_a_banned_publisher_does_not_ban_it() {
    let (app, _, _) = acme().await;
    let paths = ["/admin/nodes/face-tools", "/publishers/acme/nodes/face-tools"];
    for path in paths {
        post_with_reason(&app, "/admin/publishers/acme/ban").await.expect(204);
        let body = app.get("/nodes/face-tools").await.expect(200).json();
        assert_eq!(body["status"], "NodeStatusBanned");
        assert_eq!(app.put_as(app.admin_token(), path, body.clone()).await.expect(200).json(), body, "{path}");
        post_with_reason(&app, "/admin/publishers/acme/unban").await.expect(204);
        let freed = app.get("/nodes/face-tools").await.expect(200).json();
        assert_eq!((&freed["status"], freed.get("status_detail")), (&json!("NodeStatusActive"), None), "{path}");
    }
    // A ban with its own reason is one.
    post_with_reason(&app, "/admin/publishers/acme/ban").await.expect(204);

    let ban = json!({"status": "NodeStatusBanned", "status_detail": "it mines coins"});
    app.put_as(app.admin_token(), paths[0], ban.clone()).await.expect(200);
    post_with_reason(&app, "/admin/publishers/acme/unban").await.expect(204);

    let node = app.get("/nodes/face-tools").await.expect(200).json();
    assert_eq!((&node["status"], &node["status_detail"]), (&ban["status"], &ban["status_detail"]));
    app.stop().await;
}

#[actix_web::test]
async fn a_redundant_ban_reports_the_current_status() {
    let (app, alice, _) = acme().await;
    for (resource, kind) in [
        (format!("/admin/users/{}", alice.id), "UserStatus"),
        ("/admin/publishers/acme".to_owned(), "PublisherStatus"),
        ("/admin/nodes/face-tools".to_owned(), "NodeStatus"),
    ] {
        for (command, state) in [("unban", "Active"), ("ban", "Banned")] {
            if command == "ban" {
                post_with_reason(&app, &format!("{resource}/ban")).await.expect(204);
            }
            let problem = post_with_reason(&app, &format!("{resource}/{command}")).await.expect(409).json();
            let already = format!("already has the status {kind}{state}");
            assert!(problem["detail"].as_str().unwrap().ends_with(&already), "{problem}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_ban_requires_a_reason() {
    const REASON: &str =
        "must be a string of at most 1000 characters, without control characters except tabs and line breaks";
    let (app, alice, _) = acme().await;
    for resource in [&format!("/admin/users/{}", alice.id), "/admin/publishers/acme", "/admin/nodes/face-tools"] {
        for command in ["ban", "unban"] {
            let path = format!("{resource}/{command}");
            let beginning = format!("{}…", "x".repeat(100));
            for (body, expected) in [
                (json!({}), json!({"reason": "is required"})),
                (json!({"reason": null}), json!({"reason": "is required"})),
                (json!({"reason": " \n"}), json!({"reason": "must not be blank", "value": " \n"})),
                (json!({"reason": "x".repeat(1001)}), json!({"reason": REASON, "value": beginning})),
                (json!({"reason": 1}), json!({"reason": REASON, "value": 1})),
            ] {
                let problem = app.post_as(app.admin_token(), &path, body).await.expect(400).json();
                let mut expected = expected;
                expected["pointer"] = "/reason".into();
                assert_eq!(problem["errors"], json!([expected]), "{path}");
            }
        }
        let longest = json!({"reason": "ü".repeat(1000)});
        app.post_as(app.admin_token(), &format!("{resource}/ban"), longest).await.expect(204);
    }

    for missing in ["users/nonsense", "publishers/nowhere", "nodes/nothing", "nodes/-"] {
        post_with_reason(&app, &format!("/admin/{missing}/ban")).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_status_banned_requires_a_reason() {
    let (app, _, _) = acme().await;
    let token = app.admin_token();
    for (path, kind, field) in [
        ("/admin/nodes/face-tools", "NodeStatus", "status_detail"),
        ("/admin/nodes/face-tools/versions/1.0.0", "NodeVersionStatus", "status_reason"),
    ] {
        let banned = json!({"status": format!("{kind}Banned")});
        let problem = app.put_as(token, path, banned).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], json!(format!("/{field}")), "{path}");
        let actual = json!({"status": format!("{kind}Banned"), field: "it mines coins"});
        app.put_as(token, path, actual.clone()).await.expect(200);
        app.put_as(token, path, actual).await.expect(200);
        app.put_as(token, path, json!({"status": format!("{kind}Active")})).await.expect(200);
    }
    app.stop().await;
}

#[actix_web::test]
async fn administrators_cannot_lock_themselves_out() {
    let app = TestApp::start().await;
    let root = app.user("root").await;
    let admin = json!({"isAdmin": true});
    app.put_as(app.admin_token(), &format!("/admin/users/{}", root.id), admin).await.expect(200);
    let first = app.get_as(app.admin_token(), "/users").await.expect(200).json()["id"].as_str().unwrap().to_owned();

    for token in [root.token.as_str(), app.admin_token()] {
        app.post_as(token, &format!("/admin/users/{first}/ban"), json!({"reason": "x"})).await.expect(409);
        app.put_as(token, &format!("/admin/users/{first}"), json!({"isAdmin": false})).await.expect(409);
    }
    let own_account = format!("/admin/users/{}", root.id);
    app.post_as(&root.token, &format!("{own_account}/ban"), json!({"reason": "x"})).await.expect(409);
    let problem =
        app.put_as(&root.token, &own_account, json!({"isAdmin": false, "name": "x"})).await.expect(409).json();
    assert_eq!(problem["error"], "conflict");
    assert_eq!(app.get_as(&root.token, "/users").await.json()["name"], "root");
    app.put_as(&root.token, &own_account, json!({"isAdmin": true, "name": "Root"})).await.expect(200);

    post_with_reason(&app, &format!("{own_account}/ban")).await.expect(204);
    app.get_as(&root.token, "/admin/users").await.expect(200);
    assert_banned(app.post_as(&root.token, "/admin/users", json!({"name": "x"})).await);
    assert_banned(app.post_as(&root.token, &format!("{own_account}/unban"), json!({"reason": "x"})).await);
    app.stop().await;
}
