//! Nodes: lists, search, reviews and translations.

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

/// Sentence on the body fields that only administrators can set.
pub const FACTS_IGNORED: &str = "Output-only fields in the body (`created_at`, `downloads`, `rating`, `github_stars`, \
                                 `search_ranking`, `status`, `status_detail`, `tags_admin`) are ignored, except from \
                                 administrators: see `PUT /admin/nodes/{node_id}`.";

/// Condition under which a change of a node conflicts with its state.
pub const CONFLICT: &str = "the status cannot change from the current to the requested one (`detail` names both), or \
                            the node would have too many languages";

pub fn group() -> Group {
    Group {
        tag: "Nodes",
        about: "Custom nodes. A node id is unique across the service, regardless of case, and is never reused.",
        operations: [lists(), reading(), writing(), opinions()].into_iter().flatten().collect(),
        components: vec![
            ("Node", node_view()),
            ("NodePage", page_of("nodes", "Node")),
            ("NodeBody", body(said().into_iter().chain(of_administrators()).chain([id_of_path()]))),
            ("NewNodeBody", new_node()),
            (
                "NodeOwner",
                view([
                    field::<PublisherId>("id", "Unique id.").required(),
                    field::<Name>("name", "Display name.").required(),
                ]),
            ),
            ("OwnReview", view([field_of("star", "Stars given by the caller, if any.", stars())])),
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
                "Returns a page of nodes, sorted by id unless `sort` is given. Ties are sorted by id, so pages do not \
                 overlap while nothing changes; a page past the end is empty, with correct totals. Banned nodes and \
                 those of banned publishers are omitted; administrators can include them.",
            )
            .query(paging(10, LIMIT_MAX))
            .query([sort()])
            .query(filters())
            .shows("A page of nodes.", "NodePage", &page()),
        get("/nodes/search", "searchNodes", "Search nodes")
            .about(
                "Returns nodes in which every word occurs in the id, name, description, author, publisher or \
                 tags.\n\n- The last word also matches the beginning of a word.\n- Case and separators are ignored: \
                 `faceswap`, `face-swap` and `Face Swap` find each other.\n- An exact id comes first, then relevance, \
                 then downloads; `sort` replaces this order.\n- Without `search`, or with an empty one, all nodes \
                 that match the filters are listed, most downloaded first. A search without letters or digits finds \
                 nothing.",
            )
            .query([in_query("search", "Words to search for.", &search)])
            .query(paging(10, LIMIT_MAX))
            .query([sort()])
            .query(filters())
            .shows("A page of nodes.", "NodePage", &page()),
        get("/publishers/{publisher_id}/nodes", "listPublisherNodes", "List the nodes of a publisher")
            .about(format!(
                "Returns the nodes of a publisher, sorted by id. Without `page` and `limit`, up to {LIMIT_MAX} nodes \
                 are returned; `X-Total-Count` and `Link` describe the rest. Banned nodes are omitted; members and \
                 administrators can include them."
            ))
            .query(paging(LIMIT_MAX, LIMIT_MAX))
            .query([flag_in_query("include_banned", "Include banned nodes, for members and administrators.")])
            .answers(200, "The nodes.", &array(&named("Node")), &json!([node_example()]))
            .with_header(200, "X-Total-Count")
            .with_header(200, "Link"),
    ]
}

fn reading() -> Vec<Operation> {
    vec![
        get("/nodes/{node_id}", "getNode", "Get a node")
            .about(
                "Returns a node. An id in a different case is redirected. A banned node is returned with the reason \
                 of its ban.",
            )
            .shows("The node.", "Node", &node_example())
            .may_redirect(),
        get(
            "/publishers/{publisher_id}/nodes/{node_id}/permissions",
            "getNodePermissions",
            "Check permission to edit a node",
        )
        .about(
            "Reports whether the caller may use `PUT` on the node. A banned node cannot be edited until an \
             administrator lifts the ban.",
        )
        .shows("Permission of the caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn writing() -> Vec<Operation> {
    let body =
        json!({"id": "face-tools", "name": "Face tools", "tags": ["portrait"], "latest_version": {"version": "1.0.0"}});
    vec![
        post("/publishers/{publisher_id}/nodes", "createNode", "Create a node")
            .about(format!(
                "Creates a node. If `id` is absent, it is derived from `name`. If the body has \
                 `latest_version.version`, that version is created as well and is active at once. {FACTS_IGNORED}"
            ))
            .takes("NewNodeBody", &body)
            .creates("The new node.", "Node", &node_example())
            .with_header(201, "Location")
            .answers_nothing(204, "An administrator created the node with the status deleted.")
            .fails(Code::QuotaExceeded, "the publisher has reached its daily limit of new nodes or versions")
            .fails(Code::AlreadyExists, "the id is in use or was used before, by any publisher and in any case")
            .fails(Code::Conflict, CONFLICT)
            .fails(Code::PayloadTooLarge, "the body exceeds 2 MiB, or all fields together exceed 1 MiB"),
        put("/publishers/{publisher_id}/nodes/{node_id}", "updateNode", "Update a node")
            .about(format!(
                "Changes the fields that are present; an empty URL removes the value. An `id` in the body must match \
                 the path. {FACTS_IGNORED}"
            ))
            .takes("NodeBody", &json!({"description": "Finds and mends faces", "tags": ["portrait", "mask"]}))
            .shows("The updated node.", "Node", &node_example())
            .answers_nothing(204, "An administrator set the status to deleted.")
            .fails(Code::Conflict, CONFLICT)
            .fails(Code::NotFound, "the publisher or node does not exist"),
        delete("/publishers/{publisher_id}/nodes/{node_id}", "deleteNode", "Delete a node")
            .about("Deletes the node and its versions for good. Its id is never reused.")
            .answers_nothing(204, "The node was deleted.")
            .fails(Code::NotFound, "the publisher or node does not exist"),
    ]
}

fn opinions() -> Vec<Operation> {
    let star = needed_in_query("star", "Number of stars.", &stars(), &json!(5));
    vec![
        post("/nodes/{node_id}/reviews", "reviewNode", "Review a node")
            .about(
                "Sets the caller's review, replacing an earlier one. `rating` is the mean of all reviews. The request \
                 has no body.",
            )
            .query([star])
            .shows("The node with its new rating.", "Node", &node_example()),
        get("/nodes/{node_id}/reviews/mine", "getOwnReview", "Get the caller's review of a node")
            .about(
                "Returns the caller's review, or an empty object if there is none. Reviews of other users are visible \
                 only as `rating`.",
            )
            .shows("The caller's review.", "OwnReview", &json!({"star": 4})),
        post("/nodes/{node_id}/translations", "translateNode", "Translate a node")
            .about(
                "Replaces the texts of each language in the body; a language without texts is removed, and other \
                 languages stay unchanged. The body maps language to field to text, directly or as `translations`.",
            )
            .takes("TranslationsBody", &json!({"de": {"name": "Gesichtswerkzeuge"}}))
            .shows("The updated node.", "Node", &node_example())
            .fails(Code::Conflict, "the node would have more than 100 languages"),
    ]
}

/// Query parameter for the order of a list.
fn sort() -> Parameter {
    let columns: Vec<_> = SortColumn::ALL.iter().map(|column| column.as_str()).collect();
    let pattern = format!("^$|^({})(;(asc|desc))?$", columns.join("|"));
    let about = format!(
        "Sort columns, most significant first: {}. Ascending; append `;desc` for descending order. `updated_at`, \
         which is not a field of nodes, is the time of the last change of the node, its versions or its reviews; \
         installations do not count.",
        columns.join(", ")
    );
    many_in_query("sort", &about, &json!({"type": "string", "pattern": pattern, "examples": ["downloads;desc"]}))
}

/// Query parameters that filter a list.
fn filters() -> [Parameter; 8] {
    let text = query_text();
    [
        many_in_query("supported_os", "Nodes that support one of these operating systems; case is ignored.", &text),
        many_in_query("supported_accelerator", "Nodes that support one of these accelerators; case is ignored.", &text),
        many_in_query("node_id", "Only nodes with these ids.", &text),
        in_query(
            "timestamp",
            "Nodes that were created or updated, or had a version published, after this time.",
            &or_empty(&Moment::schema()),
        ),
        in_query(
            "host_version",
            "Nodes whose `supported_host_version` admits this semantic version of the host application. Nodes with an \
             unreadable range are included.",
            &or_empty(&SemVer::schema()),
        ),
        in_query(
            "form_factor",
            "Platform of the client; nodes whose declared operating systems exclude it are omitted.",
            &or_empty(&FormFactor::schema()),
        ),
        flag_in_query(
            "latest",
            "`true` to read the current data instead of a cached page. Callers see their own writes in either case.",
        ),
        include_banned(),
    ]
}

/// Fields that the publisher sets.
fn said() -> Vec<Field> {
    let category =
        field::<Label>("category", "Category. Use `tags` instead; this field will be removed in a future version.");
    let mut said = vec![
        field::<Name>("author", "Author."),
        field::<Link>("banner_url", "URL of the banner."),
        category.with("deprecated", true),
        field::<NodeDescription>("description", "Description of the node."),
        field::<Link>("icon", "URL of the icon."),
        field::<Label>("license", "Path to the LICENSE file in the repository."),
        field::<Name>("name", "Display name."),
        field::<Labels>("preempted_host_node_names", "Names of host nodes that this node replaces."),
        field::<Link>("repository", "URL of the repository."),
        field::<Labels>("tags", "Tags, which the search includes."),
        field_of("translations", "Translated texts: language → field → text.", named("TextsByLanguageBody")),
    ];
    said.extend(support());
    said
}

/// Fields on supported platforms, shared by nodes and versions.
pub fn support() -> [Field; 4] {
    [
        field::<Labels>("supported_accelerators", "Supported accelerators, such as CUDA, DirectML or ROCm."),
        field::<Label>("supported_host_frontend_version", "Supported versions of the host frontend."),
        field::<Label>("supported_host_version", "Supported versions of the host application."),
        field::<Labels>("supported_os", "Supported operating systems."),
    ]
}

/// Fields that only administrators set.
pub fn facts() -> Vec<Field> {
    vec![
        field::<Moment>("created_at", "Creation time."),
        field::<u64>("downloads", "Number of installs, counted once per account (or client address) and day."),
        field::<u64>("github_stars", "Stars on the source repository."),
        field_of("rating", "Mean rating. A value set here applies until there is a review.", rating()),
        field::<i64>("search_ranking", "Rank for sorting search results."),
        field::<Text<1000>>("status_detail", "Reason of the status, such as that of a ban."),
        field::<Labels>("tags_admin", "Security warnings and other tags set by administrators."),
    ]
}

/// Request body for administrators: all fields.
pub fn administered() -> Value {
    body(said().into_iter().chain(facts()).chain([id_of_path(), status()]))
}

/// Administrator-only fields, as they appear in the request bodies of other callers.
fn of_administrators() -> impl Iterator<Item = Field> {
    facts().into_iter().chain([status()]).map(Field::of_administrators)
}

fn status() -> Field {
    field::<NodeStatus>(
        "status",
        "Status. Allowed transitions: active ↔ banned; active → deleted, which is final. A ban requires \
         `status_detail`.",
    )
}

fn id_of_path() -> Field {
    field::<NodeId>("id", "Id of the node; if present, it must match the path.")
}

/// Schema of the stars of a review.
fn stars() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 5})
}

fn rating() -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 5})
}

fn new_node() -> Value {
    let id = field::<NodeId>(
        "id",
        "Id of the node: letters and digits, with `.`, `_` and `-` between them, at most 100 characters. Derived from \
         `name` if absent.",
    );
    // `search` is reserved for GET /nodes/search.
    let id = id.with("not", json!({"pattern": "^[Ss][Ee][Aa][Rr][Cc][Hh]$"}));
    let first = field_of("latest_version", "First version; ignored without its `version`.", named("FirstVersionBody"));
    let mut node = body(said().into_iter().chain(of_administrators()).chain([id, first]));
    // Without an id, one is derived from the name. `if`/`else` rather than `anyOf`, from which client generators make
    // two classes, with an id or a name and nothing else.
    let name = json!({"type": "string", "pattern": "[A-Za-z0-9]", "not": {"pattern": "^[^A-Za-z0-9]*[Ss][Ee][Aa][Rr][Cc][Hh][^A-Za-z0-9]*$"}});
    node["if"] = json!({"required": ["id"], "properties": {"id": {"type": "string"}}});
    node["else"] = json!({"required": ["name"], "properties": {"name": name}});
    node["description"] = "New node; `id` or `name` is required.".into();
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
        field::<NodeId>("id", "Unique id; case is ignored in requests.").required(),
        field_of("latest_version", "Highest active version; absent if there is none.", named("NodeVersion")),
        field_of("publisher", "Publisher of the node.", named("NodeOwner")).required(),
        field::<NodeStatus>("status", "Active or banned; nodes of a banned publisher are banned.").required(),
        field_of("translations", "Translated texts: language → field → text.", named("Translations")),
    ]))
}

/// Schema of the texts of one language by field.
fn texts(text: &Value) -> Value {
    json!({
        "type": "object",
        "maxProperties": TEXTS_MAX,
        "propertyNames": Text::<200>::schema(),
        "additionalProperties": text,
    })
}

/// Schema of the texts of each language.
fn by_language(texts: &Value) -> Value {
    let tag = json!({"pattern": "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$", "maxLength": 200});
    json!({"type": "object", "maxProperties": LANGUAGES_MAX, "propertyNames": tag, "additionalProperties": texts})
}

/// Components of translations in responses and requests; in requests `null` means absent here too. The parts are named
/// components because client generators drop unnamed alternatives of objects with arbitrary keys.
fn translations() -> [(&'static str, Value); 4] {
    let about = "Translated texts: language → field → text.";
    let whole = body([field_of("translations", about, named("TextsByLanguageBody")).required()]);
    [
        ("Translations", by_language(&texts(&Text::<1000>::schema()))),
        ("TextsBody", texts(&or_null(Text::<1000>::schema()))),
        ("TextsByLanguageBody", by_language(&or_null(named("TextsBody")))),
        ("TranslationsBody", json!({"anyOf": [whole, named("TextsByLanguageBody")]})),
    ]
}

/// Example of a node.
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
