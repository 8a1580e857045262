//! Idempotency keys: a request that comes again is not carried out again, whatever happened in between, and gets the
//! answer that it had.

mod crash;
mod interrupted;
mod sameness;

use mediary::domain::value::Timestamp;
use mediary::events::log::EventLog;
use mediary::events::stream::Position;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, TestApp};

const KEY: &str = "Idempotency-Key";
const START: Timestamp = Timestamp::from_micros(1_764_000_000_000_000);

impl TestApp {
    /// POST with a key.
    async fn post_once(&self, key: &str, token: &str, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).bearer_auth(token).header(KEY, key).json(body)).await
    }

    /// PUT with a key.
    async fn put_once(&self, key: &str, token: &str, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, path).bearer_auth(token).header(KEY, key).json(body)).await
    }

    /// How many events of this name the log holds.
    fn recorded(&self, name: &str) -> usize {
        let events = self.app.log().read_all(Position(0), usize::MAX).expect("the log can be read");
        events.iter().filter(|event| event.event.name() == name).count()
    }

    /// How many users there are, the first administrator among them.
    async fn count_users(&self) -> Value {
        self.get_as(self.admin_token(), "/admin/users").await.expect(200).json()["total"].clone()
    }
}

/// Whether an answer says that it is not the first one.
fn replayed(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

/// All headers but those that name this very exchange.
fn headers(answer: &Answer) -> Vec<(String, String)> {
    // The exposed headers come in an order that each worker has for itself.
    let of_the_exchange = [
        "x-request-id",
        "date",
        "idempotent-replayed",
        "access-control-expose-headers",
        // A replay is charged to no quota, so it tells of none.
        "ratelimit",
        "ratelimit-policy",
    ];
    let named = answer.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let mut kept: Vec<_> = named.filter(|(name, _)| !of_the_exchange.contains(&name.as_str())).collect();
    kept.sort();
    kept
}

/// The second answer is the first one again.
#[track_caller]
fn assert_replay(first: &Answer, second: &Answer) {
    assert!(!replayed(first) && replayed(second), "{} then {}", first.text(), second.text());
    assert_eq!((first.status, first.text()), (second.status, second.text()));
    assert_eq!(headers(first), headers(second));
}

/// The answer is a problem of this kind.
#[track_caller]
fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.json()["error"], code);
    assert!(!replayed(answer));
}

/// A user that is to be made.
fn somebody(name: &str) -> Value {
    json!({"name": name})
}
