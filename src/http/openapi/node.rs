//! Described: nodes, how they are listed and found, reviews and translations.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, delete, get, post, put};
use super::parameter::{
    Parameter, flag_in_query, in_query, many_in_query, needed_in_query, or_empty, paging, query_text,
};
use super::publisher::include_banned;
use super::schema::{Documented, Field, Moment, array, body, field, field_of, named, or_null, page_of, view};
use crate::domain::ids::{NodeId, PublisherId};
use crate::domain::node::{LANGUAGES_MAX, NodeDescription, NodeStatus, TEXTS_MAX};
use crate::domain::value::{Label, Labels, Link, Name, Text};
use crate::domain::version::SemVer;
use crate::http::error::Code;
use crate::http::query::LIMIT_MAX;
use crate::projections::node::SortColumn;
use crate::projections::node::facets::FormFactor;
use crate::projections::node::search::QUERY_MAX;

/// What bodies may carry that counts from administrators only.
pub const FACTS_IGNORED: &str = "Output-only fields in the body (`created_at`, `downloads`, `rating`, `github_stars`, `search_ranking`, `status`, \
     `status_detail`, `tags_admin`) are ignored, except from administrators: see `PUT /admin/nodes/{node_id}`.";

/// Why a change of a node can conflict with what is there.
pub const CONFLICT: &str =
    "the node cannot go from its status to that one, both are named; or it would be in too many languages";

pub fn group() -> Group {
    Group {
        tag: "Nodes",
        about: "Custom nodes. An id is unique across the service, whatever its case, and never given out again.",
        operations: [lists(), reading(), writing(), opinions()].into_iter().flatten().collect(),
        components: vec![
            ("Node", node_view()),
            ("NodePage", page_of("nodes", "Node")),
            ("NodeBody", body(said().into_iter().chain(of_administrators()).chain([id_of_path()]))),
            ("NewNodeBody", new_node()),
            (
                "NodeOwner",
                view([
                    field::<PublisherId>("id", "By which it is found.").required(),
                    field::<Name>("name", "For people.").required(),
                ]),
            ),
            ("OwnReview", view([field_of("star", "How many the caller gave; absent when it gave none.", stars())])),
        ]
        .into_iter()
        .chain(translations())
        .collect(),
    }
}

fn lists() -> Vec<Operation> {
    let mut search = query_text();
    search["maxLength"] = QUERY_MAX.into();
    let page = || json!({"limit": 10, "nodes": [node_example()], "page": 1, "total": 1, "totalPages": 1});
    vec![
        get("/nodes", "listNodes", "List nodes across all publishers")
            .about(
                "By id, unless `sort` says otherwise. The order is always total (ties are broken by id), so that pages never overlap while nobody writes. A page past the end is empty, with \
                 the right totals. Banned nodes and those of banned publishers are left out, except for administrators who ask \
                 for them.",
            )
            .query(paging(10, LIMIT_MAX))
            .query([sort()])
            .query(filters())
            .shows("A page of nodes.", "NodePage", &page()),
        get("/nodes/search", "searchNodes", "Search nodes")
            .about(
                "Every word must match somewhere in id, name, description, author, publisher or tags; the last may be the beginning \
                 of one. Separators and case do not matter: `faceswap` finds `face-swap` and `Face Swap`, and the other way \
                 round. The node of exactly this id comes first, then the others by relevance, then by downloads; `sort` takes \
                 the place of this order. Without `search`, or with an empty one, it lists what the filters leave; by a `search` \
                 of nothing but symbols nothing is found.",
            )
            .query([in_query("search", "The words.", &search)])
            .query(paging(10, LIMIT_MAX))
            .query([sort()])
            .query(filters())
            .shows("A page of nodes.", "NodePage", &page()),
        get("/publishers/{publisher_id}/nodes", "listPublisherNodes", "List the nodes of a publisher")
            .about(format!(
                "By id. Without `page` and `limit` all of them are returned, up to {LIMIT_MAX}; `X-Total-Count` and `Link` tell of the \
                 rest. Banned ones are left out, except for members and administrators who ask for them."
            ))
            .query(paging(LIMIT_MAX, LIMIT_MAX))
            .query([flag_in_query("include_banned", "Whether banned ones are listed too; counts from members and administrators only.")])
            .answers(200, "The nodes.", &array(&named("Node")), &json!([node_example()]))
            .with_header(200, "X-Total-Count")
            .with_header(200, "Link"),
    ]
}

fn reading() -> Vec<Operation> {
    vec![
        get("/nodes/{node_id}", "getNode", "Show a node")
            .about("The id in another case is redirected to the right one. A banned node is shown as such, with the reason.")
            .shows("The node.", "Node", &node_example())
            .may_redirect(),
        get("/publishers/{publisher_id}/nodes/{node_id}/permissions", "getNodePermissions", "Whether the caller may edit a node")
            .about("Whether `PUT` of the node would be let through. A banned node is edited by nobody: an administrator unbans it first.")
            .shows("The answer for this caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn writing() -> Vec<Operation> {
    let body =
        json!({"id": "face-tools", "name": "Face tools", "tags": ["portrait"], "latest_version": {"version": "1.0.0"}});
    vec![
        post("/publishers/{publisher_id}/nodes", "createNode", "Create a node")
            .about(format!(
                "`id` is derived from `name` when it is absent. If the body carries `latest_version.version`, that version is \
                 registered as well and is Active at once. {FACTS_IGNORED}"
            ))
            .takes("NewNodeBody", &body)
            .creates("The new node.", "Node", &node_example())
            .with_header(201, "Location")
            .answers_nothing(204, "An administrator created it with the status Deleted: it is not found.")
            .fails(Code::QuotaExceeded, "the publisher has registered as many nodes, or versions, as a day allows")
            .fails(Code::AlreadyExists, "the id is taken, or was, by whomever and in whatever case")
            .fails(Code::Conflict, CONFLICT)
            .fails(Code::PayloadTooLarge, "the body is over 2 MiB, or all fields together over 1 MiB"),
        put("/publishers/{publisher_id}/nodes/{node_id}", "updateNode", "Update a node")
            .about(format!("Changes the fields that are present. An empty URL removes it. An `id` in the body must be that of the path. {FACTS_IGNORED}"))
            .takes("NodeBody", &json!({"description": "Finds and mends faces", "tags": ["portrait", "mask"]}))
            .shows("The node as it is now.", "Node", &node_example())
            .answers_nothing(204, "An administrator gave it the status Deleted: it is not found any more.")
            .fails(Code::Conflict, CONFLICT)
            .fails(Code::NotFound, "there is no such publisher, or it has no such node"),
        delete("/publishers/{publisher_id}/nodes/{node_id}", "deleteNode", "Delete a node")
            .about("Final: its versions are not found any more, its id is never given out again.")
            .answers_nothing(204, "It is deleted.")
            .fails(Code::NotFound, "there is no such publisher, or it has no such node"),
    ]
}

fn opinions() -> Vec<Operation> {
    let star = needed_in_query("star", "How many stars.", &stars(), &json!(5));
    vec![
        post("/nodes/{node_id}/reviews", "reviewNode", "Give a node stars")
            .about("One review a user: a later one takes the place of the earlier one. `rating` is the mean. There is no body.")
            .query([star])
            .shows("The node with its rating.", "Node", &node_example()),
        get("/nodes/{node_id}/reviews/mine", "getOwnReview", "Show the own review of a node")
            .about("The stars that the caller gave; an empty object when it gave none. What others gave is shown to nobody, but as `rating`.")
            .shows("The review of this caller.", "OwnReview", &json!({"star": 4})),
        post("/nodes/{node_id}/translations", "translateNode", "Translate a node")
            .about(
                "The texts of each language in the body take the place of those there were; a language without texts is \
                 removed; others stay. The body is language → field → text, or that as `translations`.",
            )
            .takes("TranslationsBody", &json!({"de": {"name": "Gesichtswerkzeuge"}}))
            .shows("The node as it is now.", "Node", &node_example())
            .fails(Code::Conflict, "the node would be in more than 100 languages"),
    ]
}

/// The order of a list.
fn sort() -> Parameter {
    let columns: Vec<_> = SortColumn::ALL.iter().map(|column| column.as_str()).collect();
    let pattern = format!("^$|^({})(;(asc|desc))?$", columns.join("|"));
    let about = format!(
        "Columns, the first counts most: {}. Ascending; `column;desc` is descending. `updated_at`, which nodes do not show, is when \
             anything of the node or its versions was last changed, or a review given; an installation does not count.",
        columns.join(", ")
    );
    many_in_query("sort", &about, &json!({"type": "string", "pattern": pattern, "examples": ["downloads;desc"]}))
}

/// What leaves nodes out of a list.
fn filters() -> [Parameter; 8] {
    let text = query_text();
    [
        many_in_query("supported_os", "Nodes that name one of these systems, whatever the case.", &text),
        many_in_query("supported_accelerator", "Nodes that name one of these accelerators, whatever the case.", &text),
        many_in_query("node_id", "These nodes.", &text),
        in_query(
            "timestamp",
            "Nodes created or updated, or with a version published, after this moment.",
            &or_empty(&Moment::schema()),
        ),
        in_query(
            "host_version",
            "Nodes whose `supported_host_version` admits this semantic version of the host; unknown ranges admit.",
            &or_empty(&SemVer::schema()),
        ),
        in_query(
            "form_factor",
            "Leaves out nodes whose declared systems exclude this platform.",
            &or_empty(&FormFactor::schema()),
        ),
        flag_in_query(
            "latest",
            "Whether the answer must come fresh from the read model. A caller sees its own writes in any case.",
        ),
        include_banned(),
    ]
}

/// What a node says of itself.
fn said() -> Vec<Field> {
    let category = field::<Label>("category", "Use `tags` instead; it will be removed in a future version.");
    let mut said = vec![
        field::<Name>("author", "Who made it."),
        field::<Link>("banner_url", "URL of the banner."),
        category.with("deprecated", true),
        field::<NodeDescription>("description", "What it does."),
        field::<Link>("icon", "URL of the icon."),
        field::<Label>("license", "Path to the LICENSE file in the repository."),
        field::<Name>("name", "For people."),
        field::<Labels>("preempted_host_node_names", "Names of host nodes that this node takes the place of."),
        field::<Link>("repository", "URL of the repository."),
        field::<Labels>("tags", "Words by which it is found."),
        field_of("translations", "Texts in other languages: language → field → text.", named("TextsByLanguageBody")),
    ];
    said.extend(support());
    said
}

/// What nodes and versions both say of where they run.
pub fn support() -> [Field; 4] {
    [
        field::<Labels>("supported_accelerators", "Such as CUDA, DirectML or ROCm."),
        field::<Label>("supported_host_frontend_version", "Supported versions of the host frontend."),
        field::<Label>("supported_host_version", "Supported versions of the host application."),
        field::<Labels>("supported_os", "Supported operating systems."),
    ]
}

/// What administrators say of a node.
pub fn facts() -> Vec<Field> {
    vec![
        field::<Moment>("created_at", "When it was created."),
        field::<u64>("downloads", "Installs, counted once per account (or client address) and day."),
        field::<u64>("github_stars", "Stars on the source repository."),
        field_of("rating", "Counts while there is no review.", rating()),
        field::<i64>("search_ranking", "For sorting search results."),
        field::<Text<1000>>("status_detail", "Why it has its status, such as the reason of a ban."),
        field::<Labels>("tags_admin", "Security warnings and metadata of administrators."),
    ]
}

/// Everything that an administrator may say of a node.
pub fn administered() -> Value {
    body(said().into_iter().chain(facts()).chain([id_of_path(), status()]))
}

/// The same in the bodies of others.
fn of_administrators() -> impl Iterator<Item = Field> {
    facts().into_iter().chain([status()]).map(Field::of_administrators)
}

fn status() -> Field {
    field::<NodeStatus>(
        "status",
        "Active ↔ Banned; Active → Deleted, which is final. A ban needs its reason in `status_detail`.",
    )
}

fn id_of_path() -> Field {
    field::<NodeId>("id", "That of the path, if any.")
}

/// What one review may give.
fn stars() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 5})
}

fn rating() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 5})
}

fn new_node() -> Value {
    let id = field::<NodeId>(
        "id",
        "Letters, digits and, between them, `.`, `_` and `-`: 100 in all at most. Made of `name` when it is absent.",
    );
    // `search` is the search, so it is no node.
    let id = id.with("not", json!({"pattern": "^[Ss][Ee][Aa][Rr][Cc][Hh]$"}));
    let first = field_of(
        "latest_version",
        "The first version; without a `version` in it there is none.",
        named("FirstVersionBody"),
    );
    let mut node = body(said().into_iter().chain(of_administrators()).chain([id, first]));
    // Without an id the name must hold what one can be made of. Not by `anyOf`, of which generators of clients make two classes, with an id
    // or a name and nothing else.
    let name = json!({"type": "string", "pattern": "[A-Za-z0-9]", "not": {"pattern": "^[^A-Za-z0-9]*[Ss][Ee][Aa][Rr][Cc][Hh][^A-Za-z0-9]*$"}});
    node["if"] = json!({"required": ["id"], "properties": {"id": {"type": "string"}}});
    node["else"] = json!({"required": ["name"], "properties": {"name": name}});
    node["description"] = "A new node. `id` or `name` is needed.".into();
    node["x-needs-one-of"] = json!(["id", "name"]);
    node
}

fn node_view() -> Value {
    let always = [
        "created_at",
        "description",
        "downloads",
        "name",
        "preempted_host_node_names",
        "supported_accelerators",
        "supported_os",
        "tags",
        "tags_admin",
    ];
    let said = said().into_iter().filter(|field| !field.is("translations"));
    let fields = said.chain(facts()).map(|field| field.required_among(&always));
    view(fields.chain([
        field::<NodeId>("id", "By which it is found, whatever the case.").required(),
        field_of("latest_version", "The highest active version; absent when there is none.", named("NodeVersion")),
        field_of("publisher", "To whom it belongs.", named("NodeOwner")).required(),
        field::<NodeStatus>("status", "Active, or Banned; while its publisher is banned, Banned too.").required(),
        field_of("translations", "Texts in other languages: language → field → text.", named("Translations")),
    ]))
}

/// Texts of one language by field.
fn texts(text: &Value) -> Value {
    json!({
        "type": "object",
        "maxProperties": TEXTS_MAX,
        "propertyNames": Text::<200>::schema(),
        "additionalProperties": text,
    })
}

/// The texts of each language.
fn by_language(texts: &Value) -> Value {
    let tag = json!({"pattern": "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$", "maxLength": 200});
    json!({"type": "object", "maxProperties": LANGUAGES_MAX, "propertyNames": tag, "additionalProperties": texts})
}

/// What is read of translations and what is written of them. In requests `null` means absent here too. The parts have names, since
/// generators of clients drop a choice between objects of any name that have none.
fn translations() -> [(&'static str, Value); 4] {
    let whole = body([field_of("translations", "Language → field → text.", named("TextsByLanguageBody")).required()]);
    [
        ("Translations", by_language(&texts(&Text::<1000>::schema()))),
        ("TextsBody", texts(&or_null(Text::<1000>::schema()))),
        ("TextsByLanguageBody", by_language(&or_null(named("TextsBody")))),
        ("TranslationsBody", json!({"anyOf": [whole, named("TextsByLanguageBody")]})),
    ]
}

/// A node as it is shown.
pub fn node_example() -> Value {
    json!({
        "author": "Ada",
        "created_at": "2026-11-20T09:32:00.000000Z",
        "description": "Finds and mends faces",
        "downloads": 12,
        "id": "face-tools",
        "latest_version": super::version::version_example(),
        "license": "LICENSE",
        "name": "Face tools",
        "preempted_host_node_names": [],
        "publisher": {"id": "acme", "name": "Acme"},
        "rating": 4.5,
        "repository": "https://git.acme.example/face-tools",
        "status": "NodeStatusActive",
        "supported_accelerators": ["CUDA"],
        "supported_host_version": ">=1.0.0",
        "supported_os": ["Linux", "Windows"],
        "tags": ["portrait", "mask"],
        "tags_admin": [],
    })
}
