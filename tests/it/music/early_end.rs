//! Streams that end early.

use std::path::Path;

use mediary::environment::Environment;
use reqwest::Method;
use serde_json::json;

use super::{GENERATE, MusicListener, states, wait_for_end};
use crate::support::form::form;
use crate::support::process::{Process, TOKEN};
use crate::support::{TestApp, client};

const LONG: [(&str, &str); 2] = [("prompt", "a long calm drone"), ("duration", "360")];

#[actix_web::test]
async fn a_disconnect_stops_the_work_and_is_recorded() {
    // Given a client that receives music
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let mut listener = MusicListener::request(&app, &user, &LONG).await;
    assert!(listener.line().await.is_some());
    let task = listener.task.clone();

    // When it disconnects
    drop(listener);

    // Then the task has failed, with the reason
    let task = wait_for_end(&app, &user, &task).await;
    assert_eq!((&task["state"], &task["error"]["code"]), (&json!("failed"), &json!("client_gone")));
    assert_eq!(states(&task), ["created", "processing", "failed"]);
    app.stop().await;
}

#[actix_web::test]
async fn a_stream_that_its_client_ends_stays_charged() {
    // Given music for 5 credits and 2 for each second
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("prices.toml");
    let prices =
        include_str!("../../../data/pricing.toml").replace("task = 0", "task = 5").replace("second = 0", "second = 2");
    std::fs::write(&file, prices).expect("written");
    let app = TestApp::start_with(|settings| settings.video.pricing = Some(file.clone()), Environment::system()).await;
    let user = app.user("listener").await;
    let budget = format!("/admin/budgets/user/{}", user.id);
    app.put_as(app.admin_token(), &budget, json!({"credits": 2000, "period": "total"})).await.expect(200);

    // When the client of one piece, whose prompt names its length, disconnects, and another piece is cancelled
    let six_minutes = [("prompt", "six minutes of jazz")];
    for ends_by_disconnect in [true, false] {
        let mut listener = MusicListener::request(&app, &user, &six_minutes).await;
        assert!(listener.line().await.is_some());
        let task = listener.task.clone();
        if ends_by_disconnect {
            drop(listener);
        } else {
            app.post_as(&user.token, &format!("/tasks/{task}/cancel"), json!({})).await.expect(200);
        }
        let ended = wait_for_end(&app, &user, &task).await;
        assert_eq!((&ended["state"], &ended["cost_state"]), (&json!("failed"), &json!("charged")));
    }

    // Then both are charged for all six minutes
    let credits = app.get_as(&user.token, "/users/credits").await.expect(200).json();
    assert_eq!(json!(["held", "charged", "refunded"].map(|name| credits[name].clone())), json!([0, 1450, 0]));
    let used = app.get_as(app.admin_token(), &budget).await.expect(200).json();
    assert_eq!((&used["held"], &used["spent"]), (&json!(0), &json!(1450)));
    let usage = app.get_as(&user.token, "/usage").await.expect(200).json()["total"].clone();
    assert_eq!((&usage["charged"], &usage["failed"], &usage["cancelled"]), (&json!(1450), &json!(1), &json!(1)));

    // And a third piece does not fit into the budget
    let request = app.request(Method::POST, GENERATE).bearer_auth(&user.token);
    app.send(form(request, &six_minutes)).await.expect(402);
    app.stop().await;
}

#[actix_web::test]
async fn a_cancelled_stream_ends_with_an_error_line() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let mut listener = MusicListener::request(&app, &user, &LONG).await;
    assert!(listener.line().await.is_some());
    let path = format!("/tasks/{}/cancel", listener.task);
    let cancelled = app.post_as(&user.token, &path, json!({})).await.expect(200).json();
    assert_eq!((&cancelled["state"], &cancelled["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    let last = listener.collect().await.pop().expect("a last line");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("cancelled")));
    assert!(last["message"].as_str().is_some_and(|message| !message.is_empty()));
    app.stop().await;
}

#[actix_web::test]
async fn a_shutdown_ends_and_records_streams() {
    let app = TestApp::start().await;
    let user = app.user("listener").await;
    let mut listener = MusicListener::request(&app, &user, &LONG).await;
    assert!(listener.line().await.is_some());

    let task = listener.task.clone();
    let (dir, lines) = futures_util::future::join(app.stop(), listener.collect()).await;
    let last = lines.last().expect("a last line");
    assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("interrupted")));

    let app = TestApp::start_in(dir, |_| {}, mediary::environment::Environment::system()).await;
    let body = app.get_as(&user.token, &format!("/tasks/{task}")).await.expect(200).json();
    assert_eq!((&body["state"], &body["error"]["code"]), (&json!("failed"), &json!("interrupted")));
    app.stop().await;
}

#[actix_web::test]
async fn an_open_stream_fails_as_interrupted_after_a_crash() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let task = crash_while_playing(dir.path()).await;
    let process = Process::start(dir.path());
    let body =
        client().get(process.url(&format!("/tasks/{task}"))).bearer_auth(TOKEN).send().await.expect("a response");
    let body: serde_json::Value = body.json().await.expect("JSON");
    assert_eq!((&body["state"], &body["error"]["code"]), (&json!("failed"), &json!("interrupted")));
    assert_eq!(states(&body), ["created", "processing", "failed"]);
    process.kill();
}

/// Kills the service in the middle of a stream and returns the task.
async fn crash_while_playing(dir: &Path) -> String {
    let process = Process::start(dir);
    let request = client().request(Method::POST, process.url(GENERATE)).bearer_auth(TOKEN);
    let mut response = form(request, &LONG).send().await.expect("a response");
    let task = response.headers()["x-task-id"].to_str().expect("an id").to_owned();
    assert!(response.chunk().await.expect("music").is_some());
    process.kill();
    task
}

#[actix_web::test]
async fn a_slow_reader_loses_nothing() {
    // Given a client that reads one line, and then nothing for as long as others need for their music
    let app = TestApp::start().await;
    let (slow, quick) = (app.user("slow").await, app.user("quick").await);
    let mut listener = MusicListener::request(&app, &slow, &[("prompt", "a soft sting"), ("duration", "2")]).await;
    let first = listener.line().await.expect("a line");
    let other = MusicListener::request(&app, &quick, &[("prompt", "a soft sting"), ("duration", "2")]).await;
    let other_lines = other.collect().await;

    // When it continues to read
    let mut lines = vec![first];
    lines.extend(listener.collect().await);

    // Then it receives the same as the other one
    let sound = |lines: &[serde_json::Value]| -> Vec<serde_json::Value> {
        lines.iter().filter(|line| line["type"] == "audio_chunk").cloned().collect()
    };
    assert_eq!(sound(&lines), sound(&other_lines));
    app.stop().await;
}
