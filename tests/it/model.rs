//! The registry against a simple model: random commands of several people, then every list, filter, order, page, search
//! and bulk look-up must say what the model says; again after kill -9, and again after `mediary projections rebuild`.
//!
//! The suite tries the same lives at every run; `MODEL_CASES=100 cargo test --test it model` tries that many new ones.

mod check;
mod op;
mod things;
mod world;

use std::process::Command;

use proptest::collection::vec;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::support::client;
use crate::support::process::{Process, TOKEN};
use op::{Op, Who};
use world::{USERS, World};

/// How people reach the service.
pub struct People {
    client: Client,
    /// The service that runs now; it changes with every kill.
    service: Process,
    /// Of the users, in the order of [`USERS`].
    users: Vec<(String, String)>,
    /// The newest access token of each publisher: its id and its secret.
    tokens: [Option<(String, String)>; 3],
}

#[test]
fn the_registry_agrees_with_a_simple_model() {
    let asked = std::env::var("MODEL_CASES").ok().and_then(|n| n.parse().ok());
    let config =
        Config { cases: asked.unwrap_or(6), max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let lives = (vec(op::command(), 20..90), vec(op::command(), 5..40), vec(op::list(), 30));
    let outcome = runner.run(&lives, |(first, second, queries)| {
        let agreed = actix_web::rt::System::new().block_on(live_and_die(&first, &second, &queries));
        agreed.map_err(TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

async fn live_and_die(first: &[Op], second: &[Op], queries: &[op::Query]) -> Result<(), String> {
    let data = tempfile::tempdir().unwrap();
    let mut world = World::default();
    // Given a service with some people, when they do things
    let mut people = People::arrive(Process::start(data.path())).await;
    people.act(&mut world, first).await?;
    // Then everything that can be asked is as the model says
    check::everything(&people, &world, queries).await?;
    // And so it is after kill -9, and when life goes on
    people.service.kill();
    people.service = Process::start(data.path());
    check::everything(&people, &world, queries).await.map_err(|error| format!("after kill -9: {error}"))?;
    people.act(&mut world, second).await?;
    check::everything(&people, &world, queries).await?;
    // And after everything that is read was made anew from the log
    people.service.kill();
    rebuild(data.path());
    people.service = Process::start(data.path());
    check::everything(&people, &world, queries).await.map_err(|error| format!("after a rebuild: {error}"))
}

fn rebuild(data: &std::path::Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediary"));
    let output = command.args(["projections", "rebuild", "--data-dir"]).arg(data).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("events"), "it says what it did: {told}");
}

impl People {
    async fn arrive(service: Process) -> Self {
        let mut people = Self { client: client(), service, users: Vec::new(), tokens: [None, None, None] };
        for name in USERS {
            let (_, user) = people.ask(Some(TOKEN), Method::POST, "/admin/users", Some(json!({"name": name}))).await;
            let id = user["id"].as_str().expect("a user").to_owned();
            let path = format!("/admin/users/{id}/tokens");
            let (_, token) = people.ask(Some(TOKEN), Method::POST, &path, Some(json!({"name": "test"}))).await;
            people.users.push((id, token["token"].as_str().expect("a token").to_owned()));
        }
        people
    }

    /// Does the commands one after the other; each answer must have the status that the model gives.
    async fn act(&mut self, world: &mut World, ops: &[Op]) -> Result<(), String> {
        for (nth, op) in ops.iter().enumerate() {
            let expected = world.act(op);
            let (status, answer) = self.send(op).await;
            if status != expected {
                return Err(format!("command {nth}, {op:?}: {status}, the model says {expected}: {answer}"));
            }
        }
        Ok(())
    }

    async fn send(&mut self, op: &Op) -> (u16, Value) {
        let ids: Vec<&str> = self.users.iter().map(|(id, _)| id.as_str()).collect();
        let token_id = |publisher: usize| self.tokens[publisher].as_ref().map(|(id, _)| id.clone());
        let (method, path, body) = op.request(&ids, token_id);
        let secret = self.secret_of(op.who()).map(ToOwned::to_owned);
        let (status, answer) = self.ask(secret.as_deref(), method, &path, body).await;
        if let (Op::IssueToken { publisher, .. }, 200 | 201) = (op, status) {
            self.remember_token(*publisher, answer["token"].as_str().expect("a token").to_owned()).await;
        }
        (status, answer)
    }

    /// The answer to an issued token is only its secret; its id stands in the list, last.
    async fn remember_token(&mut self, publisher: usize, secret: String) {
        let path = format!("/publishers/{}/tokens", world::PUBLISHERS[publisher]);
        let (_, tokens) = self.ask(Some(TOKEN), Method::GET, &path, None).await;
        let id = tokens.as_array().and_then(|all| all.last()?["id"].as_str()).expect("it is listed").to_owned();
        self.tokens[publisher] = Some((id, secret));
    }

    fn secret_of(&self, who: Who) -> Option<&str> {
        match who {
            Who::Anonymous => None,
            Who::Admin => Some(TOKEN),
            Who::User(user) => Some(&self.users[user].1),
            Who::Token(publisher) => self.tokens[publisher].as_ref().map(|(_, secret)| secret.as_str()),
        }
    }

    /// One request, its status and its body.
    pub async fn ask(&self, token: Option<&str>, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self.client.request(method, self.service.url(path));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.expect("a body")).unwrap_or_default())
    }

    /// A read that must succeed, as an administrator.
    pub async fn read(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Some(TOKEN), Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }

    /// A read that must succeed, of anybody.
    pub async fn read_anonymously(&self, path: &str) -> Value {
        let (status, answer) = self.ask(None, Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }
}
