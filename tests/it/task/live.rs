//! Progress of running videos: reported, and not recorded.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mediary::environment::{CommitStep, Environment, FailPoint};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::stream::{Reader, Told};
use crate::support::vendor_sim::{Conduct, Kind};
use crate::support::{TestApp, client};
use crate::video::{Given, START_END, ended, of_prompt, vendor};

fn progress(view: &Value) -> f64 {
    view["progress"].as_f64().expect("a number")
}

#[actix_web::test]
async fn what_a_vendor_says_of_its_progress_is_told_live_and_never_falls() {
    // Given a vendor that reports progress for some seconds, once with a lower value
    let begun = OnceLock::new();
    let sim = vendor(Duration::ZERO, move |asked| {
        if asked.kind != Kind::Poll {
            return Conduct::Usual;
        }
        let seconds = begun.get_or_init(Instant::now).elapsed().as_secs_f64();
        if seconds > 4.0 {
            return Conduct::Usual;
        }
        let share = if asked.nth % 3 == 0 { 0.01 } else { (seconds / 4.0).min(1.0) };
        let answer = json!({"id": asked.id, "state": "processing", "progress": share, "creations": []});
        Conduct::Answer("200 OK", answer.to_string())
    })
    .await;
    let given = Given::with(sim, |_| {}).await;
    let task = given.submit(START_END, of_prompt("slowly")).await;
    let id = task["task_id"].as_str().expect("an id");
    // When the task is followed, and polled in between
    let url = given.app.url(&format!("/tasks/{id}/events"));
    let reader = Reader::open(&client(), &url, &given.alice.token, None).await;
    let reading = async {
        let mut read = Vec::new();
        loop {
            let token = &given.alice.token;
            let task = given.app.get_as(token, &format!("/tasks/{id}")).await.expect(200).json();
            let path = format!("/proxy/videovendor/tasks/{id}/creations");
            let creations = given.app.get_as(token, &path).await.expect(200).json();
            read.extend([progress(&task), progress(&creations)]);
            if task["state"] == "success" {
                return read;
            }
        }
    };
    let (told, read) = futures_util::future::join(reader.rest(), reading).await;
    // Then progress never decreases in either, and is 1 only at the end
    let shares: Vec<f64> = told.iter().map(|event| progress(&event.task)).collect();
    for values in [&shares, &read] {
        assert!(values.is_sorted(), "{values:?}");
        assert!(values.iter().any(|value| (0.51..=0.99).contains(value)), "{values:?}");
    }
    let live: Vec<_> = told.iter().filter(|event| event.name == "progress").collect();
    assert!((2..=5).contains(&live.len()), "{} in four seconds", live.len());
    assert!(live.iter().all(|event| event.id == 0 && event.task["state"] == "processing"));
    let whole: Vec<_> = told.iter().filter(|event| progress(&event.task) >= 1.0).map(Told::state).collect();
    assert_eq!(whole, [("change", "success")]);
    // And the log contains none of it
    let events =
        given.app.get_as(given.app.admin_token(), &format!("/admin/events?stream=task/{id}")).await.expect(200);
    assert_eq!(events.json()["events"].as_array().map(Vec::len), Some(6), "{}", events.text());
    given.app.stop().await;
}

/// Surroundings in which files are stored only after the sender is dropped.
fn held() -> (Environment, Sender<()>) {
    let (sender, receiver) = channel::<()>();
    let receiver = Mutex::new(receiver);
    let mishap = move |place, _: &str| {
        if place == FailPoint::After(CommitStep::MediaFileWritten) {
            let _ = receiver.lock().recv();
        }
    };
    (Environment::system().with_fail_point_handler(Arc::new(mishap)), sender)
}

#[actix_web::test]
async fn the_engine_inside_tells_how_many_pictures_are_drawn() {
    // Given a film that is drawn but not stored
    let (environment, hold) = held();
    let app = TestApp::start_with(|_| {}, environment).await;
    let alice = app.user("alice").await;
    let body = json!({"prompt": "a calm sea", "model": "vq1", "duration": 1, "resolution": "360p", "seed": 3});
    let task = app.post_as(&alice.token, START_END, body).await.expect(200).json();
    let id = task["task_id"].as_str().expect("an id");
    // When it is followed
    let mut reader = Reader::open(&client(), &app.url(&format!("/tasks/{id}/events")), &alice.token, None).await;
    let mut told = Vec::new();
    while !told.last().is_some_and(|event: &Told| (0.51..=0.99).contains(&progress(&event.task))) {
        told.push(reader.next().await.expect("it is not done"));
    }
    // Then a reader that resumes gets the recorded changes, followed by the current progress
    let mut again = Reader::open(&client(), &app.url(&format!("/tasks/{id}/events")), &alice.token, Some(0)).await;
    let mut replayed = vec![again.next().await.expect("its first change")];
    while replayed.last().is_some_and(|event: &Told| event.name == "change") {
        replayed.push(again.next().await.expect("it is not done"));
    }
    let now = replayed.pop().expect("an event");
    assert!(now.name == "progress" && progress(&now.task) > 0.5, "{} {}", now.name, now.task);
    let changes: Vec<_> = replayed.iter().map(|event| (event.state().1, progress(&event.task))).collect();
    assert_eq!(changes, [("created", 0.1), ("queueing", 0.1), ("processing", 0.5)]);
    // And it gets further progress, and the complete task at the end
    drop(hold);
    told.extend(reader.rest().await);
    ended(&app, id).await;
    let shares: Vec<f64> = told.iter().map(|event| progress(&event.task)).collect();
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!(told.last().map(Told::state), Some(("change", "success")));
    app.stop().await;
}
