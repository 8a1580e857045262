//! Tasks of any kind: history, cancellation, waiting.

use mediary::config::Settings;
use serde_json::{Value, json};

use super::{PRECISION, RELIGHT, SKIN, STYLE, UPSCALER, submit, wait_for_end};
use crate::support::TestApp;
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::support::receiver::Receiver;

/// Returns the states of a task's history.
fn states(task: &Value) -> Vec<&str> {
    task["history"].as_array().expect("a history").iter().map(|change| change["state"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn a_task_of_any_kind_is_shown_with_its_history() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let creative = format!("{SKIN}/creative");
    for (path, read_path, kind) in [
        (UPSCALER, UPSCALER, "image-upscaler"),
        (STYLE, STYLE, "image-style-transfer"),
        (creative.as_str(), SKIN, "skin-enhancer"),
    ] {
        let task = submit(&app, &alice, path, json!({"image": base64_png(8, 8)})).await;
        let finished = wait_for_end(&app, &alice, read_path, &task).await;
        let body = app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json();
        assert_eq!((&body["task_id"], &body["kind"]), (&json!(task), &json!(kind)));
        assert_eq!((&body["state"], &body["generated"]), (&finished["status"], &finished["generated"]));
        assert_eq!(states(&body), ["CREATED", "IN_PROGRESS", "COMPLETED"]);
        let history = body["history"].as_array().unwrap();
        let ends = (&history[0]["at"], &history[2]["at"]);
        assert_eq!(ends, (&body["created_at"], &body["updated_at"]));
        assert_eq!((&body["progress"], &body["cost"], body.get("error")), (&json!(1.0), &json!(0), None));
        assert_eq!((&body["expired"], body.get("queue_position")), (&json!(false), None));
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_cancelled_task_fails_and_sends_its_webhook() {
    // Given a task whose picture does not arrive
    let (app, server, receiver) =
        (TestApp::start().await, FileServer::with_replies(|_| file(&png(8, 8))).await, Receiver::start().await);
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    server.hold();
    let body = json!({"image": server.url("/image.png"), "webhook_url": receiver.url("/hook")});
    let task = submit(&app, &alice, UPSCALER, body).await;
    let cancel = format!("/tasks/{task}/cancel");

    // When another user tries to cancel it, and then its owner cancels it twice
    app.post_as(&bob.token, &cancel, json!({})).await.expect(404);
    let first = app.post_as(&alice.token, &cancel, json!({})).await.expect(200).json();
    let second = app.post_as(&alice.token, &cancel, json!({})).await.expect(200).json();
    server.release();

    // Then it has failed, once, and its webhook is called
    assert_eq!(first, second);
    assert_eq!(states(&first), ["CREATED", "FAILED"]);
    assert_eq!(first["error"]["code"], "cancelled");
    let received = receiver.wait_until(|received| !received.is_empty()).await;
    assert_eq!(
        (received[0].status().as_str(), received[0].json()["error"]["code"].as_str()),
        ("FAILED", Some("cancelled"))
    );
    app.stop().await;
}

#[actix_web::test]
async fn cancelling_an_ended_task_changes_nothing() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8)})).await;
    let finished = wait_for_end(&app, &alice, UPSCALER, &task).await;
    let body = app.post_as(&alice.token, &format!("/tasks/{task}/cancel"), json!({})).await.expect(200).json();
    assert_eq!((&body["state"], &body["generated"]), (&json!("COMPLETED"), &finished["generated"]));
    app.stop().await;
}

#[actix_web::test]
async fn prefer_wait_returns_the_final_state() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"image": base64_png(8, 8)});
    let request = app.request(reqwest::Method::POST, UPSCALER).bearer_auth(&alice.token).header("prefer", "wait=60");
    let response = app.send(request.json(&body)).await.expect(200);
    assert_eq!(response.header("preference-applied"), Some("wait=60"));
    assert_eq!(response.json()["data"]["status"], "COMPLETED");

    let task = submit(&app, &alice, STYLE, body).await;
    for path in [format!("{STYLE}/{task}"), format!("/tasks/{task}")] {
        let request = app.request(reqwest::Method::GET, &path).bearer_auth(&alice.token).header("prefer", "wait=60");
        let response = app.send(request).await.expect(200);
        let task = response.json();
        assert_eq!(task.get("data").map_or(&task["state"], |task| &task["status"]), "COMPLETED", "{path}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn every_submission_and_every_status_read_waits_at_most_a_minute() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let [creative, faithful, flexible] = ["creative", "faithful", "flexible"].map(|mode| format!("{SKIN}/{mode}"));
    for (path, read_path) in [
        (UPSCALER, UPSCALER),
        (PRECISION, PRECISION),
        (STYLE, STYLE),
        (&creative, SKIN),
        (&faithful, SKIN),
        (&flexible, SKIN),
        (RELIGHT, RELIGHT),
    ] {
        let waiting_request = |method, path: &str| {
            app.request(method, path).bearer_auth(&alice.token).header("prefer", "respond-async, wait=3600")
        };

        let submitted = waiting_request(reqwest::Method::POST, path).json(&json!({"image": base64_png(8, 8)}));
        let submitted = app.send(submitted).await.expect(200);
        let submission = submitted.json();
        let task_body = submission.get("data").unwrap_or(&submission);
        assert_eq!(
            (&task_body["status"], submitted.header("preference-applied")),
            (&json!("COMPLETED"), Some("wait=60")),
            "{path}"
        );

        let task = task_body["task_id"].as_str().unwrap();
        for path in [format!("{read_path}/{task}"), format!("/tasks/{task}")] {
            let read_response = app.send(waiting_request(reqwest::Method::GET, &path)).await.expect(200);
            assert_eq!(read_response.header("preference-applied"), Some("wait=60"), "{path}");
        }
    }
    app.stop().await;
}

#[actix_web::test]
async fn prefer_wait_ends_on_time_and_holds_no_slot() {
    // Given a user with a limit of one unfinished task, and a picture that does not arrive
    let one_submission = |settings: &mut Settings| settings.limits.submissions_per_caller = 1;
    let app = TestApp::start_with(one_submission, mediary::environment::Environment::system()).await;
    let (alice, server) = (app.user("alice").await, FileServer::with_replies(|_| file(&png(8, 8))).await);
    server.hold();
    let body = json!({"image": server.url("/image.png")});
    let request = app.request(reqwest::Method::POST, UPSCALER).bearer_auth(&alice.token).header("prefer", "wait=1");

    // When the wait has timed out
    let response = app.send(request.json(&body)).await.expect(200);

    // Then the response shows the current state, and the task counts once
    assert_eq!(response.json()["data"]["status"], "CREATED");
    app.post_as(&alice.token, UPSCALER, body).await.expect(429);
    server.release();
    let task = response.json()["data"]["task_id"].as_str().unwrap().to_owned();
    wait_for_end(&app, &alice, UPSCALER, &task).await;
    submit(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8)})).await;
    app.stop().await;
}
