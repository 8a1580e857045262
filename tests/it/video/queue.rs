//! Order in which waiting tasks are sent to the vendor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{REFERENCE, VideoFixture, vendor};
use crate::support::eventually::eventually_on;
use crate::support::vendor_sim::{SimBehavior, SimRequest, SimRequestKind};

fn job(prompt: &str, priority: i32, off_peak: bool) -> Value {
    json!({"prompt": prompt, "priority": priority, "off_peak": off_peak, "model": "vq2-turbo", "duration": 1})
}

/// Starts a service with one slot, which the video "first" holds until the returned gate is set to `true`. Returns also
/// the response to the submission of that video.
async fn gated_fixture() -> (VideoFixture, Arc<AtomicBool>, Value) {
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let behavior = move |request: &SimRequest| match request.kind {
        SimRequestKind::Poll if request.prompt == "first" && !gate.load(Ordering::SeqCst) => {
            let body = json!({"id": request.id, "state": "processing", "err_code": "", "creations": []});
            SimBehavior::Respond("200 OK\r\ncontent-type: application/json", body.to_string())
        }
        _ => SimBehavior::Normal,
    };
    let fixture =
        VideoFixture::with_vendor(vendor(Duration::ZERO, behavior).await, |settings| settings.video.slots = 1).await;

    // A video counts as queued until its acceptance is recorded.
    let first = fixture.submit(REFERENCE, job("first", 0, false)).await;
    let changes = fixture.app.app.models().task_changes();
    let path = queue_path(&first);
    let is_accepted = async || {
        let task = fixture.app.get_as(&fixture.alice.token, &path).await.expect(200).json();
        task["vendor"]["reference"].is_string()
    };
    eventually_on(changes, "the vendor has the first video", is_accepted).await;
    (fixture, open, first)
}

fn queue_path(task: &Value) -> String {
    format!("/tasks/{}", task["task_id"].as_str().unwrap())
}

#[actix_web::test]
async fn a_backlog_of_one_account_delays_another_by_one_job() {
    // Given one account with many urgent jobs, and then another with one that is not urgent
    let (fixture, open, first) = gated_fixture().await;
    let bob = fixture.app.user("bob").await;
    let mut tasks = vec![first];
    for prompt in ["one", "two", "three"] {
        tasks.push(fixture.submit(REFERENCE, job(prompt, 9, false)).await);
    }
    let other = fixture.app.post_as(&bob.token, REFERENCE, job("bob's", 0, false)).await.expect(200).json();
    let task_body = fixture.app.get_as(&bob.token, &queue_path(&other)).await.expect(200).json();
    assert_eq!(task_body["queue_position"], 2);

    // When the slot is free
    open.store(true, Ordering::SeqCst);
    for task in &tasks {
        fixture.wait_for_end(task).await;
    }

    // Then the other account is next
    let prompts_in_order: Vec<_> = fixture.sim.charges().into_iter().map(|charge| charge.prompt).collect();
    assert_eq!(prompts_in_order, ["first", "bob's", "one", "two", "three"]);
    fixture.app.stop().await;
}

#[actix_web::test]
async fn videos_are_ordered_by_priority_then_age_with_off_peak_last() {
    // Given one slot, which a video holds until all jobs have been submitted
    let (fixture, open, first) = gated_fixture().await;

    // When they are submitted in an order that differs from their priority
    let jobs =
        [("off peak", 9, true), ("usual", 0, false), ("urgent", 2, false), ("later", 0, false), ("least", -1, false)];
    let mut tasks = Vec::new();
    for (prompt, priority, off_peak) in jobs {
        tasks.push(fixture.submit(REFERENCE, job(prompt, priority, off_peak)).await);
    }
    let last = fixture.app.get_as(&fixture.alice.token, &queue_path(&tasks[0])).await.expect(200).json();
    assert_eq!(last["queue_position"], 5);
    open.store(true, Ordering::SeqCst);

    // Then the vendor gets them one by one in order of priority
    for task in tasks.iter().chain([&first]) {
        fixture.wait_for_end(task).await;
    }
    let prompts_in_order: Vec<_> = fixture.sim.charges().into_iter().map(|charge| charge.prompt).collect();
    assert_eq!(prompts_in_order, ["first", "urgent", "usual", "later", "least", "off peak"]);
    fixture.app.stop().await;
}
