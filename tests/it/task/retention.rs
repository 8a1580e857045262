//! Retention of files of completed tasks.

use std::time::Duration;

use mediary::config::Settings;
use mediary::domain::value::Timestamp;
use mediary::environment::Environment;
use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::eventually::eventually;
use crate::support::picture::base64_png;
use crate::support::{TestApp, TestResponse, TestUser};

const HOUR: Duration = Duration::from_hours(1);

/// Runs a task to its end and returns it as `GET /tasks/{task_id}` shows it.
async fn complete_task(app: &TestApp, user: &TestUser, width: u32) -> Value {
    let task = submit(app, user, UPSCALER, json!({"image": base64_png(width, 8)})).await;
    wait_for_end(app, user, UPSCALER, &task).await;
    app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json()
}

async fn result(app: &TestApp, task: &Value) -> TestResponse {
    let url = task["generated"][0].as_str().expect("a URL");
    app.get(url.strip_prefix(&app.url("")).expect("a URL of this service")).await
}

/// Requests the result until it is gone.
async fn result_is_gone(app: &TestApp, task: &Value) -> TestResponse {
    eventually("the result is gone", async || {
        let response = result(app, task).await;
        (response.status != 200).then_some(response)
    })
    .await
}

#[actix_web::test]
async fn expired_files_are_removed_unless_shared_with_a_newer_task() {
    // Given a retention of a day, two tasks that share their files, 12 hours apart, and one with its own files
    let environment = Environment::manual(Timestamp::parse("2026-03-01T00:00:00Z").unwrap(), 7);
    let a_day = |settings: &mut Settings| settings.media.retention = 24 * HOUR;
    let app = TestApp::start_with(a_day, environment.clone()).await;
    let alice = app.user("alice").await;
    let older_task = complete_task(&app, &alice, 8).await;
    let single_task = complete_task(&app, &alice, 9).await;
    environment.advance(12 * HOUR);
    let younger = complete_task(&app, &alice, 8).await;
    assert_eq!(older_task["generated"], younger["generated"]);
    assert_eq!(
        (&older_task["expires_at"], &older_task["expired"]),
        (&json!("2026-03-02T00:00:00.000000Z"), &json!(false))
    );

    // When the day of the older ones is over
    environment.advance(13 * HOUR);
    let missing = result_is_gone(&app, &single_task).await.expect(404).json();

    // Then unused files are gone, and those of the younger task are there
    let detail = missing["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("file ")
            && detail.ends_with(".png not found: results are kept for 1 day after the end of their task"),
        "{detail}"
    );
    result(&app, &older_task).await.expect(200);
    let task_path = |task: &Value| format!("/tasks/{}", task["task_id"].as_str().unwrap());
    let expired = app.get_as(&alice.token, &task_path(&single_task)).await.expect(200).json();
    assert_eq!((&expired["expired"], &expired["generated"]), (&json!(true), &single_task["generated"]));
    assert_eq!(app.get_as(&alice.token, &task_path(&younger)).await.expect(200).json()["expired"], false);

    // And after the younger task's own day they are gone too, even after a restart
    let app = TestApp::start_in(app.stop().await, a_day, environment.clone()).await;
    environment.advance(12 * HOUR);
    let file_path = |task: &Value| {
        let name = task["generated"][0].as_str().and_then(|url| url.rsplit('/').next()).expect("a name");
        json!({"generated": [app.url(&format!("/media/{name}"))]})
    };
    result_is_gone(&app, &file_path(&younger)).await.expect(404);
    let left = std::fs::read_dir(app.dir.path().join("media/inputs")).expect("a directory");
    let files = left.flatten().map(|prefix| std::fs::read_dir(prefix.path()).expect("a directory").count());
    assert_eq!(files.sum::<usize>(), 0);

    // And a new result is served again
    let repeated_task = complete_task(&app, &alice, 8).await;
    result(&app, &repeated_task).await.expect(200);
    app.stop().await;
}
