//! Translations of a node's texts.

use serde_json::{Value, json};

use crate::support::{TestApp, TestUser};

const PATH: &str = "/nodes/face-tools/translations";

async fn app_with_node() -> (TestApp, TestUser) {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "face-tools", &alice).await;
    (app, alice)
}

#[actix_web::test]
async fn translations_merge_language_by_language() {
    let (app, alice) = app_with_node().await;
    for (body, expected) in [
        (
            json!({"de": {"name": "Gesicht"}, "pt-BR": {"name": "Rosto"}}),
            json!({"de": {"name": "Gesicht"}, "pt-BR": {"name": "Rosto"}}),
        ),
        (
            json!({"translations": {"de": {"description": "Alles"}}}),
            json!({"de": {"description": "Alles"}, "pt-BR": {"name": "Rosto"}}),
        ),
        (json!({"pt-BR": {}, "fr": null}), json!({"de": {"description": "Alles"}})),
        (json!({}), json!({"de": {"description": "Alles"}})),
    ] {
        let node = app.post_as(&alice.token, PATH, body).await.expect(200).json();
        assert_eq!(node["translations"], expected);
        assert_eq!(app.get("/nodes/face-tools").await.expect(200).json(), node);
    }
    app.put_as(&alice.token, "/publishers/acme/nodes/face-tools", json!({"translations": {"fr": {"name": "Visage"}}}))
        .await
        .expect(200);

    let merged = app.get("/nodes/face-tools").await.expect(200).json()["translations"].clone();
    assert_eq!(merged, json!({"de": {"description": "Alles"}, "fr": {"name": "Visage"}}));
    app.stop().await;
}

#[actix_web::test]
async fn languages_and_texts_are_checked() {
    let (app, alice) = app_with_node().await;
    let long = "\u{1f600}".repeat(1001);
    for (body, pointer) in [
        (json!({"d": {}}), "/d"),
        (json!({"de_DE": {}}), "/de_DE"),
        (json!({"de": "Gesicht"}), "/de"),
        (json!({"de": {"name": 1}}), "/de/name"),
        (json!({"de": {"name": long}}), "/de/name"),
        (json!({"translations": {"de": {"name": []}}}), "/translations/de/name"),
        (json!({"translations": []}), "/translations"),
        (json!([]), ""),
        (json!({"de": (0..21).map(|n| (format!("f{n}"), json!("x"))).collect::<Value>()}), "/de"),
        ((0..101).map(|n| (format!("de-{n}"), json!({}))).collect(), ""),
    ] {
        let problem = app.post_as(&alice.token, PATH, body).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }

    let text = "\u{1f600}".repeat(1000);
    let largest_texts: Value = (0..20).map(|n| (format!("f{n}"), json!(text))).collect();
    let stored =
        app.post_as(&alice.token, PATH, json!({"de": largest_texts, "fr": largest_texts})).await.expect(200).json();
    assert_eq!(stored["translations"]["fr"], largest_texts);
    app.stop().await;
}

#[actix_web::test]
async fn only_the_publisher_and_administrators_translate() {
    let (app, alice) = app_with_node().await;
    let bob = app.user("bob").await;
    let own_token = app.access_token("acme", &alice).await;
    let body = || json!({"de": {"name": "Gesicht"}});
    for token in [alice.token.as_str(), own_token.as_str(), app.admin_token()] {
        app.post_as(token, PATH, body()).await.expect(200);
    }
    app.post_as(&bob.token, PATH, body()).await.expect(403);
    app.post(PATH, body()).await.expect(401);
    app.post_as(&alice.token, "/nodes/none/translations", body()).await.expect(404);
    app.stop().await;
}
