//! Requests of the model's commands.

use reqwest::Method;
use serde_json::{Value, json};

use super::op::{NODES, Op, PUBLISHERS, Said, VERSIONS};

/// Reason that administrators give for a decision.
pub const RULING: &str = "a ruling";

/// Request without its credentials.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
}

/// Ids chosen by the service.
pub trait Known {
    /// Id of a user.
    fn user(&self, number: usize) -> String;
    /// Id of a token of a user or publisher; an unused id if there is none.
    fn user_token(&self, number: usize, nth: usize) -> String;
    fn token(&self, publisher: usize, nth: usize) -> String;
}

fn with(said: &Said, field: &str, value: Value) -> Value {
    let mut body = said.clone();
    body.insert(field.to_owned(), value);
    Value::Object(body)
}

impl Op {
    /// Request of the command; uploads and installs are built elsewhere.
    pub fn request(&self, known: &impl Known) -> Request {
        let (method, path, body) = self.of_people(known).unwrap_or_else(|| self.of_things());
        Request { method, path, body }
    }

    fn of_people(&self, known: &impl Known) -> Option<(Method, String, Option<Value>)> {
        let publisher = |nth: &usize| format!("/publishers/{}", PUBLISHERS[*nth]);
        let user = |number: &usize| format!("/admin/users/{}", known.user(*number));
        Some(match self {
            Self::CreateUser { said } => (Method::POST, "/admin/users".to_owned(), Some(said.clone().into())),
            Self::UpdateUser { user: of, said } => (Method::PUT, user(of), Some(said.clone().into())),
            Self::EraseUser { user: of } => (Method::DELETE, user(of), None),
            Self::EraseSelf => (Method::DELETE, "/users".to_owned(), None),
            Self::IssueUserToken { user: of } => {
                (Method::POST, format!("{}/tokens", user(of)), Some(json!({"name": "test"})))
            }
            Self::RevokeUserToken { user: of, nth } => {
                (Method::DELETE, format!("{}/tokens/{}", user(of), known.user_token(*of, *nth)), None)
            }
            Self::BanUser { user: of, ban } => banning(&user(of), *ban),
            Self::CreatePublisher { publisher: p, said } => {
                (Method::POST, "/publishers".to_owned(), Some(with(said, "id", PUBLISHERS[*p].into())))
            }
            Self::RevisePublisher { publisher: p, said } => (Method::PUT, publisher(p), Some(said.clone().into())),
            Self::DeletePublisher { publisher: p } => (Method::DELETE, publisher(p), None),
            Self::SetMember { publisher: p, user, owner } => {
                let role = if *owner { "owner" } else { "member" };
                let path = format!("{}/members/{}", publisher(p), known.user(*user));
                (Method::PUT, path, Some(json!({"role": role})))
            }
            Self::RemoveMember { publisher: p, user } => {
                (Method::DELETE, format!("{}/members/{}", publisher(p), known.user(*user)), None)
            }
            Self::IssueToken { publisher: p } => {
                let body = json!({"name": "ci", "description": "of the builds"});
                (Method::POST, format!("{}/tokens", publisher(p)), Some(body))
            }
            Self::RevokeToken { publisher: p, nth } => {
                (Method::DELETE, format!("{}/tokens/{}", publisher(p), known.token(*p, *nth)), None)
            }
            Self::BanPublisher { publisher: p, ban } => banning(&format!("/admin{}", publisher(p)), *ban),
            _ => return None,
        })
    }

    fn of_things(&self) -> (Method, String, Option<Value>) {
        let nodes = |p: &usize| format!("/publishers/{}/nodes", PUBLISHERS[*p]);
        let node = |p: &usize, n: &usize| format!("{}/{}", nodes(p), NODES[*n]);
        let version = |p: &usize, n: &usize, v: &usize| format!("{}/versions/{}", node(p, n), VERSIONS[*v]);
        match self {
            Self::CreateNode { publisher, node, said, version } => {
                let mut body = with(said, "id", NODES[*node].into());
                if let Some((version, said)) = version {
                    body["latest_version"] = with(said, "version", VERSIONS[*version].into());
                }
                (Method::POST, nodes(publisher), Some(body))
            }
            Self::ReviseNode { publisher: p, node: n, said } => (Method::PUT, node(p, n), Some(said.clone().into())),
            Self::DeleteNode { publisher: p, node: n } => (Method::DELETE, node(p, n), None),
            Self::Publish { publisher: p, node: n, version, said, of_node } => {
                let body = json!({"node": of_node, "node_version": with(said, "version", VERSIONS[*version].into())});
                (Method::POST, format!("{}/versions", node(p, n)), Some(body))
            }
            Self::RenewUpload { publisher: p, node: n, version: v } => {
                (Method::POST, format!("{}/upload", version(p, n, v)), Some(json!({})))
            }
            Self::ReviseVersion { publisher: p, node: n, version: v, said } => {
                (Method::PUT, version(p, n, v), Some(said.clone().into()))
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
            Self::RuleVersion { node, version, status, said } => {
                let body = with(said, "status", format!("NodeVersionStatus{status}").into());
                let body = with(body.as_object().expect("a body"), "status_reason", RULING.into());
                (Method::PUT, format!("/admin/nodes/{}/versions/{}", NODES[*node], VERSIONS[*version]), Some(body))
            }
            Self::Administer { node, said } => {
                (Method::PUT, format!("/admin/nodes/{}", NODES[*node]), Some(said.clone().into()))
            }
            Self::BanNode { node, ban } => banning(&format!("/admin/nodes/{}", NODES[*node]), *ban),
            other => panic!("{other:?} is asked for otherwise"),
        }
    }
}

/// Reason of a ban.
pub const BAN: &str = "for a reason";

fn banning(path: &str, ban: bool) -> (Method, String, Option<Value>) {
    let verb = if ban { "ban" } else { "unban" };
    (Method::POST, format!("{path}/{verb}"), Some(json!({"reason": BAN})))
}
