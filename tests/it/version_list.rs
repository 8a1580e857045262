//! Versions: lists and single reads.

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const NODES: &str = "/publishers/acme/nodes";

async fn app_with_publisher() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

/// Creates a node whose first version is Active, and whose others are pending.
async fn node_with_versions(app: &TestApp, owner: &TestUser, id: &str, numbers: &[&str]) {
    let node = json!({"id": id, "latest_version": {"version": numbers[0]}});
    app.post_as(&owner.token, NODES, node).await.expect(201);
    for number in &numbers[1..] {
        let publication = json!({"node_version": {"version": number}});
        app.post_as(&owner.token, &format!("{NODES}/{id}/versions"), publication).await.expect(201);
    }
}

async fn set_status(app: &TestApp, id: &str, number: &str, status: &str) {
    let body = json!({"status": format!("NodeVersionStatus{status}"), "status_reason": format!("it is {status}")});
    app.put_as(app.admin_token(), &format!("/admin/nodes/{id}/versions/{number}"), body).await.expect(200);
}

fn numbers(versions: &Value) -> Vec<String> {
    let versions = versions.as_array().unwrap_or_else(|| panic!("no array: {versions}"));
    versions.iter().map(|version| version["version"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn the_versions_of_a_node_come_highest_first_and_by_status() {
    let (app, alice) = app_with_publisher().await;
    let all_numbers = ["1.9.0", "1.10.0", "2.0.0-rc.2", "2.0.0-rc.10", "2.0.0", "0.1.0"];
    node_with_versions(&app, &alice, "Face-Tools", &all_numbers).await;
    for (number, status) in
        [("1.10.0", "Active"), ("2.0.0-rc.2", "Flagged"), ("2.0.0-rc.10", "Active"), ("2.0.0", "Banned")]
    {
        set_status(&app, "Face-Tools", number, status).await;
    }
    app.delete_as(&alice.token, &format!("{NODES}/Face-Tools/versions/0.1.0")).await.expect(204);

    for (query, expected) in [
        ("", vec!["2.0.0-rc.10", "1.10.0", "1.9.0"]),
        ("?statuses=NodeVersionStatusFlagged", vec!["2.0.0-rc.2"]),
        ("?statuses=NodeVersionStatusBanned&statuses=NodeVersionStatusFlagged", vec!["2.0.0", "2.0.0-rc.2"]),
        (
            "?statuses[]=NodeVersionStatusDeleted,NodeVersionStatusActive",
            vec!["2.0.0-rc.10", "1.10.0", "1.9.0", "0.1.0"],
        ),
        ("?statuses=NodeVersionStatusPending", vec![]),
        ("?statuses=", vec!["2.0.0-rc.10", "1.10.0", "1.9.0"]),
    ] {
        let listed = app.get(&format!("/nodes/Face-Tools/versions{query}")).await.expect(200).json();
        assert_eq!(numbers(&listed), expected, "{query}");
        assert!(listed.as_array().unwrap().iter().all(|version| version["node_id"] == "Face-Tools"));
    }

    let problem = app.get("/nodes/Face-Tools/versions?statuses=Active").await.expect(400).json();
    assert_eq!(problem["errors"][0]["pointer"], "/statuses");

    for known_status in ["NodeVersionStatusActive", "NodeVersionStatusDeleted", "NodeVersionStatusFlagged"] {
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(known_status)), "{problem}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_status_reason_is_shown_on_request() {
    let (app, alice) = app_with_publisher().await;
    node_with_versions(&app, &alice, "n", &["1.0.0"]).await;
    for neither in ["", "yes", "1", "%20true"] {
        let problem =
            app.get(&format!("/nodes/n/versions/1.0.0?include_status_reason={neither}")).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/include_status_reason", "{neither:?}");
    }
    set_status(&app, "n", "1.0.0", "Flagged").await;
    let flagged = "statuses=NodeVersionStatusFlagged";
    let list_paths =
        [format!("/nodes/n/versions?{flagged}"), format!("/versions?{flagged}"), "/nodes/n/versions/1.0.0?".to_owned()];
    for path in list_paths {
        let first_version = |body: Value| match &body {
            Value::Array(versions) => versions[0].clone(),
            body => body.pointer("/versions/0").unwrap_or(body).clone(),
        };
        let silent = first_version(app.get(&path).await.expect(200).json());
        assert_eq!((&silent["version"], silent.get("status_reason")), (&json!("1.0.0"), None), "{path}");
        let version_body =
            first_version(app.get(&format!("{path}&include_status_reason=true")).await.expect(200).json());
        assert_eq!(version_body["status_reason"], "it is Flagged", "{path}");
        app.get(&format!("{path}&include_status_reason=perhaps")).await.expect(400);
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_version_is_read_by_its_number() {
    let (app, alice) = app_with_publisher().await;
    node_with_versions(&app, &alice, "Face-Tools", &["1.0.0", "2.0.0-rc.1+build.7", "3.0.0"]).await;
    app.delete_as(&alice.token, &format!("{NODES}/Face-Tools/versions/3.0.0")).await.expect(204);

    let version = app.get("/nodes/Face-Tools/versions/1.0.0").await.expect(200);
    assert_eq!(app.get("/nodes/Face-Tools").await.json()["latest_version"], version.json());

    for number in ["2.0.0-rc.1+build.7", "2.0.0-rc.1%2Bbuild.7", "2.0.0-rc.1"] {
        let pending = app.get(&format!("/nodes/Face-Tools/versions/{number}")).await.expect(200).json();
        assert_eq!(
            (&pending["version"], &pending["status"]),
            (&json!("2.0.0-rc.1+build.7"), &json!("NodeVersionStatusPending"))
        );
    }

    for unknown_number in ["3.0.0", "9.9.9", "v1.0.0", "1", "latest"] {
        app.get(&format!("/nodes/Face-Tools/versions/{unknown_number}")).await.expect(404);
    }
    app.get("/nodes/none/versions/1.0.0").await.expect(404);
    app.get("/nodes/none/versions").await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn lists_have_etags_and_wrong_case_redirects() {
    let (app, alice) = app_with_publisher().await;
    node_with_versions(&app, &alice, "Face-Tools", &["1.0.0"]).await;
    for path in ["/nodes/Face-Tools/versions", "/nodes/Face-Tools/versions/1.0.0", "/versions"] {
        let first = app.get(path).await.expect(200);
        let tag = first.header("etag").expect("a tag").to_owned();
        let conditional_request = app.request(reqwest::Method::GET, path).header("if-none-match", &tag);
        assert!(app.send(conditional_request).await.expect(304).body.is_empty(), "{path}");
    }

    let statuses = "?statuses=NodeVersionStatusActive";
    for suffix in ["/versions".to_owned(), format!("/versions{statuses}"), "/versions/1.0.0".to_owned()] {
        let redirect = app.get(&format!("/nodes/face-TOOLS{suffix}")).await.expect(302);
        assert_eq!(redirect.header("location"), Some(app.url(&format!("/nodes/Face-Tools{suffix}")).as_str()));
    }
    app.stop().await;
}

#[actix_web::test]
async fn all_versions_come_newest_first_whatever_their_status() {
    let (app, alice) = app_with_publisher().await;
    node_with_versions(&app, &alice, "a", &["1.0.0", "1.1.0"]).await;
    node_with_versions(&app, &alice, "B", &["2.0.0", "2.1.0", "2.2.0"]).await;
    set_status(&app, "a", "1.1.0", "Banned").await;
    set_status(&app, "B", "2.1.0", "Flagged").await;
    app.delete_as(&alice.token, &format!("{NODES}/B/versions/2.2.0")).await.expect(204);

    for (query, expected) in [
        ("", vec!["2.2.0", "2.1.0", "2.0.0", "1.1.0", "1.0.0"]),
        ("?limit=2", vec!["2.2.0", "2.1.0"]),
        ("?limit=2&page=3", vec!["1.0.0"]),
        ("?limit=2&page=4", vec![]),
        ("?statuses=NodeVersionStatusActive", vec!["2.0.0", "1.0.0"]),
        (
            "?statuses=NodeVersionStatusActive,NodeVersionStatusBanned,NodeVersionStatusDeleted",
            vec!["2.2.0", "2.0.0", "1.1.0", "1.0.0"],
        ),
        ("?statuses=NodeVersionStatusActive&statuses=NodeVersionStatusBanned&limit=1&page=2", vec!["1.1.0"]),
        ("?statuses=NodeVersionStatusPending", vec![]),
        ("?node_id=b", vec!["2.2.0", "2.1.0", "2.0.0"]),
        ("?node_id=b&statuses=NodeVersionStatusFlagged", vec!["2.1.0"]),
        ("?node_id=b,a,none&limit=4", vec!["2.2.0", "2.1.0", "2.0.0", "1.1.0"]),
        ("?node_id=-", vec![]),
    ] {
        let page = app.get(&format!("/versions{query}")).await.expect(200).json();
        assert_eq!(numbers(&page["versions"]), expected, "{query}");
    }

    let page = app.get("/versions?limit=2&page=2").await.expect(200).json();
    let sizes = ["page", "limit", "total", "totalPages"].map(|name| page[name].as_u64().unwrap());
    assert_eq!(sizes, [2, 2, 5, 3]);
    assert_eq!(page["versions"][0]["node_id"], "B");

    for invalid in ["page=0", "limit=x", "statuses=Banned"] {
        app.get(&format!("/versions?{invalid}")).await.expect(400);
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_order_of_versions_follows_their_time_and_survives_a_restart() {
    let (app, alice) = app_with_publisher().await;
    node_with_versions(&app, &alice, "a", &["1.0.0", "2.0.0", "3.0.0"]).await;
    node_with_versions(&app, &alice, "b", &["4.0.0"]).await;
    let creation_time = json!({"createdAt": "2020-01-01T00:00:00Z"});
    app.put_as(app.admin_token(), "/admin/nodes/a/versions/2.0.0", creation_time).await.expect(200);
    app.delete_as(&alice.token, &format!("{NODES}/b")).await.expect(204);
    let before = app.get("/versions").await.expect(200);
    assert_eq!(numbers(&before.json()["versions"]), ["3.0.0", "1.0.0", "2.0.0"]);

    let app = TestApp::start_in(app.stop().await, |_| {}, mediary::environment::Environment::system()).await;
    assert_eq!(app.get("/versions").await.expect(200).json()["versions"], before.json()["versions"]);
    app.stop().await;
}
