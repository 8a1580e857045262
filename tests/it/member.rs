//! Members of a publisher: joining, rights of each role, and protection of the last owner.

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

/// Starts a service with the publisher `acme` of alice, and with bob, who is not a member.
async fn app_with_acme() -> (TestApp, TestUser, TestUser) {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    (app, alice, bob)
}

fn membership(user: &TestUser) -> String {
    format!("/publishers/acme/members/{}", user.id)
}

fn roles(publisher: &Value) -> Vec<(&str, &str)> {
    let members = publisher["members"].as_array().unwrap().iter();
    members.map(|member| (member["user"]["name"].as_str().unwrap(), member["role"].as_str().unwrap())).collect()
}

#[actix_web::test]
async fn members_can_publish_but_not_manage() {
    let (app, alice, bob) = app_with_acme().await;
    app.post_as(&bob.token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(403);

    let publisher = app.put_as(&alice.token, &membership(&bob), json!({})).await.expect(200).json();
    assert_eq!(roles(&publisher), [("alice", "owner"), ("bob", "member")]);
    assert_eq!(publisher["members"][1]["id"], json!(bob.id));
    assert_eq!(publisher["members"][1]["user"]["email"], "bob@example.org");
    app.post_as(&bob.token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(201);
    let version = json!({"node_version": {"version": "1.0.0"}});
    app.post_as(&bob.token, "/publishers/acme/nodes/a/versions", version).await.expect(201);

    app.get_as(&bob.token, "/publishers/acme/tokens").await.expect(403);
    app.post_as(&bob.token, "/publishers/acme/tokens", json!({"name": "ci"})).await.expect(403);
    app.put_as(&bob.token, "/publishers/acme", json!({"name": "Mine"})).await.expect(403);
    app.put_as(&bob.token, &membership(&bob), json!({"role": "owner"})).await.expect(403);
    app.delete_as(&bob.token, &membership(&alice)).await.expect(403);
    app.delete_as(&bob.token, "/publishers/acme").await.expect(403);
    app.stop().await;
}

#[actix_web::test]
async fn role_changes_apply_to_the_next_request() {
    let (app, alice, bob) = app_with_acme().await;
    let rename = || json!({"name": "Acme Ltd"});
    app.put_as(&alice.token, &membership(&bob), json!({"role": "owner"})).await.expect(200);
    app.put_as(&bob.token, "/publishers/acme", rename()).await.expect(200);
    let publisher = app.put_as(&bob.token, &membership(&alice), json!({"role": "member"})).await.expect(200).json();
    assert_eq!(roles(&publisher), [("alice", "member"), ("bob", "owner")]);
    app.put_as(&alice.token, "/publishers/acme", rename()).await.expect(403);
    app.delete_as(&bob.token, &membership(&alice)).await.expect(204);
    app.post_as(&alice.token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(403);
    app.delete_as(&bob.token, &membership(&alice)).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn the_last_owner_cannot_be_removed() {
    let (app, alice, bob) = app_with_acme().await;
    app.put_as(&alice.token, &membership(&bob), json!({"role": "member"})).await.expect(200);
    for token in [alice.token.as_str(), app.admin_token()] {
        let problem = app.delete_as(token, &membership(&alice)).await.expect(409).json();
        assert_eq!(problem["error"], "conflict");
        app.put_as(token, &membership(&alice), json!({"role": "member"})).await.expect(409);
    }
    app.delete_as(&alice.token, &membership(&bob)).await.expect(204);
    assert_eq!(roles(&app.get("/publishers/acme").await.expect(200).json()), [("alice", "owner")]);
    app.stop().await;
}

#[actix_web::test]
async fn an_update_without_a_role_keeps_the_role() {
    let (app, alice, bob) = app_with_acme().await;
    app.put_as(&alice.token, &membership(&bob), json!({"role": "owner"})).await.expect(200);
    for user in [&alice, &bob] {
        let publisher = app.put_as(&alice.token, &membership(user), json!({"role": null})).await.expect(200).json();
        assert_eq!(roles(&publisher), [("alice", "owner"), ("bob", "owner")]);
    }
    app.stop().await;
}

#[actix_web::test]
async fn members_need_an_existing_user_and_a_valid_role() {
    let (app, alice, bob) = app_with_acme().await;
    let reason = "must be one of owner member";
    for role in [json!("admin"), json!(1)] {
        let problem = app.put_as(&alice.token, &membership(&bob), json!({"role": role})).await.expect(400).json();
        assert_eq!(problem["errors"], json!([{"pointer": "/role", "reason": reason, "value": role}]));
    }

    for user in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        let path = format!("/publishers/acme/members/{user}");
        let problem = app.put_as(&alice.token, &path, json!({})).await.expect(404).json();
        assert_eq!(problem["detail"], format!("user {user} not found"));
        app.delete_as(&alice.token, &path).await.expect(404);
    }
    app.delete_as(&alice.token, &membership(&bob)).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn users_can_list_their_publishers() {
    let (app, alice, bob) = app_with_acme().await;
    app.publisher("zeta", &bob).await;
    app.put_as(&alice.token, &membership(&bob), json!({})).await.expect(200);

    let publishers_of = async |user: &TestUser| {
        let publishers = app.get_as(&user.token, "/users/publishers").await.expect(200).json();
        let ids = publishers.as_array().unwrap().iter().map(|publisher| publisher["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(
        (publishers_of(&alice).await, publishers_of(&bob).await),
        (vec!["acme".to_owned()], vec!["acme".into(), "zeta".into()])
    );
    app.delete_as(&alice.token, &membership(&bob)).await.expect(204);
    assert_eq!(publishers_of(&bob).await, ["zeta"]);

    let listed = app.get_as(&alice.token, "/users/publishers").await.json();
    assert_eq!(listed[0], app.get_as(&alice.token, "/publishers/acme").await.json());
    app.stop().await;
}

#[actix_web::test]
async fn members_can_remove_only_themselves() {
    let (app, alice, bob) = app_with_acme().await;
    let carol = app.user("carol").await;
    app.delete_as(&bob.token, &membership(&bob)).await.expect(403);
    for user in [&bob, &carol] {
        app.put_as(&alice.token, &membership(user), json!({})).await.expect(200);
    }
    let problem = app.delete_as(&bob.token, &membership(&carol)).await.expect(403).json();
    assert_eq!(problem["error"], "forbidden");
    let own_token = app.access_token("acme", &alice).await;
    app.delete_as(&own_token, &membership(&bob)).await.expect(403);

    app.delete_as(&bob.token, &membership(&bob)).await.expect(204);
    app.post_as(&bob.token, "/publishers/acme/nodes", json!({"id": "a"})).await.expect(403);
    app.delete_as(&alice.token, &membership(&alice)).await.expect(409);
    let publisher = app.get("/publishers/acme").await.expect(200).json();
    assert_eq!(roles(&publisher), [("alice", "owner"), ("carol", "member")]);
    app.stop().await;
}
