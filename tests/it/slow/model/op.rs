//! Commands and queries over a small universe, to make collisions likely: some users, three publishers, five nodes,
//! seven versions.

use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// Publisher ids.
pub const PUBLISHERS: [&str; 3] = ["light-works", "blur-house", "porto"];
/// Node ids in different spellings; ids are case-insensitive.
pub const NODES: [&str; 6] = ["alpha-mask", "Beta.blur", "beta.Blur", "gamma", "delta-mask-2", "Epsilon"];
/// Version numbers; two differ only in build metadata.
pub const VERSIONS: [&str; 7] = ["0.9.0", "1.0.0-rc.1", "1.0.0", "1.0.0+build.7", "1.2.0", "1.10.0", "2.0.0-beta"];

/// Version statuses, without their prefix `NodeVersionStatus`.
pub const STATUSES: [&str; 5] = ["Active", "Pending", "Flagged", "Banned", "Deleted"];
/// Sortable columns of a list.
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

/// Fields of a JSON body.
pub type JsonFields = Map<String, Value>;

/// Caller of a command. The number of a user is taken modulo the number of users at that time; user 0 has the bootstrap
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelCaller {
    Anonymous,
    User(usize),
    /// Newest access token of the publisher with this index; anonymous if none was issued.
    Token(usize),
}

/// Administrator with the bootstrap token.
pub const ADMIN: ModelCaller = ModelCaller::User(0);

/// One command with its caller.
#[derive(Debug, Clone)]
pub struct ModelStep {
    pub caller: ModelCaller,
    pub op: ModelOp,
    /// `true` if the command has an idempotency key, and is then repeated, and repeated with another body.
    pub keyed: bool,
}

/// Kind of command. Publishers, nodes and versions are indexes of the constants above. The numbers of users and tokens
/// (`nth`) are taken modulo their number at that time.
#[derive(Debug, Clone)]
pub enum ModelOp {
    CreateUser { fields: JsonFields },
    UpdateUser { user: usize, fields: JsonFields },
    EraseUser { user: usize },
    EraseSelf,
    IssueUserToken { user: usize },
    RevokeUserToken { user: usize, nth: usize },
    BanUser { user: usize, ban: bool },
    CreatePublisher { publisher: usize, fields: JsonFields },
    RevisePublisher { publisher: usize, fields: JsonFields },
    DeletePublisher { publisher: usize },
    SetMember { publisher: usize, user: usize, owner: bool },
    RemoveMember { publisher: usize, user: usize },
    IssueToken { publisher: usize },
    RevokeToken { publisher: usize, nth: usize },
    BanPublisher { publisher: usize, ban: bool },
    BanNode { node: usize, ban: bool },
    CreateNode { publisher: usize, node: usize, fields: JsonFields, version: Option<(usize, JsonFields)> },
    ReviseNode { publisher: usize, node: usize, fields: JsonFields },
    DeleteNode { publisher: usize, node: usize },
    Publish { publisher: usize, node: usize, version: usize, fields: JsonFields, node_fields: JsonFields },
    RenewUpload { publisher: usize, node: usize, version: usize },
    Upload { node: usize, version: usize, good: bool },
    ReviseVersion { publisher: usize, node: usize, version: usize, fields: JsonFields },
    DeleteVersion { publisher: usize, node: usize, version: usize },
    Install { node: usize, version: Option<usize> },
    Review { node: usize, stars: u8 },
    Translate { node: usize, texts: JsonFields },
    ModerateVersion { node: usize, version: usize, status: &'static str, fields: JsonFields },
    Administer { node: usize, fields: JsonFields },
}

/// One query of a list.
#[derive(Debug, Clone)]
pub struct ModelQuery {
    /// Columns; `true` for descending order.
    pub sort: Vec<(&'static str, bool)>,
    pub os: Option<&'static str>,
    pub accelerator: Option<&'static str>,
    pub host_version: Option<&'static str>,
    pub form_factor: Option<&'static str>,
    /// Index of a moment between two commands, for the filter by time.
    pub after: Option<Index>,
    pub nodes: Vec<usize>,
    pub include_banned: bool,
    /// `true` to bypass the cache.
    pub latest: bool,
    pub search: Option<Vec<&'static str>>,
    /// Nodes per page.
    pub limit: usize,
}

fn any_caller() -> impl Strategy<Value = ModelCaller> {
    prop_oneof![
        1 => Just(ModelCaller::Anonymous),
        3 => Just(ADMIN),
        9 => (1..9_usize).prop_map(ModelCaller::User),
        3 => (0..3_usize).prop_map(ModelCaller::Token),
    ]
}

/// Returns a strategy for at most `maximum` fields of the tables, each with one of the values listed for it.
fn fields_from(maximum: usize, tables: &[Value]) -> impl Strategy<Value = JsonFields> + use<> {
    let fields = tables.iter().flat_map(|table| table.as_object().expect("a table").clone());
    let fields: Vec<(String, Value)> = fields.collect();
    proptest::collection::vec((any::<Index>(), any::<Index>()), 0..=maximum).prop_map(move |picks| {
        let pick = |(field, value): (Index, Index)| {
            let (name, values) = field.get(&fields);
            (name.clone(), value.get(values.as_array().expect("values")).clone())
        };
        picks.into_iter().map(pick).collect()
    })
}

/// Fields of users, each with the values that commands may set. The following tables are alike.
fn user_fields() -> Value {
    json!({
        "name": ["ann", "bob"], "email": ["a@example.org", "b@example.org"],
        "isAdmin": [true, false, false], "isApproved": [true, false],
    })
}

fn publisher_fields() -> Value {
    let link = ["https://example.org/a", "https://example.org/b", ""];
    json!({
        "name": ["light", "lighten house", "blur", ""], "description": ["makes masks", ""], "logo": link,
        "source_code_repo": link, "support": ["ask ann", ""], "website": link,
    })
}

/// Fields that nodes and versions have in common.
fn common_fields() -> Value {
    json!({
        "supported_os": [[], ["Linux"], ["Windows", "macOS"], ["Linux", "Windows"]],
        "supported_accelerators": [[], ["CUDA"], ["ROCm"], ["CUDA", "ROCm"]],
        "supported_host_version": [">=1.2", "^2.0.0", "<1.0.0", "anything"],
        "supported_host_frontend_version": [">=1", "2"], "tags": [[], ["mask"], ["light", "portrait"]],
    })
}

fn node_fields_table() -> Value {
    let link = ["https://example.org/a", "https://example.org/b", ""];
    json!({
        "name": ["mask", "blur", "light", "lighten", "portrait"], "author": ["ann", "bob", ""],
        "description": ["light on a portrait", "blur", ""], "license": ["LICENSE", ""], "category": ["image", "mask"],
        "banner_url": link, "icon": link, "repository": link, "preempted_host_node_names": [[], ["Blur"], ["Blur", "Mask"]],
    })
}

/// Fields of nodes that only administrators may set.
fn node_admin_fields() -> Value {
    json!({
        "downloads": [0, 3, 8], "github_stars": [0, 4, 7], "search_ranking": [-3, 0, 2], "rating": [2.0, 4.5],
        "tags_admin": [[], ["looked-at"]],
    })
}

fn version_fields() -> Value {
    json!({"changelog": ["better", "worse", ""], "dependencies": [[], ["numpy>=1"], ["numpy", "torch"]]})
}

fn revision_fields() -> Value {
    json!({"changelog": ["better", "worse", ""], "deprecated": [true, false]})
}

fn version_admin_fields() -> Value {
    json!({"tags_admin": [[], ["looked-at"]], "host_node_extract_status": ["pending", "success"]})
}

/// Texts by language; no text removes the language.
fn translations() -> Value {
    json!({
        "de": [{"name": "Maske"}, {"name": "Licht", "description": "Ein Licht"}, {}], "pt-BR": [{"name": "Luz"}, {}],
        "fr": [{"description": "Un portrait"}],
    })
}

/// Returns a strategy for commands on users, publishers and members.
fn on_accounts() -> impl Strategy<Value = ModelOp> {
    let publisher = || 0..PUBLISHERS.len();
    let user = || 0..9_usize;
    let nth = || 0..9_usize;
    // Bans are less frequent than their ends, so that most users and publishers can act.
    let ban = || proptest::bool::weighted(0.4);
    prop_oneof![
        3 => fields_from(3, &[user_fields()]).prop_map(|fields| ModelOp::CreateUser { fields }),
        3 => (user(), fields_from(2, &[user_fields()])).prop_map(|(user, fields)| ModelOp::UpdateUser { user, fields }),
        1 => user().prop_map(|user| ModelOp::EraseUser { user }),
        1 => Just(ModelOp::EraseSelf),
        2 => user().prop_map(|user| ModelOp::IssueUserToken { user }),
        1 => (user(), nth()).prop_map(|(user, nth)| ModelOp::RevokeUserToken { user, nth }),
        3 => (user(), ban()).prop_map(|(user, ban)| ModelOp::BanUser { user, ban }),
        9 => (publisher(), fields_from(3, &[publisher_fields()])).prop_map(|(publisher, fields)| ModelOp::CreatePublisher { publisher, fields }),
        5 => (publisher(), fields_from(3, &[publisher_fields()])).prop_map(|(publisher, fields)| ModelOp::RevisePublisher { publisher, fields }),
        1 => publisher().prop_map(|publisher| ModelOp::DeletePublisher { publisher }),
        6 => (publisher(), user(), any::<bool>()).prop_map(|(publisher, user, owner)| ModelOp::SetMember { publisher, user, owner }),
        3 => (publisher(), user()).prop_map(|(publisher, user)| ModelOp::RemoveMember { publisher, user }),
        5 => publisher().prop_map(|publisher| ModelOp::IssueToken { publisher }),
        2 => (publisher(), nth()).prop_map(|(publisher, nth)| ModelOp::RevokeToken { publisher, nth }),
        4 => (publisher(), ban()).prop_map(|(publisher, ban)| ModelOp::BanPublisher { publisher, ban }),
    ]
}

/// Returns a strategy for commands on nodes and versions.
fn on_nodes() -> impl Strategy<Value = ModelOp> {
    let publisher = || 0..PUBLISHERS.len();
    let node = || 0..NODES.len();
    let version = || 0..VERSIONS.len();
    let new_node_fields = || fields_from(5, &[node_fields_table(), common_fields()]);
    let new_version_fields = || fields_from(4, &[version_fields(), common_fields()]);
    let moderation_fields = || fields_from(2, &[version_fields(), version_admin_fields()]);
    let admin_fields = || fields_from(3, &[node_admin_fields(), node_fields_table()]);
    prop_oneof![
        14 => (publisher(), node(), new_node_fields(), option::of((version(), new_version_fields()))).prop_map(|(publisher, node, fields, version)| ModelOp::CreateNode { publisher, node, fields, version }),
        8 => (publisher(), node(), new_node_fields()).prop_map(|(publisher, node, fields)| ModelOp::ReviseNode { publisher, node, fields }),
        1 => (publisher(), node()).prop_map(|(publisher, node)| ModelOp::DeleteNode { publisher, node }),
        12 => (publisher(), node(), version(), new_version_fields(), fields_from(2, &[node_fields_table()])).prop_map(|(publisher, node, version, fields, node_fields)| ModelOp::Publish { publisher, node, version, fields, node_fields }),
        2 => (publisher(), node(), version()).prop_map(|(publisher, node, version)| ModelOp::RenewUpload { publisher, node, version }),
        9 => (node(), version(), proptest::bool::weighted(0.8)).prop_map(|(node, version, good)| ModelOp::Upload { node, version, good }),
        6 => (publisher(), node(), version(), fields_from(2, &[revision_fields()])).prop_map(|(publisher, node, version, fields)| ModelOp::ReviseVersion { publisher, node, version, fields }),
        1 => (publisher(), node(), version()).prop_map(|(publisher, node, version)| ModelOp::DeleteVersion { publisher, node, version }),
        4 => (node(), option::of(version())).prop_map(|(node, version)| ModelOp::Install { node, version }),
        5 => (node(), 1..=5_u8).prop_map(|(node, stars)| ModelOp::Review { node, stars }),
        4 => (node(), fields_from(2, &[translations()])).prop_map(|(node, texts)| ModelOp::Translate { node, texts }),
        9 => (node(), version(), select(&STATUSES[..]), moderation_fields()).prop_map(|(node, version, status, fields)| ModelOp::ModerateVersion { node, version, status, fields }),
        4 => (node(), admin_fields()).prop_map(|(node, fields)| ModelOp::Administer { node, fields }),
        2 => (node(), proptest::bool::weighted(0.4)).prop_map(|(node, ban)| ModelOp::BanNode { node, ban }),
    ]
}

/// Returns a strategy for any command, mostly by a caller with permission.
pub fn any_step() -> impl Strategy<Value = ModelStep> {
    let op = prop_oneof![4 => on_accounts().boxed(), 7 => on_nodes().boxed()];
    (any_caller(), op, proptest::bool::weighted(0.15), proptest::bool::weighted(0.7)).prop_map(
        |(caller, op, keyed, by_admin)| {
            let caller = if by_admin && op.is_for_administrators() { ADMIN } else { caller };
            ModelStep { caller, op, keyed }
        },
    )
}

impl ModelOp {
    /// Returns `true` if only administrators may send the command.
    fn is_for_administrators(&self) -> bool {
        matches!(
            self,
            Self::CreateUser { .. }
                | Self::UpdateUser { .. }
                | Self::EraseUser { .. }
                | Self::IssueUserToken { .. }
                | Self::RevokeUserToken { .. }
                | Self::BanUser { .. }
                | Self::BanPublisher { .. }
                | Self::BanNode { .. }
                | Self::ModerateVersion { .. }
                | Self::Administer { .. }
        )
    }
}

/// Returns a strategy for any list query.
pub fn any_query() -> impl Strategy<Value = ModelQuery> {
    let sort_key = (select(&COLUMNS[..]), any::<bool>());
    let words = select(&["mask", "blur", "light", "po", "beta", "nothing"][..]);
    let search = option::weighted(0.3, proptest::collection::vec(words, 1..3));
    let filters = (
        option::weighted(0.3, select(&["linux", "WINDOWS", "amiga"][..])),
        option::weighted(0.3, select(&["cuda", "ROCM"][..])),
        option::weighted(0.3, select(&["1.5.0", "2.1.0", "0.3.0"][..])),
        option::weighted(0.2, select(&["git-linux", "desktop-win", "git-mac", "other"][..])),
        option::weighted(0.2, any::<Index>()),
        prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(0..NODES.len(), 1..4)],
    );
    (proptest::collection::vec(sort_key, 0..3), filters, any::<[bool; 2]>(), search, 1..5_usize).prop_map(
        |(
            sort,
            (os, accelerator, host_version, form_factor, after, nodes),
            [include_banned, latest],
            search,
            limit,
        )| {
            ModelQuery {
                sort,
                os,
                accelerator,
                host_version,
                form_factor,
                after,
                nodes,
                include_banned,
                latest,
                search,
                limit,
            }
        },
    )
}
