//! Repeated music requests with an idempotency key (contract 2, ADR 18).

use std::sync::atomic::{AtomicU32, Ordering};

use mediary::environment::Environment;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::vendor::remote;
use super::{GENERATE, MusicListener, wait_for_end};
use crate::support::music_sim::{MusicSim, error_response, lines, normal_lines};
use crate::support::process::{Process, TOKEN};
use crate::support::{TestApp, TestUser, client};

const KEY: &str = "Idempotency-Key";

/// Returns a form with a different boundary each time, as clients generate them.
fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    static FORMS: AtomicU32 = AtomicU32::new(0);
    let boundary = format!("form-{}", FORMS.fetch_add(1, Ordering::Relaxed));
    let part = |(name, value): &(&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = fields.iter().map(part).collect::<String>() + &format!("--{boundary}--\r\n");
    request.header("content-type", format!("multipart/form-data; boundary={boundary}")).body(body)
}

async fn submit_with_key(app: &TestApp, user: &TestUser, key: &str, fields: &[(&str, &str)]) -> Response {
    let request = app.request(Method::POST, GENERATE).bearer_auth(&user.token).header(KEY, key);
    form(request, fields).send().await.expect("a response")
}

/// Reads the lines of a music response. Returns them with the task id, and `true` for a replay.
async fn read_all(response: Response) -> (Vec<Value>, String, bool) {
    assert_eq!(response.status().as_u16(), 200);
    let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
    let listener = MusicListener::from_response(response);
    let task = listener.task.clone();
    (listener.collect().await, task, replayed)
}

async fn read_problem(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let problem: Value = response.json().await.expect("JSON");
    (status, problem["error"].as_str().expect("a code").to_owned())
}

async fn problem(response: Response) -> Value {
    response.json().await.expect("JSON")
}

/// Counts the submitted tasks in the log.
async fn events(app: &TestApp) -> usize {
    let events = app.get_as(app.admin_token(), "/admin/events?limit=1000&type=TaskSubmitted").await.expect(200).json();
    events["events"].as_array().map_or(0, Vec::len)
}

#[actix_web::test]
async fn a_repeated_form_replays_the_task_and_music_after_a_restart() {
    // Given music that was played to its end
    let app = TestApp::start().await;
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let fields = [("prompt", "a bright sting"), ("duration", "1")];
    let (first, task, replayed) = read_all(submit_with_key(&app, &alice, "k", &fields).await).await;
    assert!(!replayed && first.len() > 3, "the first response was replayed, or has too few lines");
    let before = wait_for_end(&app, &alice, &task).await;

    // When the request is repeated, then the response is the same, without another effect
    assert_eq!(read_all(submit_with_key(&app, &alice, "k", &fields).await).await, (first.clone(), task.clone(), true));
    assert_eq!(wait_for_end(&app, &alice, &task).await, before);
    assert_eq!(events(&app).await, 1);

    // And another form is rejected, and another user's key is independent
    let other = submit_with_key(&app, &alice, "k", &[("prompt", "a bright sting"), ("duration", "2")]).await;
    assert_eq!(read_problem(other).await, (422, "idempotency_key_reused".to_owned()));
    let (_, bobs_task, replayed) = read_all(submit_with_key(&app, &bob, "k", &fields).await).await;
    assert!(bobs_task != task && !replayed);

    // And the same holds after a restart
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    assert_eq!(read_all(submit_with_key(&app, &alice, "k", &fields).await).await, (first, task, true));
    assert_eq!(events(&app).await, 2);
    app.stop().await;
}

#[actix_web::test]
async fn a_key_is_in_use_while_streaming_and_replays_after_a_disconnect() {
    // Given a client that has read one line
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let fields = [("prompt", "a long drone"), ("duration", "200")];
    let mut listener = MusicListener::from_response(submit_with_key(&app, &alice, "k", &fields).await);
    let first = listener.line().await.expect("a line");

    // When the request is repeated at this moment
    let repeated = submit_with_key(&app, &alice, "k", &fields).await;
    assert!(repeated.headers().contains_key("retry-after"));
    assert_eq!(read_problem(repeated).await, (409, "idempotency_key_in_use".to_owned()));
    let other = submit_with_key(&app, &alice, "k", &[("prompt", "a loud sting")]).await;
    assert_eq!(read_problem(other).await, (422, "idempotency_key_reused".to_owned()));

    // And the client disconnects, and repeats the request
    let task = listener.task.clone();
    drop(listener);
    let before = wait_for_end(&app, &alice, &task).await;
    assert_eq!(before["error"]["code"], "client_gone");
    let repeated = submit_with_key(&app, &alice, "k", &fields).await;

    // Then the music plays from its beginning, and the task is the same and unchanged
    assert_eq!(repeated.headers()["idempotent-replayed"], "true");
    let mut repeated = MusicListener::from_response(repeated);
    assert_eq!((repeated.line().await, &repeated.task), (Some(first), &task));
    for kind in ["title", "audio_chunk"] {
        assert_eq!(repeated.line().await.expect("a line")["type"], kind);
    }
    drop(repeated);
    assert_eq!((wait_for_end(&app, &alice, &task).await, events(&app).await), (before, 1));
    app.stop().await;
}

#[actix_web::test]
async fn failures_and_rejections_are_replayed() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let fields = [("prompt", "a long drone"), ("duration", "300")];
    let mut listener = MusicListener::from_response(submit_with_key(&app, &alice, "k", &fields).await);
    assert!(listener.line().await.is_some());
    let task = listener.task.clone();

    app.post_as(&alice.token, &format!("/tasks/{task}/cancel"), json!({})).await.expect(200);
    let last = listener.collect().await.pop().expect("a last line");
    assert_eq!(last["code"], "cancelled");
    assert_eq!(read_all(submit_with_key(&app, &alice, "k", &fields).await).await, (vec![last], task, true));
    for _ in 0..2 {
        let rejected = submit_with_key(&app, &alice, "bad", &[("prompt", "")]).await;
        assert_eq!(read_problem(rejected).await, (400, "invalid_input".to_owned()));
    }
    app.stop().await;
}

#[actix_web::test]
async fn an_interrupted_stream_is_regenerated_as_the_same_task() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fields = [("prompt", "a soft sting"), ("duration", "20")];
    let submit = |process: &Process| {
        let request = client().request(Method::POST, process.url(GENERATE)).bearer_auth(TOKEN).header(KEY, "k");
        form(request, &fields).send()
    };

    let process = Process::start(dir.path());
    let mut cut_off = MusicListener::from_response(submit(&process).await.expect("a response"));
    assert!(cut_off.line().await.is_some());
    let task = cut_off.task.clone();
    process.kill();

    let process = Process::start(dir.path());
    let (lines, repeated_task, replayed) = read_all(submit(&process).await.expect("a response")).await;
    assert_eq!((&repeated_task, replayed), (&task, true));
    assert_eq!(lines[lines.len() - 1], json!({"type": "complete", "task_id": task}));
    let tasks = client().get(process.url("/tasks")).bearer_auth(TOKEN).send().await.expect("a response");
    let tasks: Value = tasks.json().await.expect("JSON");
    assert_eq!(tasks["tasks"].as_array().map(Vec::len), Some(1));
    process.kill();
}

#[actix_web::test]
async fn vendor_music_is_not_stored_and_not_requested_twice() {
    let vendor = MusicSim::with_behavior(|request| match request.field("prompt") {
        Some("refused") => error_response("400 Bad Request", "{}"),
        _ => lines(&normal_lines()),
    })
    .await;
    let base = vendor.base();
    let app = TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await;
    let alice = app.user("alice").await;

    let (_, task, _) = read_all(submit_with_key(&app, &alice, "k", &[("prompt", "calm")]).await).await;
    let problem = problem(submit_with_key(&app, &alice, "k", &[("prompt", "calm")]).await).await;
    assert_eq!((&problem["status"], &problem["error"]), (&json!(409), &json!("conflict")));
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(&task)), "{problem}");

    let (first, _, _) = read_all(submit_with_key(&app, &alice, "l", &[("prompt", "refused")]).await).await;
    let (repeated, _, replayed) = read_all(submit_with_key(&app, &alice, "l", &[("prompt", "refused")]).await).await;
    assert!(replayed && first == repeated && repeated[0]["code"] == "vendor_refused", "{repeated:?}");
    assert_eq!(vendor.record().requests.len(), 2);
    app.stop().await;
}

#[actix_web::test]
async fn music_is_not_regenerated_by_another_source() {
    // Given music from the vendor, and music from the built-in engine after the vendor was removed
    let vendor = MusicSim::with_behavior(|_| lines(&normal_lines())).await;
    let base = vendor.base();
    let fields = [("prompt", "a bright sting"), ("duration", "1")];
    let app = TestApp::start_with(|settings| remote(settings, &base), Environment::system()).await;
    let alice = app.user("alice").await;
    let (_, vendor_task, _) = read_all(submit_with_key(&app, &alice, "vendor", &fields).await).await;
    let app = TestApp::start_in(app.stop().await, |_| {}, Environment::system()).await;
    let (_, engine_task, _) = read_all(submit_with_key(&app, &alice, "engine", &fields).await).await;

    // When the first is requested again, then the request is rejected, and no other music is sent in its place
    let check = |problem: Value, task: &str, maker: &str| {
        assert_eq!((&problem["status"], &problem["error"]), (&json!(409), &json!("conflict")));
        let detail = problem["detail"].as_str().expect("a sentence");
        assert!(detail.contains(task) && detail.contains(maker), "{detail}");
    };
    check(problem(submit_with_key(&app, &alice, "vendor", &fields).await).await, &vendor_task, "a vendor");

    // And the same holds for the second when the vendor is back
    let app = TestApp::start_in(app.stop().await, |settings| remote(settings, &base), Environment::system()).await;
    check(problem(submit_with_key(&app, &alice, "engine", &fields).await).await, &engine_task, "the built-in engine");
    assert_eq!((vendor.record().requests.len(), events(&app).await), (1, 2));
    app.stop().await;
}
