//! What people may do and ask, small enough that they meet: three users, three publishers, five nodes, seven versions.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reqwest::Method;
use serde_json::{Value, json};

use super::world::PUBLISHERS;

/// Node ids in the cases in which people write them; the same letters are the same node.
pub const NODES: [&str; 6] = ["alpha-mask", "Beta.blur", "beta.Blur", "gamma", "delta-mask-2", "Epsilon"];
/// Version numbers; two differ only in build metadata.
pub const VERSIONS: [&str; 7] = ["0.9.0", "1.0.0-rc.1", "1.0.0", "1.0.0+build.7", "1.2.0", "1.10.0", "2.0.0-beta"];
/// Words of names, descriptions and searches.
pub const WORDS: [&str; 5] = ["mask", "blur", "light", "lighten", "portrait"];

/// The states of a version, without their common beginning.
const STATUSES: [&str; 5] = ["Active", "Pending", "Flagged", "Banned", "Deleted"];
/// The columns that a list can be sorted by.
const COLUMNS: [&str; 10] = [
    "id",
    "name",
    "author",
    "publisher",
    "created_at",
    "updated_at",
    "downloads",
    "github_stars",
    "rating",
    "search_ranking",
];

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Anonymous,
    Admin,
    User(usize),
    /// The newest access token of a publisher; nobody while none was issued.
    Token(usize),
}

/// Descriptive fields of a node.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    pub name: Option<&'static str>,
    pub author: Option<&'static str>,
    pub description: Option<&'static str>,
    pub os: Option<Vec<&'static str>>,
    pub accelerators: Option<Vec<&'static str>>,
    pub host_version: Option<&'static str>,
    pub tags: Option<Vec<&'static str>>,
}

/// What a user is given of an administrator.
#[derive(Debug, Clone)]
pub struct Facts {
    pub downloads: Option<u64>,
    pub github_stars: Option<u64>,
    pub search_ranking: Option<i64>,
}

/// One command.
#[derive(Debug, Clone)]
pub enum Op {
    CreatePublisher { who: Who, publisher: usize },
    RenamePublisher { who: Who, publisher: usize, name: &'static str },
    DeletePublisher { who: Who, publisher: usize },
    SetMember { who: Who, publisher: usize, user: usize, owner: bool },
    RemoveMember { who: Who, publisher: usize, user: usize },
    IssueToken { who: Who, publisher: usize },
    RevokeToken { who: Who, publisher: usize },
    BanUser { user: usize, ban: bool },
    BanPublisher { publisher: usize, ban: bool },
    BanNode { node: usize, ban: bool },
    CreateNode { who: Who, publisher: usize, node: usize, fields: Fields, version: Option<usize> },
    ReviseNode { who: Who, publisher: usize, node: usize, fields: Fields },
    DeleteNode { who: Who, publisher: usize, node: usize },
    Publish { who: Who, publisher: usize, node: usize, version: usize },
    ReviseVersion { who: Who, publisher: usize, node: usize, version: usize, deprecated: bool },
    DeleteVersion { who: Who, publisher: usize, node: usize, version: usize },
    SetStatus { node: usize, version: usize, status: &'static str },
    Review { who: Who, node: usize, stars: u8 },
    Administer { node: usize, facts: Facts },
}

/// One list that is asked for.
#[derive(Debug, Clone)]
pub struct Query {
    pub sort: Vec<(&'static str, bool)>,
    pub os: Option<&'static str>,
    pub accelerator: Option<&'static str>,
    pub host_version: Option<&'static str>,
    pub nodes: Vec<usize>,
    pub include_banned: bool,
    pub latest: bool,
    pub search: Option<Vec<&'static str>>,
    pub limit: usize,
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        1 => Just(Who::Anonymous),
        3 => Just(Who::Admin),
        9 => (0..3_usize).prop_map(Who::User),
        3 => (0..3_usize).prop_map(Who::Token),
    ]
}

fn fields() -> impl Strategy<Value = Fields> {
    let some = |values: &'static [&'static str]| option::of(select(values));
    let list = |values: &'static [&'static str]| option::of(proptest::sample::subsequence(values, 0..=values.len()));
    let texts = (some(&WORDS), some(&["ann", "bob", ""]), some(&["light on a portrait", "blur", ""]));
    let lists = (list(&["Linux", "Windows", "macOS"]), list(&["CUDA", "ROCm"]), list(&["mask", "light"]));
    (texts, lists, some(&[">=1.2", "^2.0.0", "<1.0.0", "anything"])).prop_map(
        |((name, author, description), (os, accelerators, tags), host_version)| Fields {
            name,
            author,
            description,
            os,
            accelerators,
            host_version,
            tags,
        },
    )
}

/// Any command.
pub fn command() -> impl Strategy<Value = Op> {
    let (p, n, v, u) = (|| 0..3_usize, || 0..NODES.len(), || 0..VERSIONS.len(), || 0..3_usize);
    let facts = (option::of(0..9_u64), option::of(0..9_u64), option::of(-3..3_i64));
    let facts =
        facts.prop_map(|(downloads, github_stars, search_ranking)| Facts { downloads, github_stars, search_ranking });
    prop_oneof![
        6 => (who(), p()).prop_map(|(who, publisher)| Op::CreatePublisher { who, publisher }),
        2 => (who(), p(), select(&WORDS[..])).prop_map(|(who, publisher, name)| Op::RenamePublisher { who, publisher, name }),
        1 => (who(), p()).prop_map(|(who, publisher)| Op::DeletePublisher { who, publisher }),
        4 => (who(), p(), u(), any::<bool>()).prop_map(|(who, publisher, user, owner)| Op::SetMember { who, publisher, user, owner }),
        2 => (who(), p(), u()).prop_map(|(who, publisher, user)| Op::RemoveMember { who, publisher, user }),
        3 => (who(), p()).prop_map(|(who, publisher)| Op::IssueToken { who, publisher }),
        1 => (who(), p()).prop_map(|(who, publisher)| Op::RevokeToken { who, publisher }),
        2 => (u(), proptest::bool::weighted(0.4)).prop_map(|(user, ban)| Op::BanUser { user, ban }),
        2 => (p(), proptest::bool::weighted(0.4)).prop_map(|(publisher, ban)| Op::BanPublisher { publisher, ban }),
        2 => (n(), proptest::bool::weighted(0.4)).prop_map(|(node, ban)| Op::BanNode { node, ban }),
        14 => (who(), p(), n(), fields(), option::of(v())).prop_map(|(who, publisher, node, fields, version)| Op::CreateNode { who, publisher, node, fields, version }),
        8 => (who(), p(), n(), fields()).prop_map(|(who, publisher, node, fields)| Op::ReviseNode { who, publisher, node, fields }),
        1 => (who(), p(), n()).prop_map(|(who, publisher, node)| Op::DeleteNode { who, publisher, node }),
        12 => (who(), p(), n(), v()).prop_map(|(who, publisher, node, version)| Op::Publish { who, publisher, node, version }),
        6 => (who(), p(), n(), v(), any::<bool>()).prop_map(|(who, publisher, node, version, deprecated)| Op::ReviseVersion { who, publisher, node, version, deprecated }),
        1 => (who(), p(), n(), v()).prop_map(|(who, publisher, node, version)| Op::DeleteVersion { who, publisher, node, version }),
        12 => (n(), v(), select(&STATUSES[..])).prop_map(|(node, version, status)| Op::SetStatus { node, version, status }),
        5 => (who(), n(), 1..=5_u8).prop_map(|(who, node, stars)| Op::Review { who, node, stars }),
        4 => (n(), facts).prop_map(|(node, facts)| Op::Administer { node, facts }),
    ]
}

/// Any list.
pub fn list() -> impl Strategy<Value = Query> {
    let key = (select(&COLUMNS[..]), any::<bool>());
    let search = option::weighted(
        0.3,
        proptest::collection::vec(select(&["mask", "blur", "light", "po", "beta", "nothing"][..]), 1..3),
    );
    let filters = (
        option::weighted(0.3, select(&["linux", "WINDOWS", "amiga"][..])),
        option::weighted(0.3, select(&["cuda", "ROCM"][..])),
        option::weighted(0.3, select(&["1.5.0", "2.1.0", "0.3.0"][..])),
        prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(0..NODES.len(), 1..4)],
    );
    (proptest::collection::vec(key, 0..3), filters, any::<[bool; 2]>(), search, 1..5_usize).prop_map(
        |(sort, (os, accelerator, host_version, nodes), [include_banned, latest], search, limit)| Query {
            sort,
            os,
            accelerator,
            host_version,
            nodes,
            include_banned,
            latest,
            search,
            limit,
        },
    )
}

impl Fields {
    fn body(&self) -> Value {
        let mut body = json!({
            "name": self.name, "author": self.author, "description": self.description, "supported_os": self.os,
            "supported_accelerators": self.accelerators, "supported_host_version": self.host_version, "tags": self.tags,
        });
        body.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        body
    }
}

impl Op {
    /// Who does it; what only administrators can ask for is asked by one.
    pub fn who(&self) -> Who {
        match self {
            Self::CreatePublisher { who, .. }
            | Self::RenamePublisher { who, .. }
            | Self::DeletePublisher { who, .. }
            | Self::SetMember { who, .. }
            | Self::RemoveMember { who, .. }
            | Self::IssueToken { who, .. }
            | Self::RevokeToken { who, .. }
            | Self::CreateNode { who, .. }
            | Self::ReviseNode { who, .. }
            | Self::DeleteNode { who, .. }
            | Self::Publish { who, .. }
            | Self::ReviseVersion { who, .. }
            | Self::DeleteVersion { who, .. }
            | Self::Review { who, .. } => *who,
            Self::BanUser { .. }
            | Self::BanPublisher { .. }
            | Self::BanNode { .. }
            | Self::SetStatus { .. }
            | Self::Administer { .. } => Who::Admin,
        }
    }

    /// The request that asks for it.
    pub fn request(
        &self,
        users: &[&str],
        token_id: impl Fn(usize) -> Option<String>,
    ) -> (Method, String, Option<Value>) {
        let publisher = |nth: &usize| format!("/publishers/{}", PUBLISHERS[*nth]);
        let nodes = |p: &usize, n: &usize| format!("{}/nodes/{}", publisher(p), NODES[*n]);
        let version = |p: &usize, n: &usize, v: &usize| format!("{}/versions/{}", nodes(p, n), VERSIONS[*v]);
        let ban = |kind: &str, id: &str, ban: &bool| {
            let verb = if *ban { "ban" } else { "unban" };
            (Method::POST, format!("/admin/{kind}/{id}/{verb}"), Some(json!({"reason": "for a reason"})))
        };
        match self {
            Self::CreatePublisher { publisher, .. } => {
                (Method::POST, "/publishers".to_owned(), Some(json!({"id": PUBLISHERS[*publisher]})))
            }
            Self::RenamePublisher { publisher: p, name, .. } => {
                (Method::PUT, publisher(p), Some(json!({"name": name})))
            }
            Self::DeletePublisher { publisher: p, .. } => (Method::DELETE, publisher(p), None),
            Self::SetMember { publisher: p, user, owner, .. } => {
                let role = if *owner { "owner" } else { "member" };
                (Method::PUT, format!("{}/members/{}", publisher(p), users[*user]), Some(json!({"role": role})))
            }
            Self::RemoveMember { publisher: p, user, .. } => {
                (Method::DELETE, format!("{}/members/{}", publisher(p), users[*user]), None)
            }
            Self::IssueToken { publisher: p, .. } => {
                (Method::POST, format!("{}/tokens", publisher(p)), Some(json!({"name": "ci"})))
            }
            Self::RevokeToken { publisher: p, .. } => {
                let id = token_id(*p).unwrap_or_else(|| uuid::Uuid::nil().to_string());
                (Method::DELETE, format!("{}/tokens/{id}", publisher(p)), None)
            }
            Self::BanUser { user, ban: on } => ban("users", users[*user], on),
            Self::BanPublisher { publisher, ban: on } => ban("publishers", PUBLISHERS[*publisher], on),
            Self::BanNode { node, ban: on } => ban("nodes", NODES[*node], on),
            Self::CreateNode { publisher: p, node, fields, version, .. } => {
                let mut body = fields.body();
                body["id"] = json!(NODES[*node]);
                if let Some(version) = version {
                    body["latest_version"] = json!({"version": VERSIONS[*version]});
                }
                (Method::POST, format!("{}/nodes", publisher(p)), Some(body))
            }
            Self::ReviseNode { publisher: p, node, fields, .. } => (Method::PUT, nodes(p, node), Some(fields.body())),
            Self::DeleteNode { publisher: p, node, .. } => (Method::DELETE, nodes(p, node), None),
            Self::Publish { publisher: p, node, version, .. } => {
                let body = json!({"node": {}, "node_version": {"version": VERSIONS[*version]}});
                (Method::POST, format!("{}/versions", nodes(p, node)), Some(body))
            }
            Self::ReviseVersion { publisher: p, node, version: v, deprecated, .. } => {
                (Method::PUT, version(p, node, v), Some(json!({"deprecated": deprecated})))
            }
            Self::DeleteVersion { publisher: p, node, version: v, .. } => (Method::DELETE, version(p, node, v), None),
            Self::SetStatus { node, version, status } => {
                let body = json!({"status": format!("NodeVersionStatus{status}"), "status_reason": "a ruling"});
                (Method::PUT, format!("/admin/nodes/{}/versions/{}", NODES[*node], VERSIONS[*version]), Some(body))
            }
            Self::Review { node, stars, .. } => {
                (Method::POST, format!("/nodes/{}/reviews?star={stars}", NODES[*node]), None)
            }
            Self::Administer { node, facts } => {
                let mut body = json!({"downloads": facts.downloads, "github_stars": facts.github_stars, "search_ranking": facts.search_ranking});
                body.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
                (Method::PUT, format!("/admin/nodes/{}", NODES[*node]), Some(body))
            }
        }
    }
}
