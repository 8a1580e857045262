//! Panics where none should be: what dies is told, and a restart finds all that was durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mediary::clock::{Place, Step, Surroundings};
use serde_json::json;

use crate::support::TestApp;

#[actix_web::test]
async fn the_writers_death_is_told_and_a_restart_finds_what_was_durable() {
    // Given a service whose writer is about to die, after a commit is durable and before it is answered
    let armed = Arc::new(AtomicBool::new(false));
    let dies = Arc::clone(&armed);
    let mishap = move |place, _: &str| {
        assert!(place != Place::After(Step::Projected) || !dies.load(Ordering::SeqCst), "made to fail");
    };
    let app = TestApp::start_with(|_| {}, Surroundings::real().with_mishap(Arc::new(mishap))).await;
    app.get("/ready").await.expect(200);
    armed.store(true, Ordering::SeqCst);
    // When a command is given, then its caller is told that its outcome is not known
    let token = app.admin_token().to_owned();
    app.post_as(&token, "/publishers", json!({"id": "acme"})).await.expect(500);
    // And the service says that it takes no more changes, while reads go on
    let deadline = Instant::now() + Duration::from_mins(1);
    while app.get("/ready").await.status != 503 {
        assert!(Instant::now() < deadline, "the service calls itself ready without a writer");
    }
    app.post_as(&token, "/publishers", json!({"id": "beta"})).await.expect(503);
    app.get("/nodes").await.expect(200);
    // And the next start has what was durable, and nothing else
    let dir = app.stop().await;
    let app = TestApp::start_in(dir, |_| {}, Surroundings::real()).await;
    app.get("/publishers/acme").await.expect(200);
    app.get("/publishers/beta").await.expect(404);
    app.stop().await;
}
