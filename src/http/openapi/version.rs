//! Versions of nodes, and their bulk lookup.

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
        about: "Versions of nodes. A version number is unique within its node, regardless of build metadata, and is \
                never reused.",
        operations: [reading(), writing(), vec![bulk()]].into_iter().flatten().collect(),
        components: [versions(), lookups()].into_iter().flatten().collect(),
    }
}

fn versions() -> Vec<(&'static str, Value)> {
    let always =
        ["createdAt", "dependencies", "deprecated", "supported_accelerators", "supported_os", "tags", "tags_admin"];
    let fields = said().into_iter().chain(facts()).map(|field| field.required_among(&always));
    let shown = fields.chain([
        field::<Url>("downloadUrl", "URL of the archive; absent if there is none, or if it cannot be downloaded."),
        field::<VersionId>("id", "Id of the version.").required(),
        field::<NodeId>("node_id", "Id of the node.").required(),
        field::<VersionStatus>(
            "status",
            "Status; only active versions are listed by default and can be installed by everyone.",
        )
        .required(),
        field::<Reason>("status_reason", "Reason of the status; present if requested."),
        field::<SemVer>("version", "Version number, a semantic version.").required(),
    ]);
    let number = || field::<SemVer>("version", "Version number, strictly as specified by semver.org 2.0.0.");
    let draft = |number: Field| body(said().into_iter().chain(of_administrators()).chain([number]));
    // tests/contract/hooks.py relies on this too: without a number, the other fields are ignored.
    let number_or_none = field::<SemVer>(
        "version",
        "Version number, a semantic version. Without it, no version is created and the other fields are ignored.",
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
            .about(
                "Returns the versions of a node, highest number first: the active ones, unless `statuses` selects \
                 others.",
            )
            .query([statuses(), reasons()])
            .answers(200, "The versions.", &array(&named("NodeVersion")), &json!([version_example()]))
            .may_redirect(),
        get("/nodes/{node_id}/versions/{version}", "getNodeVersion", "Get a version")
            .about("Returns a version of any status except deleted. Build metadata in the number is ignored.")
            .query([reasons()])
            .shows("The version.", "NodeVersion", &version_example())
            .may_redirect(),
        get("/versions", "listVersions", "List versions across all nodes")
            .about(
                "Returns versions of all nodes, newest first, for moderation. Includes every status unless `statuses` \
                 selects some.",
            )
            .query(paging(10, LIMIT_MAX))
            .query([statuses(), reasons(), many_in_query("node_id", "Only versions of these nodes.", &query_text())])
            .shows(
                "A page of versions.",
                "VersionPage",
                &json!({"limit": 10, "page": 1, "total": 1, "totalPages": 1, "versions": [version_example()]}),
            ),
    ]
}

fn writing() -> Vec<Operation> {
    vec![
        put("/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}", "updateVersion", "Update a version")
            .about(
                "Changes `changelog` and `deprecated`, if present. Other fields are ignored, except from \
                 administrators.",
            )
            .takes("VersionChangeBody", &json!({"changelog": "Fixed the mask", "deprecated": false}))
            .shows("The updated version.", "NodeVersion", &version_example())
            .fails(
                Code::Conflict,
                "for administrators: the status cannot change from the current to the requested one; `detail` names \
                 both",
            )
            .fails(Code::NotFound, "the publisher, node or version does not exist"),
        delete("/publishers/{publisher_id}/nodes/{node_id}/versions/{version_id}", "deleteVersion", "Delete a version")
            .about("Deletes the version for good. Its status becomes deleted, and its number is never reused.")
            .answers_nothing(204, "The version was deleted.")
            .fails(Code::NotFound, "the publisher, node or version does not exist"),
    ]
}

fn bulk() -> Operation {
    let identifier = json!({"node_id": "face-tools", "version": "1.2.0"});
    let example =
        json!({"node_versions": [{"identifier": identifier, "status": "success", "node_version": version_example()}]});
    post("/bulk/nodes/versions", "getVersions", "Look up versions in bulk")
        .about("Returns one result for each identifier, in order and including duplicates. Changes nothing.")
        .takes("VersionLookupBody", &json!({"node_versions": [identifier]}))
        .shows("One result for each identifier.", "VersionLookup", &example)
}

fn lookups() -> Vec<(&'static str, Value)> {
    let identifier = || {
        view([
            field::<String>("node_id", "Id of the node.").required(),
            field::<String>("version", "Version number.").required(),
        ])
    };
    let wanted = json!({"type": "array", "minItems": 1, "maxItems": IDENTIFIERS_MAX, "items": identifier()});
    let found = view([
        field::<String>("error_message", "Problem with the identifier, if `status` is `error`."),
        field_of("identifier", "Identifier from the request.", identifier()).required(),
        field_of("node_version", "The version, if `status` is `success`.", named("NodeVersion")),
        field_of("status", "Result of the lookup.", one_of(["success", "not_found", "error"])).required(),
    ]);
    vec![
        ("VersionLookupBody", body([field_of("node_versions", "Identifiers to look up.", wanted).required()])),
        (
            "VersionLookup",
            view([field_of(
                "node_versions",
                "Results in the order of the identifiers.",
                array(&named("BulkNodeVersionResult")),
            )
            .required()]),
        ),
        ("BulkNodeVersionResult", found),
    ]
}

/// Fields that the publisher sets.
pub fn said() -> Vec<Field> {
    let more = [
        field::<Labels>("dependencies", "Python dependencies in pip format."),
        field::<Labels>("tags", "Tags of the version."),
    ];
    revised().into_iter().chain(more).chain(support()).collect()
}

/// Fields that the publisher can change after publication.
fn revised() -> [Field; 2] {
    [
        field::<Changelog>("changelog", "Summary of changes."),
        field::<bool>("deprecated", "`true` if the publisher advises against using the version."),
    ]
}

/// Fields that only administrators set.
pub fn facts() -> Vec<Field> {
    vec![
        field::<Moment>("createdAt", "Creation time."),
        field::<Label>("host_node_extract_status", "Status of the node extraction process."),
        field::<Labels>("tags_admin", "Security warnings and other tags set by administrators."),
    ]
}

/// Request body for administrators: all fields.
pub fn administered() -> Value {
    body(said().into_iter().chain(facts()).chain(ruling()))
}

/// Administrator-only fields, as they appear in the request bodies of other callers.
fn of_administrators() -> impl Iterator<Item = Field> {
    facts().into_iter().chain(ruling()).map(Field::of_administrators)
}

/// Moderation status and its reason.
fn ruling() -> [Field; 2] {
    [
        field::<VersionStatus>(
            "status",
            "Status. Allowed transitions: pending → active, flagged, banned or deleted; active ↔ flagged; active or \
             flagged → banned → active; any → deleted, which is final.",
        ),
        field::<Reason>("status_reason", "Reason of the status; required for a ban."),
    ]
}

fn statuses() -> Parameter {
    many_in_query("statuses", "Only versions with these statuses.", &or_empty(&VersionStatus::schema()))
}

fn reasons() -> Parameter {
    flag_in_query("include_status_reason", "Include `status_reason`.")
}

/// Example of a version.
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
