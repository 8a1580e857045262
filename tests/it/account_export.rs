//! `GET /users/export`: everything about an account, and nothing about others.

use reqwest::Method;
use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::picture::{base64_png, png};

#[actix_web::test]
async fn an_export_has_everything_about_the_account_and_nothing_else() {
    // Given two users with tokens, publishers, reviews, files and tasks
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    for (user, publisher, node) in [(&alice, "acme", "face-tools"), (&bob, "other", "sky-tools")] {
        app.publisher(publisher, user).await;
        app.node(publisher, node, user).await;
        app.post_as(&user.token, &format!("/nodes/{node}/reviews?star=4"), json!({})).await.expect(200);
        app.access_token(publisher, user).await;
        let webhook = json!({"url": format!("https://{publisher}.example/hook")});
        app.post_as(&user.token, &format!("/publishers/{publisher}/webhooks"), webhook).await.expect(201);
        let file = app.post_as(&user.token, "/files", json!({})).await.expect(200).json();
        let link = file["upload_url"].as_str().unwrap();
        let path = &link[link.find("/uploads/").unwrap()..];
        app.send(app.request(Method::PUT, path).body(png(4, 4))).await.expect(200);
        let prompt = format!("a prompt of {publisher}");
        // More tasks than the response sends in one chunk.
        for _ in 0..60 {
            let task = submit(&app, user, UPSCALER, json!({"image": base64_png(4, 4), "prompt": prompt})).await;
            wait_for_end(&app, user, UPSCALER, &task).await;
        }
    }
    let tokens = app.get_as(&alice.token, "/publishers/acme/tokens").await.expect(200).json();
    let revoked = format!("/publishers/acme/tokens/{}", tokens[0]["id"].as_str().unwrap());
    app.delete_as(&alice.token, &revoked).await.expect(204);

    // When one of them exports the account
    let response = app.get_as(&alice.token, "/users/export").await.expect(200);
    assert_eq!(response.header("content-disposition"), Some("attachment; filename=\"account.json\""));
    let export = response.json();

    // Then the document has all of it
    assert_eq!((&export["account"]["id"], &export["account"]["name"]), (&json!(alice.id), &json!("alice")));
    assert_eq!(export["publishers"], json!([{"publisher": "acme", "role": "owner"}]));
    let webhooks = export["webhooks"].as_array().unwrap();
    assert_eq!((webhooks.len(), &webhooks[0]["publisher"]), (1, &json!("acme")));
    assert_eq!(webhooks[0]["url"], "https://acme.example/hook");
    assert_eq!(export["reviews"], json!([{"node": "face-tools", "star": 4}]));
    assert_eq!(length(&export["files"]), 1);
    let tokens = export["tokens"].as_array().unwrap();
    let of_publisher = tokens.iter().find(|token| token["publisher"] == "acme").expect("the token of the publisher");
    assert!(tokens.len() == 2 && of_publisher["revokedAt"].is_string(), "{tokens:?}");

    let tasks = export["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 60);
    assert!(
        tasks.iter().all(|task| task["request"]["prompt"] == "a prompt of acme" && task["deliveries"] == json!([]))
    );
    assert!(tasks.windows(2).all(|pair| pair[0]["created_at"].as_str() >= pair[1]["created_at"].as_str()));

    let types = |events: &Value| -> Vec<String> {
        events.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    assert!(types(&export["account_events"]).starts_with(&["UserCreated".to_owned()]));
    let caused = types(&export["caused_events"]);
    for expected in ["PublisherCreated", "NodeCreated", "NodeReviewed", "TokenIssued", "TokenRevoked", "TaskSubmitted"]
    {
        assert!(caused.iter().any(|name| name == expected), "{expected} is missing");
    }

    // And what it caused is listed without content, which may be about others
    let fields = |event: &Value| event.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for event in export["caused_events"].as_array().unwrap() {
        assert_eq!(fields(event), ["at", "position", "request", "stream", "type"]);
    }

    // And nothing about the other
    let text = response.text();
    for foreign in [bob.id.as_str(), "other", "sky-tools"] {
        assert!(!text.contains(&format!("\"{foreign}\"")), "{foreign}");
    }
    app.stop().await;
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

#[actix_web::test]
async fn an_export_needs_a_user_and_allows_head() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    let token = app.access_token("acme", &alice).await;
    app.get("/users/export").await.expect(401);
    app.get_as(&token, "/users/export").await.expect(403);
    let request = app.request(Method::HEAD, "/users/export").bearer_auth(&alice.token);
    assert!(app.send(request).await.expect(200).body.is_empty());
    app.stop().await;
}
