//! What administrators do: users and their tokens.

use serde_json::json;

use crate::support::TestApp;

#[actix_web::test]
async fn users_are_listed_in_pages_oldest_first() {
    let app = TestApp::start().await;
    for name in ["alice", "bob", "carol"] {
        app.user(name).await;
    }
    let page = |query: &'static str| {
        let path = format!("/admin/users{query}");
        let (app, token) = (&app, app.admin_token());
        async move { app.get_as(token, &path).await.expect(200).json() }
    };
    let names = |page: &serde_json::Value| -> Vec<String> {
        let users = page["users"].as_array().unwrap().iter();
        users.map(|user| user["name"].as_str().unwrap_or_default().to_owned()).collect()
    };

    let second = page("?limit=2&page=2").await;
    assert_eq!(names(&second), ["bob", "carol"]);
    assert_eq!(
        (&second["total"], &second["page"], &second["limit"], &second["totalPages"]),
        (&json!(4), &json!(2), &json!(2), &json!(2))
    );
    assert_eq!(page("").await["limit"], 10);
    assert!(names(&page("?page=9").await).is_empty());
    app.stop().await;
}

#[actix_web::test]
async fn an_administrator_makes_administrators() {
    let app = TestApp::start().await;
    let body = json!({"name": "root", "isAdmin": true, "isApproved": true, "id": "ignored"});
    let user = app.post_as(app.admin_token(), "/admin/users", body).await.expect(201).json();
    assert_eq!((&user["isAdmin"], &user["isApproved"]), (&json!(true), &json!(true)));
    let path = format!("/admin/users/{}/tokens", user["id"].as_str().unwrap());
    let token = app.post_as(app.admin_token(), &path, json!({"name": "x"})).await.expect(201).json();
    app.get_as(token["token"].as_str().unwrap(), "/admin/users").await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn a_token_is_shown_once_with_its_description() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}/tokens", alice.id);
    let body = json!({"name": "laptop", "description": "at home", "token": "ignored", "createdAt": "ignored"});
    let token = app.post_as(app.admin_token(), &path, body).await.expect(201).json();

    assert_eq!((&token["name"], &token["description"]), (&json!("laptop"), &json!("at home")));
    assert!(token["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')));
    let secret = token["token"].as_str().unwrap();
    assert!(secret.starts_with("mdu_") && secret.len() == 53, "{secret}");
    app.get_as(secret, "/users").await.expect(200);
    let mistyped = format!("{}{}", &secret[..52], if secret.ends_with('0') { '1' } else { '0' });
    app.get_as(&mistyped, "/users").await.expect(401);
    app.stop().await;
}

#[actix_web::test]
async fn tokens_are_for_users_who_exist() {
    let app = TestApp::start().await;
    for id in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        let path = format!("/admin/users/{id}/tokens");
        app.post_as(app.admin_token(), &path, json!({"name": "x"})).await.expect(404);
    }
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}/tokens", alice.id);
    let refused = app.post_as(app.admin_token(), &path, json!({"name": null})).await.expect(400).json();
    assert_eq!(refused["errors"], json!([{"pointer": "/name", "reason": "is required"}]));
    for blank in ["", " \t"] {
        let refused = app.post_as(app.admin_token(), &path, json!({"name": blank})).await.expect(400).json();
        assert_eq!(refused["errors"], json!([{"pointer": "/name", "reason": "must not be blank"}]));
    }
    app.stop().await;
}
