//! Credits: held, charged and released.

use std::time::Duration;

use mediary::environment::Environment;
use serde_json::{Value, json};

use super::{Given, START_END, ended, made_by, of_prompt, vendor};
use crate::support::TestApp;
use crate::support::vendor_sim::{Asked, Conduct, Kind};

/// Vendor behaviour by prompt: rejects some jobs, and never completes others.
pub fn conduct(asked: &Asked) -> Conduct {
    let told = |state: &str| {
        let body = json!({"id": asked.id, "state": state, "err_code": "too_dark", "creations": []});
        Conduct::Answer("200 OK\r\ncontent-type: application/json", body.to_string())
    };
    match (asked.kind, asked.prompt.as_str()) {
        (Kind::Submission, "refused") => Conduct::Refuse("400 Bad", "{}".to_owned()),
        (Kind::Poll, "failed") => told("failed"),
        (Kind::Poll, "lasting") => told("processing"),
        _ => Conduct::Usual,
    }
}

fn sums(ledger: &Value) -> [i64; 4] {
    ["balance", "held", "charged", "refunded"].map(|name| ledger[name].as_i64().expect("a number"))
}

#[actix_web::test]
async fn credits_are_held_then_charged_or_given_back_and_a_restart_changes_nothing() {
    let sim = vendor(Duration::ZERO, conduct).await;
    let given = Given::with(sim, |_| {}).await;
    // Given a completed task, two failed ones, and two running ones of which one is cancelled; each costs 8
    let mut tasks = Vec::new();
    for prompt in ["done", "refused", "failed", "lasting", "lasting"] {
        tasks.push(given.submit(START_END, of_prompt(prompt)).await);
    }
    for task in &tasks[..3] {
        given.ended(task).await;
    }
    assert_eq!(sums(&given.credits().await), [-24, 16, 8, 16]);
    let path = |nth: usize| format!("/proxy/videovendor/tasks/{}/cancel", tasks[nth]["task_id"].as_str().unwrap());
    for _ in 0..2 {
        // A second cancellation has no effect, and a completed task stays charged.
        given.app.post_as(&given.alice.token, &path(4), json!({})).await.expect(200);
        given.app.post_as(&given.alice.token, &path(0), json!({})).await.expect(200);
    }
    let ledger = given.credits().await;
    assert_eq!(sums(&ledger), [-16, 8, 8, 24]);
    // Then the ledger has an entry for each, newest first
    let states: Vec<_> = ledger["entries"].as_array().unwrap().iter().map(|entry| entry["state"].clone()).collect();
    assert_eq!(json!(states), json!(["refunded", "held", "refunded", "refunded", "charged"]));

    let Given { app, sim, alice } = given;
    let base = sim.base();
    let app = TestApp::start_in(app.stop().await, |settings| made_by(settings, &base), Environment::system()).await;
    assert_eq!(app.get_as(&alice.token, "/users/credits").await.expect(200).json(), ledger);
    sim.finish_all();
    app.stop().await;
}

#[actix_web::test]
async fn a_ledger_is_read_page_by_page_by_its_owner_and_by_administrators() {
    let given = Given::usual().await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let task = given.submit(START_END, of_prompt("p")).await["task_id"].as_str().unwrap().to_owned();
        ended(&given.app, &task).await;
        tasks.insert(0, json!(task));
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/users/credits?limit=2{cursor}");
        let page = given.app.get_as(&given.alice.token, &path).await.expect(200).json();
        seen.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["task_id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, tasks);

    let of_alice = format!("/users/credits?user={}", given.alice.id);
    let bob = given.app.user("bob").await;
    given.app.get_as(&bob.token, &of_alice).await.expect(403);
    given.app.get("/users/credits").await.expect(401);
    let seen_by_admin = given.app.get_as(given.app.admin_token(), &of_alice).await.expect(200).json();
    assert_eq!(seen_by_admin["charged"], 40);
    assert_eq!(sums(&given.app.get_as(&bob.token, "/users/credits").await.expect(200).json()), [0; 4]);
    given.app.stop().await;
}
