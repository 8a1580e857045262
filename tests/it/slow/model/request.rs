//! HTTP requests of the model's commands.

use reqwest::Method;
use serde_json::{Value, json};

use super::op::{JsonFields, ModelOp, NODES, PUBLISHERS, VERSIONS};

/// Reason that administrators give for a new status of a version.
pub const STATUS_REASON: &str = "after a review";
/// Reason that administrators give for a ban.
pub const BAN_REASON: &str = "for a reason";

/// Request without its credentials.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
}

/// Ids chosen by the service. Numbers of users and tokens are taken modulo their number.
pub trait KnownIds {
    /// Returns the id of a user.
    fn user(&self, number: usize) -> String;
    /// Returns the id of a user's token; an unused id if the user has none.
    fn user_token(&self, number: usize, nth: usize) -> String;
    /// Returns the id of a publisher's token; an unused id if the publisher has none.
    fn token(&self, publisher: usize, nth: usize) -> String;
}

/// Returns a body with these fields and one more.
fn with_field(fields: &JsonFields, field: &str, value: Value) -> Value {
    let mut body = fields.clone();
    body.insert(field.to_owned(), value);
    Value::Object(body)
}

impl ModelOp {
    /// Returns the request of the command. Panics for uploads, because only the clients know their links.
    pub fn request(&self, ids: &impl KnownIds) -> ModelRequest {
        let (method, path, body) = self.account_request(ids).unwrap_or_else(|| self.node_request());
        ModelRequest { method, path, body }
    }

    /// Returns method, path and body of a command on users or publishers; `None` for other commands.
    fn account_request(&self, ids: &impl KnownIds) -> Option<(Method, String, Option<Value>)> {
        let publisher = |index: &usize| format!("/publishers/{}", PUBLISHERS[*index]);
        let user = |user_index: &usize| format!("/admin/users/{}", ids.user(*user_index));
        Some(match self {
            Self::CreateUser { fields } => (Method::POST, "/admin/users".to_owned(), Some(fields.clone().into())),
            Self::UpdateUser { user: target, fields } => (Method::PUT, user(target), Some(fields.clone().into())),
            Self::EraseUser { user: target } => (Method::DELETE, user(target), None),
            Self::EraseSelf => (Method::DELETE, "/users".to_owned(), None),
            Self::IssueUserToken { user: target } => {
                (Method::POST, format!("{}/tokens", user(target)), Some(json!({"name": "test"})))
            }
            Self::RevokeUserToken { user: target, nth } => {
                (Method::DELETE, format!("{}/tokens/{}", user(target), ids.user_token(*target, *nth)), None)
            }
            Self::BanUser { user: target, ban } => ban_request(&user(target), *ban),
            Self::CreatePublisher { publisher: p, fields } => {
                (Method::POST, "/publishers".to_owned(), Some(with_field(fields, "id", PUBLISHERS[*p].into())))
            }
            Self::RevisePublisher { publisher: p, fields } => (Method::PUT, publisher(p), Some(fields.clone().into())),
            Self::DeletePublisher { publisher: p } => (Method::DELETE, publisher(p), None),
            Self::SetMember { publisher: p, user, owner } => {
                let role = if *owner { "owner" } else { "member" };
                let path = format!("{}/members/{}", publisher(p), ids.user(*user));
                (Method::PUT, path, Some(json!({"role": role})))
            }
            Self::RemoveMember { publisher: p, user } => {
                (Method::DELETE, format!("{}/members/{}", publisher(p), ids.user(*user)), None)
            }
            Self::IssueToken { publisher: p } => {
                let body = json!({"name": "ci", "description": "of the builds"});
                (Method::POST, format!("{}/tokens", publisher(p)), Some(body))
            }
            Self::RevokeToken { publisher: p, nth } => {
                (Method::DELETE, format!("{}/tokens/{}", publisher(p), ids.token(*p, *nth)), None)
            }
            Self::BanPublisher { publisher: p, ban } => ban_request(&format!("/admin{}", publisher(p)), *ban),
            _ => return None,
        })
    }

    /// Returns method, path and body of a command on nodes or versions.
    fn node_request(&self) -> (Method, String, Option<Value>) {
        let nodes = |p: &usize| format!("/publishers/{}/nodes", PUBLISHERS[*p]);
        let node = |p: &usize, n: &usize| format!("{}/{}", nodes(p), NODES[*n]);
        let version = |p: &usize, n: &usize, v: &usize| format!("{}/versions/{}", node(p, n), VERSIONS[*v]);
        match self {
            Self::CreateNode { publisher, node, fields, version } => {
                let mut body = with_field(fields, "id", NODES[*node].into());
                if let Some((version, fields)) = version {
                    body["latest_version"] = with_field(fields, "version", VERSIONS[*version].into());
                }
                (Method::POST, nodes(publisher), Some(body))
            }
            Self::ReviseNode { publisher: p, node: n, fields } => {
                (Method::PUT, node(p, n), Some(fields.clone().into()))
            }
            Self::DeleteNode { publisher: p, node: n } => (Method::DELETE, node(p, n), None),
            Self::Publish { publisher: p, node: n, version, fields, node_fields } => {
                let version_fields = with_field(fields, "version", VERSIONS[*version].into());
                let body = json!({"node": node_fields, "node_version": version_fields});
                (Method::POST, format!("{}/versions", node(p, n)), Some(body))
            }
            Self::RenewUpload { publisher: p, node: n, version: v } => {
                (Method::POST, format!("{}/upload", version(p, n, v)), Some(json!({})))
            }
            Self::ReviseVersion { publisher: p, node: n, version: v, fields } => {
                (Method::PUT, version(p, n, v), Some(fields.clone().into()))
            }
            Self::DeleteVersion { publisher: p, node: n, version: v } => (Method::DELETE, version(p, n, v), None),
            Self::Install { node, version } => {
                let query = version.map(|version| format!("?version={}", VERSIONS[version])).unwrap_or_default();
                (Method::GET, format!("/nodes/{}/install{query}", NODES[*node]), None)
            }
            Self::Review { node, stars } => {
                (Method::POST, format!("/nodes/{}/reviews?star={stars}", NODES[*node]), None)
            }
            Self::Translate { node, texts } => {
                (Method::POST, format!("/nodes/{}/translations", NODES[*node]), Some(json!({"translations": texts})))
            }
            Self::ModerateVersion { node, version, status, fields } => {
                let body = with_field(fields, "status", format!("NodeVersionStatus{status}").into());
                let body = with_field(body.as_object().expect("a body"), "status_reason", STATUS_REASON.into());
                (Method::PUT, format!("/admin/nodes/{}/versions/{}", NODES[*node], VERSIONS[*version]), Some(body))
            }
            Self::Administer { node, fields } => {
                (Method::PUT, format!("/admin/nodes/{}", NODES[*node]), Some(fields.clone().into()))
            }
            Self::BanNode { node, ban } => ban_request(&format!("/admin/nodes/{}", NODES[*node]), *ban),
            other => panic!("{other:?} is built by the clients"),
        }
    }
}

fn ban_request(path: &str, ban: bool) -> (Method, String, Option<Value>) {
    let verb = if ban { "ban" } else { "unban" };
    (Method::POST, format!("{path}/{verb}"), Some(json!({"reason": BAN_REASON})))
}
