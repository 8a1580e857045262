//! Access tokens after their creation: lists, and revocation.

use std::time::Duration;

use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const TOKENS: &str = "/publishers/acme/tokens";

/// Starts a service with the publisher `acme` of alice.
async fn app_with_acme() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    (app, alice)
}

/// Issues a token of the publisher `acme` and returns its secret.
async fn issue(app: &TestApp, owner: &TestUser, body: Value) -> String {
    let response = app.post_as(&owner.token, TOKENS, body).await.expect(201).json();
    response["token"].as_str().unwrap().to_owned()
}

/// Returns the id of the only token in a list.
fn only_id(tokens: &Value) -> &str {
    assert_eq!(tokens.as_array().map(Vec::len), Some(1), "{tokens}");
    tokens[0]["id"].as_str().unwrap()
}

#[actix_web::test]
async fn tokens_are_listed_without_anything_secret() {
    let (app, alice) = app_with_acme().await;
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
        assert!(!response.text().contains(&secret[4..]), "the list shows a secret");
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_revoked_token_is_refused_on_the_very_next_request() {
    let (app, alice) = app_with_acme().await;
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
    let (app, alice) = app_with_acme().await;
    app.node("acme", "a", &alice).await;
    let version = json!({"personal_access_token": 5, "node_version": {"version": "1.0.0"}});
    let problem = app.post("/publishers/acme/nodes/a/versions", version).await.expect(400).json();
    assert_eq!(problem["errors"], json!([{"pointer": "/personal_access_token", "reason": "must be a string"}]));
    app.stop().await;
}

#[actix_web::test]
async fn only_owners_of_the_publisher_can_revoke_its_tokens() {
    let (app, alice) = app_with_acme().await;
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
    let (app, alice) = app_with_acme().await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    app.get_as(&token, "/publishers/acme").await.expect(200);
    app.delete_as(&alice.token, "/publishers/acme").await.expect(204);
    app.get_as(&token, "/nodes").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn the_last_use_of_a_token_survives_a_shutdown() {
    let (app, alice) = app_with_acme().await;
    let token = issue(&app, &alice, json!({"name": "ci"})).await;
    issue(&app, &alice, json!({"name": "never used"})).await;
    app.get_as(&token, "/publishers/acme").await.expect(200);
    let dir = app.stop().await;

    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    let tokens = app.get_as(&alice.token, TOKENS).await.expect(200).json();
    let created = tokens[0]["createdAt"].as_str().unwrap();
    let last_used_at = tokens[0]["lastUsedAt"].as_str();
    assert!(last_used_at.is_some_and(|used| used.ends_with('Z') && used >= created), "{tokens}");
    assert_eq!(tokens[1].get("lastUsedAt"), None);
    app.stop().await;
}

/// Path of the caller's tokens.
const OWN_TOKENS: &str = "/users/tokens";

/// Time of a clock that a test advances.
const NOON: &str = "2026-11-22T12:00:00Z";

/// Starts a service with a clock that starts at [`NOON`].
async fn app_at_noon() -> (TestApp, Environment) {
    let environment = Environment::manual(Timestamp::parse(NOON).unwrap(), 7);
    (TestApp::start_with(|_| {}, environment.clone()).await, environment)
}

/// Returns the time `seconds` after [`NOON`], formatted as in JSON.
fn after_noon(seconds: u64) -> String {
    Timestamp::parse(NOON).unwrap().saturating_add(Duration::from_secs(seconds)).to_string()
}

async fn issue_own(app: &TestApp, token: &str, body: Value) -> Value {
    app.post_as(token, OWN_TOKENS, body).await.expect(201).json()
}

#[actix_web::test]
async fn users_create_list_and_revoke_their_own_tokens() {
    // Given a user with the token of an administrator
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);

    // When the user creates another
    let created = issue_own(&app, &alice.token, json!({"name": "laptop", "description": "at home"})).await;
    let secret = created["token"].as_str().unwrap();

    // Then it authenticates as the user, and is listed without its secret
    assert_eq!((&created["scope"], created.get("expiresAt")), (&json!("all"), None));
    assert_eq!(app.get_as(secret, "/users").await.expect(200).json()["id"], alice.id.as_str());
    let listed = app.get_as(secret, OWN_TOKENS).await.expect(200);
    assert!(!listed.text().contains(&secret[4..]));
    let names: Vec<_> = listed.json().as_array().unwrap().iter().map(|token| token["name"].clone()).collect();
    assert_eq!(names, ["test", "laptop"]);

    // And the list states with which token it was created
    let list = listed.json();
    assert_eq!((list[0].get("issuedWith"), &list[1]["issuedWith"]), (None, &list[0]["id"]));

    // And others do not see or revoke it
    let path = format!("{OWN_TOKENS}/{}", created["id"].as_str().unwrap());
    assert_eq!(app.get_as(&bob.token, OWN_TOKENS).await.expect(200).json().as_array().unwrap().len(), 1);
    app.delete_as(&bob.token, &path).await.expect(404);
    app.delete_as(secret, &path).await.expect(204);
    app.get_as(secret, "/users").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn a_user_cannot_create_tokens_without_bound() {
    // Given a user with the most tokens that an account may have
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let mut last = Value::Null;
    for number in 1..100 {
        last = issue_own(&app, &alice.token, json!({ "name": format!("token {number}") })).await;
    }

    // When another is created, then it is refused until one is revoked
    let problem = app.post_as(&alice.token, OWN_TOKENS, json!({"name": "more"})).await.expect(409).json();
    assert_eq!(problem["message"], "the account has 100 tokens, the maximum: revoke one first");
    app.delete_as(&alice.token, &format!("{OWN_TOKENS}/{}", last["id"].as_str().unwrap())).await.expect(204);
    issue_own(&app, &alice.token, json!({"name": "more"})).await;
    app.stop().await;
}

#[actix_web::test]
async fn a_read_only_token_changes_nothing() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let token = issue_own(&app, &alice.token, json!({"name": "reader", "scope": "read_only"})).await;
    let token = token["token"].as_str().unwrap();

    for path in ["/users", "/users/credits", "/users/export", "/tasks", TOKENS, OWN_TOKENS] {
        app.get_as(token, path).await.expect(200);
    }
    for (path, body) in
        [(OWN_TOKENS, json!({"name": "more"})), (TOKENS, json!({"name": "more"})), ("/users/webhook-secret", json!({}))]
    {
        let problem = app.post_as(token, path, body).await.expect(403).json();
        assert_eq!(problem["error"], "forbidden", "{problem}");
        assert!(problem["message"].as_str().unwrap().starts_with("this token is read-only"), "{problem}");
    }
    app.delete_as(token, "/users").await.expect(403);
    let permissions = app.get_as(token, "/publishers/acme/permissions").await.expect(200).json();
    assert_eq!(permissions["canEdit"], false);
    app.stop().await;
}

#[actix_web::test]
async fn a_token_is_rejected_once_it_has_expired() {
    let (app, environment) = app_at_noon().await;
    let alice = app.user("alice").await;
    let expiry = after_noon(60);
    let token = issue_own(&app, &alice.token, json!({"name": "short", "expiresAt": expiry})).await;
    assert_eq!(token["expiresAt"], expiry.as_str());
    let token = token["token"].as_str().unwrap();
    app.get_as(token, "/users").await.expect(200);

    environment.advance(Duration::from_mins(1));
    assert_eq!(app.get_as(token, "/users").await.expect(401).json()["message"], "the token has expired");
    app.get_as(token, "/nodes").await.expect(401);
    // It stays in the list until it is revoked.
    assert_eq!(app.get_as(&alice.token, OWN_TOKENS).await.expect(200).json()[1]["expiresAt"], expiry.as_str());
    app.stop().await;
}

#[actix_web::test]
async fn a_token_cannot_create_one_that_outlasts_it() {
    let (app, _) = app_at_noon().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.put_as(app.admin_token(), &format!("/admin/users/{}", alice.id), json!({"isAdmin": true})).await.expect(200);
    let [sooner, end, later] = [3000, 3600, 3601].map(after_noon);
    let token = issue_own(&app, &alice.token, json!({"name": "hour", "expiresAt": end})).await;
    let token = token["token"].as_str().unwrap();

    let of_user = format!("/admin/users/{}/tokens", alice.id);
    for path in [OWN_TOKENS, TOKENS, &of_user] {
        for body in [json!({"name": "x"}), json!({"name": "x", "expiresAt": later})] {
            let problem = app.post_as(token, path, body).await.expect(400).json();
            let reason = format!("must be at most {end}, when the token of this request expires");
            assert_eq!(problem["errors"], json!([{"pointer": "/expiresAt", "reason": reason}]), "{path}");
        }
        for expiry in [&sooner, &end] {
            app.post_as(token, path, json!({"name": "x", "expiresAt": expiry})).await.expect(201);
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn invalid_limits_of_a_token_are_reported() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let problem =
        app.post_as(&alice.token, OWN_TOKENS, json!({"scope": "admin", "expiresAt": "soon"})).await.expect(400).json();
    assert_eq!(
        problem["errors"],
        json!([
            {"pointer": "/name", "reason": "is required"},
            {"pointer": "/scope", "reason": "must be one of all read_only", "value": "admin"},
            {"pointer": "/expiresAt", "reason": "must be a time such as 2026-01-31T12:00:00Z", "value": "soon"},
        ])
    );

    let past = json!({"name": "x", "expiresAt": "2020-01-01T00:00:00Z"});
    let problem = app.post_as(&alice.token, OWN_TOKENS, past).await.expect(400).json();
    assert!(problem["errors"][0]["reason"].as_str().unwrap().starts_with("must be after "), "{problem}");
    app.stop().await;
}
