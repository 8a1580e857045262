//! Fixtures of the permission tests: fixed callers, and publishers with all resources.

use std::sync::atomic::{AtomicUsize, Ordering};

use mediary::config::{Settings, VendorProfile};
use mediary::domain::ids::TaskId;
use mediary::environment::Environment;
use mediary::media::archive::upload_token::UploadKey;
use mediary::vendors::webhook_ticket::{PURPOSE, WebhookTicketKey};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::RightsCaller;
use super::cases::{CaseBody, RightsCase, SetupStep, archive};
use crate::delivery::wait_until_settled;
use crate::image::{RELIGHT, SKIN, STYLE, UPSCALER, submit, wait_for_end};
use crate::support::form::form;
use crate::support::picture::{base64_png, png};
use crate::support::receiver::Receiver;
use crate::support::{TestApp, TestResponse, TestUser};
use crate::video::START_END;

const UPLOAD: &str = "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}/upload";
const MISSING_ID: &str = "00000000-0000-4000-8000-00000000abcd";

/// Running service, its callers, and the fixtures that they share.
pub struct RightsWorld {
    app: TestApp,
    stranger: TestUser,
    member: TestUser,
    owner: TestUser,
    /// Read-only token of the owner.
    read_only: String,
    foreign_owner: TestUser,
    banned: TestUser,
    /// Token of the publisher of the first fixture, created by the banned user before the ban.
    token_of_banned: String,
    /// Tasks of the owner, one of each of [`FAMILIES`].
    tasks: FixtureTasks,
    /// Name of the result file of the first task.
    file: String,
    /// Completed deliveries of the owner, and their receiver.
    deliveries: Vec<String>,
    _receiver: Receiver,
    fixtures: Vec<RightsFixture>,
    /// Number of ids that [`Self::fresh_id`] has returned.
    names: AtomicUsize,
    /// Limit of concurrent uploads, because the service limits them per caller.
    uploads: Semaphore,
}

/// Publisher with all resources that paths name.
#[derive(Clone)]
pub struct RightsFixture {
    node: String,
    publisher: String,
    version: String,
    /// Member of the publisher that sends no requests.
    user: String,
    user_token: String,
    token: String,
    /// Webhook of the publisher, whose receiver does not exist.
    webhook: String,
    tasks: FixtureTasks,
    file: String,
    /// Delivery of one of the owner's tasks.
    delivery: String,
    /// Ticket with which the owner may upload the archive of the version.
    upload_ticket: String,
    /// Input file of the owner, and the ticket with which its content was uploaded.
    input_file: [String; 2],
    /// Ticket of a vendor's webhook for a task.
    vendor_webhook: String,
    /// Secret of the publisher's token.
    secret: String,
}

/// Paths where tasks of each family are submitted and read.
const FAMILIES: [&str; 5] = [UPSCALER, STYLE, SKIN, RELIGHT, VIDEO];
/// Path where video tasks are read.
const VIDEO: &str = "/proxy/videovendor/tasks";
/// A task of each family.
type FixtureTasks = [String; 5];

/// Index of the shared fixture of the owner.
const OPEN: usize = 0;
/// Index of the shared fixture with a banned publisher.
const BANNED: usize = 1;
/// Index of the fixture of the owner of another publisher.
const FOREIGN: usize = 2;

impl RightsWorld {
    pub async fn new() -> Self {
        // Videos wait for a vendor that never answers.
        let unreachable = |settings: &mut Settings| {
            settings.video_vendors[0].selection.profile = VendorProfile::Mediary;
            settings.video_vendors[0].url = Some("http://127.0.0.1:1".to_owned());
        };
        let app = TestApp::start_with(unreachable, Environment::system()).await;

        let owner = app.user("owner").await;
        let stranger = app.user("stranger").await;
        let member = app.user("member").await;
        let foreign_owner = app.user("foreign").await;
        let banned = app.user("banned").await;
        let read_only = json!({"name": "reader", "scope": "read_only"});
        let read_only = app.post_as(&owner.token, "/users/tokens", read_only).await.expect(201).json();

        let mut tasks = FixtureTasks::default();
        for (task, family) in tasks.iter_mut().zip(FAMILIES) {
            let path = match family {
                SKIN => format!("{SKIN}/creative"),
                VIDEO => START_END.to_owned(),
                _ => family.to_owned(),
            };
            *task = submit(&app, &owner, &path, json!({"image": base64_png(4, 4), "prompt": "p"})).await;
        }
        let finished = wait_for_end(&app, &owner, UPSCALER, &tasks[0]).await;
        let result = finished["generated"][0].as_str().expect("a result");
        let file = result.rsplit('/').next().expect("a file name").to_owned();
        let receiver = Receiver::start().await;
        let deliveries = complete_deliveries(&app, &owner, &receiver).await;

        let mut world = Self {
            app,
            stranger,
            member,
            owner,
            read_only: text(&read_only["token"]),
            foreign_owner,
            banned,
            token_of_banned: String::new(),
            tasks,
            file,
            deliveries,
            _receiver: receiver,
            fixtures: Vec::new(),
            names: AtomicUsize::new(0),
            uploads: Semaphore::new(2),
        };

        // The token is created before the ban, because a banned user cannot create one.
        let open = world.fixture(false).await;
        world.token_of_banned = world.app.access_token(&open.publisher, &world.banned).await;
        world.ban(&format!("users/{}", world.banned.id)).await;

        let with_ban = world.fixture(true).await;
        let foreign = world.fixture_of(&world.foreign_owner).await;
        world.fixtures = vec![open, with_ban, foreign];
        world
    }

    /// Issues a ticket of a vendor's webhook for a task that does not exist.
    fn vendor_webhook_ticket(&self) -> String {
        let key = UploadKey::read(&self.app.dir.path().join("url-key")).expect("the key").expect("a key");
        WebhookTicketKey::new(key.derive_key(PURPOSE)).issue(TaskId(Uuid::nil()))
    }

    pub async fn stop(self) {
        self.app.stop().await;
    }

    /// Returns a shared fixture, for requests that change nothing. `banned` selects the one with a banned publisher.
    pub fn shared_fixture(&self, banned: bool) -> &RightsFixture {
        &self.fixtures[if banned { BANNED } else { OPEN }]
    }

    /// Returns the shared fixture whose publisher is not banned.
    pub fn open_fixture(&self) -> &RightsFixture {
        self.shared_fixture(false)
    }

    /// Returns the fixture of a user who owns another publisher.
    pub fn foreign_fixture(&self) -> &RightsFixture {
        &self.fixtures[FOREIGN]
    }

    /// Creates a fixture, for a request that may change it. `banned` bans its publisher.
    pub async fn fixture(&self, banned: bool) -> RightsFixture {
        let fixture = self.fixture_of(&self.owner).await;
        if banned {
            self.ban(&format!("publishers/{}", fixture.publisher)).await;
        }
        fixture
    }

    async fn fixture_of(&self, owner: &TestUser) -> RightsFixture {
        let app = &self.app;
        let publisher = self.fresh_id();
        let user = app.user("bystander").await;
        app.publisher(&publisher, owner).await;
        for (user, role) in [(&user.id, "member"), (&self.member.id, "member"), (&self.banned.id, "owner")] {
            let path = format!("/publishers/{publisher}/members/{user}");
            app.put_as(&owner.token, &path, json!({"role": role})).await.expect(200);
        }

        let node = json!({"id": self.fresh_id(), "latest_version": {"version": "1.0.0"}});
        let nodes = format!("/publishers/{publisher}/nodes");
        let node = app.post_as(&owner.token, &nodes, node).await.expect(201).json();
        let secret = app.access_token(&publisher, owner).await;

        let webhook = json!({"url": "http://127.0.0.1:1/"});
        let webhooks = format!("/publishers/{publisher}/webhooks");
        let webhook = app.post_as(&owner.token, &webhooks, webhook).await.expect(201).json();
        let tokens = app.get_as(&owner.token, &format!("/publishers/{publisher}/tokens")).await.expect(200).json();
        let user_tokens = format!("/admin/users/{}/tokens", user.id);
        let user_tokens = app.get_as(app.admin_token(), &user_tokens).await.expect(200).json();

        let mut fixture = RightsFixture {
            node: text(&node["id"]),
            publisher,
            version: text(&node["latest_version"]["id"]),
            user: user.id,
            user_token: text(&user_tokens[0]["id"]),
            token: text(&tokens[0]["id"]),
            webhook: text(&webhook["id"]),
            tasks: self.tasks.clone(),
            file: self.file.clone(),
            delivery: self.deliveries[0].clone(),
            upload_ticket: String::new(),
            input_file: self.upload_input_file(owner).await,
            vendor_webhook: self.vendor_webhook_ticket(),
            secret,
        };
        fixture.upload_ticket = self.create_upload_ticket(&fixture.fill(UPLOAD), &owner.token).await;
        fixture
    }

    /// Creates another node of the shared publisher and returns its id.
    pub async fn second_node(&self) -> String {
        let name = self.fresh_id();
        self.app.node(&self.open_fixture().publisher, &name, &self.owner).await;
        name
    }

    fn fresh_id(&self) -> String {
        format!("name-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    async fn ban(&self, resource: &str) {
        let reason = json!({"reason": "for the test"});
        self.request_as_admin(&Method::POST, &format!("/admin/{resource}/ban"), &reason).await.expect(204);
    }

    /// Applies a preparation step of a case.
    pub async fn prepare(&self, fixture: &RightsFixture, step: &SetupStep) {
        let response = match step {
            SetupStep::Request { method, path, body } => self.request_as_admin(method, &fixture.fill(path), body).await,
            SetupStep::Upload => {
                let ticket = self.create_upload_ticket(&fixture.fill(UPLOAD), self.app.admin_token()).await;
                let request = self.app.request(Method::PUT, &format!("/uploads/{ticket}"));
                self.upload(request, archive()).await
            }
        };
        assert!(response.status < 300, "{}", response.text());
    }

    async fn request_as_admin(&self, method: &Method, path: &str, body: &Value) -> TestResponse {
        let request = self.app.request(method.clone(), path).bearer_auth(self.app.admin_token());
        self.app.send(request.json(body)).await
    }

    /// Creates an upload link and returns its ticket.
    async fn create_upload_ticket(&self, path: &str, token: &str) -> String {
        let link = self.app.post_as(token, path, json!({})).await.expect(200).json();
        text(&link["signedUrl"]).rsplit('/').next().expect("a ticket").to_owned()
    }

    /// Uploads an input file. Returns its id, and the ticket of the upload.
    async fn upload_input_file(&self, owner: &TestUser) -> [String; 2] {
        let file = self.app.post_as(&owner.token, "/files", json!({})).await.expect(200).json();
        let ticket = text(&file["upload_url"]).rsplit('/').next().expect("a ticket").to_owned();
        let request = self.app.request(Method::PUT, &format!("/uploads/files/{ticket}"));
        self.upload(request, png(4, 4)).await.expect(200);
        [text(&file["id"]), ticket]
    }

    /// Sends the request of a case as a caller.
    pub async fn send(&self, fixture: &RightsFixture, case: &RightsCase, caller: RightsCaller) -> TestResponse {
        use RightsCaller::{ForeignOwner, Member, Owner, OwnerOfBanned, Stranger};
        if case.ends_caller() && matches!(caller, Stranger | Member | Owner | ForeignOwner | OwnerOfBanned) {
            // No publisher is concerned: any user is sufficient, and the fixed callers are needed later.
            let user = self.app.user(&self.fresh_id()).await;
            return self.send_with(fixture, case, Some(&user.token)).await;
        }

        let token = match caller {
            RightsCaller::Anonymous => None,
            RightsCaller::Stranger => Some(self.stranger.token.as_str()),
            RightsCaller::Member => Some(self.member.token.as_str()),
            RightsCaller::Owner | RightsCaller::OwnerOfBanned => Some(self.owner.token.as_str()),
            RightsCaller::ReadOnlyOwner => Some(self.read_only.as_str()),
            RightsCaller::ForeignOwner => Some(self.foreign_owner.token.as_str()),
            RightsCaller::OwnToken | RightsCaller::TokenOfBanned => Some(fixture.secret.as_str()),
            RightsCaller::OtherToken => Some(self.foreign_fixture().secret.as_str()),
            RightsCaller::BannedUser => Some(self.banned.token.as_str()),
            RightsCaller::TokenOfBannedUser => Some(self.token_of_banned.as_str()),
            RightsCaller::Admin => Some(self.app.admin_token()),
        };

        if case.path == "/users/tokens/{tokenId}" && fixture.token != MISSING_ID {
            // Users can revoke only their own tokens. A caller that may not create one may not revoke one either.
            let created = match token {
                Some(token) => self.app.post_as(token, "/users/tokens", json!({"name": "short-lived"})).await.json(),
                None => Value::Null,
            };
            let own_token = created["id"].as_str().unwrap_or(&fixture.token).to_owned();
            return self.send_with(&RightsFixture { token: own_token, ..fixture.clone() }, case, token).await;
        }
        if case.path.contains("{delivery_id}") && fixture.delivery != MISSING_ID {
            // Callers with permission need their own delivery: redelivering makes it pending.
            let index = [Owner, OwnerOfBanned, RightsCaller::Admin]
                .iter()
                .position(|permitted| *permitted == caller)
                .unwrap_or(0);
            let fixture = RightsFixture { delivery: self.deliveries[index].clone(), ..fixture.clone() };
            return self.send_with(&fixture, case, token).await;
        }
        self.send_with(fixture, case, token).await
    }

    /// Sends the request of a case with a token.
    pub async fn send_with(&self, fixture: &RightsFixture, case: &RightsCase, token: Option<&str>) -> TestResponse {
        let path = format!("{}{}", fixture.fill(case.path), case.query);
        let request = self.app.request(case.method.clone(), &path);
        let request = token.into_iter().fold(request, RequestBuilder::bearer_auth);
        match &case.body {
            CaseBody::Nothing => self.app.send(request).await,
            CaseBody::Bytes(bytes) => self.upload(request, bytes.clone()).await,
            CaseBody::Form(fields) => self.app.send(form(request, fields)).await,
            CaseBody::Json(body) => {
                let body = body.to_string().replace("{fresh}", &self.fresh_id());
                self.app.send(request.header("content-type", "application/json").body(body)).await
            }
        }
    }

    async fn upload(&self, request: RequestBuilder, bytes: Vec<u8>) -> TestResponse {
        let _permit = self.uploads.acquire().await.expect("never closed");
        self.app.send(request.body(bytes)).await
    }
}

impl RightsFixture {
    /// Returns a fixture whose resources do not exist.
    pub fn nowhere() -> Self {
        let [publisher, node] = ["nowhere"; 2].map(str::to_owned);
        let [version, user, user_token, token] = [MISSING_ID; 4].map(str::to_owned);
        Self {
            node,
            publisher,
            version,
            user,
            user_token,
            token,
            webhook: MISSING_ID.to_owned(),
            tasks: [MISSING_ID; 5].map(str::to_owned),
            file: format!("{}.png", "0".repeat(64)),
            delivery: MISSING_ID.to_owned(),
            upload_ticket: "nothing".to_owned(),
            input_file: [MISSING_ID, "nothing"].map(str::to_owned),
            vendor_webhook: "nothing".to_owned(),
            secret: String::new(),
        }
    }

    /// Returns this fixture with another node.
    pub fn with_node(&self, node: String) -> Self {
        Self { node, ..self.clone() }
    }

    /// Returns this fixture with the publisher of another fixture.
    pub fn with_publisher_of(&self, other: &Self) -> Self {
        Self { publisher: other.publisher.clone(), ..self.clone() }
    }

    /// Replaces the parameters of a path template with the ids of this fixture.
    fn fill(&self, template: &str) -> String {
        let token = if template.starts_with("/admin/") { &self.user_token } else { &self.token };
        let family = FAMILIES.iter().position(|family| template.starts_with(family)).unwrap_or(0);
        let task = &self.tasks[family];
        let names = [
            ("{publisherId}", self.publisher.as_str()),
            ("{kind}", "publisher"),
            ("{budgetKind}", "publisher"),
            ("{budgetId}", &self.publisher),
            ("{id}", &self.publisher),
            ("{nodeId}", &self.node),
            ("{versionId}", &self.version),
            ("{version}", "1.0.0"),
            ("{userId}", &self.user),
            ("{tokenId}", token),
            ("{task_id}", task),
            ("{file}", &self.file),
            ("{delivery_id}", &self.delivery),
            ("{webhookId}", &self.webhook),
            ("{ticket}", &self.upload_ticket),
            ("{fileId}", &self.input_file[0]),
            ("{fileTicket}", &self.input_file[1]),
            ("{vendor_ticket}", &self.vendor_webhook),
        ];
        names.into_iter().fold(template.to_owned(), |path, (name, value)| path.replace(name, value))
    }
}

/// Runs two tasks and returns their completed deliveries, two of each.
async fn complete_deliveries(app: &TestApp, owner: &TestUser, receiver: &Receiver) -> Vec<String> {
    let mut delivered_ids = Vec::new();
    for _ in 0..2 {
        let body = json!({"image": base64_png(4, 4), "webhook_url": receiver.url("/")});
        let task = submit(app, owner, UPSCALER, body).await;
        delivered_ids
            .extend(wait_until_settled(app, &owner.token, &task).await.iter().map(|delivery| text(&delivery["id"])));
    }
    delivered_ids
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
