//! The order in which tasks that wait are handed over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Given, REFERENCE, vendor};
use crate::support::vendor_sim::{Conduct, Kind};

fn job(prompt: &str, priority: i32, off_peak: bool) -> Value {
    json!({"prompt": prompt, "priority": priority, "off_peak": off_peak, "model": "vq2-turbo", "duration": 1})
}

#[actix_web::test]
async fn high_priority_goes_first_then_age_and_what_is_off_peak_last() {
    // Given one slot, and a vendor that is busy until all have been submitted
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let conduct = move |asked: &crate::support::vendor_sim::Asked| match asked.kind {
        Kind::Submission if !gate.load(Ordering::SeqCst) => Conduct::Refuse("503 Busy", String::new()),
        _ => Conduct::Usual,
    };
    let given = Given::with(vendor(Duration::ZERO, conduct).await, |settings| settings.video.slots = 1).await;
    // When they are submitted in another order than they are to be made
    let jobs =
        [("off peak", 9, true), ("usual", 0, false), ("urgent", 2, false), ("later", 0, false), ("least", -1, false)];
    let mut tasks = Vec::new();
    for (prompt, priority, off_peak) in jobs {
        tasks.push(given.submit(REFERENCE, job(prompt, priority, off_peak)).await);
    }
    let place = |task: &Value| format!("/tasks/{}", task["task_id"].as_str().unwrap());
    let last = given.app.get_as(&given.alice.token, &place(&tasks[0])).await.expect(200).json();
    assert_eq!(last["queue_position"], 5);
    open.store(true, Ordering::SeqCst);
    // Then the vendor gets them one after the other in that order
    for task in &tasks {
        given.ended(task).await;
    }
    let made: Vec<_> = given.sim.charges().into_iter().map(|charge| charge.prompt).collect();
    assert_eq!(made, ["urgent", "usual", "later", "least", "off peak"]);
    given.app.stop().await;
}
