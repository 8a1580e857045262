//! The current user.

use crate::support::TestApp;

#[actix_web::test]
async fn users_can_read_their_account() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let account = app.get_as(&alice.token, "/users").await.expect(200).json();
    assert_eq!(
        account,
        serde_json::json!({
            "id": alice.id, "name": "alice", "email": "alice@example.org", "isAdmin": false, "isApproved": false,
        })
    );

    let admin = app.get_as(app.admin_token(), "/users").await.expect(200).json();
    assert_eq!((admin["isAdmin"].as_bool(), admin["isApproved"].as_bool()), (Some(true), Some(true)));
    app.stop().await;
}
