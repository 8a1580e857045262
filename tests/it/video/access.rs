//! Permissions to use the video gateway and to read its tasks.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{REFERENCE, START_END, VideoFixture, of_prompt, vendor};
use crate::support::TestApp;
use crate::support::vendor_sim::SimBehavior;

#[actix_web::test]
async fn a_remote_vendor_works_for_callers_with_a_token_only() {
    let fixture = VideoFixture::start().await;
    for path in [START_END, REFERENCE] {
        let problem = fixture.app.post(path, of_prompt("p")).await.expect(401);
        assert_eq!(problem.json()["error"], "unauthorized");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn other_users_videos_are_404_except_for_administrators() {
    let fixture = VideoFixture::start().await;
    let task = fixture.submit(START_END, of_prompt("p")).await;
    fixture.wait_for_end(&task).await;
    let bob = fixture.app.user("bob").await;
    let id = task["task_id"].as_str().unwrap();

    for (method, path) in [(Method::GET, "creations"), (Method::POST, "cancel")] {
        let path = format!("/proxy/videovendor/tasks/{id}/{path}");
        let send_as = |token: Option<&str>| {
            let request = fixture.app.request(method.clone(), &path).json(&json!({}));
            fixture.app.send(if let Some(token) = token { request.bearer_auth(token) } else { request })
        };
        assert_eq!((send_as(None).await.status, send_as(Some(&bob.token)).await.status), (404, 404), "{path}");
        assert_eq!(send_as(Some(fixture.app.admin_token())).await.status, 200, "{path}");
    }
    fixture.app.stop().await;
}

#[actix_web::test]
async fn tasks_of_other_gateways_are_404() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;

    let picture = json!({"image": crate::support::picture::base64_png(4, 4)});
    let task = crate::image::submit(&app, &alice, crate::image::UPSCALER, picture).await;
    app.get_as(&alice.token, &format!("/proxy/videovendor/tasks/{task}/creations")).await.expect(404);
    app.stop().await;
}

#[actix_web::test]
async fn unfinished_videos_are_limited_per_caller() {
    let sim = vendor(Duration::from_hours(1), |_| SimBehavior::Normal).await;
    let fixture = VideoFixture::with_vendor(sim, |settings| settings.limits.submissions_per_caller = 2).await;
    fixture.submit(START_END, of_prompt("a")).await;
    let second = fixture.submit(START_END, of_prompt("b")).await;

    let problem = fixture.app.post_as(&fixture.alice.token, START_END, of_prompt("c")).await.expect(429);
    assert_eq!(problem.json()["error"], "too_many_submissions");

    let cancel = format!("/proxy/videovendor/tasks/{}/cancel", second["task_id"].as_str().unwrap());
    fixture.app.post_as(&fixture.alice.token, &cancel, json!({})).await.expect(200);
    fixture.submit(START_END, of_prompt("c")).await;
    fixture.app.stop().await;
}
