//! Reviews: one per user, and the resulting rating.

use serde_json::json;

use crate::support::TestApp;

#[actix_web::test]
async fn the_rating_is_the_mean_of_the_last_review_of_each_user() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    app.publisher("acme", &alice).await;
    assert_eq!(app.node("acme", "Face-Tools", &alice).await.get("rating"), None);

    let mut rating = json!(null);
    for (user, star, expected) in [(&bob, 1, 1.0), (&alice, 4, 2.5), (&bob, 5, 4.5), (&bob, 5, 4.5), (&alice, 1, 3.0)] {
        let reviewed = app.post_as(&user.token, &format!("/nodes/Face-Tools/reviews?star={star}"), json!({})).await;
        rating = reviewed.expect(200).json()["rating"].clone();
        assert_eq!(rating, json!(expected));
    }
    assert_eq!(app.get("/nodes/Face-Tools").await.expect(200).json()["rating"], rating);
    app.put_as(app.admin_token(), "/admin/nodes/Face-Tools", json!({"rating": 5})).await.expect(200);
    assert_eq!(app.get("/nodes/Face-Tools").await.expect(200).json()["rating"], rating, "reviews count more");
    app.stop().await;
}

#[actix_web::test]
async fn the_mean_has_two_decimals() {
    let app = TestApp::start().await;
    let users = [app.user("a").await, app.user("b").await, app.user("c").await];
    app.publisher("acme", &users[0]).await;
    app.node("acme", "n", &users[0]).await;
    for (user, star) in users.iter().zip([1, 1, 5]) {
        app.post_as(&user.token, &format!("/nodes/N/reviews?star={star}"), json!({})).await.expect(200);
    }
    assert_eq!(app.get("/nodes/n").await.expect(200).json()["rating"], json!(2.33));
    app.stop().await;
}

#[actix_web::test]
async fn only_users_review_with_1_to_5_stars() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "n", &alice).await;
    for query in ["", "?star=", "?star=0", "?star=6", "?star=-1", "?star=4.5", "?star=five", "?star=256", "?stars=5"] {
        let problem =
            app.post_as(&alice.token, &format!("/nodes/n/reviews{query}"), json!({})).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/star", "{query}");
    }
    app.post("/nodes/n/reviews?star=5", json!({})).await.expect(401);

    let token = app.access_token("acme", &alice).await;
    app.post_as(&token, "/nodes/n/reviews?star=5", json!({})).await.expect(403);
    app.post_as(&alice.token, "/nodes/none/reviews?star=5", json!({})).await.expect(404);

    let bare = app.request(reqwest::Method::POST, "/nodes/n/reviews?star=5").bearer_auth(&alice.token);
    assert_eq!(app.send(bare).await.expect(200).json()["rating"], json!(5.0), "no body is needed");
    app.stop().await;
}

#[actix_web::test]
async fn users_see_only_their_own_review() {
    // Given a node that two users have reviewed, one of them twice
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let bob = app.user("bob").await;
    let carol = app.user("carol").await;
    app.publisher("acme", &alice).await;
    app.node("acme", "Face-Tools", &alice).await;
    for (user, star) in [(&alice, 2), (&bob, 5), (&alice, 4)] {
        app.post_as(&user.token, &format!("/nodes/face-tools/reviews?star={star}"), json!({})).await.expect(200);
    }

    // When each user requests its own review, then it is the last one, or none
    for (user, own_review) in [(&alice, json!({"star": 4})), (&bob, json!({"star": 5})), (&carol, json!({}))] {
        assert_eq!(app.get_as(&user.token, "/nodes/Face-Tools/reviews/mine").await.expect(200).json(), own_review);
    }
    app.get("/nodes/Face-Tools/reviews/mine").await.expect(401);
    app.get_as(&app.access_token("acme", &alice).await, "/nodes/Face-Tools/reviews/mine").await.expect(403);
    app.get_as(&alice.token, "/nodes/none/reviews/mine").await.expect(404);
    app.stop().await;
}
