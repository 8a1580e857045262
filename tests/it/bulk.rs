//! Bulk lookup of versions.

use std::io::Read;

use reqwest::Method;
use serde_json::json;

use crate::support::TestApp;

#[actix_web::test]
async fn results_are_in_request_order_with_duplicates() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let node = json!({"id": "Face-Tools", "latest_version": {"version": "1.0.0"}});
    app.post_as(&alice.token, "/publishers/acme/nodes", node).await.expect(201);
    let requested = [
        ("face-tools", "1.0.0"),
        ("none", "1.0.0"),
        ("Face-Tools", "2.0.0"),
        ("Face-Tools", "v1"),
        ("-", "1.0.0"),
        ("face-tools", "1.0.0"),
    ];
    let requested: Vec<_> =
        requested.iter().map(|(node, version)| json!({"node_id": node, "version": version})).collect();

    let response = app.post("/bulk/nodes/versions", json!({"node_versions": requested})).await.expect(200).json();
    let results = response["node_versions"].as_array().unwrap();

    let statuses: Vec<_> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["success", "not_found", "not_found", "error", "not_found", "success"]);
    for (result, requested) in results.iter().zip(&requested) {
        assert_eq!(result["identifier"], *requested);
        assert_eq!(result.get("error_message").is_some(), result["status"] == "error", "{result}");
        assert_eq!(result.get("node_version").is_some(), result["status"] == "success", "{result}");
    }
    assert_eq!(results[0]["node_version"]["node_id"], "Face-Tools");
    assert_eq!(results[5], results[0]);
    assert!(results[3]["error_message"].as_str().is_some_and(|message| message.contains("semantic version")));
    app.stop().await;
}

#[actix_web::test]
async fn at_most_1000_identifiers_are_accepted() {
    let app = TestApp::start().await;
    let body_with = |count: usize| json!({"node_versions": vec![json!({"node_id": "a", "version": "1.0.0"}); count]});
    let response = app.post("/bulk/nodes/versions", body_with(1000)).await.expect(200).json();
    assert_eq!(response["node_versions"].as_array().map(Vec::len), Some(1000));
    app.post("/bulk/nodes/versions", body_with(1001)).await.expect(400);
    app.post("/bulk/nodes/versions", body_with(0)).await.expect(400);
    app.post("/bulk/nodes/versions", json!({})).await.expect(400);
    app.stop().await;
}

#[actix_web::test]
async fn build_metadata_and_case_are_ignored_and_deleted_versions_missing() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let node = json!({"id": "Face-Tools", "latest_version": {"version": "1.0.0+linux"}});
    app.post_as(&alice.token, "/publishers/acme/nodes", node).await.expect(201);
    let requested = json!({"node_versions": [{"node_id": "FACE-tools", "version": "1.0.0+mac"}]});
    let look_up = async || app.post("/bulk/nodes/versions", requested.clone()).await.expect(200).json();

    let result = look_up().await["node_versions"][0].clone();
    assert_eq!((&result["status"], &result["identifier"]["version"]), (&json!("success"), &json!("1.0.0+mac")));
    assert_eq!(result["node_version"]["version"], "1.0.0+linux");

    let path = "/publishers/acme/nodes/Face-Tools/versions/1.0.0";
    app.send(app.request(Method::DELETE, path).bearer_auth(&alice.token)).await.expect(204);
    assert_eq!(look_up().await["node_versions"][0]["status"], "not_found");
    app.stop().await;
}

#[actix_web::test]
async fn a_large_response_is_complete_plain_and_compressed() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let changelog = "𝒳".repeat(20_000);
    let node = json!({"id": "tools", "latest_version": {"version": "1.0.0", "changelog": changelog}});
    app.post_as(&alice.token, "/publishers/acme/nodes", node).await.expect(201);
    let requested = json!({"node_versions": vec![json!({"node_id": "tools", "version": "1.0.0"}); 100]});
    let plain = app.post("/bulk/nodes/versions", requested.clone()).await.expect(200);
    // The response is streamed, so its length is unknown in advance.
    assert_eq!((plain.header("transfer-encoding"), plain.header("content-length")), (Some("chunked"), None));
    let results = plain.json()["node_versions"].as_array().cloned().unwrap();
    assert_eq!(results.len(), 100);
    assert!(results.iter().all(|result| result["node_version"]["changelog"] == json!(changelog)));

    let request = app.request(Method::POST, "/bulk/nodes/versions").header("accept-encoding", "gzip").json(&requested);
    let gzipped = app.send(request).await.expect(200);
    assert_eq!(gzipped.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&gzipped.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain.text());
    app.stop().await;
}
