//! Interruptions: concurrent requests with the same key, a disconnected client, a crash between commit and response.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use mediary::environment::{Environment, FailPoint};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{assert_problem, assert_replay, replayed, user_body};
use crate::support::eventually::{eventually, within};
use crate::support::{TestApp, TestResponse, picture};

const UPSCALER: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

/// Barrier before every append. A test closes and opens it.
#[derive(Default)]
struct AppendBarrier {
    closed: Mutex<bool>,
    opened: Condvar,
    is_reached: AtomicBool,
}

impl AppendBarrier {
    fn pass(&self) {
        let mut closed = self.closed.lock();
        self.is_reached.store(*closed, Ordering::SeqCst);
        self.opened.wait_while(&mut closed, |closed| *closed);
    }

    fn close(&self) {
        *self.closed.lock() = true;
    }

    fn open(&self) {
        *self.closed.lock() = false;
        self.opened.notify_all();
    }

    async fn until_reached(&self) {
        eventually("the barrier is reached", async || self.is_reached.load(Ordering::SeqCst)).await;
    }
}

/// Starts a service whose aggregates wait before they append while the barrier is closed.
async fn app_with_barrier() -> (TestApp, Arc<AppendBarrier>) {
    let barrier = Arc::new(AppendBarrier::default());
    let at_barrier = barrier.clone();
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |point, _| {
        if point == FailPoint::Append {
            at_barrier.pass();
        }
    }));
    (TestApp::start_with(|_| {}, environment).await, barrier)
}

#[actix_web::test]
async fn concurrent_requests_with_one_key_execute_once() {
    let app = TestApp::start_with(|settings| settings.workers = 2, Environment::system()).await;
    for round in 0..10 {
        let (key, body) = (format!("k-{round}"), user_body("ada"));
        let responses = join_all((0..16).map(|_| app.post_once(&key, app.admin_token(), "/admin/users", &body))).await;
        let first: Vec<_> = responses.iter().filter(|response| response.status == 201 && !replayed(response)).collect();
        assert_eq!(first.len(), 1, "in round {round}");
        for other in responses.iter().filter(|response| !std::ptr::eq(*response, first[0])) {
            match other.status {
                201 => assert_replay(first[0], other),
                _ => assert_problem(other, 409, "idempotency_key_in_use"),
            }
        }
        assert_eq!(app.recorded("UserCreated"), round + 2);
    }
    app.stop().await;
}

#[actix_web::test]
async fn a_key_in_use_returns_409() {
    // Given a request that waits for the disk
    let (app, barrier) = app_with_barrier().await;
    let (ada, body) = (app.user("ada").await, json!({"id": "acme"}));
    barrier.close();
    let first = app.post_once("k", &ada.token, "/publishers", &body);
    let meanwhile = async {
        barrier.until_reached().await;

        // When it is repeated, or another request uses its key
        let other = json!({"id": "other"});
        let other_requests = join_all([&body, &other].map(|body| app.post_once("k", &ada.token, "/publishers", body)));
        let conflicts = within("answers that do not wait", other_requests).await;
        barrier.open();
        conflicts
    };
    let (first, other_requests) = tokio::join!(first, meanwhile);

    // Then the first succeeds, and the others get the reason for their rejection
    first.expect(201);
    assert_problem(&other_requests[0], 409, "idempotency_key_in_use");
    assert_eq!(other_requests[0].header("retry-after"), Some("1"));
    assert_problem(&other_requests[1], 422, "idempotency_key_reused");
    assert!(replayed(&app.post_once("k", &ada.token, "/publishers", &body).await.expect(201)));
    app.stop().await;
}

#[actix_web::test]
async fn a_disconnected_client_can_fetch_the_response_later() {
    // Given a request that waits for the disk
    let (app, barrier) = app_with_barrier().await;
    let (admin, body) = (app.admin_token(), user_body("ada"));
    barrier.close();
    let mut caller = TcpStream::connect(app.app.address()).await.unwrap();
    let request = format!(
        "POST /admin/users HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {admin}\r\nidempotency-key: k\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.to_string().len()
    );
    caller.write_all(request.as_bytes()).await.unwrap();
    barrier.until_reached().await;

    // When the connection is reset, then the request is executed nevertheless
    caller.set_zero_linger().unwrap();
    drop(caller);
    for _ in 0..10 {
        let meanwhile = app.post_once("k", admin, "/admin/users", &body);
        let response = within("a response without a second run", meanwhile).await;
        assert_problem(&response, 409, "idempotency_key_in_use");
    }
    barrier.open();

    // And the client gets the response when it repeats the request
    let response = eventually("the key is free", async || {
        let response = app.post_once("k", admin, "/admin/users", &body).await;
        (response.status != 409).then_some(response)
    });
    let response = response.await.expect(201);
    assert!(replayed(&response));
    assert_eq!(app.count_users().await, 2);
    app.stop().await;
}

/// Returns requests that create something with an id or secret of the service's choice, and the event type that each
/// records once.
fn requests(user: &str) -> Vec<(&'static str, String, Value, &'static str)> {
    vec![
        ("user", "/admin/users".to_owned(), user_body("bob"), "UserCreated"),
        ("user-token", format!("/admin/users/{user}/tokens"), json!({"name": "x"}), "TokenIssued"),
        ("token", "/publishers/acme/tokens".to_owned(), json!({"name": "ci"}), "TokenIssued"),
        (
            "node",
            "/publishers/acme/nodes".to_owned(),
            json!({"id": "tools", "latest_version": {"version": "1.0.0"}}),
            "NodeCreated",
        ),
        (
            "version",
            "/publishers/acme/nodes/tools/versions".to_owned(),
            json!({"node_version": {"version": "2.0.0"}}),
            "VersionPublished",
        ),
        ("task", UPSCALER.to_owned(), json!({"image": picture::base64_png(8, 8)}), "TaskSubmitted"),
    ]
}

#[actix_web::test]
async fn a_crash_between_commit_and_response_does_not_repeat_the_command() {
    // Given a service that fails once in every request, after its commands are recorded
    let dies = Arc::new(AtomicBool::new(false));
    let armed = dies.clone();
    let environment = Environment::system().with_fail_point_handler(Arc::new(move |point, _| {
        assert!(
            point != FailPoint::BeforeResponseStored || !armed.swap(false, Ordering::SeqCst),
            "an injected failure"
        );
    }));
    let app = TestApp::start_with(|_| {}, environment).await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    for (key, path, body, event) in requests(&ada.id) {
        let before = app.recorded(event);
        dies.store(true, Ordering::SeqCst);
        app.post_once(key, app.admin_token(), &path, &body).await.expect(500);
        assert_eq!(app.recorded(event), before + 1, "{path}");

        // When the request is repeated, then it succeeds as if nothing had happened
        let second = app.post_once(key, app.admin_token(), &path, &body).await;
        assert!((200..300).contains(&second.status) && replayed(&second), "{}: {}", second.status, second.text());
        assert_eq!(app.recorded(event), before + 1, "{path}");

        // And the resource that it names exists
        let third = app.post_once(key, app.admin_token(), &path, &body).await;
        assert_eq!((second.status, second.text()), (third.status, third.text()));
        match key {
            "user-token" => drop(app.get_as(third.json()["token"].as_str().unwrap(), "/users").await.expect(200)),
            "task" => {
                let task = format!("{UPSCALER}/{}", third.json()["data"]["task_id"].as_str().unwrap());
                app.get_as(app.admin_token(), &task).await.expect(200);
            }
            _ => {}
        }
    }
    app.stop().await;
}

/// Returns the content of a response without its upload link, which expires and is new each time.
fn lasting(response: &TestResponse) -> Value {
    let mut body = response.json();
    body.as_object_mut().unwrap().remove("signedUrl");
    body
}

#[actix_web::test]
async fn a_lost_response_is_rebuilt_with_the_same_ids() {
    // Given requests with responses
    let app = TestApp::start().await;
    let ada = app.user("ada").await;
    app.publisher("acme", &ada).await;
    let mut acknowledged = Vec::new();
    for (key, path, body, event) in requests(&ada.id) {
        let response = app.post_once(key, app.admin_token(), &path, &body).await;
        assert!((200..300).contains(&response.status), "{}: {}", response.status, response.text());
        acknowledged.push((key, path, body, event, response));
    }
    app.publisher("fickle", &ada).await;
    let renamed = json!({"name": "One"});
    app.put_once("rename", &ada.token, "/publishers/fickle", &renamed).await.expect(200);
    app.put_once("same", &ada.token, "/publishers/fickle", &renamed).await.expect(200);
    app.put_as(&ada.token, "/publishers/fickle", json!({"name": "Two"})).await.expect(200);
    let recorded = acknowledged.iter().map(|(.., event, _)| app.recorded(event)).collect::<Vec<_>>();

    // When the stored responses are lost, but not the log
    let dir = app.stop().await;
    fs::remove_dir_all(dir.path().join("answers")).unwrap();
    let app = TestApp::start_in(dir, |_| {}, Environment::system()).await;

    // Then each request gets the same response, with the same ids and secrets, and nothing is executed
    for (key, path, body, _, first) in &acknowledged {
        let repeated = app.post_once(key, app.admin_token(), path, body).await.expect(first.status);
        assert!(replayed(&repeated), "{path}");
        assert_eq!(lasting(first), lasting(&repeated), "{path}");
    }

    // And a later change stays, even one that a request without effect would undo
    for key in ["rename", "same"] {
        let response = app.put_once(key, &ada.token, "/publishers/fickle", &renamed).await.expect(200);
        assert_eq!(response.json()["name"], "Two");
    }
    assert_eq!(acknowledged.iter().map(|(.., event, _)| app.recorded(event)).collect::<Vec<_>>(), recorded);
    app.stop().await;
}

#[actix_web::test]
async fn a_repeated_submission_is_one_task() {
    // Given a caller with a limit of one unfinished task, and a vendor that never starts it
    let environment = Environment::system().with_fail_point_handler(Arc::new(|point, _| {
        assert!(point != FailPoint::Reactor, "an injected failure");
    }));
    let app = TestApp::start_with(|settings| settings.limits.submissions_per_caller = 1, environment.clone()).await;
    let ada = app.user("ada").await;
    let body = json!({"image": picture::base64_png(400, 300)});
    assert!(body.to_string().len() > 128 * 1024, "too small to be hashed on a thread of its own");
    let first = app.post_once("k", &ada.token, UPSCALER, &body).await.expect(200);
    assert_replay(&first, &app.post_once("k", &ada.token, UPSCALER, &body).await);
    app.post_once("k-2", &ada.token, UPSCALER, &body).await.expect(429);
    let metrics = app.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("mediary_limit_refusals_total{code=\"too_many_submissions\"} 1\n"), "{metrics}");

    // When the response is lost, then the task is found although the caller's limit is reached
    let dir = app.stop().await;
    fs::remove_dir_all(dir.path().join("answers")).unwrap();
    let one_place = |settings: &mut mediary::config::Settings| settings.limits.submissions_per_caller = 1;
    let app = TestApp::start_in(dir, one_place, environment).await;
    let repeated = app.post_once("k", &ada.token, UPSCALER, &body).await.expect(200);
    assert_eq!(repeated.text(), first.text());
    assert_eq!(app.recorded("TaskSubmitted"), 1);
    app.stop().await;
}

#[actix_web::test]
async fn damaged_stored_responses_count_as_missing() {
    let app = TestApp::start().await;
    let body = user_body("ada");
    let first = app.post_once("k", app.admin_token(), "/admin/users", &body).await.expect(201);
    let folder = fs::read_dir(app.dir.path().join("answers")).unwrap().next().unwrap().unwrap().path();
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let sealed = fs::read(&file).unwrap();
    for damaged in [&[][..], &sealed[..10], &sealed[..sealed.len() - 1], &[&[9], &sealed[1..]].concat()] {
        fs::write(&file, damaged).unwrap();
        let repeated = app.post_once("k", app.admin_token(), "/admin/users", &body).await.expect(201);
        assert_eq!(repeated.json()["id"], first.json()["id"]);
    }
    assert_eq!(app.count_users().await, 2);
    app.stop().await;
}
