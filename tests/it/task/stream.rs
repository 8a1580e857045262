//! `GET /tasks/{task_id}/events`.

use std::time::Duration;

use mediary::config::Settings;
use mediary::environment::Environment;
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::image::{UPSCALER, submit, wait_for_end};
use crate::support::eventually::within;
use crate::support::files::{FileServer, file};
use crate::support::picture::{base64_png, png};
use crate::support::process::{Process, TOKEN};
use crate::support::{TestApp, client};

/// Reader of a stream.
pub struct TaskStreamReader {
    response: Response,
    text: String,
}

/// Event of a stream.
pub struct ReceivedTaskEvent {
    /// Event id, or 0 without one.
    pub id: u64,
    pub name: String,
    pub task: Value,
}

impl ReceivedTaskEvent {
    pub fn state(&self) -> (&str, &str) {
        (&self.name, self.task["state"].as_str().expect("a state"))
    }
}

async fn open_stream(client: &Client, url: &str, token: &str, last: Option<u64>) -> Response {
    let request = client.get(url).bearer_auth(token);
    let request = last.into_iter().fold(request, |request, id| request.header("last-event-id", id));
    request.send().await.expect("a response")
}

impl TaskStreamReader {
    pub async fn open(client: &Client, url: &str, token: &str, last: Option<u64>) -> Self {
        let response = open_stream(client, url, token, last).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        Self { response, text: String::new() }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<ReceivedTaskEvent> {
        within("an event or the end of the stream", self.read_event()).await
    }

    async fn read_event(&mut self) -> Option<ReceivedTaskEvent> {
        loop {
            while let Some((block, remaining)) = self.text.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
            {
                self.text = remaining;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                if let Some(data) = field("data: ") {
                    let id = field("id: ").map_or(0, |id| id.parse().expect("a position"));
                    let task = serde_json::from_str(&data).expect("a task");
                    return Some(ReceivedTaskEvent { id, name: field("event: ").expect("a name"), task });
                }
            }
            let chunk = self.response.chunk().await;
            self.text.push_str(&String::from_utf8_lossy(&chunk.ok()??));
        }
    }

    /// Waits for `count` heartbeats, without other events in between.
    async fn heartbeats(&mut self, count: usize) {
        while self.text.matches(": heartbeat\n\n").count() < count {
            let chunk = within("a heartbeat", self.response.chunk()).await;
            self.text.push_str(&String::from_utf8_lossy(&chunk.expect("a whole response").expect("no end")));
        }
        assert_eq!(self.text, ": heartbeat\n\n".repeat(count));
        self.text.clear();
    }

    /// Returns all events until the end of the stream.
    pub async fn collect(mut self) -> Vec<ReceivedTaskEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

#[actix_web::test]
async fn a_task_stream_starts_with_a_snapshot_and_repeats_no_change() {
    // Given a task whose picture does not arrive, and a reader
    let (app, server) = (TestApp::start().await, FileServer::with_replies(|_| file(&png(8, 8))).await);
    let alice = app.user("alice").await;
    let bob = app.user("bob").await;
    let client = client();
    server.hold();
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a.png")})).await;
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = TaskStreamReader::open(&client, &url, &alice.token, None).await;
    let snapshot = reader.next().await.expect("a snapshot");
    assert_eq!((snapshot.state(), &snapshot.task["progress"]), (("snapshot", "CREATED"), &json!(0.0)));
    assert_eq!(snapshot.task["queue_position"], 1);

    // When the picture arrives
    server.release();
    let events = reader.collect().await;

    // Then every change is sent once, in order, up to the end
    let states: Vec<_> = events.iter().map(ReceivedTaskEvent::state).collect();
    let expected = ["CREATED", "IN_PROGRESS", "COMPLETED"].map(|state| ("change", state));
    assert_eq!(states, expected);
    let progress: Vec<_> = events.iter().map(|event| event.task["progress"].as_f64().unwrap()).collect();
    assert_eq!(progress, [0.05, 0.1, 1.0]);
    assert!(events.iter().map(|event| event.id).is_sorted_by(|a, b| a < b), "the event ids do not ascend");

    // And a client that resumes gets the remaining events, and then nothing
    let resumed = TaskStreamReader::open(&client, &url, &alice.token, Some(events[0].id)).await.collect().await;
    assert_eq!(resumed.iter().map(ReceivedTaskEvent::state).collect::<Vec<_>>(), expected[1..]);
    assert_eq!(resumed[1].task, app.get_as(&alice.token, &format!("/tasks/{task}")).await.expect(200).json());
    assert_eq!(open_stream(&client, &url, &alice.token, Some(events[2].id)).await.status(), 204);
    assert_eq!(open_stream(&client, &url, &alice.token, Some(1_000_000)).await.status(), 400);
    assert_eq!(open_stream(&client, &url, &bob.token, None).await.status(), 404);
    app.stop().await;
}

#[actix_web::test]
async fn an_ended_task_streams_its_state_and_streams_are_limited() {
    let (app, server) = (TestApp::start().await, FileServer::with_replies(|_| file(&png(8, 8))).await);
    let alice = app.user("alice").await;
    let bob = app.user("bob").await;
    let client = client();
    let finished_task = submit(&app, &alice, UPSCALER, json!({"image": base64_png(8, 8)})).await;
    wait_for_end(&app, &alice, UPSCALER, &finished_task).await;
    let events =
        TaskStreamReader::open(&client, &app.url(&format!("/tasks/{finished_task}/events")), &alice.token, None)
            .await
            .collect()
            .await;
    assert_eq!(events.iter().map(ReceivedTaskEvent::state).collect::<Vec<_>>(), [("snapshot", "COMPLETED")]);
    // A malformed event id, and one beyond the end, are errors of their header
    let path = format!("/tasks/{finished_task}/events");
    for (last, reason) in [("x", "must be a position"), ("99999", "is after the last event (position ")] {
        let request = app.request(reqwest::Method::GET, &path).bearer_auth(&alice.token).header("last-event-id", last);
        let problem = app.send(request).await.expect(400).json();
        assert_eq!(problem["errors"][0]["pointer"], "/Last-Event-ID");
        assert!(problem["detail"].as_str().unwrap().starts_with(&format!("/Last-Event-ID {reason}")), "{problem}");
    }

    // Given the maximum number of streams of one reader
    server.hold();
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a.png")})).await;
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(TaskStreamReader::open(&client, &url, &alice.token, None).await);
    }

    // Then that reader gets no further stream, and another does
    let problem = open_stream(&client, &url, &alice.token, None).await;
    assert_eq!((problem.status().as_u16(), problem.headers().contains_key("retry-after")), (429, true));
    let bobs_task = submit(&app, &bob, UPSCALER, json!({"image": server.url("/b.png")})).await;
    TaskStreamReader::open(&client, &app.url(&format!("/tasks/{bobs_task}/events")), &bob.token, None).await;

    // And when the service stops, all streams end
    let stop_handle = tokio::task::spawn_local(app.stop());
    for mut reader in open {
        assert!(reader.next().await.is_some_and(|event| event.name == "snapshot"));
        assert!(reader.next().await.is_none_or(|event| event.name == "change"));
    }
    stop_handle.await.expect("the service stops");
}

#[actix_web::test]
async fn idle_streams_send_heartbeats() {
    // Given a reader of a task whose picture does not arrive, with a short heartbeat interval
    assert_eq!(Settings::default().streams.heartbeat, Duration::from_secs(15));
    let short = |settings: &mut Settings| settings.streams.heartbeat = Duration::from_millis(100);
    let app = TestApp::start_with(short, Environment::system()).await;
    let server = FileServer::with_replies(|_| file(&png(8, 8))).await;
    server.hold();
    let alice = app.user("alice").await;
    let task = submit(&app, &alice, UPSCALER, json!({"image": server.url("/a.png")})).await;
    let url = app.url(&format!("/tasks/{task}/events"));
    let mut reader = TaskStreamReader::open(&client(), &url, &alice.token, None).await;
    assert_eq!(reader.next().await.expect("a snapshot").name, "snapshot");

    // Then it gets heartbeats while nothing happens
    reader.heartbeats(3).await;

    // And after that the events, up to the end
    server.release();
    let events = reader.collect().await;
    assert_eq!(events.last().expect("an end").state(), ("change", "COMPLETED"));
}

#[actix_web::test]
async fn a_reader_resumes_after_kill_9() {
    // Given a reader of a task whose picture does not arrive
    let (dir, server) = (tempfile::tempdir().unwrap(), FileServer::with_replies(|_| file(&png(8, 8))).await);
    server.hold();
    let (service, client) = (Process::start(dir.path()), client());
    let body = json!({"image": server.url("/a.png")});
    let response = client.post(service.url(UPSCALER)).bearer_auth(TOKEN).json(&body).send().await.expect("a response");
    let response: Value = response.json().await.expect("JSON");
    let path = format!("/tasks/{}/events", response["data"]["task_id"].as_str().expect("a task"));
    let mut reader = TaskStreamReader::open(&client, &service.url(&path), TOKEN, None).await;
    let snapshot_event = reader.next().await.expect("a snapshot");

    // When the service is killed, starts again, and the picture arrives
    service.kill();
    assert!(reader.next().await.is_none());
    let service = Process::start(dir.path());
    let reader = TaskStreamReader::open(&client, &service.url(&path), TOKEN, Some(snapshot_event.id)).await;
    server.release();

    // Then the reader gets all remaining events, once
    let events = reader.collect().await;
    let states: Vec<_> = events.iter().map(ReceivedTaskEvent::state).collect();
    assert_eq!(states, ["CREATED", "IN_PROGRESS", "COMPLETED"].map(|state| ("change", state)));
    assert!(events.iter().all(|event| event.id > snapshot_event.id), "an event was repeated");
}
