//! Order in which waiting tasks are sent to the vendor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Given, REFERENCE, vendor};
use crate::support::vendor_sim::{Asked, Conduct, Kind};

fn job(prompt: &str, priority: i32, off_peak: bool) -> Value {
    json!({"prompt": prompt, "priority": priority, "off_peak": off_peak, "model": "vq2-turbo", "duration": 1})
}

/// Service with one slot, which the video "first" holds until the gate is open.
async fn gated() -> (Given, Arc<AtomicBool>, Value) {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let conduct = move |asked: &Asked| match asked.kind {
        Kind::Poll if asked.prompt == "first" && !gate.load(Ordering::SeqCst) => {
            let body = json!({"id": asked.id, "state": "processing", "err_code": "", "creations": []});
            Conduct::Answer("200 OK\r\ncontent-type: application/json", body.to_string())
        }
        _ => Conduct::Usual,
    };
    let given = Given::with(vendor(Duration::ZERO, conduct).await, |settings| settings.video.slots = 1).await;
    let first = given.submit(REFERENCE, job("first", 0, false)).await;
    let mut changes = given.app.app.models().task_changes();
    while given.sim.charges().is_empty() {
        changes.changed().await.expect("the service lives");
    }
    (given, open, first)
}

fn place(task: &Value) -> String {
    format!("/tasks/{}", task["task_id"].as_str().unwrap())
}

#[actix_web::test]
async fn a_backlog_of_one_account_delays_another_by_one_job() {
    // Given one account with many urgent jobs, and then another with one that is not urgent
    let (given, open, first) = gated().await;
    let bob = given.app.user("bob").await;
    let mut tasks = vec![first];
    for prompt in ["one", "two", "three"] {
        tasks.push(given.submit(REFERENCE, job(prompt, 9, false)).await);
    }
    let other = given.app.post_as(&bob.token, REFERENCE, job("bob's", 0, false)).await.expect(200).json();
    let told = given.app.get_as(&bob.token, &place(&other)).await.expect(200).json();
    assert_eq!(told["queue_position"], 2);

    // When the slot is free
    open.store(true, Ordering::SeqCst);
    for task in &tasks {
        given.ended(task).await;
    }

    // Then the other account is next
    let made: Vec<_> = given.sim.charges().into_iter().map(|charge| charge.prompt).collect();
    assert_eq!(made, ["first", "bob's", "one", "two", "three"]);
    given.app.stop().await;
}

#[actix_web::test]
async fn high_priority_goes_first_then_age_and_what_is_off_peak_last() {
    // Given one slot, which a video holds until all jobs have been submitted
    let (given, open, first) = gated().await;
    // When they are submitted in an order that differs from their priority
    let jobs =
        [("off peak", 9, true), ("usual", 0, false), ("urgent", 2, false), ("later", 0, false), ("least", -1, false)];
    let mut tasks = Vec::new();
    for (prompt, priority, off_peak) in jobs {
        tasks.push(given.submit(REFERENCE, job(prompt, priority, off_peak)).await);
    }
    let last = given.app.get_as(&given.alice.token, &place(&tasks[0])).await.expect(200).json();
    assert_eq!(last["queue_position"], 5);
    open.store(true, Ordering::SeqCst);
    // Then the vendor gets them one by one in order of priority
    for task in tasks.iter().chain([&first]) {
        given.ended(task).await;
    }
    let made: Vec<_> = given.sim.charges().into_iter().map(|charge| charge.prompt).collect();
    assert_eq!(made, ["first", "urgent", "usual", "later", "least", "off peak"]);
    given.app.stop().await;
}
