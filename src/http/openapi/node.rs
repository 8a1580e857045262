//! Nodes: lists, search, reviews and translations.

use serde_json::{Value, json};

use super::OperationGroup;
use super::image_submission::PIXEL;
use super::operation::{Operation, operation};
use super::parameter::{
    ParameterObject, allow_empty, bool_query_parameter, paging_parameters, query_parameter, query_text_schema,
    repeatable_query_parameter, required_query_parameter,
};
use super::publisher::include_banned;
use super::schema::{
    HasSchema, array, component_ref, field, field_with_schema, nullable, one_of, page_of, request_object,
    response_object,
};
use crate::domain::ids::NodeId;
use crate::domain::node::{LANGUAGES_MAX, NodeAdminFields, NodeFields, NodeStatus, TEXTS_MAX};
use crate::domain::value::{Text, Timestamp};
use crate::http::api::badge::BadgeContent;
use crate::http::api::node_body::{NewNodeBody, NodeAdminBody, NodeBody};
use crate::http::api::node_picture::NodePictureBody;
use crate::http::api::statistics::DAYS_DEFAULT;
use crate::http::request::json_object::JsonObject;
use crate::http::request::query::LIMIT_MAX;
use crate::http::response::error::Code;
use crate::projections::node::SortColumn;
use crate::projections::node::daily_downloads::DAYS_MAX;
use crate::projections::node::facets::FormFactor;
use crate::projections::node::search::QUERY_MAX;

/// Sentence on the body fields that only administrators can set.
pub const ADMIN_FIELDS_IGNORED: &str = "Output-only fields in the body (`created_at`, `downloads`, `rating`, `github_stars`, \
                                 `search_ranking`, `status`, `status_detail`, `tags_admin`) are ignored, except from \
                                 administrators: see `PUT /admin/nodes/{nodeId}`.";

/// Condition under which a change of a node conflicts with its state.
pub const UPDATE_CONFLICT: &str = "the status cannot change from the current to the requested one (`detail` names them), or \
                            the node would have too many languages";

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Nodes",
        description: "Custom nodes. A node id is unique across the service, regardless of case, and is never reused.",
        operations: [list_operations(), read_operations(), write_operations(), review_operations()]
            .into_iter()
            .flatten()
            .collect(),
        components: vec![
            ("Node", node_schema()),
            ("NodePage", page_of("nodes", "Node")),
            ("NewNodeBody", new_node()),
            ("NodeStatistics", statistics_schema()),
            (
                "OwnReview",
                response_object([field_with_schema("star", "Stars given by the caller, if any.", stars_schema())]),
            ),
        ]
        .into_iter()
        .chain(translations())
        .collect(),
    }
}

fn list_operations() -> Vec<Operation> {
    let mut search = query_text_schema();
    search["maxLength"] = QUERY_MAX.into();
    let page = || json!({"limit": 10, "nodes": [node_example()], "page": 1, "total": 1, "totalPages": 1});
    vec![
        operation("listNodes", "List nodes across all publishers")
            .description(
                "Returns a page of nodes, sorted by id unless `sort` is given. Ties are sorted by id, so pages do not \
                 overlap while nothing changes; a page past the end is empty, with correct totals. Banned nodes and \
                 those of banned publishers are omitted; administrators can include them.",
            )
            .query(paging_parameters(10, LIMIT_MAX))
            .query([sort_parameter()])
            .query(filter_parameters())
            .ok_response("A page of nodes.", "NodePage", &page()),
        operation("searchNodes", "Search nodes")
            .description(
                "Returns nodes in which every word occurs in the id, name, description, author, publisher or \
                 tags.\n\n- The last word also matches the beginning of a word.\n- Case and separators are ignored: \
                 `faceswap`, `face-swap` and `Face Swap` find each other.\n- An exact id comes first, then relevance, \
                 then downloads; `sort` replaces this order.\n- If no node matches, an unknown word of \
                 four or more letters also matches with one letter swapped, missing, wrong or too many.\n- Without `search`, or with an empty one, all nodes \
                 that match the filters are listed, most downloaded first. A search without letters or digits finds \
                 nothing.",
            )
            .query([query_parameter("search", "Words to search for.", &search)])
            .query(paging_parameters(10, LIMIT_MAX))
            .query([sort_parameter()])
            .query(filter_parameters())
            .ok_response("A page of nodes.", "NodePage", &page()),
        operation("listPublisherNodes", "List the nodes of a publisher")
            .description(format!(
                "Returns the nodes of a publisher, sorted by id. Without `page` and `limit`, up to {LIMIT_MAX} nodes \
                 are returned; `X-Total-Count` and `Link` describe the rest. Banned nodes are omitted; members and \
                 administrators can include them."
            ))
            .query(paging_parameters(LIMIT_MAX, LIMIT_MAX))
            .query([bool_query_parameter("include_banned", "Include banned nodes, for members and administrators.")])
            .json_response(200, "The nodes.", &array(&component_ref("Node")), &json!([node_example()]))
            .with_header(200, "X-Total-Count")
            .with_header(200, "Link"),
    ]
}

fn read_operations() -> Vec<Operation> {
    let days = json!({"type": "integer", "minimum": 1, "maximum": DAYS_MAX});
    let badge = one_of(BadgeContent::ALL.iter().map(|content| content.as_str()));
    vec![
        operation("getNode", "Get a node")
            .description(
                "Returns a node. An id in a different case is redirected. A banned node is returned with the reason \
                 of its ban.",
            )
            .ok_response("The node.", "Node", &node_example())
            .redirect_response(),
        operation("getNodeStatistics", "Get the statistics of a node")
            .description(
                "Returns the downloads of the last days in UTC, today last, and how often each number of stars was \
                 given.",
            )
            .query([query_parameter("days", &format!("Number of days; by default {DAYS_DEFAULT}."), &days)])
            .ok_response(
                "The statistics.",
                "NodeStatistics",
                &json!({
                    "downloads": 1207,
                    "days": [{"date": "2026-11-19", "downloads": 4}, {"date": "2026-11-20", "downloads": 9}],
                    "ratings": {"count": 3, "mean": 4.33, "stars": [0, 0, 1, 0, 2]},
                }),
            )
            .redirect_response(),
        operation("getNodeBadge", "Get a badge")
            .description(
                "Returns a picture for web pages, such as the README of the node. It may be cached for 5 minutes.",
            )
            .query([query_parameter("show", "Content of the badge; by default the latest version.", &badge)])
            .content_response(200, "The badge.", "image/svg+xml", &json!({"schema": {"type": "string"}}))
            .tagged()
            .with_header(200, "Cache-Control")
            .redirect_response(),
        operation("getNodePermissions", "Check permission to edit a node")
            .description(
                "Reports whether the caller may use `PUT` on the node. A banned node cannot be edited until an \
             administrator lifts the ban.",
            )
            .ok_response("Permission of the caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn statistics_schema() -> Value {
    let day = response_object([
        field_with_schema("date", "Day in UTC.", json!({"type": "string", "format": "date"})).required(),
        field::<u64>("downloads", "Downloads on this day.").required(),
    ]);
    let stars = json!({
        "type": "array", "items": {"type": "integer", "format": "int64", "minimum": 0}, "minItems": 5, "maxItems": 5,
    });
    let mean = "Mean with two decimals; without reviews the value that an administrator set, or absent.";
    let ratings = response_object([
        field::<u64>("count", "Number of reviews.").required(),
        field_with_schema("mean", mean, json!({"type": "number", "minimum": 0, "maximum": 5})),
        field_with_schema("stars", "Number of reviews with 1, 2, 3, 4 and 5 stars.", stars).required(),
    ]);
    response_object([
        field::<u64>("downloads", "All downloads.").required(),
        field_with_schema("days", "The last days, oldest first.", array(&day)).required(),
        field_with_schema("ratings", "Reviews.", ratings).required(),
    ])
}

fn write_operations() -> Vec<Operation> {
    let body =
        json!({"id": "face-tools", "name": "Face tools", "tags": ["portrait"], "latest_version": {"version": "1.0.0"}});
    vec![
        operation("createNode", "Create a node")
            .description(format!(
                "Creates a node. If `id` is absent, it is derived from `name`. If the body has \
                 `latest_version.version`, that version is created as well and is active at once. {ADMIN_FIELDS_IGNORED}"
            ))
            .json_body("NewNodeBody", &body)
            .created_response("The new node.", "Node", &node_example())
            .with_header(201, "Location")
            .empty_response(204, "An administrator created the node with the status deleted.")
            .error(Code::QuotaExceeded, "the publisher has reached its daily limit of new nodes or versions")
            .error(Code::TooManyCallbacks, "with a version: a webhook of the publisher has too many pending deliveries")
            .error(Code::AlreadyExists, "the id is in use or was used before, by any publisher and in any case")
            .error(Code::Conflict, UPDATE_CONFLICT)
            .error(Code::PayloadTooLarge, "the body exceeds 2 MiB, or all fields together exceed 1 MiB"),
        operation("updateNode", "Update a node")
            .description(format!(
                "Changes the fields that are present; an empty URL removes the value. An `id` in the body must match \
                 the path. {ADMIN_FIELDS_IGNORED}"
            ))
            .json_object::<NodeBody>(&json!({"description": "Finds and mends faces", "tags": ["portrait", "mask"]}))
            .ok_response("The updated node.", "Node", &node_example())
            .empty_response(204, "An administrator set the status to deleted.")
            .error(Code::Conflict, UPDATE_CONFLICT)
            .error(Code::NotFound, "the publisher or node does not exist"),
        picture_operation("setNodeIcon", "Upload the icon of a node", "icon"),
        picture_operation("setNodeBanner", "Upload the banner of a node", "banner_url"),
        operation("deleteNode", "Delete a node")
            .description("Deletes the node and its versions for good. Its id is never reused.")
            .empty_response(204, "The node was deleted.")
            .error(Code::NotFound, "the publisher or node does not exist"),
    ]
}

fn picture_operation(id: &'static str, summary: &'static str, field: &str) -> Operation {
    operation(id, summary)
        .description(format!(
            "Stores the picture and sets `{field}` to its URL, which every client can read. A picture is kept when \
             another one replaces it, because the event log names it. `{field}` of `updateNode` takes the URL of a \
             picture elsewhere, or an empty string to remove it."
        ))
        .json_object::<NodePictureBody>(&json!({"image": PIXEL}))
        .ok_response("The updated node.", "Node", &node_example())
        .error(Code::InvalidInput, "the picture cannot be decoded, exceeds 4 MiB, or is at a URL elsewhere")
        .error(Code::Conflict, UPDATE_CONFLICT)
        .error(Code::NotFound, "the publisher or node does not exist")
}

fn review_operations() -> Vec<Operation> {
    let star = required_query_parameter("star", "Number of stars.", &stars_schema(), &json!(5));
    vec![
        operation("reviewNode", "Review a node")
            .description(
                "Sets the caller's review, replacing an earlier one. `rating` is the mean of all reviews. The request \
                 has no body.",
            )
            .query([star])
            .ok_response("The node with its new rating.", "Node", &node_example()),
        operation("getOwnReview", "Get the caller's review of a node")
            .description(
                "Returns the caller's review, or an empty object if there is none. Reviews of other users are visible \
                 only as `rating`.",
            )
            .ok_response("The caller's review.", "OwnReview", &json!({"star": 4})),
        operation("translateNode", "Translate a node")
            .description(
                "Replaces the texts of each language in the body; a language without texts is removed, and other \
                 languages stay unchanged. The body maps language to field to text, directly or as `translations`.",
            )
            .json_body("TranslationsBody", &json!({"de": {"name": "Gesichtswerkzeuge"}}))
            .ok_response("The updated node.", "Node", &node_example())
            .error(Code::Conflict, "the node would have more than 100 languages"),
    ]
}

/// Returns the query parameter for the order of a list.
fn sort_parameter() -> ParameterObject {
    let columns: Vec<_> = SortColumn::ALL.iter().map(|column| column.as_str()).collect();
    let pattern = format!("^$|^({})(;(asc|desc))?$", columns.join("|"));
    let about = format!(
        "Sort columns, most significant first: {}. Ascending; append `;desc` for descending order. `updated_at`, \
         which is not a field of nodes, is the time of the last change of the node, its versions or its reviews; \
         installations do not count.",
        columns.join(", ")
    );
    repeatable_query_parameter(
        "sort",
        &about,
        &json!({"type": "string", "pattern": pattern, "examples": ["downloads;desc"]}),
    )
}

fn quoted_form_factors() -> String {
    let quoted: Vec<_> = FormFactor::ALL.iter().map(|form_factor| format!("`{}`", form_factor.as_str())).collect();
    quoted.join(", ")
}

/// Returns the query parameters that filter a list.
fn filter_parameters() -> [ParameterObject; 8] {
    let text = query_text_schema();
    [
        repeatable_query_parameter(
            "supported_os",
            "Nodes that support one of these operating systems; case is ignored.",
            &text,
        ),
        repeatable_query_parameter(
            "supported_accelerator",
            "Nodes that support one of these accelerators; case is ignored.",
            &text,
        ),
        repeatable_query_parameter("node_id", "Only nodes with these ids.", &text),
        query_parameter(
            "timestamp",
            "Nodes that were created or updated, or had a version published, after this date or time (ISO 8601). A \
             time without a zone is UTC.",
            &allow_empty(&json!({"anyOf": [Timestamp::schema(), {"type": "string", "format": "date"}]})),
        ),
        query_parameter(
            "host_version",
            "Nodes whose `supported_host_version` admits this version of the host application, such as `1.4.0` or \
             `v1.4.0-20-g5c5457a4` (what `git describe` appends is ignored). A value that is not a version filters \
             nothing. Nodes with an unreadable range are included.",
            &text,
        ),
        query_parameter(
            "form_factor",
            &format!(
                "Platform of the client: {}. Nodes whose declared operating systems exclude it are omitted. Any other \
                 value filters nothing.",
                quoted_form_factors()
            ),
            &text,
        ),
        bool_query_parameter(
            "latest",
            "`true` to read the current data instead of a cached page. Callers see their own writes in either case.",
        ),
        include_banned(),
    ]
}

/// Returns the schema of the request body for administrators, with all fields.
pub fn administrator_body() -> Value {
    let id = NodeBody::describe_fields().into_iter().filter(|field| field.is_named("id"));
    request_object(NodeFields::describe_fields().into_iter().chain(NodeAdminBody::describe_fields()).chain(id))
}

/// Returns the schema of the stars of a review.
fn stars_schema() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 5})
}

fn new_node() -> Value {
    let mut node = NewNodeBody::schema();
    // Without an id, one is derived from the name. `if`/`else` rather than `anyOf`, from which client generators make
    // two classes, with an id or a name and nothing else.
    let name = json!({"type": "string", "pattern": "[A-Za-z0-9]", "not": {"pattern": "^[^A-Za-z0-9]*[Ss][Ee][Aa][Rr][Cc][Hh][^A-Za-z0-9]*$"}});
    node["if"] = json!({"required": ["id"], "properties": {"id": {"type": "string"}}});
    node["else"] = json!({"required": ["name"], "properties": {"name": name}});
    node["description"] = "New node; `id` or `name` is required.".into();
    node["x-needs-one-of"] = json!(["id", "name"]);
    node
}

fn node_schema() -> Value {
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
    let own_fields = NodeFields::describe_fields().into_iter().filter(|field| !field.is_named("translations"));
    let fields = own_fields.chain(NodeAdminFields::describe_fields()).map(|field| field.required_among(&always));
    response_object(
        fields.chain([
            field::<NodeId>("id", "Unique id; case is ignored in requests.").required(),
            field_with_schema(
                "latest_version",
                "Highest active version; absent if there is none.",
                component_ref("NodeVersion"),
            ),
            field_with_schema("publisher", "Publisher of the node: its id and name.", component_ref("Publisher"))
                .required(),
            field::<NodeStatus>("status", "Active or banned; nodes of a banned publisher are banned.").required(),
            field_with_schema(
                "translations",
                "Translated texts: language → field → text.",
                component_ref("Translations"),
            ),
        ]),
    )
}

/// Returns the schema of the texts of one language by field.
fn texts_schema(text: &Value) -> Value {
    json!({
        "type": "object",
        "maxProperties": TEXTS_MAX,
        "propertyNames": Text::<200>::schema(),
        "additionalProperties": text,
    })
}

/// Returns the schema of the texts of each language.
fn by_language_schema(texts: &Value) -> Value {
    let tag = json!({"pattern": "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$", "maxLength": 200});
    json!({"type": "object", "maxProperties": LANGUAGES_MAX, "propertyNames": tag, "additionalProperties": texts})
}

/// Returns the components of translations in responses and requests; in requests `null` means absent here too. The
/// parts are named components because client generators drop unnamed alternatives of objects with arbitrary keys.
fn translations() -> [(&'static str, Value); 4] {
    let about = "Translated texts: language → field → text.";
    let whole =
        request_object([field_with_schema("translations", about, component_ref("TextsByLanguageBody")).required()]);
    [
        ("Translations", by_language_schema(&texts_schema(&Text::<1000>::schema()))),
        ("TextsBody", texts_schema(&nullable(Text::<1000>::schema()))),
        ("TextsByLanguageBody", by_language_schema(&nullable(component_ref("TextsBody")))),
        ("TranslationsBody", json!({"anyOf": [whole, component_ref("TextsByLanguageBody")]})),
    ]
}

/// Returns an example of a node.
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
