//! Clients that send the commands of the model to the service, and know the ids, secrets and links that it returned.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use mediary::environment::Environment;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::entities::number;
use super::op::{ModelCaller, ModelOp, ModelStep, NODES};
use super::request::{KnownIds, ModelRequest};
use super::world::ModelWorld;
use crate::support::client;
use crate::support::process::{Process, TOKEN};
use crate::support::zip::valid_archive;

/// Number of requests whose replay is checked after a restart.
const CHECKED_REPLAYS: usize = 10;

/// Outcome of a comparison; the error describes the difference from the model.
pub type CheckResult = Result<(), String>;

/// Access token as the service returned it.
struct IssuedToken {
    id: String,
    secret: String,
}

/// User with all its tokens, oldest first.
struct CreatedUser {
    id: String,
    tokens: Vec<IssuedToken>,
}

/// Clients and their connection to the service.
pub struct ModelClients {
    client: Client,
    /// Running service; replaced after every kill.
    pub service: Process,
    /// Users by index; the first one has the bootstrap token, which is not among its tokens.
    users: Vec<CreatedUser>,
    /// Tokens of each publisher, oldest first.
    tokens: [Vec<IssuedToken>; 3],
    /// Upload links, by node in lower case and version without build metadata.
    links: BTreeMap<(String, String), String>,
    /// Time before each command.
    pub timestamps: Vec<String>,
    /// Administrators' requests with idempotency keys that succeeded.
    acknowledged: Vec<AcknowledgedRequest>,
    /// Number of idempotency keys used so far.
    keys: usize,
    /// Method and path of every request sent.
    pub requested_routes: RefCell<BTreeSet<(Method, String)>>,
}

/// Request with an idempotency key, and its first response.
struct AcknowledgedRequest {
    key: String,
    request: ModelRequest,
    status: u16,
    text: String,
}

impl KnownIds for ModelClients {
    fn user(&self, number: usize) -> String {
        self.users[number % self.users.len()].id.clone()
    }

    fn user_token(&self, number: usize, nth: usize) -> String {
        id_at(&self.users[number % self.users.len()].tokens, nth)
    }

    fn token(&self, publisher: usize, nth: usize) -> String {
        id_at(&self.tokens[publisher], nth)
    }
}

/// Returns the id of the token with an index, taken modulo the number of tokens; the nil UUID if there is none.
fn id_at(tokens: &[IssuedToken], index: usize) -> String {
    tokens.get(index % tokens.len().max(1)).map_or(uuid::Uuid::nil().to_string(), |token| token.id.clone())
}

/// Response of the service.
struct ModelResponse {
    status: u16,
    text: String,
    /// `true` if the response has the header of a replayed response.
    replayed: bool,
}

impl ModelResponse {
    /// Returns the body; `null` if it is not JSON.
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl IssuedToken {
    /// Returns the token of a response that has its id and its secret.
    fn from_response(response: &Value) -> Self {
        Self { id: string_field(response, "id"), secret: string_field(response, "token") }
    }
}

impl ModelClients {
    /// Returns clients of a service that has no user but its administrator.
    pub async fn connect(service: Process) -> Self {
        let mut clients = Self {
            client: client(),
            service,
            users: Vec::new(),
            tokens: Default::default(),
            links: BTreeMap::new(),
            timestamps: Vec::new(),
            acknowledged: Vec::new(),
            keys: 0,
            requested_routes: RefCell::default(),
        };
        let admin = clients.get_as_admin("/users").await;
        clients.users.push(CreatedUser { id: string_field(&admin, "id"), tokens: Vec::new() });
        clients
    }

    /// Sends the commands in order and applies them to the model; each response must have the status that the model
    /// expects.
    pub async fn send_steps(&mut self, world: &mut ModelWorld, steps: &[ModelStep]) -> CheckResult {
        for (index, step) in steps.iter().enumerate() {
            // Installs are counted with a delay. All must be counted before an administrator sets the count.
            if let (ModelOp::Administer { node, .. } | ModelOp::DeleteNode { node, .. }, Ok(caller)) =
                (&step.op, world.authenticate(step.caller))
                && caller != ModelCaller::Anonymous
            {
                self.wait_for_installs(world, &NODES[*node].to_lowercase()).await?;
            }
            self.timestamps.push(Environment::system().now().to_string());
            let request = self.request(world, step);
            let expected = world.apply(step);
            let response = self.send(world, step, &request).await;
            if response.status != expected {
                let mismatch = format!("{}, the model says {expected}: {}", response.status, response.text);
                return Err(format!("command {index}, {step:?}: {mismatch}"));
            }
            self.remember(&step.op, expected, &response.json()).await;
            if response.status == 204 && matches!(step.op, ModelOp::EraseUser { .. } | ModelOp::EraseSelf) {
                // Responses that may contain data of an erased user are not stored.
                self.acknowledged.clear();
            }
        }
        Ok(())
    }

    /// Returns the request of a command; an upload uses the newest link.
    fn request(&self, world: &ModelWorld, step: &ModelStep) -> ModelRequest {
        match step.op {
            ModelOp::Upload { node, version, .. } => {
                let link = self.links.get(&link_key(node, version));
                let path = link.map_or("/uploads/none".to_owned(), |link| path_of(link));
                ModelRequest { method: Method::PUT, path, body: None }
            }
            _ => self.with_token(world, step, step.op.request(self)),
        }
    }

    /// Puts the publisher's token into the body if [`has_token_in_body`] says so.
    fn with_token(&self, world: &ModelWorld, step: &ModelStep, mut request: ModelRequest) -> ModelRequest {
        if has_token_in_body(step)
            && let (Some(secret), Some(body)) = (self.secret_of(world, step.caller), &mut request.body)
        {
            body["personal_access_token"] = json!(secret);
        }
        request
    }

    /// Sends a command. A request with an idempotency key is sent again, which must be replayed, and again with another
    /// body, which must be rejected.
    async fn send(&mut self, world: &ModelWorld, step: &ModelStep, request: &ModelRequest) -> ModelResponse {
        if let ModelOp::Upload { good: is_good, .. } = step.op {
            let archive = if is_good { valid_archive() } else { b"no archive".to_vec() };
            return self.send_with(request, |builder| builder.body(archive)).await;
        }
        let secret = self.secret_of(world, step.caller).filter(|_| !has_token_in_body(step)).map(ToOwned::to_owned);
        let with_secret = |builder: reqwest::RequestBuilder| match &secret {
            Some(secret) => builder.bearer_auth(secret),
            None => builder,
        };
        if !step.keyed || ![Method::POST, Method::PUT].contains(&request.method) {
            return self.send_with(request, with_secret).await;
        }

        self.keys += 1;
        let key = format!("key-{}", self.keys);
        let with_key = |builder: reqwest::RequestBuilder| with_secret(builder).header("Idempotency-Key", &key);

        let first = self.send_with(request, with_key).await;
        let repeated = self.send_with(request, with_key).await;
        assert_eq!(repeated.status, first.status, "{request:?} was repeated: {}", repeated.text);
        if first.status < 300 {
            assert_eq!(repeated.text, first.text, "{request:?} was repeated");
            assert!(repeated.replayed && !first.replayed, "only the repetition of {request:?} is a replay");

            let changed = ModelRequest { body: Some(json!({"other": true})), ..request.clone() };
            let problem = self.send_with(&changed, with_key).await;
            assert_eq!(problem.status, 422, "{changed:?}: {}", problem.text);
            if world.authenticate(step.caller) == Ok(super::op::ADMIN) {
                let (request, text) = (request.clone(), first.text.clone());
                self.acknowledged.push(AcknowledgedRequest { key, request, status: first.status, text });
            }
        }
        first
    }

    /// Checks that the newest requests with a key are still replayed, unless the resource in their path is gone.
    pub async fn check_replays(&self) -> CheckResult {
        for AcknowledgedRequest { key, request, status, text } in self.acknowledged.iter().rev().take(CHECKED_REPLAYS) {
            let with_credentials =
                |builder: reqwest::RequestBuilder| builder.bearer_auth(TOKEN).header("Idempotency-Key", key);
            let repeated = self.send_with(request, with_credentials).await;
            if repeated.status != 404 && (repeated.status, &repeated.text) != (*status, text) {
                return Err(format!(
                    "{request:?} was repeated: {} {}, but the first response was {status} {text}",
                    repeated.status, repeated.text
                ));
            }
        }
        Ok(())
    }

    /// Records the ids, secrets and links in a response. Issues a token for a new user.
    async fn remember(&mut self, op: &ModelOp, status: u16, response: &Value) {
        match op {
            ModelOp::CreateUser { .. } if status == 201 => {
                let id = string_field(response, "id");
                let path = format!("/admin/users/{id}/tokens");
                let (_, token) =
                    self.request_json(Some(TOKEN), Method::POST, &path, Some(json!({"name": "test"}))).await;
                self.users.push(CreatedUser { id, tokens: vec![IssuedToken::from_response(&token)] });
            }
            ModelOp::IssueUserToken { user } if status == 201 => {
                let user = user % self.users.len();
                self.users[user].tokens.push(IssuedToken::from_response(response));
            }
            ModelOp::IssueToken { publisher } if status == 201 => {
                // The response has only the secret; the id is the last in the list.
                let path = format!("/publishers/{}/tokens", super::op::PUBLISHERS[*publisher]);
                let tokens = self.get_as_admin(&path).await;
                let newest = tokens.as_array().and_then(|listed| listed.last()).expect("the new token is listed");
                let id = string_field(newest, "id");
                let secret = string_field(response, "token");
                self.tokens[*publisher].push(IssuedToken { id, secret });
            }
            ModelOp::Publish { node, version, .. } | ModelOp::RenewUpload { node, version, .. } if status < 300 => {
                self.links.insert(link_key(*node, *version), string_field(response, "signedUrl"));
            }
            _ => {}
        }
    }

    /// Returns the newest secret of a caller, valid or revoked; `None` for anonymous callers.
    pub fn secret_of(&self, world: &ModelWorld, caller: ModelCaller) -> Option<&str> {
        match caller {
            ModelCaller::Anonymous => None,
            ModelCaller::User(user) => match world.user(user) {
                0 => Some(TOKEN),
                user => self.users[user].tokens.last().map(|token| token.secret.as_str()),
            },
            ModelCaller::Token(publisher) => self.tokens[publisher].last().map(|token| token.secret.as_str()),
        }
    }

    /// Returns the newest secret of a user.
    pub fn secret(&self, world: &ModelWorld, user: usize) -> &str {
        self.secret_of(world, ModelCaller::User(user)).expect("every user has a token")
    }

    /// Waits at most ten seconds until all installs of a node are counted.
    pub async fn wait_for_installs(&self, world: &ModelWorld, node: &str) -> CheckResult {
        let Some(node) = world.nodes.get(node).filter(|node| !node.deleted) else { return Ok(()) };
        let mut last_state = Value::Null;
        for _ in 0..1_000 {
            last_state = self.get_as_admin(&format!("/nodes/{}", node.id)).await;
            if last_state["downloads"] == node.downloads {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Err(format!("{} has {} downloads, the model says {}", node.id, last_state["downloads"], node.downloads))
    }

    /// Sends a request after `configure` has added headers or a body, and records its route.
    async fn send_with(
        &self,
        request: &ModelRequest,
        configure: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> ModelResponse {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        self.requested_routes.borrow_mut().insert((request.method.clone(), path));
        let mut builder = self.client.request(request.method.clone(), self.service.url(&request.path));
        if let Some(body) = &request.body {
            builder = builder.json(body);
        }
        let response = configure(builder).send().await.expect("a response");
        let status = response.status().as_u16();
        let replayed = response.headers().contains_key("Idempotent-Replayed");
        ModelResponse { status, text: response.text().await.expect("a text"), replayed }
    }

    /// Sends a request. Returns the status and the body; the body is `null` if it is not JSON.
    pub async fn request_json(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let request = ModelRequest { method, path: path.to_owned(), body };
        let authorize = |builder: reqwest::RequestBuilder| match token {
            Some(token) => builder.bearer_auth(token),
            None => builder,
        };
        let response = self.send_with(&request, authorize).await;
        (response.status, response.json())
    }

    /// Reads a path; returns status, headers and body.
    pub async fn fetch(&self, token: Option<&str>, path: &str) -> (u16, reqwest::header::HeaderMap, Vec<u8>) {
        let path_without_query = path.split('?').next().unwrap_or_default().to_owned();
        self.requested_routes.borrow_mut().insert((Method::GET, path_without_query));
        let builder = self.client.get(self.service.url(path));
        let builder = if let Some(token) = token { builder.bearer_auth(token) } else { builder };
        let response = builder.send().await.expect("a response");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        (status, headers, response.bytes().await.expect("a body").to_vec())
    }

    /// Reads a path as the administrator; panics unless the status is 200.
    pub async fn get_as_admin(&self, path: &str) -> Value {
        let (status, response) = self.request_json(Some(TOKEN), Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {response}");
        response
    }

    /// Reads a path without a token; panics unless the status is 200.
    pub async fn get_anonymously(&self, path: &str) -> Value {
        let (status, response) = self.request_json(None, Method::GET, path, None).await;
        assert_eq!(status, 200, "GET {path}: {response}");
        response
    }
}

/// Returns the path of a link without the host and port, which are those of an earlier start of the service.
fn path_of(url: &str) -> String {
    let path = url.splitn(4, '/').nth(3).expect("a path");
    format!("/{path}")
}

/// Returns `true` if a publication has its token in the body instead of the header, as every second version has.
fn has_token_in_body(step: &ModelStep) -> bool {
    matches!((&step.op, step.caller), (ModelOp::Publish { version, .. }, ModelCaller::Token(_)) if version.is_multiple_of(2))
}

/// Returns the key of a version in [`ModelClients::links`].
fn link_key(node: usize, version: usize) -> (String, String) {
    let mut version_number = number(version);
    version_number.build = semver::BuildMetadata::EMPTY;
    (NODES[node].to_lowercase(), version_number.to_string())
}

/// Returns a field that must be a string.
pub fn string_field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{value} has no text in {name}")).to_owned()
}
