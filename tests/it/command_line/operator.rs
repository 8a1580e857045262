//! `health`, `demo` and `audit`, for the service that environment variables select.

use serde_json::json;

use super::Workplace;
use crate::support::TestApp;

#[actix_web::test]
async fn the_environment_names_service_and_token() {
    // Given a machine without a data directory, whose environment names a service and its administrator's token
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    let place = Workplace::of_user(&app, app.admin_token());
    let base = app.url("").trim_end_matches('/').to_owned();

    // When commands for operators run, then they call that service
    place.run(&["health"]).await.expect(0).assert_contains(&[&base]);
    place.run(&["audit", "log", "--type", "UserCreated"]).await.expect(0).assert_contains(&[&ada.id]);
    place.run(&["audit", "log", "--limit", "5"]).await.expect(0).assert_contains(&[&format!("user/{} (ada)", ada.id)]);
    place.run(&["audit", "checkpoint"]).await.expect(0).assert_contains(&["signature"]);
    place.run(&["demo", "--only", "saltmarsh"]).await.expect(0).assert_contains(&[&base]);

    // And a data directory on the command line takes precedence
    let empty = place.path("empty").display().to_string();
    let directory = place.run(&["audit", "log", "--data-dir", &empty]).await.expect(1);
    assert!(directory.err.contains("there is no data directory"), "{}", directory.err);
    let directory = place.run(&["--data-dir", &empty, "health"]).await.expect(1);
    assert!(directory.err.contains("no service runs on"), "{}", directory.err);

    // And an argument takes precedence over the environment
    let user = place.run(&["audit", "log", "--token", &ada.token]).await.expect(1);
    assert!(user.err.contains("requires the token of an administrator"), "{}", user.err);
    let other = place.run(&["health", "--url", "http://127.0.0.1:1"]).await.expect(1);
    assert!(other.err.contains("no service answers at http://127.0.0.1:1"), "{}", other.err);
}

#[actix_web::test]
async fn the_log_of_a_stopped_service_has_names_beside_ids() {
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    app.put_as(&ada.token, "/publishers/acme", json!({"name": "Acme Labs"})).await.expect(200);
    let dir = app.stop().await;

    let place = Workplace::new();
    let directory = dir.path().display().to_string();
    let table = place.run(&["audit", "log", "--data-dir", &directory]).await.expect(0);
    table.assert_contains(&[&format!("user/{} (ada)", ada.id), "publisher/acme (Acme Labs)"]);
    let lines = place.run(&["audit", "log", "--data-dir", &directory, "--json"]).await.expect(0);
    assert!(lines.out.contains("\"stream\":\"publisher/acme\"") && !lines.out.contains("(ada)"), "{}", lines.out);
}
