//! Credits: held, charged and released.

use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{START_END, VideoFixture, made_by, of_prompt, vendor, wait_for_task_end};
use crate::support::TestApp;
use crate::support::vendor_sim::{SimBehavior, SimRequest, SimRequestKind};

/// Returns the behaviour of a vendor by prompt: rejects some jobs, and never completes others.
pub fn behavior(request: &SimRequest) -> SimBehavior {
    let status_reply = |state: &str| {
        let body = json!({"id": request.id, "state": state, "err_code": "too_dark", "creations": []});
        SimBehavior::Respond("200 OK\r\ncontent-type: application/json", body.to_string())
    };
    match (request.kind, request.prompt.as_str()) {
        (SimRequestKind::Submission, "refused") => SimBehavior::Reject("400 Bad", "{}".to_owned()),
        (SimRequestKind::Poll, "failed") => status_reply("failed"),
        (SimRequestKind::Poll, "lasting") => status_reply("processing"),
        _ => SimBehavior::Normal,
    }
}

fn sums(ledger: &Value) -> [i64; 4] {
    ["balance", "held", "charged", "refunded"].map(|name| ledger[name].as_i64().expect("a number"))
}

#[actix_web::test]
async fn credits_are_held_charged_or_refunded_across_a_restart() {
    let sim = vendor(Duration::ZERO, behavior).await;
    let fixture = VideoFixture::with_vendor(sim, |_| {}).await;

    // Given a completed task, two failed ones, and two running ones of which one is cancelled; each costs 8
    let mut tasks = Vec::new();
    for prompt in ["done", "refused", "failed", "lasting", "lasting"] {
        tasks.push(fixture.submit(START_END, of_prompt(prompt)).await);
    }
    for task in &tasks[..3] {
        fixture.wait_for_end(task).await;
    }
    assert_eq!(sums(&fixture.credits().await), [-24, 16, 8, 16]);
    let path = |index: usize| format!("/proxy/videovendor/tasks/{}/cancel", tasks[index]["task_id"].as_str().unwrap());
    for _ in 0..2 {
        // A second cancellation has no effect, and a completed task stays charged.
        fixture.app.post_as(&fixture.alice.token, &path(4), json!({})).await.expect(200);
        fixture.app.post_as(&fixture.alice.token, &path(0), json!({})).await.expect(200);
    }
    let ledger = fixture.credits().await;
    assert_eq!(sums(&ledger), [-16, 8, 8, 24]);

    // Then the ledger has an entry for each, newest first
    let states: Vec<_> = ledger["entries"].as_array().unwrap().iter().map(|entry| entry["state"].clone()).collect();
    assert_eq!(json!(states), json!(["refunded", "held", "refunded", "refunded", "charged"]));

    let VideoFixture { app, sim, alice } = fixture;
    let base = sim.base();
    let app = TestApp::start_in(app.stop().await, |settings| made_by(settings, &base), Environment::system()).await;
    assert_eq!(app.get_as(&alice.token, "/users/credits").await.expect(200).json(), ledger);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn a_ledger_is_read_page_by_page_by_its_owner_and_by_administrators() {
    let fixture = VideoFixture::start().await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let task = fixture.submit(START_END, of_prompt("p")).await["task_id"].as_str().unwrap().to_owned();
        wait_for_task_end(&fixture.app, &task).await;
        tasks.insert(0, json!(task));
    }
    let mut entries_seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/users/credits?limit=2{cursor}");
        let page = fixture.app.get_as(&fixture.alice.token, &path).await.expect(200).json();
        entries_seen.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["task_id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(entries_seen, tasks);

    let alices_credits = format!("/users/credits?user={}", fixture.alice.id);
    let bob = fixture.app.user("bob").await;
    fixture.app.get_as(&bob.token, &alices_credits).await.expect(403);
    fixture.app.get("/users/credits").await.expect(401);
    let seen_by_admin = fixture.app.get_as(fixture.app.admin_token(), &alices_credits).await.expect(200).json();
    assert_eq!(seen_by_admin["charged"], 40);
    assert_eq!(sums(&fixture.app.get_as(&bob.token, "/users/credits").await.expect(200).json()), [0; 4]);
    fixture.app.stop().await;
}
