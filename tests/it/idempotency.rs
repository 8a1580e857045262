//! Idempotency keys: a repeated request is not executed again, even after crashes and restarts, and gets the first
//! response.

mod interrupted;
mod replay;

use mediary::domain::value::Timestamp;
use mediary::events::log::EventLog;
use mediary::events::stream::Position;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse};

pub const KEY: &str = "Idempotency-Key";
const START: Timestamp = Timestamp::from_micros(1_764_000_000_000_000);

impl TestApp {
    /// Sends a POST with a key.
    async fn post_once(&self, key: &str, token: &str, path: &str, body: &Value) -> TestResponse {
        self.send(self.request(Method::POST, path).bearer_auth(token).header(KEY, key).json(body)).await
    }

    /// Sends a PUT with a key.
    async fn put_once(&self, key: &str, token: &str, path: &str, body: &Value) -> TestResponse {
        self.send(self.request(Method::PUT, path).bearer_auth(token).header(KEY, key).json(body)).await
    }

    /// Returns the number of events of this type in the log.
    fn recorded(&self, name: &str) -> usize {
        let events = self.app.log().read_all(Position(0), usize::MAX).expect("the log can be read");
        events.iter().filter(|event| event.event.name() == name).count()
    }

    /// Returns the number of users, including the first administrator.
    async fn count_users(&self) -> Value {
        self.get_as(self.admin_token(), "/admin/users").await.expect(200).json()["total"].clone()
    }
}

/// `true` if the response is marked as a replay.
fn replayed(response: &TestResponse) -> bool {
    response.header("idempotent-replayed") == Some("true")
}

/// Returns all headers except those that belong to a single exchange.
fn headers(response: &TestResponse) -> Vec<(String, String)> {
    // Each worker lists the exposed headers in its own order.
    let per_exchange = [
        "x-request-id",
        "date",
        "idempotent-replayed",
        "access-control-expose-headers",
        // A replay counts against no quota, so it has none of its headers.
        "ratelimit",
        "ratelimit-policy",
    ];
    let pairs = response.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let mut sorted: Vec<_> = pairs.filter(|(name, _)| !per_exchange.contains(&name.as_str())).collect();
    sorted.sort();
    sorted
}

/// Asserts that the second response replays the first.
#[track_caller]
fn assert_replay(first: &TestResponse, second: &TestResponse) {
    assert!(!replayed(first) && replayed(second), "{} then {}", first.text(), second.text());
    assert_eq!((first.status, first.text()), (second.status, second.text()));
    assert_eq!(headers(first), headers(second));
}

/// Asserts that the response is a problem of this kind.
#[track_caller]
fn assert_problem(response: &TestResponse, status: u16, code: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.json()["error"], code);
    assert!(!replayed(response));
}

/// Returns a body that creates a user.
fn user_body(name: &str) -> Value {
    json!({"name": name})
}
