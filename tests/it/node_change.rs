//! Nodes: changes, deletion, permissions, and the fields that each role may set.

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const NODES: &str = "/publishers/acme/nodes";
const NODE: &str = "/publishers/acme/nodes/face-tools";

/// Starts a service with the users alice and bob, who own the publishers `acme` and `other`, and a node of `acme`.
async fn app_with_node() -> (TestApp, TestUser, TestUser) {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    app.publisher("other", &bob).await;
    let node = json!({
        "id": "face-tools", "name": "Face tools", "description": "all of it", "author": "alice", "icon": "https://a.example/i",
        "tags": ["a", "b"], "supported_os": ["linux"], "latest_version": {"version": "1.0.0", "changelog": "first"},
    });
    app.post_as(&alice.token, NODES, node).await.expect(201);
    (app, alice, bob)
}

/// Returns the fields of a node except those in `names`.
fn without<'v>(node: &'v Value, names: &[&str]) -> Vec<(&'v String, &'v Value)> {
    node.as_object().unwrap().iter().filter(|(name, _)| !names.contains(&name.as_str())).collect()
}

#[actix_web::test]
async fn an_update_changes_only_present_fields() {
    let (app, alice, _) = app_with_node().await;
    let before = app.get("/nodes/face-tools").await.expect(200).json();

    let untouched = app.put_as(&alice.token, NODE, json!({"name": null, "tags": null, "unknown": 1})).await.expect(200);
    assert_eq!(untouched.json(), before);
    let change = json!({"description": "less of it", "tags": [], "icon": ""});
    let after = app.put_as(&alice.token, NODE, change).await.expect(200).json();

    assert_eq!((&after["description"], &after["tags"], after.get("icon")), (&json!("less of it"), &json!([]), None));
    let changed = ["description", "tags", "icon"];
    assert_eq!(without(&after, &changed), without(&before, &changed));
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json(), after);
    app.stop().await;
}

#[actix_web::test]
async fn only_its_publisher_can_change_a_node() {
    let (app, alice, bob) = app_with_node().await;
    let own_token = app.access_token("acme", &alice).await;
    let other_token = app.access_token("other", &bob).await;
    let body = || json!({"name": "Mine"});
    for token in [&alice.token, &own_token, &app.admin_token().to_owned()] {
        app.put_as(token, NODE, body()).await.expect(200);
        app.put_as(token, "/publishers/acme/nodes/FACE-tools", body()).await.expect(200);
    }
    for token in [&bob.token, &other_token] {
        app.put_as(token, NODE, body()).await.expect(403);
        app.delete_as(token, NODE).await.expect(403);
        app.put_as(token, "/publishers/other/nodes/face-tools", body()).await.expect(404);
    }
    app.delete_as(&bob.token, "/publishers/other/nodes/face-tools").await.expect(404);
    app.delete_as(app.admin_token(), "/publishers/other/nodes/face-tools").await.expect(404);
    app.delete_as(&own_token, NODE).await.expect(403);

    for missing in ["/publishers/acme/nodes/none", "/publishers/acme/nodes/-", "/publishers/none/nodes/face-tools"] {
        app.put_as(&alice.token, missing, body()).await.expect(404);
        app.delete_as(&alice.token, missing).await.expect(404);
        app.get_as(&alice.token, &format!("{missing}/permissions")).await.expect(404);
    }
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json()["publisher"]["id"], "acme");
    app.stop().await;
}

#[actix_web::test]
async fn permissions_report_edit_rights() {
    let (app, alice, bob) = app_with_node().await;
    let own_token = app.access_token("acme", &alice).await;
    let other_token = app.access_token("other", &bob).await;
    let path = format!("{NODE}/permissions");
    for (token, can_edit) in [(&alice.token, true), (&own_token, true), (&bob.token, false), (&other_token, false)] {
        assert_eq!(app.get_as(token, &path).await.expect(200).json(), json!({"canEdit": can_edit}));
    }
    assert_eq!(app.get_as(app.admin_token(), &path).await.expect(200).json(), json!({"canEdit": true}));
    assert_eq!(app.get(&path).await.expect(200).json(), json!({"canEdit": false}));
    app.get("/publishers/other/nodes/face-tools/permissions").await.expect(404);
    app.post_as(app.admin_token(), "/admin/nodes/face-tools/ban", json!({"reason": "spam"})).await.expect(204);

    for token in [alice.token.as_str(), &own_token, app.admin_token()] {
        assert_eq!(app.get_as(token, &path).await.expect(200).json(), json!({"canEdit": false}));
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_id_in_the_body_must_be_that_of_the_path() {
    let (app, alice, _) = app_with_node().await;
    app.put_as(&alice.token, NODE, json!({"id": "Face-Tools"})).await.expect(200);
    let problem =
        app.put_as(&alice.token, NODE, json!({"id": "else", "name": 1, "tags": [2]})).await.expect(400).json();
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/id", "/name", "/tags/0"]);
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json()["id"], "face-tools");
    app.stop().await;
}

#[actix_web::test]
async fn a_deleted_node_is_not_found_and_its_id_is_never_reused() {
    let (app, alice, bob) = app_with_node().await;
    let version = app.get("/nodes/face-tools").await.json()["latest_version"]["id"].as_str().unwrap().to_owned();
    let deleted = app.delete_as(&alice.token, NODE).await.expect(204);
    assert!(deleted.body.is_empty());

    for path in ["/nodes/face-tools", "/nodes/face-tools/versions", "/nodes/face-tools/versions/1.0.0"] {
        app.get(path).await.expect(404);
    }
    app.delete_as(&alice.token, NODE).await.expect(404);
    app.put_as(&alice.token, NODE, json!({"name": "again"})).await.expect(404);
    app.put_as(&alice.token, &format!("{NODE}/versions/{version}"), json!({"changelog": "x"})).await.expect(404);
    app.put_as(app.admin_token(), "/admin/nodes/face-tools", json!({"name": "again"})).await.expect(404);
    app.post_as(&alice.token, "/nodes/face-tools/reviews?star=5", json!({})).await.expect(404);
    for id in ["face-tools", "FACE-TOOLS"] {
        app.post_as(&alice.token, NODES, json!({"id": id})).await.expect(409);
        app.post_as(&bob.token, "/publishers/other/nodes", json!({"id": id})).await.expect(409);
        app.post_as(app.admin_token(), NODES, json!({"id": id})).await.expect(409);
        let publication = json!({"node_version": {"version": "2.0.0"}});
        let versions = format!("/publishers/acme/nodes/{id}/versions");
        let problem = app.post_as(&alice.token, &versions, publication).await;
        assert!([404, 409].contains(&problem.status), "{}", problem.text());
    }
    assert_eq!(app.get("/nodes").await.expect(200).json()["total"], 0);
    assert_eq!(app.get("/versions").await.expect(200).json()["total"], 0);
    let requested = json!({"node_versions": [{"node_id": "face-tools", "version": "1.0.0"}]});
    let looked_up = app.post("/bulk/nodes/versions", requested).await.expect(200).json();
    assert_eq!(looked_up["node_versions"][0]["status"], "not_found");
    app.stop().await;
}

#[actix_web::test]
async fn admin_fields_from_others_are_ignored_even_if_invalid() {
    let (app, alice, _) = app_with_node().await;
    let before = app.get("/nodes/face-tools").await.expect(200).json();
    let admin_fields = json!({
        "created_at": "yesterday", "downloads": -1, "rating": 99, "github_stars": "many", "search_ranking": 1.5,
        "status": "NodeStatusBanned", "status_detail": 7, "tags_admin": "x", "latest_version": 3, "publisher": {"id": "other"},
    });
    assert_eq!(app.put_as(&alice.token, NODE, admin_fields.clone()).await.expect(200).json(), before);

    let problem = app.put_as(app.admin_token(), NODE, admin_fields).await.expect(400).json();
    let mut pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    let invalid_pointers =
        ["/created_at", "/downloads", "/github_stars", "/rating", "/search_ranking", "/status_detail", "/tags_admin"];
    assert_eq!(pointers, invalid_pointers);
    assert_eq!(app.get("/nodes/face-tools").await.expect(200).json(), before);
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_set_admin_fields_of_nodes() {
    let (app, ..) = app_with_node().await;
    let admin_fields = json!({
        "created_at": "2024-02-29T12:00:00+02:00", "downloads": 1234, "rating": 4.5, "github_stars": 77, "search_ranking": -3,
        "tags_admin": ["security"],
    });

    let mut body = admin_fields.clone();
    body["id"] = json!("imported");
    body["latest_version"] = json!({
        "version": "1.0.0", "createdAt": "2024-03-01T00:00:00Z", "status": "NodeVersionStatusPending",
        "tags_admin": ["reviewed"], "host_node_extract_status": "success",
    });

    let created = app.post_as(app.admin_token(), NODES, body).await.expect(201).json();
    let changed = app.put_as(app.admin_token(), NODE, admin_fields.clone()).await.expect(200).json();

    for (node, name) in [(&created, "imported"), (&changed, "face-tools")] {
        assert_eq!(*node, app.get(&format!("/nodes/{name}")).await.expect(200).json());
        for field in ["downloads", "rating", "github_stars", "search_ranking", "tags_admin"] {
            assert_eq!(node[field], admin_fields[field], "{name} {field}");
        }
        assert_eq!(node["created_at"], "2024-02-29T10:00:00.000000Z", "{name}");
    }

    assert_eq!(created.get("latest_version"), None, "a pending version is not the latest");
    let version = app.get("/nodes/imported/versions/1.0.0").await.expect(200).json();
    assert_eq!(
        (&version["status"], &version["createdAt"]),
        (&json!("NodeVersionStatusPending"), &json!("2024-03-01T00:00:00.000000Z"))
    );
    assert_eq!(
        (&version["tags_admin"], &version["host_node_extract_status"]),
        (&json!(["reviewed"]), &json!("success"))
    );
    app.stop().await;
}

#[actix_web::test]
async fn a_node_without_id_and_name_is_rejected() {
    let (app, alice, _) = app_with_node().await;
    let problem = app.post_as(&alice.token, NODES, json!({"description": "Finds faces."})).await.expect(400).json();
    let expected = json!([{"pointer": "/id", "reason": "is required if there is no name to derive it from"}]);
    assert_eq!(problem["errors"], expected);
    app.stop().await;
}

#[actix_web::test]
async fn the_id_that_a_path_uses_is_reserved() {
    let (app, alice, _) = app_with_node().await;
    for body in [json!({"id": "search"}), json!({"id": "Search"}), json!({"name": "search"})] {
        let problem = app.post_as(&alice.token, NODES, body).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/id");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("/nodes/search")), "{problem}");
    }
    let publication = json!({"node_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, "/publishers/acme/nodes/search/versions", publication).await.expect(400);
    app.post_as(&alice.token, NODES, json!({"id": "search-2"})).await.expect(201);
    app.stop().await;
}

#[actix_web::test]
async fn texts_are_limited_in_characters() {
    let (app, alice, _) = app_with_node().await;
    let face = |count: usize| "\u{1f600}".repeat(count);
    for (field, limit) in
        [("name", 200), ("description", 1000), ("author", 200), ("license", 10_000), ("category", 200)]
    {
        let body = |count| json!({ field: face(count) });
        let stored = app.put_as(&alice.token, NODE, body(limit)).await.expect(200).json();
        assert_eq!(stored[field], face(limit), "{field}");
        let problem = app.put_as(&alice.token, NODE, body(limit + 1)).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }

    let lists = ["tags", "supported_os", "supported_accelerators", "preempted_host_node_names"];
    let all_lists: Value = lists.iter().map(|list| ((*list).to_owned(), json!(vec![face(200); 100]))).collect();
    let stored = app.put_as(&alice.token, NODE, all_lists).await.expect(200).json();
    for list in lists {
        assert_eq!(stored[list], json!(vec![face(200); 100]), "{list}");
        app.put_as(&alice.token, NODE, json!({ list: vec![face(1); 101] })).await.expect(400);
        app.put_as(&alice.token, NODE, json!({ list: [face(201)] })).await.expect(400);
    }

    for invalid in ["example", "/relative", "ftp://a.example", "https://user@a.example"] {
        let problem = app
            .put_as(&alice.token, NODE, json!({"repository": invalid, "banner_url": invalid}))
            .await
            .expect(400)
            .json();
        assert_eq!(problem["errors"].as_array().map(Vec::len), Some(2), "{invalid}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_publish_with_admin_fields() {
    let (app, alice, _) = app_with_node().await;
    let body = |version: &str| {
        json!({
            "node": {"downloads": 9},
            "node_version": {"version": version, "status": "NodeVersionStatusActive", "tags_admin": ["imported"]},
        })
    };
    let path = format!("{NODE}/versions");
    let by_member = app.post_as(&alice.token, &path, body("2.0.0")).await.expect(201).json()["node_version"].clone();
    assert_eq!((&by_member["status"], &by_member["tags_admin"]), (&json!("NodeVersionStatusPending"), &json!([])));
    assert_eq!(app.get("/nodes/face-tools").await.json()["downloads"], 0);

    let by_admin =
        app.post_as(app.admin_token(), &path, body("3.0.0")).await.expect(201).json()["node_version"].clone();
    assert_eq!(
        (&by_admin["status"], &by_admin["tags_admin"]),
        (&json!("NodeVersionStatusActive"), &json!(["imported"]))
    );

    let node = app.get("/nodes/face-tools").await.json();
    assert_eq!((&node["downloads"], &node["latest_version"]), (&json!(9), &by_admin));
    app.stop().await;
}
