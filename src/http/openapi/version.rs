//! Described: versions of nodes, and looking up many at once.

use serde_json::{Value, json};

use super::Group;
use super::node::support;
use super::operation::{Operation, delete, get, post, put};
use super::parameter::{Parameter, flag_in_query, many_in_query, or_empty, paging, query_text};
use super::schema::{Documented, Field, Moment, Url, array, body, field, field_of, named, one_of, page_of, view};
use crate::domain::ids::{NodeId, VersionId};
use crate::domain::value::{Label, Labels, Reason};
use crate::domain::version::{Changelog, SemVer, VersionStatus};
use crate::http::bulk::IDENTIFIERS_MAX;
use crate::http::error::Code;
use crate::http::query::LIMIT_MAX;

pub fn group() -> Group {
    Group {
        tag: "Versions",
        about: "Versions of nodes. A number is unique within its node, whatever its build metadata, and never given out again.",
        operations: [reading(), writing(), vec![bulk()]].into_iter().flatten().collect(),
        components: [versions(), lookups()].into_iter().flatten().collect(),
    }
}

fn versions() -> Vec<(&'static str, Value)> {
    let always =
        ["createdAt", "dependencies", "deprecated", "supported_accelerators", "supported_os", "tags", "tags_admin"];
    let fields = said().into_iter().chain(facts()).map(|field| field.required_among(&always));
    let shown = fields.chain([
        field::<Url>("downloadUrl", "Where its archive is; absent before there is one, and while nobody may have it."),
        field::<VersionId>("id", "A UUID.").required(),
        field::<NodeId>("node_id", "The node that it is a version of.").required(),
        field::<VersionStatus>("status", "Only what is Active is listed and installed by everybody.").required(),
        field::<Reason>("status_reason", "Why it has this status; where it was asked for."),
        field::<SemVer>("version", "Its number, a semantic version.").required(),
    ]);
    let number = || field::<SemVer>("version", "A semantic version, strictly as semver.org 2.0.0 has it.");
    let draft = |number: Field| body(said().into_iter().chain(of_administrators()).chain([number]));
    // tests/contract/hooks.py knows, too, that without a number nothing of it is looked at.
    let number_or_none = field::<SemVer>(
        "version",
        "A semantic version. Without it there is no version, and nothing else here is looked at.",
    );
    vec![
        ("NodeVersion", view(shown)),
        ("VersionPage", page_of("versions", "NodeVersion")),
        ("NewVersionBody", draft(number().required())),
        ("FirstVersionBody", draft(number_or_none)),
        ("VersionChangeBody", body(revised().into_iter().chain(of_administrators()))),
    ]
}

fn reading() -> Vec<Operation> {
    vec![
        get("/nodes/{node_id}/versions", "listNodeVersions", "List the versions of a node")
            .about("Highest number first. Active ones, unless `statuses` says otherwise.")
            .query([statuses(), reasons()])
            .answers(200, "The versions.", &array(&named("NodeVersion")), &json!([version_example()]))
            .may_redirect(),
        get("/nodes/{node_id}/versions/{version}", "getNodeVersion", "Show a version")
            .about("Whatever its status, unless it is deleted. Build metadata does not count.")
            .query([reasons()])
            .shows("The version.", "NodeVersion", &version_example())
            .may_redirect(),
        get("/versions", "listVersions", "List versions across all nodes")
            .about("For moderation: newest first, of all statuses unless `statuses` says otherwise.")
            .query(paging(10, LIMIT_MAX))
            .query([statuses(), reasons(), many_in_query("node_id", "Versions of these nodes.", &query_text())])
            .shows(
                "A page of versions.",
                "VersionPage",
                &json!({"limit": 10, "page": 1, "total": 1, "totalPages": 1, "versions": [version_example()]}),
            ),
    ]
}

fn writing() -> Vec<Operation> {
    vec![
        put(
            "/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}",
            "updateVersion",
            "Update changelog and deprecation",
        )
        .about("Changes the fields that are present; all others are ignored, but for those of administrators.")
        .takes("VersionChangeBody", &json!({"changelog": "Fixed the mask", "deprecated": false}))
        .shows("The version as it is now.", "NodeVersion", &version_example())
        .fails(Code::Conflict, "from administrators: the version cannot go from its status to that one; both are named")
        .fails(Code::NotFound, "there is no such publisher, it has no such node, or that has no such version"),
        delete("/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}", "deleteVersion", "Delete a version")
            .about("Final: it gets the status Deleted, and its number is never given out again.")
            .answers_nothing(204, "It is deleted.")
            .fails(Code::NotFound, "there is no such publisher, it has no such node, or that has no such version"),
    ]
}

fn bulk() -> Operation {
    let identifier = json!({"node_id": "face-tools", "version": "1.2.0"});
    let example =
        json!({"node_versions": [{"identifier": identifier, "status": "success", "node_version": version_example()}]});
    post("/bulk/nodes/versions", "getVersions", "Look up many versions at once")
        .about("Every identifier is answered, in order, duplicates each. Changes nothing.")
        .takes("VersionLookupBody", &json!({"node_versions": [identifier]}))
        .shows("One result for each identifier.", "VersionLookup", &example)
}

fn lookups() -> Vec<(&'static str, Value)> {
    let identifier = || {
        view([
            field::<String>("node_id", "The id of a node.").required(),
            field::<String>("version", "A semantic version.").required(),
        ])
    };
    let wanted = json!({"type": "array", "minItems": 1, "maxItems": IDENTIFIERS_MAX, "items": identifier()});
    let found = view([
        field::<String>("error_message", "What is wrong with the identifier, of `error`."),
        field_of("identifier", "As it was given.", identifier()).required(),
        field_of("node_version", "The version, of `success`.", named("NodeVersion")),
        field_of("status", "What came of the identifier.", one_of(["success", "not_found", "error"])).required(),
    ]);
    vec![
        ("VersionLookupBody", body([field_of("node_versions", "What is looked up.", wanted).required()])),
        (
            "VersionLookup",
            view([field_of(
                "node_versions",
                "In the order of the identifiers.",
                array(&named("BulkNodeVersionResult")),
            )
            .required()]),
        ),
        ("BulkNodeVersionResult", found),
    ]
}

/// What a publisher says of a version.
pub fn said() -> Vec<Field> {
    let more =
        [field::<Labels>("dependencies", "pip dependencies."), field::<Labels>("tags", "Words that say what it is.")];
    revised().into_iter().chain(more).chain(support()).collect()
}

/// What a publisher changes of a version that is out.
fn revised() -> [Field; 2] {
    [
        field::<Changelog>("changelog", "Summary of changes."),
        field::<bool>("deprecated", "Whether the publisher advises against it."),
    ]
}

/// What administrators say of a version.
pub fn facts() -> Vec<Field> {
    vec![
        field::<Moment>("createdAt", "When it was registered."),
        field::<Label>("host_node_extract_status", "Status of the node extraction process."),
        field::<Labels>("tags_admin", "Security warnings and metadata of administrators."),
    ]
}

/// Everything that an administrator may say of a version.
pub fn administered() -> Value {
    body(said().into_iter().chain(facts()).chain(ruling()))
}

/// The same in the bodies of others, beside what they say.
fn of_administrators() -> impl Iterator<Item = Field> {
    facts().into_iter().chain(ruling()).map(Field::of_administrators)
}

/// What becomes of a version.
fn ruling() -> [Field; 2] {
    [
        field::<VersionStatus>(
            "status",
            "Pending → Active, Flagged, Banned or Deleted; Active ↔ Flagged; Active or Flagged → Banned → Active; any → Deleted, which is final.",
        ),
        field::<Reason>("status_reason", "Why it has this status; a ban needs it."),
    ]
}

fn statuses() -> Parameter {
    many_in_query("statuses", "Versions with one of these statuses.", &or_empty(&VersionStatus::schema()))
}

fn reasons() -> Parameter {
    flag_in_query("include_status_reason", "Whether `status_reason` is shown.")
}

/// A version as it is shown.
pub fn version_example() -> Value {
    json!({
        "changelog": "Fixed the mask",
        "createdAt": "2026-11-20T09:40:00.000000Z",
        "dependencies": ["numpy>=2"],
        "deprecated": false,
        "downloadUrl": "https://registry.example/nodes/face-tools/versions/1.2.0/download",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c30",
        "node_id": "face-tools",
        "status": "NodeVersionStatusActive",
        "supported_accelerators": ["CUDA"],
        "supported_os": ["Linux", "Windows"],
        "tags": [],
        "tags_admin": [],
        "version": "1.2.0",
    })
}
