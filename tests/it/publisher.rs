//! Publishers: creating, reading, updating, and their tokens.

use serde_json::json;

use crate::support::TestApp;

#[actix_web::test]
async fn the_creator_owns_a_publisher() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"id": "acme", "name": "Acme", "description": "tools", "logo": "", "website": "https://acme.example",
        "createdAt": "1999-01-01T00:00:00Z", "status": "PublisherStatusBanned", "members": []});
    let answer = app.post_as(&alice.token, "/publishers", body).await.expect(201);
    assert!(answer.header("location").is_some_and(|location| location.ends_with("/publishers/acme")));
    let publisher = answer.json();

    let created_at = publisher["createdAt"].as_str().unwrap();
    assert!(created_at.ends_with('Z') && !created_at.starts_with("1999"));
    assert_eq!(
        publisher,
        json!({
            "id": "acme", "name": "Acme", "description": "tools", "website": "https://acme.example",
            "createdAt": created_at, "status": "PublisherStatusActive",
            "members": [{"id": alice.id, "role": "owner",
                "user": {"id": alice.id, "name": "alice", "email": "alice@example.org"}}],
        })
    );
    app.post_as(&alice.token, "/publishers", json!({"id": "acme"})).await.expect(409);
    app.stop().await;
}

#[actix_web::test]
async fn addresses_of_members_are_for_members_and_administrators() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    let own = app.access_token("acme", &alice).await;
    let address_for = |token: Option<String>| {
        let app = &app;
        async move {
            let answer = match token {
                Some(token) => app.get_as(&token, "/publishers/acme").await,
                None => app.get("/publishers/acme").await,
            };
            answer.expect(200).json()["members"][0]["user"]["email"].as_str().map(str::to_owned)
        }
    };
    let shown = Some("alice@example.org".to_owned());
    assert_eq!(address_for(Some(alice.token)).await, shown);
    assert_eq!(address_for(Some(app.admin_token().to_owned())).await, shown);
    assert_eq!(address_for(Some(bob.token)).await, None);
    assert_eq!(address_for(Some(own)).await, None);
    assert_eq!(address_for(None).await, None);
    app.stop().await;
}

#[actix_web::test]
async fn an_update_changes_what_is_present() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let first = json!({"description": "old", "website": "https://acme.example", "support": "help@acme.example"});
    app.put_as(&alice.token, "/publishers/acme", first).await.expect(200);
    let second = json!({"description": "new", "website": "", "support": null, "id": "other"});
    let updated = app.put_as(&alice.token, "/publishers/acme", second).await.expect(200).json();

    assert_eq!((&updated["id"], &updated["description"]), (&json!("acme"), &json!("new")));
    assert_eq!((&updated["support"], updated.get("website")), (&json!("help@acme.example"), None));
    assert_eq!(app.get_as(&alice.token, "/publishers/acme").await.expect(200).json(), updated);
    app.stop().await;
}

#[actix_web::test]
async fn what_does_not_exist_is_not_found_before_it_is_forbidden() {
    let app = TestApp::start().await;
    let bob = app.user("bob").await;
    for id in ["none", "No-Such", "a%2Fb"] {
        app.get(&format!("/publishers/{id}")).await.expect(404);
        app.put_as(&bob.token, &format!("/publishers/{id}"), json!({})).await.expect(404);
        app.post_as(&bob.token, &format!("/publishers/{id}/tokens"), json!({"name": "x"})).await.expect(404);
    }
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.put_as(&bob.token, "/publishers/acme/nodes/none/versions/1.0.0", json!({})).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn a_publisher_token_is_answered_alone_and_opens_only_nodes() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let answer = app.post_as(&alice.token, "/publishers/acme/tokens", json!({"name": "ci"})).await.expect(201).json();
    let token = answer["token"].as_str().unwrap();
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(1));
    assert!(token.starts_with("mdp_"));

    app.post_as(token, "/publishers/acme/nodes", json!({"id": "face-tools"})).await.expect(201);
    app.put_as(token, "/publishers/acme", json!({})).await.expect(403);
    app.post_as(token, "/publishers/acme/tokens", json!({"name": "more"})).await.expect(403);
    app.stop().await;
}
