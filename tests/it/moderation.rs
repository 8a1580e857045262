//! Moderation of nodes and versions by administrators, and its effects.

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const NODES: &str = "/publishers/acme/nodes";
const STATUSES: [&str; 5] = ["Active", "Pending", "Flagged", "Banned", "Deleted"];

async fn app_with_publisher() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

async fn moderate(app: &TestApp, id: &str, number: &str, body: Value) -> crate::support::TestResponse {
    app.put_as(app.admin_token(), &format!("/admin/nodes/{id}/versions/{number}"), body).await
}

fn status(name: &str) -> Value {
    json!({"status": format!("NodeVersionStatus{name}"), "status_reason": "after a review"})
}

/// Transitions from Pending to a status.
fn transitions_to(name: &str) -> &[&str] {
    match name {
        "Pending" => &[],
        "Active" => &["Active"],
        "Flagged" => &["Flagged"],
        "Banned" => &["Banned"],
        _ => &["Deleted"],
    }
}

#[actix_web::test]
async fn illegal_version_transitions_are_conflicts_with_both_states() {
    let (app, alice) = app_with_publisher().await;
    app.node("acme", "n", &alice).await;
    let legal = [
        ("Pending", "Active"),
        ("Pending", "Flagged"),
        ("Pending", "Banned"),
        ("Pending", "Deleted"),
        ("Active", "Flagged"),
        ("Active", "Banned"),
        ("Active", "Deleted"),
        ("Flagged", "Active"),
        ("Flagged", "Banned"),
        ("Flagged", "Deleted"),
        ("Banned", "Active"),
        ("Banned", "Deleted"),
    ];

    let pairs = STATUSES.iter().flat_map(|from| STATUSES.iter().map(move |to| (*from, *to)));
    for (minor, (from, to)) in pairs.enumerate() {
        let number = format!("1.{minor}.0");
        let publication = json!({"node_version": {"version": number}});
        app.post_as(&alice.token, &format!("{NODES}/n/versions"), publication).await.expect(201);
        for step in transitions_to(from) {
            moderate(&app, "n", &number, status(step)).await.expect(200);
        }

        let response = moderate(&app, "n", &number, status(to)).await;
        if from == to || legal.contains(&(from, to)) {
            assert_eq!(response.expect(200).json()["status"], format!("NodeVersionStatus{to}"), "{from} to {to}");
            continue;
        }

        let problem = response.expect(409).json();
        assert_eq!(problem["error"], "conflict");
        for name in [from, to] {
            let named =
                problem["message"].as_str().is_some_and(|text| text.contains(&format!("NodeVersionStatus{name}")));
            assert!(named, "{from} to {to}: {problem}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn illegal_node_transitions_are_conflicts_with_both_states() {
    let (app, alice) = app_with_publisher().await;
    let node = |name: &str| json!({"status": format!("NodeStatus{name}"), "status_detail": "because"});
    for (index, (from, to, legal)) in [
        ("Active", "Active", true),
        ("Active", "Banned", true),
        ("Active", "Deleted", true),
        ("Banned", "Banned", true),
        ("Banned", "Active", true),
        ("Banned", "Deleted", false),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/admin/nodes/n{index}");
        app.node("acme", &format!("n{index}"), &alice).await;
        app.put_as(app.admin_token(), &path, node(from)).await.expect(200);

        let response = app.put_as(app.admin_token(), &path, node(to)).await;
        match (legal, to) {
            (true, "Deleted") => {
                response.expect(204);
                app.get(&format!("/nodes/n{index}")).await.expect(404);
                app.put_as(app.admin_token(), &path, node("Active")).await.expect(404);
            }
            (true, _) => assert_eq!(response.expect(200).json()["status"], format!("NodeStatus{to}"), "{from} to {to}"),
            (false, _) => {
                let problem = response.expect(409).json();
                let message = problem["message"].as_str().unwrap();
                assert!(message.contains("NodeStatusBanned") && message.contains("NodeStatusDeleted"), "{message}");
            }
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn moderation_applies_to_every_list_immediately() {
    let (app, alice) = app_with_publisher().await;
    let node = json!({"id": "n", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, NODES, node).await.expect(201);

    let publication = json!({"node_version": {"version": "2.0.0"}});
    app.post_as(&alice.token, &format!("{NODES}/n/versions"), publication).await.expect(201);

    for (number, new, latest) in [
        ("2.0.0", "Active", Some("2.0.0")),
        ("2.0.0", "Flagged", Some("1.0.0")),
        ("2.0.0", "Active", Some("2.0.0")),
        ("2.0.0", "Banned", Some("1.0.0")),
        ("1.0.0", "Banned", None),
        ("2.0.0", "Active", Some("2.0.0")),
        ("2.0.0", "Deleted", None),
    ] {
        moderate(&app, "n", number, status(new)).await.expect(200);
        let expected = latest.map(|latest| json!(latest));
        let [single, first_listed] =
            [app.get("/nodes/n").await.json(), app.get("/nodes").await.json()["nodes"][0].clone()];
        let first_of_publisher = app.get_as(&alice.token, &format!("{NODES}?limit=1")).await.json()[0].clone();
        for (source, shown_node) in [("one", single), ("list", first_listed), ("publisher's", first_of_publisher)] {
            assert_eq!(shown_node.pointer("/latest_version/version"), expected.as_ref(), "{source}: {number} {new}");
        }
        let requested = json!({"node_versions": [{"node_id": "n", "version": number}]});
        let found = app.post("/bulk/nodes/versions", requested).await.expect(200).json()["node_versions"][0].clone();
        if new == "Deleted" {
            assert_eq!(found["status"], "not_found");
        } else {
            assert_eq!(found["node_version"]["status"], format!("NodeVersionStatus{new}"));
        }
        let filtered = app.get(&format!("/versions?statuses=NodeVersionStatus{new}")).await.expect(200).json();
        let listed = filtered["versions"].as_array().unwrap().iter().any(|version| version["version"] == number);
        assert!(listed, "{number} {new}: {filtered}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_set_every_version_field() {
    let (app, alice) = app_with_publisher().await;
    let node = json!({"id": "n", "latest_version": {"version": "1.0.0", "changelog": "first", "tags": ["a"]}});
    app.post_as(&alice.token, NODES, node).await.expect(201);

    let body = json!({
        "changelog": "better", "dependencies": ["numpy"], "deprecated": true, "supported_os": ["linux"], "tags": ["b"],
        "supported_host_version": ">=1", "supported_accelerators": ["CUDA"], "supported_host_frontend_version": ">=2",
        "status": "NodeVersionStatusFlagged", "status_reason": "odd imports", "tags_admin": ["security"],
        "host_node_extract_status": "failed", "createdAt": "2024-01-01T00:00:00.000000Z",
    });
    let moderated = moderate(&app, "N", "1.0.0", body.clone()).await.expect(200).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&moderated[field], value, "{field}");
    }

    let untouched = moderate(&app, "n", "1.0.0", json!({"status": null, "unknown": 1})).await.expect(200).json();
    assert_eq!(untouched, moderated);

    let reasoned = moderate(&app, "n", "1.0.0", json!({"status_reason": "odder imports"})).await.expect(200).json();
    assert_eq!(
        (&reasoned["status"], &reasoned["status_reason"]),
        (&json!("NodeVersionStatusFlagged"), &json!("odder imports"))
    );

    let problem =
        moderate(&app, "n", "1.0.0", json!({"status": "Active", "tags_admin": 1, "createdAt": ""})).await.expect(400);
    assert_eq!(problem.json()["errors"].as_array().map(Vec::len), Some(3));

    for (id, number) in [("n", "9.9.9"), ("n", "nonsense"), ("none", "1.0.0"), ("-", "1.0.0")] {
        moderate(&app, id, number, json!({})).await.expect(404);
    }
    for token in [alice.token.as_str(), app.access_token("acme", &alice).await.as_str()] {
        app.put_as(token, "/admin/nodes/n/versions/1.0.0", status("Active")).await.expect(403);
        app.put_as(token, "/admin/nodes/n", json!({"status": "NodeStatusBanned"})).await.expect(403);
    }
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_set_every_node_field() {
    let (app, alice) = app_with_publisher().await;
    app.node("acme", "n", &alice).await;
    let body = json!({
        "name": "New", "description": "all of it", "tags": ["a"], "tags_admin": ["b"], "search_ranking": 7, "github_stars": 8,
        "downloads": 9, "rating": 3.25, "created_at": "2024-01-01T00:00:00.000000Z", "status_detail": "looked at",
    });
    let moderated = app.put_as(app.admin_token(), "/admin/nodes/n", body.clone()).await.expect(200).json();
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&moderated[field], value, "{field}");
    }
    assert_eq!(
        app.put_as(app.admin_token(), "/admin/nodes/n", json!({"name": null})).await.expect(200).json(),
        moderated
    );

    for (field, invalid) in [
        ("rating", json!(5.01)),
        ("rating", json!("5")),
        ("downloads", json!(-1)),
        ("status", json!("Active")),
        ("search_ranking", json!(1.5)),
        ("github_stars", json!(true)),
        ("created_at", json!("2024")),
        ("id", json!("other")),
    ] {
        let problem =
            app.put_as(app.admin_token(), "/admin/nodes/n", json!({ field: invalid })).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"));
    }
    app.put_as(app.admin_token(), "/admin/nodes/none", json!({})).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn only_administrators_change_a_banned_node() {
    let (app, alice) = app_with_publisher().await;
    let node = json!({"id": "n", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, NODES, node).await.expect(201);
    let banned = json!({"status": "NodeStatusBanned", "status_detail": "it mines coins"});
    let body = app.put_as(app.admin_token(), "/admin/nodes/n", banned).await.expect(200).json();
    assert_eq!((&body["status"], &body["status_detail"]), (&json!("NodeStatusBanned"), &json!("it mines coins")));

    let path = format!("{NODES}/n");
    let version = format!("{path}/versions/1.0.0");
    app.put_as(&alice.token, &path, json!({"name": "x"})).await.expect(403);
    app.put_as(&alice.token, &version, json!({"changelog": "x"})).await.expect(403);
    app.delete_as(&alice.token, &version).await.expect(403);
    app.delete_as(&alice.token, &path).await.expect(403);
    app.post_as(&alice.token, "/nodes/n/reviews?star=5", json!({})).await.expect(403);
    app.post_as(&alice.token, "/nodes/n/translations", json!({"de": {"name": "x"}})).await.expect(403);
    app.post_as(&alice.token, &format!("{path}/versions"), json!({"node_version": {"version": "2.0.0"}}))
        .await
        .expect(403);
    app.put_as(app.admin_token(), "/admin/nodes/n", json!({"name": "Renamed"})).await.expect(200);
    moderate(&app, "n", "1.0.0", status("Flagged")).await.expect(200);

    let freed =
        app.put_as(app.admin_token(), "/admin/nodes/n", json!({"status": "NodeStatusActive"})).await.expect(200).json();
    assert_eq!((&freed["status"], &freed["name"]), (&json!("NodeStatusActive"), &json!("Renamed")));
    app.put_as(&alice.token, &path, json!({"name": "x"})).await.expect(200);
    app.stop().await;
}
