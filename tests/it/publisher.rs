//! Publishers: creating, finding, reading, updating and deleting, and the rights of their tokens.

use serde_json::{Value, json};

use crate::support::TestApp;

#[actix_web::test]
async fn the_creator_owns_a_publisher() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"id": "acme", "name": "Acme", "description": "tools", "logo": "", "website": "https://acme.example",
        "createdAt": "1999-01-01T00:00:00Z", "status": "PublisherStatusBanned", "members": []});
    let response = app.post_as(&alice.token, "/publishers", body).await.expect(201);
    assert!(response.header("location").is_some_and(|location| location.ends_with("/publishers/acme")));
    let publisher = response.json();

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
async fn only_members_and_administrators_see_email_addresses() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    let own_token = app.access_token("acme", &alice).await;
    let address_for = |token: Option<String>| {
        let app = &app;
        async move {
            let response = match token {
                Some(token) => app.get_as(&token, "/publishers/acme").await,
                None => app.get("/publishers/acme").await,
            };
            response.expect(200).json()["members"][0]["user"]["email"].as_str().map(str::to_owned)
        }
    };
    let expected_email = Some("alice@example.org".to_owned());
    assert_eq!(address_for(Some(alice.token)).await, expected_email);
    assert_eq!(address_for(Some(app.admin_token().to_owned())).await, expected_email);
    assert_eq!(address_for(Some(bob.token)).await, None);
    assert_eq!(address_for(Some(own_token)).await, None);
    assert_eq!(address_for(None).await, None);
    app.stop().await;
}

#[actix_web::test]
async fn an_update_changes_only_present_fields() {
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
async fn missing_resources_are_404_before_403() {
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
async fn a_publisher_token_works_for_its_nodes_only() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let response = app.post_as(&alice.token, "/publishers/acme/tokens", json!({"name": "ci"})).await.expect(201).json();
    let token = response["token"].as_str().unwrap();
    assert_eq!(response.as_object().map(serde_json::Map::len), Some(1));
    assert!(token.starts_with("mdp_"));

    app.post_as(token, "/publishers/acme/nodes", json!({"id": "face-tools"})).await.expect(201);
    app.put_as(token, "/publishers/acme", json!({})).await.expect(403);
    app.post_as(token, "/publishers/acme/tokens", json!({"name": "more"})).await.expect(403);
    app.stop().await;
}

/// Returns the edit permission of this caller for a publisher.
async fn can_edit(app: &TestApp, token: Option<&str>) -> Value {
    let path = "/publishers/acme/permissions";
    let response = match token {
        Some(token) => app.get_as(token, path).await,
        None => app.get(path).await,
    };
    response.expect(200).json()["canEdit"].clone()
}

#[actix_web::test]
async fn permissions_are_visible_to_every_user() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    app.put_as(&alice.token, &format!("/publishers/acme/members/{}", bob.id), json!({})).await.expect(200);

    let token = app.access_token("acme", &alice).await;
    for (token, may) in [
        (None, false),
        (Some(bob.token.as_str()), false),
        (Some(&token), false),
        (Some(&alice.token), true),
        (Some(app.admin_token()), true),
    ] {
        assert_eq!(can_edit(&app, token).await, json!(may));
    }

    let ban = json!({"reason": "spam"});
    app.post_as(app.admin_token(), "/admin/publishers/acme/ban", ban).await.expect(204);
    assert_eq!(can_edit(&app, Some(&alice.token)).await, json!(false));
    assert_eq!(can_edit(&app, Some(app.admin_token())).await, json!(true));
    app.stop().await;
}

#[actix_web::test]
async fn publishers_are_listed_in_pages_by_id() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for id in ["c", "a", "b"] {
        app.publisher(id, &alice).await;
    }
    let response = app.get("/publishers?limit=2").await.expect(200);
    assert!(response.header("etag").is_some());

    let page = response.json();
    assert_eq!(ids(&page), ["a", "b"]);

    let counts = |page: &Value| ["limit", "page", "total", "totalPages"].map(|name| page[name].as_u64().unwrap());
    assert_eq!(counts(&page), [2, 1, 3, 2]);
    assert_eq!(page["publishers"][0], app.get("/publishers/a").await.json());

    let last = app.get("/publishers?limit=2&page=2").await.expect(200).json();
    assert_eq!((ids(&last), counts(&last)), (vec!["c"], [2, 2, 3, 2]));

    let past_end = app.get("/publishers?page=9").await.expect(200).json();
    assert_eq!((ids(&past_end), counts(&past_end)), (vec![], [10, 9, 3, 1]));

    let selected = app.get("/publishers?publisher_id=c&publisher_id=a&publisher_id=unknown").await.expect(200).json();
    assert_eq!((ids(&selected), counts(&selected)), (vec!["a", "c"], [10, 1, 2, 1]));

    let clamped = app.get("/publishers?limit=5000").await.expect(200).json();
    assert_eq!(clamped["limit"], 1000);

    let problem = app.get("/publishers?page=0&limit=x&include_banned=perhaps").await.expect(400).json();
    assert_eq!(problem["errors"].as_array().map(Vec::len), Some(3), "{problem}");
    app.stop().await;
}

fn ids(page: &Value) -> Vec<&str> {
    page["publishers"].as_array().unwrap().iter().map(|publisher| publisher["id"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn addresses_of_members_stay_hidden_in_lists() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    app.publisher("other", &bob).await;
    let page = app.get_as(&alice.token, "/publishers").await.expect(200).json();
    let address = |n: usize| page["publishers"][n]["members"][0]["user"]["email"].as_str();
    assert_eq!((address(0), address(1)), (Some("alice@example.org"), None));
    assert!(!app.get("/publishers").await.expect(200).text().contains("@example.org"));
    app.stop().await;
}

#[actix_web::test]
async fn the_validate_endpoint_reports_available_ids() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("taken", &alice).await;
    app.publisher("gone", &alice).await;
    app.delete_as(&alice.token, "/publishers/gone").await.expect(204);

    let validate = async |id: &str| app.get(&format!("/publishers/validate?username={id}")).await.expect(200).json();
    assert_eq!(validate("free").await, json!({"isAvailable": true}));

    for (id, expected) in [
        ("taken", "taken"),
        ("gone", "deleted"),
        ("validate", "reserved"),
        ("No-Such", "lowercase"),
        ("", "lowercase"),
        ("1a", "lowercase"),
    ] {
        let actual = validate(id).await;
        assert_eq!(actual["isAvailable"], json!(false), "{id}");
        assert!(actual["reason"].as_str().is_some_and(|reason| reason.contains(expected)), "{id}: {actual}");
    }

    let problem = app.get("/publishers/validate").await.expect(400).json();
    assert_eq!(problem["errors"], json!([{"pointer": "/username", "reason": "is required"}]));
    app.stop().await;
}

#[actix_web::test]
async fn path_segments_are_reserved_as_publisher_ids() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let problem = app.post_as(&alice.token, "/publishers", json!({"id": "validate"})).await.expect(400).json();
    assert_eq!(problem["errors"][0]["pointer"], "/id");
    assert!(problem["detail"].as_str().unwrap().contains("reserved"), "{problem}");
    app.stop().await;
}

#[actix_web::test]
async fn only_publishers_without_nodes_are_deleted_and_ids_never_reused() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "a", &alice).await;
    app.node("acme", "b", &alice).await;
    let problem = app.delete_as(&alice.token, "/publishers/acme").await.expect(409).json();
    assert_eq!(problem["detail"], "the publisher still has 2 nodes: delete them first");
    app.delete_as(&alice.token, "/publishers/acme/nodes/a").await.expect(204);
    let problem = app.delete_as(&alice.token, "/publishers/acme").await.expect(409).json();
    assert_eq!(problem["detail"], "the publisher still has 1 node: delete it first");
    app.delete_as(&alice.token, "/publishers/acme/nodes/b").await.expect(204);

    let response = app.delete_as(&alice.token, "/publishers/acme").await.expect(204);
    assert!(response.body.is_empty());
    app.get("/publishers/acme").await.expect(404);
    app.get_as(app.admin_token(), "/publishers/acme").await.expect(404);
    app.delete_as(&alice.token, "/publishers/acme").await.expect(404);
    let creation_body = json!({"id": "acme"});
    for token in [alice.token.as_str(), app.admin_token()] {
        app.post_as(token, "/publishers", creation_body.clone()).await.expect(409);
    }
    assert_eq!(ids(&app.get("/publishers").await.expect(200).json()), [""; 0]);
    assert_eq!(app.get_as(&alice.token, "/users/publishers").await.expect(200).json(), json!([]));
    app.stop().await;
}

#[actix_web::test]
async fn admin_fields_of_publishers_are_ignored_from_others() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let old = || json!({"id": "acme", "createdAt": "1999-01-01T00:00:00Z", "status": 7});
    let created = app.post_as(&alice.token, "/publishers", old()).await.expect(201).json();
    assert!(!created["createdAt"].as_str().unwrap().starts_with("1999"));
    let revised = app.put_as(&alice.token, "/publishers/acme", old()).await.expect(200).json();
    assert_eq!(revised["createdAt"], created["createdAt"]);

    let fact = json!({"createdAt": "1999-01-01T00:00:00Z", "status": "PublisherStatusActive"});
    let actual = app.put_as(app.admin_token(), "/publishers/acme", fact).await.expect(200).json();
    assert_eq!(actual["createdAt"], "1999-01-01T00:00:00.000000Z");
    let imported = json!({"id": "imported", "createdAt": "2001-02-03T04:05:06+01:00"});
    let imported = app.post_as(app.admin_token(), "/publishers", imported).await.expect(201).json();
    assert_eq!(imported["createdAt"], "2001-02-03T03:05:06.000000Z");

    for invalid in [json!({"createdAt": "yesterday"}), json!({"status": "PublisherStatusBanned"}), json!({"status": 1})]
    {
        let problem = app.put_as(app.admin_token(), "/publishers/acme", invalid.clone()).await.expect(400).json();
        let name = invalid.as_object().unwrap().keys().next().unwrap();
        assert_eq!(problem["errors"][0]["pointer"], json!(format!("/{name}")));
    }
    app.stop().await;
}
