//! Live event stream: `/admin/events/stream`.

use std::time::Duration;

use mediary::config::Settings;
use mediary::environment::Environment;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use super::head;
use crate::support::TestApp;
use crate::support::eventually::{eventually, within};

/// Reader of one stream.
struct AuditStreamReader {
    response: Response,
    text: String,
}

impl AuditStreamReader {
    async fn open(app: &TestApp, token: &str, query: &str, last: Option<u64>) -> Self {
        let request = app.request(Method::GET, &format!("/admin/events/stream?{query}")).bearer_auth(token);
        let request = last.into_iter().fold(request, |request, id| request.header("last-event-id", id));
        let response = request.send().await.expect("a response");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert!(response.headers().get("content-encoding").is_none());
        Self { response, text: String::new() }
    }

    /// Returns the next event with its id; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(u64, Value)> {
        within("an event or the end of the stream", self.read_event()).await
    }

    async fn read_event(&mut self) -> Option<(u64, Value)> {
        loop {
            while let Some((block, remaining)) =
                self.text.split_once("\n\n").map(|(block, remaining)| (block.to_owned(), remaining.to_owned()))
            {
                self.text = remaining;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                if let Some(data) = field("data: ") {
                    let id = field("id: ").expect("an id").parse().expect("a position");
                    return Some((id, serde_json::from_str(&data).expect("an event")));
                }
            }
            let chunk = self.response.chunk().await.expect("a complete response")?;
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

async fn publisher(app: &TestApp, id: &str) {
    app.post_as(app.admin_token(), "/publishers", json!({"id": id})).await.expect(201);
}

#[actix_web::test]
async fn events_arrive_live_and_a_reader_resumes() {
    let app = TestApp::start().await;

    // Given a reader from the beginning
    let mut reader = AuditStreamReader::open(&app, app.admin_token(), "after=0", None).await;
    assert_eq!(reader.next().await.expect("the first event").0, 1);

    // When events are recorded
    for index in 0..5 {
        publisher(&app, &format!("first-{index}")).await;
    }

    // Then they arrive in order as they are recorded
    for expected in 2..=6 {
        let (position, event) = reader.next().await.expect("an event");
        assert_eq!(
            (position, event["position"].as_u64(), &event["type"]),
            (expected, Some(expected), &json!("PublisherCreated"))
        );
    }

    // When the reader disconnects and reconnects with its last event id
    drop(reader);
    for index in 0..400 {
        publisher(&app, &format!("away-{index}")).await;
    }
    let mut reader = AuditStreamReader::open(&app, app.admin_token(), "after=0", Some(6)).await;

    // Then no event is missing or repeated
    for expected in 7..=406 {
        assert_eq!(reader.next().await.expect("an event").0, expected);
    }

    // And the stream ends at once when the service stops
    let (_dir, remaining) =
        within("the stop does not wait for the stream", async { tokio::join!(app.stop(), reader.next()) }).await;
    assert!(remaining.is_none(), "{remaining:?}");
}

#[actix_web::test]
async fn a_stream_applies_its_filter_and_ends_at_its_limit() {
    let app = TestApp::start().await;
    let mut reader =
        AuditStreamReader::open(&app, app.admin_token(), "stream=publisher/b&type=PublisherCreated", None).await;
    for id in ["a", "b", "c"] {
        publisher(&app, id).await;
    }
    assert_eq!(reader.next().await.expect("an event").1["stream"], "publisher/b");

    let last = head(&app).await;
    let mut reader = AuditStreamReader::open(&app, app.admin_token(), &format!("after=0&to={last}"), None).await;
    for expected in 1..=last {
        assert_eq!(reader.next().await.expect("an event").0, expected);
    }
    assert_eq!(reader.next().await, None);

    // Without a last event id the stream begins where the filter does; with one it continues after it
    for (query, last_event_id, expected) in [
        ("from=2&to=3".to_owned(), None, vec![2, 3]),
        ("from=2&to=3".to_owned(), Some(2), vec![3]),
        ("from=2&to=3&after=0".to_owned(), None, vec![2, 3]),
        (format!("from=2000-01-01&to={last}"), None, (1..=last).collect()),
        ("from=3&to=2".to_owned(), None, vec![]),
    ] {
        let mut reader = AuditStreamReader::open(&app, app.admin_token(), &query, last_event_id).await;
        let mut positions = Vec::new();
        while let Some((position, _)) = reader.next().await {
            positions.push(position);
        }
        assert_eq!(positions, expected, "{query} {last_event_id:?}");
    }

    // A stream that begins beyond the end waits for new events
    let mut reader = AuditStreamReader::open(&app, app.admin_token(), &format!("from={}", last + 2), None).await;
    for id in ["d", "e"] {
        publisher(&app, id).await;
    }
    assert_eq!(reader.next().await.expect("an event").0, last + 2);

    // Errors point at the invalid parameter
    for (query, last_event_id, pointer) in
        [("after=99999", "", "/after"), ("after=0", "99999", "/Last-Event-ID"), ("", "x", "/Last-Event-ID")]
    {
        let path = format!("/admin/events/stream?{query}");
        let request =
            app.request(Method::GET, &path).bearer_auth(app.admin_token()).header("last-event-id", last_event_id);
        assert_eq!(app.send(request).await.expect(400).json()["errors"][0]["pointer"], pointer);
    }

    // A HEAD request gets its response at once.
    let request = app.request(Method::HEAD, "/admin/events/stream").bearer_auth(app.admin_token());
    app.send(request).await.expect(200);
    app.stop().await;
}

#[actix_web::test]
async fn heartbeats_report_the_scanned_position() {
    // Given a reader of a kind of event that does not occur, with a short heartbeat interval
    let short = |settings: &mut Settings| settings.streams.heartbeat = Duration::from_millis(100);
    let app = TestApp::start_with(short, Environment::system()).await;
    let mut reader = AuditStreamReader::open(&app, app.admin_token(), "after=0&type=UserBanned", None).await;

    // When other events are recorded
    publisher(&app, "first").await;
    let last = head(&app).await;

    // Then it receives only heartbeats, the later ones with the position of the last event
    let expected = format!(": heartbeat\nid: {last}\n\n");
    eventually("a heartbeat has the position", async || {
        let chunk = reader.response.chunk().await.expect("a complete response").expect("no end");
        reader.text.push_str(&String::from_utf8_lossy(&chunk));
        reader.text.contains(&expected)
    })
    .await;
    assert!(!reader.text.contains("data: "), "{}", reader.text);
}
