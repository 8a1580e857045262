//! Routes, each with its action and a request that succeeds with permission. One line per route.

use mediary::domain::policy::Action::{self, *};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::picture::{base64_png, png};
use crate::support::zip::{ZipTestEntry, zip};

/// Route with a sample request.
pub struct RightsCase {
    pub action: Action,
    pub method: Method,
    /// Path as in the route table; the fixture fills the braces, `{fresh}` in bodies becomes a new name.
    pub path: &'static str,
    pub query: &'static str,
    pub body: CaseBody,
    /// Status of a success.
    pub success: u16,
    /// Preparation of the fixture by an administrator.
    pub before: Vec<SetupStep>,
    /// `true` if only the owner may read the response.
    pub for_owner: bool,
    /// `true` if a ban of the publisher blocks the request, although it changes nothing.
    pub withheld: bool,
    /// `true` if the request concerns another member, while members may only change themselves.
    pub is_for_others: bool,
}

/// Body of the request.
pub enum CaseBody {
    Nothing,
    Json(Value),
    Bytes(Vec<u8>),
    Form(&'static [(&'static str, &'static str)]),
}

/// Step of the preparation.
pub enum SetupStep {
    /// Sends a request.
    Request { method: Method, path: &'static str, body: Value },
    /// Uploads the archive of the fixture's version.
    Upload,
}

impl RightsCase {
    /// `true` if a success changes something.
    pub fn writes(&self) -> bool {
        self.method != Method::GET && self.action.is_write()
    }

    /// `true` if a success removes the caller. The bootstrap administrator cannot be removed.
    pub fn ends_caller(&self) -> bool {
        self.action == EraseOwnAccount
    }

    /// `true` if an account may send one such request at a time.
    pub fn is_exclusive(&self) -> bool {
        self.path == "/users/export"
    }

    /// Adds a query.
    fn with_query(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    /// Adds a preparing request by an administrator.
    fn after(mut self, method: Method, path: &'static str, body: Value) -> Self {
        self.before.push(SetupStep::Request { method, path, body });
        self
    }

    /// Adds the upload of the version's archive.
    fn with_archive(mut self) -> Self {
        self.before.push(SetupStep::Upload);
        self
    }

    fn withheld(self) -> Self {
        Self { withheld: true, ..self }
    }

    fn for_others(self) -> Self {
        Self { is_for_others: true, ..self }
    }

    fn for_owner(self) -> Self {
        Self { for_owner: true, ..self }
    }
}

fn case(action: Action, method: Method, path: &'static str, success: u16, body: CaseBody) -> RightsCase {
    RightsCase {
        action,
        method,
        path,
        query: "",
        body,
        success,
        before: Vec::new(),
        for_owner: false,
        withheld: false,
        is_for_others: false,
    }
}

fn get(action: Action, path: &'static str) -> RightsCase {
    case(action, Method::GET, path, 200, CaseBody::Nothing)
}

fn post(action: Action, path: &'static str, success: u16, body: Value) -> RightsCase {
    case(action, Method::POST, path, success, CaseBody::Json(body))
}

fn put(action: Action, path: &'static str, body: Value) -> RightsCase {
    case(action, Method::PUT, path, 200, CaseBody::Json(body))
}

fn delete(action: Action, path: &'static str) -> RightsCase {
    case(action, Method::DELETE, path, 204, CaseBody::Nothing)
}

/// Returns an archive to upload.
pub fn archive() -> Vec<u8> {
    zip(&[ZipTestEntry::stored("node.py", b"pass")])
}

/// Returns a case for each route.
pub fn cases() -> Vec<RightsCase> {
    [service(), accounts(), publishers(), nodes(), versions(), media()].into_iter().flatten().collect()
}

fn service() -> Vec<RightsCase> {
    vec![
        get(ReadServiceState, "/health"),
        get(ReadServiceState, "/ready"),
        get(ReadServiceState, "/metrics"),
        get(ReadServiceState, "/.well-known/webhook-key"),
        get(ReadServiceState, "/sign-in"),
        get(ReadServiceState, "/openapi.json"),
        get(ReadServiceState, "/openapi"),
        get(ReadServiceState, "/models"),
    ]
}

#[rustfmt::skip]
fn accounts() -> Vec<RightsCase> {
    let reason = || json!({"reason": "tried"});
    let budget = || json!({"credits": 1_000_000, "period": "day"});
    vec![
        get(ReadOwnAccount, "/users"),
        get(ReadOwnAccount, "/users/publishers"),
        get(Administer, "/admin/events"),
        get(Administer, "/admin/events/stream").with_query("?after=0&to=1"),
        get(Administer, "/admin/history/{kind}/{id}"),
        get(Administer, "/admin/as-of/{kind}/{id}").with_query("?position=1"),
        get(Administer, "/admin/diff").with_query("?from=0&to=1"),
        get(Administer, "/admin/state"),
        get(Administer, "/admin/state/history"),
        get(Administer, "/admin/checkpoint"),
        delete(EraseOwnAccount, "/users"),
        get(ReadOwnAccount, "/users/export"),
        get(ManageOwnTokens, "/users/tokens"),
        post(ManageOwnTokens, "/users/tokens", 201, json!({"name": "laptop"})),
        delete(ManageOwnTokens, "/users/tokens/{tokenId}"),
        post(ManageWebhookSecret, "/users/webhook-secret", 200, json!({})),
        delete(ManageWebhookSecret, "/users/webhook-secret"),
        get(Administer, "/admin/users"),
        post(Administer, "/admin/users", 201, json!({"name": "new"})),
        put(Administer, "/admin/users/{userId}", json!({"name": "renamed"})),
        delete(Administer, "/admin/users/{userId}"),
        get(Administer, "/admin/users/{userId}/tokens"),
        post(Administer, "/admin/users/{userId}/tokens", 201, json!({"name": "laptop"})),
        delete(Administer, "/admin/users/{userId}/tokens/{tokenId}"),
        post(Administer, "/admin/users/{userId}/ban", 204, reason()),
        post(Administer, "/admin/users/{userId}/unban", 204, reason()).after(Method::POST, "/admin/users/{userId}/ban", reason()),
        get(Administer, "/admin/budgets"),
        put(Administer, "/admin/budgets/{budgetKind}/{budgetId}", budget()),
        get(Administer, "/admin/budgets/{budgetKind}/{budgetId}").after(Method::PUT, "/admin/budgets/{budgetKind}/{budgetId}", budget()),
        delete(Administer, "/admin/budgets/{budgetKind}/{budgetId}").after(Method::PUT, "/admin/budgets/{budgetKind}/{budgetId}", budget()),
        post(Administer, "/admin/publishers/{publisherId}/ban", 204, reason()),
        post(Administer, "/admin/publishers/{publisherId}/unban", 204, reason()).after(Method::POST, "/admin/publishers/{publisherId}/ban", reason()),
        post(Administer, "/admin/nodes/{nodeId}/ban", 204, reason()),
        post(Administer, "/admin/nodes/{nodeId}/unban", 204, reason()).after(Method::POST, "/admin/nodes/{nodeId}/ban", reason()),
    ]
}

#[rustfmt::skip]
fn publishers() -> Vec<RightsCase> {
    vec![
        get(ReadRegistry, "/publishers"),
        post(CreatePublisher, "/publishers", 201, json!({"id": "{fresh}"})),
        get(ReadRegistry, "/publishers/validate").with_query("?username=anything"),
        get(ReadRegistry, "/publishers/{publisherId}"),
        put(UpdatePublisher, "/publishers/{publisherId}", json!({"description": "changed"})),
        delete(DeletePublisher, "/publishers/{publisherId}").after(Method::DELETE, "/publishers/{publisherId}/nodes/{nodeId}", json!({})),
        get(ReadRegistry, "/publishers/{publisherId}/permissions"),
        put(ManageMembers, "/publishers/{publisherId}/members/{userId}", json!({"role": "owner"})),
        delete(RemoveMember, "/publishers/{publisherId}/members/{userId}").for_others(),
        get(ManagePublisherTokens, "/publishers/{publisherId}/tokens"),
        post(ManagePublisherTokens, "/publishers/{publisherId}/tokens", 201, json!({"name": "ci"})),
        delete(ManagePublisherTokens, "/publishers/{publisherId}/tokens/{tokenId}"),
        get(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks"),
        post(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks", 201, json!({"url": "http://127.0.0.1:1/"})),
        get(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}"),
        put(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}", json!({"enabled": false})),
        delete(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}"),
        post(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}/test", 200, json!({})),
        get(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}/deliveries"),
        post(ManagePublisherWebhooks, "/publishers/{publisherId}/webhooks/{webhookId}/redeliver", 200, json!({"after": 0})),
    ]
}

#[rustfmt::skip]
fn nodes() -> Vec<RightsCase> {
    vec![
        get(ReadRegistry, "/nodes"),
        get(ReadRegistry, "/nodes/search").with_query("?search=anything"),
        get(ReadRegistry, "/nodes/{nodeId}"),
        get(ReadRegistry, "/nodes/{nodeId}/badge.svg"),
        get(ReadRegistry, "/nodes/{nodeId}/statistics"),
        get(ListPublisherNodes, "/publishers/{publisherId}/nodes"),
        post(CreateNode, "/publishers/{publisherId}/nodes", 201, json!({"id": "{fresh}"})),
        put(ReviseNode, "/publishers/{publisherId}/nodes/{nodeId}", json!({"description": "changed"})),
        put(ReviseNode, "/publishers/{publisherId}/nodes/{nodeId}/icon", json!({"image": base64_png(4, 4)})),
        put(ReviseNode, "/publishers/{publisherId}/nodes/{nodeId}/banner", json!({"image": base64_png(4, 4)})),
        delete(DeleteNode, "/publishers/{publisherId}/nodes/{nodeId}"),
        get(ReadRegistry, "/publishers/{publisherId}/nodes/{nodeId}/permissions"),
        post(ReviewNode, "/nodes/{nodeId}/reviews", 200, json!({})).with_query("?star=4"),
        get(ReadOwnAccount, "/nodes/{nodeId}/reviews/mine"),
        post(TranslateNode, "/nodes/{nodeId}/translations", 200, json!({"de": {"name": "Gesicht"}})),
        put(Administer, "/admin/nodes/{nodeId}", json!({"search_ranking": 7})),
    ]
}

#[rustfmt::skip]
fn versions() -> Vec<RightsCase> {
    let draft = || json!({"node_version": {"version": "2.0.0"}});
    vec![
        get(ReadRegistry, "/versions"),
        get(ReadRegistry, "/nodes/{nodeId}/versions"),
        get(ReadRegistry, "/nodes/{nodeId}/versions/{version}"),
        post(ReadRegistry, "/bulk/nodes/versions", 200, json!({"node_versions": [{"node_id": "a", "version": "1.0.0"}]})),
        post(PublishVersion, "/publishers/{publisherId}/nodes/{nodeId}/versions", 201, draft()),
        put(ReviseVersion, "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}", json!({"changelog": "changed"})),
        delete(DeleteVersion, "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}"),
        post(PublishVersion, "/publishers/{publisherId}/nodes/{nodeId}/versions/{versionId}/upload", 200, json!({})),
        case(UploadArchive, Method::PUT, "/uploads/{ticket}", 200, CaseBody::Bytes(archive())),
        get(ReadRegistry, "/nodes/{nodeId}/install").withheld(),
        get(ReadRegistry, "/nodes/{nodeId}/versions/{version}/download").with_archive().withheld(),
        get(ReadRegistry, "/nodes/{nodeId}/versions/{version}/files").with_archive().withheld(),
        get(ReadRegistry, "/nodes/{nodeId}/versions/{version}/files/content").with_query("?path=node.py").with_archive().withheld(),
        get(ReadRegistry, "/nodes/{nodeId}/versions/{version}/diff").with_query("?from=1.0.0").with_archive().withheld(),
        put(Administer, "/admin/nodes/{nodeId}/versions/{version}", json!({"status": "NodeVersionStatusFlagged"})),
    ]
}

/// The shortest piece of music.
const STING: &[(&str, &str)] = &[("prompt", "a soft sting"), ("duration", "1")];

#[rustfmt::skip]
fn media() -> Vec<RightsCase> {
    let picture = || json!({"image": base64_png(4, 4)});
    let frame = || json!({"key_image": base64_png(4, 4)});
    vec![
        get(ReadResult, "/media/{file}"),
        post(ReceiveVendorWebhook, "/vendor-webhooks/{vendor_ticket}", 200, json!({})),
        post(CreateFile, "/files", 200, json!({"bytes": 7})),
        case(UploadFile, Method::PUT, "/uploads/files/{fileTicket}", 200, CaseBody::Bytes(png(4, 4))),
        get(ReadResult, "/files/{fileId}"),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/image-upscaler", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/image-style-transfer", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/skin-enhancer/creative", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/skin-enhancer/faithful", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/skin-enhancer/flexible", 200, picture()),
        post(SubmitImageTask, "/proxy/imagevendor/v1/ai/image-relight", 200, picture()),
        post(SubmitVideoTask, "/proxy/videovendor/start-end2video", 200, json!({"prompt": "p"})),
        post(SubmitVideoTask, "/proxy/videovendor/reference2video", 200, json!({"prompt": "p"})),
        // A caller with permission has no video to extend.
        post(SubmitVideoTask, "/proxy/videovendor/extend", 400, json!({})),
        post(SubmitVideoTask, "/proxy/videovendor/multiframe", 200, json!({"image_settings": [frame(), frame()]})),
        get(ReadVideoTask, "/proxy/videovendor/tasks/{task_id}/creations").for_owner(),
        post(CancelVideoTask, "/proxy/videovendor/tasks/{task_id}/cancel", 200, json!({})).for_owner(),
        get(ReadCredits, "/users/credits"),
        get(ReadCredits, "/usage"),
        case(GenerateMusic, Method::POST, "/proxy/musicvendor/t2m/generate", 200, CaseBody::Form(STING)),
        get(ReadTask, "/tasks"),
        get(ReadTask, "/tasks/{task_id}").for_owner(),
        get(ReadTask, "/tasks/{task_id}/events").for_owner(),
        post(CancelTask, "/tasks/{task_id}/cancel", 200, json!({})).for_owner(),
        get(ReadTask, "/tasks/{task_id}/deliveries").for_owner(),
        post(RedeliverCallback, "/deliveries/{delivery_id}/redeliver", 200, json!({})).for_owner(),
        get(ReadImageTask, "/proxy/imagevendor/v1/ai/image-upscaler/{task_id}").for_owner(),
        get(ReadImageTask, "/proxy/imagevendor/v1/ai/image-upscaler-precision-v2/{task_id}").for_owner(),
        get(ReadImageTask, "/proxy/imagevendor/v1/ai/image-style-transfer/{task_id}").for_owner(),
        get(ReadImageTask, "/proxy/imagevendor/v1/ai/skin-enhancer/{task_id}").for_owner(),
        get(ReadImageTask, "/proxy/imagevendor/v1/ai/image-relight/{task_id}").for_owner(),
    ]
}
