//! Panics of background threads: they are reported, and a restart finds all durable data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mediary::environment::{CommitStep, Environment, FailPoint};
use serde_json::json;

use crate::support::TestApp;
use crate::support::eventually::eventually;

#[actix_web::test]
async fn the_death_of_the_writer_is_reported_and_a_restart_recovers() {
    // Given a service whose writer dies after a commit is durable and before the response
    let armed = Arc::new(AtomicBool::new(false));
    let dies = Arc::clone(&armed);
    let handler = move |point, _: &str| {
        assert!(point != FailPoint::After(CommitStep::Projected) || !dies.load(Ordering::SeqCst), "made to fail");
    };
    let app = TestApp::start_with(|_| {}, Environment::system().with_fail_point_handler(Arc::new(handler))).await;
    app.get("/ready").await.expect(200);
    armed.store(true, Ordering::SeqCst);

    // When a command is sent, then the client learns that the outcome is unknown
    let token = app.admin_token().to_owned();
    app.post_as(&token, "/publishers", json!({"id": "acme"})).await.expect(500);

    // And the service reports that it accepts no changes, while reads continue
    eventually("the service is not ready", async || app.get("/ready").await.status == 503).await;
    app.post_as(&token, "/publishers", json!({"id": "beta"})).await.expect(503);
    app.get("/nodes").await.expect(200);

    // And the next start has exactly the durable data
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;
    app.get("/publishers/acme").await.expect(200);
    app.get("/publishers/beta").await.expect(404);
    app.stop().await;
}
