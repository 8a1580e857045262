//! Permissions to submit and read tasks, and the limit of unfinished tasks.

use std::sync::Arc;

use futures_util::future::join_all;
use mediary::environment::{Environment, FailPoint};
use serde_json::json;

use super::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, submit};
use crate::support::TestApp;
use crate::support::picture::base64_png;

#[actix_web::test]
async fn only_the_owner_and_administrators_see_a_task() {
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let task = submit(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8)})).await;
    let path = format!("{UPSCALER}/{task}");
    app.get_as(&alice.token, &path).await.expect(200);
    app.get_as(app.admin_token(), &path).await.expect(200);
    app.get_as(&bob.token, &path).await.expect(404);
    for unknown in ["nonsense", "00000000-0000-4000-8000-00000000abcd"] {
        app.get_as(&alice.token, &format!("{UPSCALER}/{unknown}")).await.expect(404);
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_task_is_served_only_by_its_own_endpoint_family() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let creative = format!("{SKIN}/creative");
    for (submitted, read_path) in [
        (UPSCALER, &[UPSCALER, PRECISION][..]),
        (PRECISION, &[UPSCALER, PRECISION]),
        (STYLE, &[STYLE]),
        (creative.as_str(), &[SKIN]),
        (RELIGHT, &[RELIGHT]),
    ] {
        let task = submit(&app, &alice, submitted, json!({"image": base64_png(8, 8)})).await;
        for path in [UPSCALER, PRECISION, STYLE, SKIN, RELIGHT] {
            let response = app.get_as(&alice.token, &format!("{path}/{task}")).await;
            let status = if read_path.contains(&path) { 200 } else { 404 };
            assert_eq!(response.status, status, "a task of {submitted} at {path}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn unfinished_tasks_are_limited_for_each_caller_even_when_submitted_at_once() {
    // The poller never starts, so every task stays unfinished.
    let handler = |point, _: &str| assert!(point != FailPoint::Reactor, "made to fail");
    let environment = Environment::system().with_fail_point_handler(Arc::new(handler));
    let app = TestApp::start_with(|settings| settings.limits.submissions_per_caller = 3, environment).await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let submission = json!({"image": base64_png(8, 8)});
    let responses = join_all((0..8).map(|_| app.post_as(&alice.token, UPSCALER, submission.clone()))).await;

    let accepted = responses.iter().filter(|response| response.status == 200).count();
    let rejected: Vec<_> = responses.iter().filter(|response| response.status == 429).collect();
    assert_eq!((accepted, rejected.len()), (3, 5));
    assert!(rejected.iter().all(|response| response.header("retry-after").is_some()), "a 429 lacks Retry-After");
    app.post_as(&bob.token, UPSCALER, submission).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn approval_can_be_required() {
    let app = TestApp::start_with(|settings| settings.auth.require_approval = true, Environment::system()).await;
    let alice = app.user("alice").await;
    let submission = json!({"image": base64_png(8, 8)});
    let problem = app.post_as(&alice.token, UPSCALER, submission.clone()).await.expect(403).json();
    assert_eq!(problem["error"], "approval_required");
    app.post_as(app.admin_token(), UPSCALER, submission).await.expect(200);
    app.stop().await;
}
