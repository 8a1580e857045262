//! kill -9 under load, with clients that repeat every request with its idempotency key until they get a response: every
//! key has one effect.
//!
//! The suite runs 8 rounds; `CRASH_ROUNDS=200 cargo test --test it idempotency_crash` runs more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mediary::domain::claim::ClaimEvent;
use mediary::domain::event::Event;
use mediary::environment::Environment;
use mediary::events::log::EventLog;
use mediary::events::sled_log::SledLog;
use mediary::events::stream::Position;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::idempotency::KEY;
use crate::support::client;
use crate::support::process::{Process, TOKEN};

/// Number of clients that write at the same time.
const WRITERS: usize = 16;
/// User id of the administrator with the bootstrap token.
const ADMINISTRATOR: &str = "00000000-0000-4000-8000-000000000001";

/// Requests of one writer, over all restarts of the service.
struct KeyedWriter {
    index: usize,
    client: Client,
    /// Number of the first request without a response.
    next: usize,
    /// Status and body of every response, by the number of its request.
    acknowledged: Vec<(u16, Value)>,
}

impl KeyedWriter {
    fn new(index: usize) -> Self {
        Self { index, client: client(), next: 0, acknowledged: Vec::new() }
    }

    /// Returns method, path and body of a request, and the kind of the event that it records. The first two requests
    /// create the publisher and the node of the others.
    fn request(&self, step: usize) -> (Method, String, Value, &'static str) {
        let (writer, tokens) = (self.index, format!("/admin/users/{ADMINISTRATOR}/tokens"));
        let nodes = format!("/publishers/p{writer}/nodes");
        match step {
            0 => (Method::POST, "/publishers".to_owned(), json!({"id": format!("p{writer}")}), "PublisherCreated"),
            1 => (Method::POST, nodes, json!({"id": format!("n{writer}")}), "NodeCreated"),
            _ => match step % 4 {
                0 => (Method::POST, "/admin/users".to_owned(), json!({"name": "somebody"}), "UserCreated"),
                1 => (Method::POST, tokens, json!({"name": "x"}), "TokenIssued"),
                2 => {
                    let version = json!({"node_version": {"version": format!("1.0.{step}")}});
                    (Method::POST, format!("{nodes}/n{writer}/versions"), version, "VersionPublished")
                }
                _ => {
                    let name = json!({"name": format!("Name {step}")});
                    (Method::PUT, format!("/publishers/p{writer}"), name, "PublisherRevised")
                }
            },
        }
    }

    /// Sends a request with its key. Returns the status, whether the response is a replay, and the body; `None` if the
    /// service was killed.
    async fn send(&self, base: &str, step: usize) -> Option<(u16, bool, Value)> {
        let (method, path, body, _) = self.request(step);
        let request = self.client.request(method, format!("{base}{path}")).bearer_auth(TOKEN).json(&body);
        let response = request.header(KEY, format!("w{}-{step}", self.index)).send().await.ok()?;
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("idempotent-replayed");
        Some((status, replayed, response.json().await.ok()?))
    }

    /// Sends the unanswered request, and more, until the service is killed or `stop` is set.
    async fn write(mut self, base: String, stop: Arc<AtomicBool>) -> Self {
        if let Some((status, body)) = self.acknowledged.last().cloned() {
            // The last response from before the kill is replayed.
            match self.send(&base, self.next - 1).await {
                Some(replayed) => assert_eq!(replayed, (status, true, body)),
                None => return self,
            }
        }
        // A request that may have run without a response is sent again after every restart, including the last.
        loop {
            match self.send(&base, self.next).await {
                Some((status @ (200 | 201), _, body)) => self.acknowledged.push((status, body)),
                Some((status, _, body)) => panic!("{status}: {body}"),
                None => return self,
            }
            self.next += 1;
            if stop.load(Ordering::SeqCst) {
                return self;
            }
        }
    }

    /// Returns the ids of created resources that the service chose.
    fn ids(&self) -> impl Iterator<Item = &str> {
        // The first two requests have ids chosen by the client.
        self.acknowledged.iter().skip(2).filter_map(|(status, body)| {
            let id = body.pointer("/node_version/id").or_else(|| body.get("id"));
            id.filter(|_| *status == 201)?.as_str()
        })
    }
}

#[actix_web::test]
async fn every_idempotency_key_has_one_effect_over_kill_9() {
    let rounds: u64 = std::env::var("CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    let data = tempfile::tempdir().unwrap();
    let mut writers: Vec<_> = (0..WRITERS).map(KeyedWriter::new).collect();
    let mut rng = StdRng::seed_from_u64(0xB0B);
    for round in 0..=rounds {
        // Given writers that continue with the unanswered request
        let service = Process::start(data.path());
        let stop = Arc::new(AtomicBool::new(false));
        let writing: Vec<_> =
            writers.drain(..).map(|writer| actix_web::rt::spawn(writer.write(service.url(""), stop.clone()))).collect();
        tokio::time::sleep(Duration::from_millis(rng.gen_range(20..300))).await;

        // When the service is killed, except in the last round
        let is_last_round = round == rounds;
        stop.store(is_last_round, Ordering::SeqCst);
        let service = if is_last_round {
            Some(service)
        } else {
            service.kill();
            None
        };
        for writer in writing {
            writers.push(writer.await.unwrap());
        }
        if let Some(service) = service {
            assert_tokens_work(&service, &writers).await;
            let (status, errors) = service.terminate();
            assert!(status.success(), "{status}: {errors}");
        }
    }

    // Then every request was executed once
    verify(data.path(), &writers);
}

/// Asserts that the last token of each writer works, even if its secret was in a replayed response.
async fn assert_tokens_work(service: &Process, writers: &[KeyedWriter]) {
    let client = client();
    for writer in writers {
        let token = writer.acknowledged.iter().rev().find_map(|(_, body)| body["token"].as_str());
        let Some(token) = token else { continue };
        let response = client.get(service.url("/users")).bearer_auth(token).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "the last token of writer {} is invalid", writer.index);
    }
}

/// Asserts that every key was claimed once, and that the log has exactly the events of the acknowledged requests.
fn verify(data: &std::path::Path, writers: &[KeyedWriter]) {
    let options = mediary::app::log_options(data, &mediary::config::Settings::default());
    let (log, _) = SledLog::open(&options, &Environment::system(), |_| {}).unwrap();
    let events = log.read_all(Position(0), usize::MAX).unwrap();

    let mut claims = HashMap::new();
    let mut kinds: HashMap<&str, usize> = HashMap::new();
    for event in &events {
        *kinds.entry(event.event.name()).or_default() += 1;
        if let Event::Claim(ClaimEvent::KeyClaimed(claim)) = &event.event {
            *claims.entry((claim.key, claim.command_index)).or_insert(0) += 1;
        }
    }

    assert!(claims.values().all(|times| *times == 1), "a key was claimed twice");

    // The first start creates the administrator.
    let mut expected: HashMap<&str, usize> = HashMap::from([("UserCreated", 1)]);
    for writer in writers {
        for step in 0..writer.next {
            *expected.entry(writer.request(step).3).or_default() += 1;
            *expected.entry("KeyClaimed").or_default() += 1;
        }
    }

    // The service records uses of tokens on its own, once a minute.
    kinds.remove("TokenUsed");
    assert_eq!(kinds, expected, "number of events by kind");

    let streams: Vec<_> = events.iter().map(|event| event.stream.as_str()).collect();
    // The id of a version is only in the event of its node.
    let event_texts: Vec<_> = events.iter().map(|event| format!("{:?}", event.event)).collect();
    for id in writers.iter().flat_map(KeyedWriter::ids) {
        let is_recorded =
            streams.iter().any(|stream| stream.ends_with(id)) || event_texts.iter().any(|text| text.contains(id));
        assert!(is_recorded, "{id} was acknowledged but is not in the log");
    }

    println!("{} requests, each executed once", claims.len());
}
