//! Clients of the service: their ids and secrets, requests, and responses.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use mediary::environment::Environment;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::op::{NODES, Op, Step, Who};
use super::request::{Known, Request};
use super::things::number;
use super::world::World;
use crate::support::client;
use crate::support::process::{Process, TOKEN};
use crate::support::zip::good;

/// Outcome of a comparison; the error describes the difference from the model.
pub type Agreement = Result<(), String>;

/// Access token: its id and its secret.
type Kept = (String, String);

/// Clients and their connection to the service.
pub struct People {
    client: Client,
    /// Running service; replaced after every kill.
    pub service: Process,
    /// Ids of users, each with all its tokens; the first user has the bootstrap token.
    users: Vec<(String, Vec<Kept>)>,
    /// Tokens of each publisher.
    tokens: [Vec<Kept>; 3],
    /// Upload links, by node in lower case and version without build metadata.
    links: BTreeMap<(String, String), String>,
    /// Time before each command.
    pub moments: Vec<String>,
    /// Administrators' requests with keys that succeeded, and their responses.
    answered: Vec<(String, Request, u16, String)>,
    keys: usize,
    /// All requests sent.
    pub asked: RefCell<BTreeSet<(Method, String)>>,
}

impl Known for People {
    fn user(&self, number: usize) -> String {
        self.users[number % self.users.len()].0.clone()
    }

    fn user_token(&self, number: usize, nth: usize) -> String {
        nth_id(&self.users[number % self.users.len()].1, nth)
    }

    fn token(&self, publisher: usize, nth: usize) -> String {
        nth_id(&self.tokens[publisher], nth)
    }
}

fn nth_id(tokens: &[Kept], nth: usize) -> String {
    tokens.get(nth % tokens.len().max(1)).map_or(uuid::Uuid::nil().to_string(), |(id, _)| id.clone())
}

/// Response: its status, its text, and whether it is a replay.
struct Answer {
    status: u16,
    text: String,
    replayed: bool,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl People {
    /// Clients of a service without users other than its administrator.
    pub async fn arrive(service: Process) -> Self {
        let mut people = Self {
            client: client(),
            service,
            users: Vec::new(),
            tokens: Default::default(),
            links: BTreeMap::new(),
            moments: Vec::new(),
            answered: Vec::new(),
            keys: 0,
            asked: RefCell::default(),
        };
        let admin = people.read("/users").await;
        people.users.push((text(&admin, "id"), Vec::new()));
        people
    }

    /// Sends the commands in order; each response must have the status of the model.
    pub async fn act(&mut self, world: &mut World, steps: &[Step]) -> Agreement {
        for (nth, step) in steps.iter().enumerate() {
            // Downloads are recorded with a delay, which must not overlap with an administrator's change of the count.
            if let (Op::Administer { node, .. } | Op::DeleteNode { node, .. }, Ok(who)) =
                (&step.op, world.whoever(step.who))
                && who != Who::Anonymous
            {
                self.settle(world, &NODES[*node].to_lowercase()).await?;
            }
            self.moments.push(Environment::system().now().to_string());
            let request = self.request(world, step);
            let expected = world.act(step);
            let answer = self.send(world, step, &request).await;
            if answer.status != expected {
                let told = format!("{}, the model says {expected}: {}", answer.status, answer.text);
                return Err(format!("command {nth}, {step:?}: {told}"));
            }
            self.remember(&step.op, expected, &answer.json()).await;
            if answer.status == 204 && matches!(step.op, Op::EraseUser { .. } | Op::EraseSelf) {
                // Responses that may contain data of an erased user are not stored.
                self.answered.clear();
            }
        }
        Ok(())
    }

    /// Request of a command; an upload uses the newest link.
    fn request(&self, world: &World, step: &Step) -> Request {
        match step.op {
            Op::Upload { node, version, .. } => {
                let link = self.links.get(&place(node, version));
                let path = link.map_or("/uploads/none".to_owned(), |link| path_of(link));
                Request { method: Method::PUT, path, body: None }
            }
            _ => self.with_token(world, step, step.op.request(self)),
        }
    }

    /// Puts the token of a publication into the body: for half of them, by the version.
    fn with_token(&self, world: &World, step: &Step, mut request: Request) -> Request {
        if in_body(step)
            && let (Some(secret), Some(body)) = (self.secret_of(world, step.who), &mut request.body)
        {
            body["personal_access_token"] = json!(secret);
        }
        request
    }

    async fn send(&mut self, world: &World, step: &Step, request: &Request) -> Answer {
        if let Op::Upload { good: is_good, .. } = step.op {
            let archive = if is_good { good() } else { b"no archive".to_vec() };
            return self.ask_with(request, |asking| asking.body(archive)).await;
        }
        let secret = self.secret_of(world, step.who).filter(|_| !in_body(step)).map(ToOwned::to_owned);
        let with_secret = |asking: reqwest::RequestBuilder| match &secret {
            Some(secret) => asking.bearer_auth(secret),
            None => asking,
        };
        if !step.keyed || ![Method::POST, Method::PUT].contains(&request.method) {
            return self.ask_with(request, with_secret).await;
        }
        self.keys += 1;
        let key = format!("key-{}", self.keys);
        let with_key = |asking: reqwest::RequestBuilder| with_secret(asking).header("Idempotency-Key", &key);
        let first = self.ask_with(request, with_key).await;
        let again = self.ask_with(request, with_key).await;
        assert_eq!(again.status, first.status, "{request:?} came again: {}", again.text);
        if first.status < 300 {
            assert_eq!(again.text, first.text, "{request:?} came again");
            assert!(again.replayed && !first.replayed, "{request:?}");
            let other = Request { body: Some(json!({"other": true})), ..request.clone() };
            let refused = self.ask_with(&other, with_key).await;
            assert_eq!(refused.status, 422, "{other:?}: {}", refused.text);
            if world.whoever(step.who) == Ok(super::op::ADMIN) {
                self.answered.push((key, request.clone(), first.status, first.text.clone()));
            }
        }
        first
    }

    /// Asserts that requests with a key are replayed, unless the resource in their path is gone.
    pub async fn same_answers(&self) -> Agreement {
        for (key, request, status, text) in self.answered.iter().rev().take(10) {
            let asking = |asking: reqwest::RequestBuilder| asking.bearer_auth(TOKEN).header("Idempotency-Key", key);
            let again = self.ask_with(request, asking).await;
            if again.status != 404 && (again.status, &again.text) != (*status, text) {
                return Err(format!("{request:?} again: {} {}, before {status} {text}", again.status, again.text));
            }
        }
        Ok(())
    }

    /// Records ids, secrets and links chosen by the service.
    async fn remember(&mut self, op: &Op, status: u16, answer: &Value) {
        match op {
            Op::CreateUser { .. } if status == 201 => {
                let id = text(answer, "id");
                let path = format!("/admin/users/{id}/tokens");
                let (_, token) = self.ask(Some(TOKEN), Method::POST, &path, Some(json!({"name": "test"}))).await;
                self.users.push((id, vec![(text(&token, "id"), text(&token, "token"))]));
            }
            Op::IssueUserToken { user } if status == 201 => {
                let user = user % self.users.len();
                self.users[user].1.push((text(answer, "id"), text(answer, "token")));
            }
            Op::IssueToken { publisher } if status == 201 => {
                // The response has only the secret; the id is the last in the list.
                let path = format!("/publishers/{}/tokens", super::op::PUBLISHERS[*publisher]);
                let tokens = self.read(&path).await;
                let id = text(tokens.as_array().and_then(|all| all.last()).expect("it is listed"), "id");
                self.tokens[*publisher].push((id, text(answer, "token")));
            }
            Op::Publish { node, version, .. } | Op::RenewUpload { node, version, .. } if status < 300 => {
                self.links.insert(place(*node, *version), text(answer, "signedUrl"));
            }
            _ => {}
        }
    }

    /// Secret of a caller, valid or revoked; `None` for anonymous callers.
    pub fn secret_of(&self, world: &World, who: Who) -> Option<&str> {
        match who {
            Who::Anonymous => None,
            Who::User(user) => match world.user(user) {
                0 => Some(TOKEN),
                user => self.users[user].1.last().map(|(_, secret)| secret.as_str()),
            },
            Who::Token(publisher) => self.tokens[publisher].last().map(|(_, secret)| secret.as_str()),
        }
    }

    /// Newest secret of a user.
    pub fn secret(&self, world: &World, user: usize) -> &str {
        self.secret_of(world, Who::User(user)).expect("every user was given a token")
    }

    /// Waits until all installs of a node are counted.
    pub async fn settle(&self, world: &World, node: &str) -> Agreement {
        let Some(node) = world.nodes.get(node).filter(|node| !node.deleted) else { return Ok(()) };
        let mut seen = Value::Null;
        for _ in 0..1_000 {
            seen = self.read(&format!("/nodes/{}", node.id)).await;
            if seen["downloads"] == node.downloads {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err(format!("{} has {} downloads, the model says {}", node.id, seen["downloads"], node.downloads))
    }

    async fn ask_with(
        &self,
        request: &Request,
        with: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Answer {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        self.asked.borrow_mut().insert((request.method.clone(), path));
        let mut asking = self.client.request(request.method.clone(), self.service.url(&request.path));
        if let Some(body) = &request.body {
            asking = asking.json(body);
        }
        let answer = with(asking).send().await.expect("an answer");
        let (status, replayed) = (answer.status().as_u16(), answer.headers().contains_key("Idempotent-Replayed"));
        Answer { status, text: answer.text().await.expect("a text"), replayed }
    }

    /// Sends a request, and returns its status and its body.
    pub async fn ask(&self, token: Option<&str>, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request { method, path: path.to_owned(), body };
        let with = |asking: reqwest::RequestBuilder| match token {
            Some(token) => asking.bearer_auth(token),
            None => asking,
        };
        let answer = self.ask_with(&request, with).await;
        (answer.status, answer.json())
    }

    /// Reads bytes with status and headers.
    pub async fn fetch(&self, token: Option<&str>, path: &str) -> (u16, reqwest::header::HeaderMap, Vec<u8>) {
        let bare = path.split('?').next().unwrap_or_default().to_owned();
        self.asked.borrow_mut().insert((Method::GET, bare));
        let asking = self.client.get(self.service.url(path));
        let asking = if let Some(token) = token { asking.bearer_auth(token) } else { asking };
        let answer = asking.send().await.expect("an answer");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        (status, headers, answer.bytes().await.expect("a body").to_vec())
    }

    /// Reads as an administrator; must succeed.
    pub async fn read(&self, path: &str) -> Value {
        let (status, answer) = self.ask(Some(TOKEN), Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }

    /// Reads anonymously; must succeed.
    pub async fn read_anonymously(&self, path: &str) -> Value {
        let (status, answer) = self.ask(None, Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {answer}");
        answer
    }
}

/// Path of a URL, which may have the host and port of an earlier start.
fn path_of(url: &str) -> String {
    let path = url.splitn(4, '/').nth(3).expect("a path");
    format!("/{path}")
}

/// `true` if the token is in the body and not in the header.
fn in_body(step: &Step) -> bool {
    matches!((&step.op, step.who), (Op::Publish { version, .. }, Who::Token(_)) if version.is_multiple_of(2))
}

fn place(node: usize, version: usize) -> (String, String) {
    let mut number = number(version);
    number.build = semver::BuildMetadata::EMPTY;
    (NODES[node].to_lowercase(), number.to_string())
}

pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} of {value}")).to_owned()
}
