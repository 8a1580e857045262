//! User and token management by administrators.

use serde_json::json;

use crate::support::{TestApp, TestResponse};

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
async fn users_are_looked_up_by_their_ids() {
    // Given users, one of them erased
    let app = TestApp::start().await;
    let [alice, bob, carol] = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    app.delete_as(app.admin_token(), &format!("/admin/users/{}", bob.id)).await.expect(204);
    let users_with_ids = |ids: String| {
        let (app, token) = (&app, app.admin_token());
        async move { app.get_as(token, &format!("/admin/users?{ids}")).await.expect(200).json() }
    };

    // When an administrator requests some of them, and an unknown id
    let unknown = uuid::Uuid::nil();
    let response = users_with_ids(format!("user_id={}&user_id={}&user_id={unknown}", carol.id, alice.id)).await;

    // Then the response lists exactly the known users, oldest first
    let ids: Vec<_> = response["users"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &response["total"]), (vec![alice.id.as_str(), carol.id.as_str()], &json!(2)));
    assert_eq!(users_with_ids(format!("user_id={}", bob.id)).await["users"][0]["erased"], true);
    assert_eq!(users_with_ids(format!("user_id={unknown}")).await["total"], 0);

    // And a malformed id is rejected
    let problem = app.get_as(app.admin_token(), "/admin/users?user_id=ada").await.expect(400).json();
    assert_eq!(problem["errors"][0]["pointer"], "/user_id");
    app.stop().await;
}

#[actix_web::test]
async fn administrators_can_appoint_administrators() {
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
async fn tokens_require_an_existing_user() {
    let app = TestApp::start().await;
    for id in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        let path = format!("/admin/users/{id}/tokens");
        app.post_as(app.admin_token(), &path, json!({"name": "x"})).await.expect(404);
    }
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}/tokens", alice.id);
    let problem = app.post_as(app.admin_token(), &path, json!({"name": null})).await.expect(400).json();
    assert_eq!(problem["errors"], json!([{"pointer": "/name", "reason": "is required"}]));

    for blank in ["", " \t"] {
        let problem = app.post_as(app.admin_token(), &path, json!({"name": blank})).await.expect(400).json();
        assert_eq!(problem["errors"], json!([{"pointer": "/name", "reason": "must not be blank", "value": blank}]));
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_update_changes_only_present_fields() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}", alice.id);
    let update = json!({"email": "new@example.org", "isApproved": true, "name": null, "id": "ignored"});
    let updated = app.put_as(app.admin_token(), &path, update).await.expect(200).json();
    let expected =
        json!({"id": alice.id, "name": "alice", "email": "new@example.org", "isAdmin": false, "isApproved": true});
    assert_eq!(updated, expected);
    assert_eq!(app.get_as(&alice.token, "/users").await.expect(200).json(), expected);

    let page = app.get_as(app.admin_token(), "/admin/users").await.expect(200).json();
    assert_eq!(page["users"][1], expected);
    assert_eq!(app.put_as(app.admin_token(), &path, json!({})).await.expect(200).json(), expected);
    app.stop().await;
}

#[actix_web::test]
async fn changes_of_administrator_rights_apply_immediately() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}", alice.id);
    for (is_admin, status) in [(true, 200), (false, 403)] {
        app.put_as(app.admin_token(), &path, json!({"isAdmin": is_admin})).await.expect(200);
        app.get_as(&alice.token, "/admin/users").await.expect(status);
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_invalid_user_update_reports_every_field() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let invalid = json!({"email": 1, "name": "x".repeat(201), "isAdmin": "yes", "isApproved": 0});
    let path = format!("/admin/users/{}", alice.id);
    let problem = app.put_as(app.admin_token(), &path, invalid).await.expect(400).json();
    let pointers: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/email", "/name", "/isAdmin", "/isApproved"]);
    for unknown in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        app.put_as(app.admin_token(), &format!("/admin/users/{unknown}"), json!({})).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn users_need_a_valid_email_address() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}", alice.id);
    let detail = |problem: TestResponse| problem.expect(400).json()["detail"].as_str().unwrap().to_owned();

    let create = async |body| detail(app.post_as(app.admin_token(), "/admin/users", body).await);

    // When the address is invalid, then the error states the expected form
    for email in ["ada", "@example.org", "ada@", "ada@b@c", "ada @example.org"] {
        let expected = "/email must be an email address such as ada@example.org";
        assert_eq!(create(json!({"name": "Ada", "email": email})).await, expected, "{email}");
        assert_eq!(detail(app.put_as(app.admin_token(), &path, json!({"email": email})).await), expected, "{email}");
    }

    // And an address can be removed
    app.put_as(app.admin_token(), &path, json!({"email": ""})).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn missing_resources_are_named() {
    let app = TestApp::start().await;
    let id = "00000000-0000-4000-8000-00000000abcd";
    for (path, expected) in [
        ("/nodes/face-tools".to_owned(), "node face-tools not found".to_owned()),
        ("/nodes/face-tools/versions/1.0.0".to_owned(), "node face-tools not found".to_owned()),
        ("/publishers/acme".to_owned(), "publisher acme not found".to_owned()),
        (format!("/tasks/{id}"), format!("task {id} not found")),
        (format!("/admin/users/{id}/tokens"), format!("user {id} not found")),
        ("/admin/history/node/none".to_owned(), "resource node/none not found".to_owned()),
    ] {
        let problem = app.get_as(app.admin_token(), &path).await.expect(404).json();
        assert_eq!(problem["detail"], expected, "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn the_user_list_shows_bans() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let path = format!("/admin/users/{}/ban", alice.id);
    app.post_as(app.admin_token(), &path, json!({"reason": "spam"})).await.expect(204);
    let page = app.get_as(app.admin_token(), "/admin/users").await.expect(200).json();
    let status_of = |n: usize| (page["users"][n]["status"].as_str(), page["users"][n]["statusReason"].as_str());
    assert_eq!((status_of(0), status_of(1)), ((None, None), (Some("UserStatusBanned"), Some("spam"))));
    app.stop().await;
}
