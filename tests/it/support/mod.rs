//! Shared fixtures: the real application on a free port with a fresh data directory, and its users.

pub mod cluster;
pub mod engine_proxy;
pub mod eventually;
pub mod files;
pub mod form;
pub mod issuer;
pub mod music_sim;
pub mod nats_servers;
pub mod picture;
pub mod postgres_server;
pub mod process;
pub mod profile_sim;
pub mod receiver;
pub mod s3_server;
pub mod scripted_vendor;
pub mod server_process;
pub mod slow_log;
pub mod vendor_sim;
pub mod zip;

use std::sync::Arc;

use mediary::app::{AdminTokenSource, App, EngineOpener};
use mediary::config::{Secret, Settings};
use mediary::environment::Environment;
use mediary::events::shared::engine::Engine;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Service running in this process.
pub struct TestApp {
    pub app: App,
    pub dir: TempDir,
    base: String,
    admin_token: String,
    client: Client,
}

/// User with a token.
pub struct TestUser {
    pub id: String,
    pub token: String,
}

/// Complete response.
pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Returns test settings: a free port, everything in `dir`, and one HTTP worker.
pub fn settings(dir: &TempDir) -> Settings {
    let mut settings = Settings { data_dir: dir.path().to_owned(), workers: 1, ..Settings::default() };
    settings.listen.set_port(0);
    settings.journal.segment_bytes = 1 << 20;
    // Tests submit videos with any prompt.
    settings.engine.strict_prompts = false;
    settings
}

/// Returns a client that follows no redirects and uses no proxy.
pub fn client() -> Client {
    mediary::outbound::install_tls();
    let builder = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.tls_certs_only([]).build().expect("a client can be built")
}

impl TestApp {
    /// Starts a service with test settings and the real environment.
    pub async fn start() -> Self {
        Self::start_with(|_| {}, Environment::system()).await
    }

    /// Starts a service with changed settings or another environment.
    pub async fn start_with(change: impl FnOnce(&mut Settings), environment: Environment) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary directory"), change, environment).await
    }

    /// Starts a service on an existing data directory.
    pub async fn start_in(dir: TempDir, change: impl FnOnce(&mut Settings), environment: Environment) -> Self {
        Self::start_node(dir, change, environment, None).await
    }

    /// Starts a service on an existing data directory, with the engine of its cluster if it is a node.
    pub async fn start_node(
        dir: TempDir,
        change: impl FnOnce(&mut Settings),
        environment: Environment,
        engine: Option<Arc<dyn Engine>>,
    ) -> Self {
        let mut settings = settings(&dir);
        change(&mut settings);
        let configured_token = settings.admin_token.clone();
        let app = App::start_with_engine(settings, environment, engine).await.expect("the service starts");
        Self::from_app(app, dir, configured_token)
    }

    /// Starts a node of a cluster on an existing data directory, with a function that opens the streams of the engine.
    pub async fn start_on_streams(dir: TempDir, change: impl FnOnce(&mut Settings), opener: EngineOpener) -> Self {
        let mut settings = settings(&dir);
        change(&mut settings);
        let configured_token = settings.admin_token.clone();
        let started = App::start_with_opener(settings, Environment::system(), Some(opener)).await;
        Self::from_app(started.expect("the node starts"), dir, configured_token)
    }

    fn from_app(app: App, dir: TempDir, configured_token: Option<Secret>) -> Self {
        let admin_token = match (app.admin_token(), configured_token) {
            (AdminTokenSource::Generated { token, .. }, _) => token.clone(),
            (AdminTokenSource::Existing { file }, _) => {
                std::fs::read_to_string(file).expect("the token file").trim().to_owned()
            }
            (AdminTokenSource::Configured { .. }, configured_token) => {
                configured_token.expect("a configured token").expose().to_owned()
            }
        };
        let base = format!("http://{}", app.address());
        Self { app, dir, base, admin_token, client: client() }
    }

    /// Stops the service and returns its data directory for another start.
    pub async fn stop(self) -> TempDir {
        self.app.stop().await.expect("the service stops cleanly");
        self.dir
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    pub async fn send(&self, request: RequestBuilder) -> TestResponse {
        let response = request.send().await.expect("a response");
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        TestResponse { status, headers, body: response.bytes().await.expect("a body").to_vec() }
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn get_as(&self, token: &str, path: &str) -> TestResponse {
        self.send(self.request(Method::GET, path).bearer_auth(token)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: Value) -> TestResponse {
        self.send(self.request(Method::POST, path).bearer_auth(token).json(&body)).await
    }

    pub async fn put_as(&self, token: &str, path: &str, body: Value) -> TestResponse {
        self.send(self.request(Method::PUT, path).bearer_auth(token).json(&body)).await
    }

    pub async fn delete_as(&self, token: &str, path: &str) -> TestResponse {
        self.send(self.request(Method::DELETE, path).bearer_auth(token)).await
    }

    /// Creates a user with a token.
    pub async fn user(&self, name: &str) -> TestUser {
        let body = json!({"name": name, "email": format!("{name}@example.org")});
        let user = self.post_as(&self.admin_token, "/admin/users", body).await.expect(201).json();
        let id = user["id"].as_str().expect("an id").to_owned();
        let path = format!("/admin/users/{id}/tokens");
        let token = self.post_as(&self.admin_token, &path, json!({"name": "test"})).await.expect(201).json();
        TestUser { id, token: token["token"].as_str().expect("a token").to_owned() }
    }

    /// Creates a publisher whose owner is this user.
    pub async fn publisher(&self, id: &str, owner: &TestUser) -> Value {
        self.post_as(&owner.token, "/publishers", json!({"id": id, "name": id})).await.expect(201).json()
    }

    /// Creates a node of this publisher.
    pub async fn node(&self, publisher: &str, id: &str, owner: &TestUser) -> Value {
        let path = format!("/publishers/{publisher}/nodes");
        self.post_as(&owner.token, &path, json!({"id": id, "name": id})).await.expect(201).json()
    }

    /// Creates a personal access token of this publisher.
    pub async fn access_token(&self, publisher: &str, owner: &TestUser) -> String {
        let path = format!("/publishers/{publisher}/tokens");
        let response = self.post_as(&owner.token, &path, json!({"name": "ci"})).await.expect(201).json();
        response["token"].as_str().expect("a token").to_owned()
    }
}

impl TestResponse {
    /// Returns the response; panics unless it has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "the response was {}", self.text());
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
