//! Access tokens after their creation: lists, and revocation.

use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const TOKENS: &str = "/publishers/acme/tokens";

async fn acme() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

async fn issue(app: &TestApp, owner: &TestUser, body: Value) -> String {
    let response = app.post_as(&owner.token, TOKENS, body).await.expect(201).json();
    response["token"].as_str().unwrap().to_owned()
}

/// Id of the only token in a list.
fn only_id(tokens: &Value) -> &str {
    assert_eq!(tokens.as_array().map(Vec::len), Some(1), "{tokens}");
    tokens[0]["id"].as_str().unwrap()
}

#[actix_web::test]
async fn tokens_are_listed_without_anything_secret() {
    let (app, alice) = acme().await;
    let secrets = [
        issue(&app, &alice, json!({"name": "ci", "description": "builds"})).await,
        issue(&app, &alice, json!({"name": "laptop"})).await,
    ];
    let response = app.get_as(&alice.token, TOKENS).await.expect(200);
    let tokens = response.json();
    let names: Vec<_> = tokens.as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ci", "laptop"]);
    let [first, second] = [&tokens[0], &tokens[1]];
    assert_eq!((&first["description"], second.get("description")), (&json!("builds"), None));
    assert_eq!((&first["token"], first.get("lastUsedAt")), (&json!("mdp_********"), None));
    assert!(first["createdAt"].as_str().unwrap().ends_with('Z'));
    for secret in &secrets {
        assert!(!response.text().contains(&secret[4..]));
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_revoked_token_is_refused_on_the_very_next_request() {
    let (app, alice) = acme().await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    let tokens = app.get_as(&alice.token, TOKENS).await.expect(200).json();
    let path = format!("{TOKENS}/{}", only_id(&tokens));
    app.post_as(&token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(201);

    app.delete_as(&alice.token, &path).await.expect(204);
    app.post_as(&token, "/publishers/acme/nodes", json!({"id": "b"})).await.expect(401);
    app.get_as(&token, "/nodes").await.expect(401);
    let version = json!({"personal_access_token": token, "node_version": {"version": "1.0.0"}});
    app.post("/publishers/acme/nodes/a/versions", version).await.expect(401);
    assert_eq!(app.get_as(&alice.token, TOKENS).await.expect(200).json(), json!([]));
    app.delete_as(&alice.token, &path).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn a_token_in_the_body_must_be_a_string() {
    let (app, alice) = acme().await;
    app.node("acme", "a", &alice).await;
    let version = json!({"personal_access_token": 5, "node_version": {"version": "1.0.0"}});
    let problem = app.post("/publishers/acme/nodes/a/versions", version).await.expect(400).json();
    assert_eq!(problem["errors"], json!([{"pointer": "/personal_access_token", "reason": "must be a string"}]));
    app.stop().await;
}

#[actix_web::test]
async fn only_owners_of_the_publisher_can_revoke_its_tokens() {
    let (app, alice) = acme().await;
    let bob = app.user("bob").await;
    app.publisher("other", &bob).await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    let tokens = app.get_as(&alice.token, TOKENS).await.expect(200).json();
    let id = only_id(&tokens);
    app.delete_as(&bob.token, &format!("{TOKENS}/{id}")).await.expect(403);
    app.delete_as(&bob.token, &format!("/publishers/other/tokens/{id}")).await.expect(404);
    app.delete_as(app.admin_token(), &format!("/admin/users/{}/tokens/{id}", alice.id)).await.expect(404);
    app.delete_as(&token, &format!("{TOKENS}/{id}")).await.expect(403);
    for unknown in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        app.delete_as(&alice.token, &format!("{TOKENS}/{unknown}")).await.expect(404);
    }
    app.post_as(&token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(201);
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_list_and_revoke_user_tokens() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let tokens_path = |user: &TestUser| format!("/admin/users/{}/tokens", user.id);
    let tokens = app.get_as(app.admin_token(), &tokens_path(&alice)).await.expect(200).json();
    let id = only_id(&tokens);
    assert_eq!((&tokens[0]["name"], &tokens[0]["token"]), (&json!("test"), &json!("mdu_********")));

    app.delete_as(app.admin_token(), &format!("{}/{id}", tokens_path(&bob))).await.expect(404);
    app.get_as(&alice.token, "/users").await.expect(200);
    app.delete_as(app.admin_token(), &format!("{}/{id}", tokens_path(&alice))).await.expect(204);
    app.get_as(&alice.token, "/users").await.expect(401);
    app.get_as(&bob.token, "/users").await.expect(200);
    let unknown = "/admin/users/00000000-0000-4000-8000-00000000abcd/tokens";
    app.get_as(app.admin_token(), unknown).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn tokens_of_a_deleted_publisher_are_invalid() {
    let (app, alice) = acme().await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    app.get_as(&token, "/publishers/acme").await.expect(200);
    app.delete_as(&alice.token, "/publishers/acme").await.expect(204);
    app.get_as(&token, "/nodes").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn the_last_use_of_a_token_survives_a_shutdown() {
    let (app, alice) = acme().await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    issue(&app, &alice, json!({"name": "never used"})).await;
    app.get_as(&token, "/publishers/acme").await.expect(200);
    let dir = app.stop().await;

    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let tokens = app.get_as(&alice.token, TOKENS).await.expect(200).json();
    let (created, last_used_at) = (tokens[0]["createdAt"].as_str().unwrap(), tokens[0]["lastUsedAt"].as_str());
    assert!(last_used_at.is_some_and(|used| used.ends_with('Z') && used >= created), "{tokens}");
    assert_eq!(tokens[1].get("lastUsedAt"), None);
    app.stop().await;
}
