//! History of the service: samples of the running service, across restarts, gaps, and damaged files.

use std::path::Path;
use std::time::Duration;

use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::metrics::wait_for_task_duration;
use crate::support::TestApp;
use crate::support::eventually::eventually;
use crate::support::picture::base64_png;

/// Half a minute after a full one.
const START: i64 = 1_800_000_030_000_000;

fn clock() -> Environment {
    Environment::manual(Timestamp::from_micros(START), 7)
}

async fn history(app: &TestApp, minutes: u16) -> Value {
    app.get_as(app.admin_token(), &format!("/admin/state/history?minutes={minutes}")).await.expect(200).json()
}

/// Returns the values of a column.
fn values<'h>(history: &'h Value, name: &str, label: Option<&str>) -> &'h Value {
    let columns = history["columns"].as_array().expect("columns");
    let is_wanted = |column: &&Value| column["name"] == name && column["label"].as_str() == label;
    &columns.iter().find(is_wanted).unwrap_or_else(|| panic!("{name} {label:?} is missing in {history}"))["values"]
}

/// Moves the clock one minute forward and waits for the sample.
async fn next_minute(app: &TestApp, clock: &Environment) {
    clock.advance(Duration::from_mins(1));
    let is_sampled = async || !values(&history(app, 1).await, "log_position", None)[0].is_null();
    // The window of one minute ends with the previous minute until the sample is taken.
    let at = Timestamp::from_micros(clock.now().micros() / 60_000_000 * 60_000_000).to_string();
    eventually("the minute is sampled", async || history(app, 1).await["from"] == *at && is_sampled().await).await;
}

async fn head(app: &TestApp) -> Value {
    app.get_as(app.admin_token(), "/admin/state").await.expect(200).json()["log"]["head"].clone()
}

#[actix_web::test]
async fn the_history_survives_a_restart_and_keeps_the_gap() {
    // Given a service in which a picture is made in the first minute and nothing in the second
    let clock = clock();
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    let alice = app.user("alice").await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": base64_png(4, 4)})).await;
    assert_eq!(wait_for_end(&app, &alice, UPSCALER, &task).await["status"], "COMPLETED");
    wait_for_task_duration(&app, "image-upscaler").await;
    next_minute(&app, &clock).await;
    let first_head = head(&app).await;
    next_minute(&app, &clock).await;

    let before = history(&app, 3).await;
    assert_eq!(before["step"], 60);
    assert_eq!(*values(&before, "tasks_submitted", None), json!([null, 1, 0]));
    assert_eq!(*values(&before, "tasks_completed", None), json!([null, 1, 0]));
    assert_eq!(*values(&before, "queue", Some("tasks")), json!([null, 0, 0]));
    // The use of the token may be recorded after the sample.
    let sampled_head = values(&before, "log_position", None)[1].clone();
    assert!(sampled_head.is_u64() && sampled_head.as_u64() <= first_head.as_u64(), "{sampled_head} {first_head}");
    assert!(values(&before, "task_duration_p95", None)[1].is_number(), "{before}");
    assert!(values(&before, "requests", None)[1].as_u64() > Some(0), "{before}");
    let circuits = before["circuits"].as_array().unwrap();
    assert!(circuits.len() == 3 && circuits.iter().all(|vendor| vendor["values"] == json!([null, "closed", "closed"])));

    // When it is stopped for three minutes and started again
    let dir = app.stop().await;
    clock.advance(Duration::from_mins(3));
    let app = TestApp::start_in(dir, |_| {}, clock.clone()).await;
    next_minute(&app, &clock).await;

    // Then the old minutes are as they were, and those of the stop are a gap
    let after = history(&app, 6).await;
    assert_eq!(*values(&after, "tasks_completed", None), json!([1, 0, null, null, null, 0]));
    assert_eq!(values(&after, "log_position", None)[0], sampled_head);
    let circuit = &after["circuits"][0]["values"];
    assert_eq!(*circuit, json!(["closed", "closed", null, null, null, "closed"]));
    app.stop().await;
}

#[actix_web::test]
async fn an_unusable_file_is_ignored() {
    // Given the directory of a service with a history
    let clock = clock();
    let app = TestApp::start_with(|_| {}, clock.clone()).await;
    next_minute(&app, &clock).await;
    let mut dir = app.stop().await;
    let path = |dir: &Path| dir.join("metrics-history");
    let good = std::fs::read(path(dir.path())).expect("the file is written by a stop");
    let text = String::from_utf8(good.clone()).unwrap();
    let mut damaged = good.clone();
    let last = damaged.len() - 3;
    damaged[last] ^= 1;
    for bytes in [damaged, text.replacen(" 1 ", " 9 ", 1).into_bytes(), Vec::new(), vec![0xff; 100]] {
        // When the file is damaged or of another release
        std::fs::write(path(dir.path()), bytes).unwrap();

        // Then the service starts with an empty history and samples again
        let app = TestApp::start_in(dir, |_| {}, clock.clone()).await;
        assert_eq!(*values(&history(&app, 2).await, "log_position", None), json!([null, null]));
        next_minute(&app, &clock).await;
        dir = app.stop().await;
    }

    // And the next start has that sample
    let app = TestApp::start_in(dir, |_| {}, clock.clone()).await;
    assert!(values(&history(&app, 1).await, "log_position", None)[0].is_number());
    app.stop().await;
}

#[actix_web::test]
async fn invalid_periods_are_rejected() {
    let app = TestApp::start().await;
    for bad in ["0", "1441", "-1", "1.5", "", "x", "99999999999999999999"] {
        let path = format!("/admin/state/history?minutes={bad}");
        let problem = app.get_as(app.admin_token(), &path).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/minutes", "{problem}");
        assert_eq!(problem["errors"][0]["reason"], "must be an integer from 1 to 1440");
    }
    let whole = app.get_as(app.admin_token(), "/admin/state/history").await.expect(200).json();
    assert_eq!(values(&whole, "requests", None).as_array().map(Vec::len), Some(1440));
    app.stop().await;
}
