//! Progress of running videos: reported, and not recorded.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mediary::environment::{CommitStep, Environment, FailPoint};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::stream::{ReceivedTaskEvent, TaskStreamReader};
use crate::support::eventually::eventually;
use crate::support::vendor_sim::{SimBehavior, SimRequestKind};
use crate::support::{TestApp, client};
use crate::video::{START_END, VideoFixture, of_prompt, vendor, wait_for_task_end};

fn progress(view: &Value) -> f64 {
    view["progress"].as_f64().expect("a number")
}

#[actix_web::test]
async fn vendor_progress_is_reported_live_and_never_decreases() {
    // Given a vendor that reports progress for some seconds, once with a lower value
    let started_at = OnceLock::new();
    let sim = vendor(Duration::ZERO, move |request| {
        if request.kind != SimRequestKind::Poll {
            return SimBehavior::Normal;
        }
        let seconds = started_at.get_or_init(Instant::now).elapsed().as_secs_f64();
        if seconds > 8.0 {
            return SimBehavior::Normal;
        }
        let share = if request.count % 3 == 0 { 0.01 } else { (seconds / 8.0).min(1.0) };
        let response = json!({"id": request.id, "state": "processing", "progress": share, "creations": []});
        SimBehavior::Respond("200 OK", response.to_string())
    })
    .await;
    let fixture = VideoFixture::with_vendor(sim, |_| {}).await;
    let task = fixture.submit(START_END, of_prompt("slowly")).await;
    let id = task["task_id"].as_str().expect("an id");

    // When the task is followed, and polled in between
    let url = fixture.app.url(&format!("/tasks/{id}/events"));
    let reader = TaskStreamReader::open(&client(), &url, &fixture.alice.token, None).await;
    let mut progress_read = Vec::new();
    let polling = eventually("the task succeeds", async || {
        let token = &fixture.alice.token;
        let task = fixture.app.get_as(token, &format!("/tasks/{id}")).await.expect(200).json();
        let path = format!("/proxy/videovendor/tasks/{id}/creations");
        let creations = fixture.app.get_as(token, &path).await.expect(200).json();
        progress_read.extend([progress(&task), progress(&creations)]);
        task["state"] == "success"
    });
    let (stream_events, ()) = futures_util::future::join(reader.collect(), polling).await;

    // Then progress never decreases in either, and is 1 only at the end
    let shares: Vec<f64> = stream_events.iter().map(|event| progress(&event.task)).collect();
    for values in [&shares, &progress_read] {
        assert!(values.is_sorted(), "{values:?}");
        assert!(values.iter().any(|value| (0.11..=0.99).contains(value)), "{values:?}");
    }
    let live: Vec<_> = stream_events.iter().filter(|event| event.name == "progress").collect();
    assert!((2..=9).contains(&live.len()), "{} in eight seconds", live.len());
    assert!(live.iter().all(|event| event.id == 0 && event.task["state"] == "processing"));
    let complete_states: Vec<_> =
        stream_events.iter().filter(|event| progress(&event.task) >= 1.0).map(ReceivedTaskEvent::state).collect();
    assert_eq!(complete_states, [("change", "success")]);

    // And the log contains none of it
    let events =
        fixture.app.get_as(fixture.app.admin_token(), &format!("/admin/events?stream=task/{id}")).await.expect(200);
    assert_eq!(events.json()["events"].as_array().map(Vec::len), Some(6), "{}", events.text());
    fixture.app.stop().await;
}

/// Returns an environment in which files are stored only after the sender is dropped.
fn held_environment() -> (Environment, Sender<()>) {
    let (sender, receiver) = channel::<()>();
    let receiver = Mutex::new(receiver);
    let handler = move |point, _: &str| {
        if point == FailPoint::After(CommitStep::MediaFileWritten) {
            let _ = receiver.lock().recv();
        }
    };
    (Environment::system().with_fail_point_handler(Arc::new(handler)), sender)
}

#[actix_web::test]
async fn the_built_in_engine_reports_rendered_frames() {
    // Given a video that is drawn but not stored
    let (environment, hold) = held_environment();
    let app = TestApp::start_with(|_| {}, environment).await;
    let alice = app.user("alice").await;
    let body = json!({"prompt": "a calm sea", "model": "vq1", "duration": 1, "resolution": "360p", "seed": 3});
    let task = app.post_as(&alice.token, START_END, body).await.expect(200).json();
    let id = task["task_id"].as_str().expect("an id");

    // When it is followed
    let mut reader =
        TaskStreamReader::open(&client(), &app.url(&format!("/tasks/{id}/events")), &alice.token, None).await;
    let mut events = Vec::new();
    while !events.last().is_some_and(|event: &ReceivedTaskEvent| (0.51..=0.99).contains(&progress(&event.task))) {
        events.push(reader.next().await.expect("the task is still running"));
    }

    // Then a reader that resumes gets the recorded changes, followed by the current progress
    let mut second_reader =
        TaskStreamReader::open(&client(), &app.url(&format!("/tasks/{id}/events")), &alice.token, Some(0)).await;
    let mut replayed = vec![second_reader.next().await.expect("the first change of the task")];
    while replayed.last().is_some_and(|event: &ReceivedTaskEvent| event.name == "change") {
        replayed.push(second_reader.next().await.expect("the task is still running"));
    }
    let now = replayed.pop().expect("an event");
    assert!(now.name == "progress" && progress(&now.task) > 0.1, "{} {}", now.name, now.task);
    let changes: Vec<_> = replayed.iter().map(|event| (event.state().1, progress(&event.task))).collect();
    assert_eq!(changes, [("created", 0.05), ("queueing", 0.05), ("processing", 0.1)]);

    // And it gets further progress, and the complete task at the end
    drop(hold);
    events.extend(reader.collect().await);
    wait_for_task_end(&app, id).await;
    let shares: Vec<f64> = events.iter().map(|event| progress(&event.task)).collect();
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!(events.last().map(ReceivedTaskEvent::state), Some(("change", "success")));
    app.stop().await;
}
