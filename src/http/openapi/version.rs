//! Versions of nodes, and their bulk lookup.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{
    ParameterObject, allow_empty, bool_query_parameter, paging_parameters, query_text_schema,
    repeatable_query_parameter,
};
use super::schema::{
    HasSchema, UrlSchema, array, component_ref, field, field_with_schema, one_of, page_of, request_object,
    response_object,
};
use crate::domain::ids::{NodeId, VersionId};
use crate::domain::value::Reason;
use crate::domain::version::{SemVer, VersionAdminFields, VersionFields, VersionStatus};
use crate::http::api::bulk::{VersionIdentifier, VersionLookupBody};
use crate::http::api::version_body::{NewVersionBody, VersionChangeBody};
use crate::http::request::json_object::JsonObject;
use crate::http::request::query::LIMIT_MAX;
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Versions",
        description: "Versions of nodes. A version number is unique within its node, regardless of build metadata, and is \
                never reused.",
        operations: [read_operations(), write_operations(), vec![bulk_lookup()]].into_iter().flatten().collect(),
        components: [version_components(), lookup_components()].into_iter().flatten().collect(),
    }
}

fn version_components() -> Vec<(&'static str, Value)> {
    let always =
        ["createdAt", "dependencies", "deprecated", "supported_accelerators", "supported_os", "tags", "tags_admin"];
    let fields = VersionFields::describe_fields()
        .into_iter()
        .chain(VersionAdminFields::describe_fields())
        .map(|field| field.required_among(&always));
    let schema_fields = fields.chain([
        field::<UrlSchema>(
            "downloadUrl",
            "URL of the archive; absent if there is none, or if it cannot be downloaded.",
        ),
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
    // tests/contract/hooks.py relies on this too: without a number, the other fields are ignored.
    let number_or_none = field::<SemVer>(
        "version",
        "Version number, a semantic version. Without it, no version is created and the other fields are ignored.",
    );
    let others = NewVersionBody::describe_fields().into_iter().filter(|field| !field.is_named("version"));
    vec![
        ("NodeVersion", response_object(schema_fields)),
        ("VersionPage", page_of("versions", "NodeVersion")),
        ("NewVersionBody", NewVersionBody::schema()),
        ("FirstVersionBody", request_object(others.chain([number_or_none]))),
    ]
}

fn read_operations() -> Vec<Operation> {
    vec![
        operation("listNodeVersions", "List the versions of a node")
            .description(
                "Returns the versions of a node, highest number first: the active ones, unless `statuses` selects \
                 others.",
            )
            .query([statuses_parameter(), include_reason_parameter()])
            .json_response(200, "The versions.", &array(&component_ref("NodeVersion")), &json!([version_example()]))
            .redirect_response(),
        operation("getNodeVersion", "Get a version")
            .description("Returns a version of any status except deleted. Build metadata in the number is ignored.")
            .query([include_reason_parameter()])
            .ok_response("The version.", "NodeVersion", &version_example())
            .redirect_response(),
        operation("listVersions", "List versions across all nodes")
            .description(
                "Returns versions of all nodes, newest first, for moderation. Includes every status unless `statuses` \
                 selects some.",
            )
            .query(paging_parameters(10, LIMIT_MAX))
            .query([
                statuses_parameter(),
                include_reason_parameter(),
                repeatable_query_parameter("node_id", "Only versions of these nodes.", &query_text_schema()),
            ])
            .ok_response(
                "A page of versions.",
                "VersionPage",
                &json!({"limit": 10, "page": 1, "total": 1, "totalPages": 1, "versions": [version_example()]}),
            ),
    ]
}

fn write_operations() -> Vec<Operation> {
    vec![
        operation("updateVersion", "Update a version")
            .description(
                "Changes `changelog` and `deprecated`, if present. Other fields are ignored, except from \
                 administrators.",
            )
            .json_object::<VersionChangeBody>(&json!({"changelog": "Fixed the mask", "deprecated": false}))
            .ok_response("The updated version.", "NodeVersion", &version_example())
            .error(
                Code::Conflict,
                "for administrators: the status cannot change from the current to the requested one; `detail` names \
                 them",
            )
            .error(Code::NotFound, "the publisher, node or version does not exist"),
        operation("deleteVersion", "Delete a version")
            .description("Deletes the version for good. Its status becomes deleted, and its number is never reused.")
            .empty_response(204, "The version was deleted.")
            .error(Code::NotFound, "the publisher, node or version does not exist"),
    ]
}

fn bulk_lookup() -> Operation {
    let identifier = json!({"node_id": "face-tools", "version": "1.2.0"});
    let example =
        json!({"node_versions": [{"identifier": identifier, "status": "success", "node_version": version_example()}]});
    operation("getVersions", "Look up versions in bulk")
        .description("Returns one result for each identifier, in order and including duplicates. Changes nothing.")
        .json_object::<VersionLookupBody>(&json!({"node_versions": [identifier]}))
        .ok_response("One result for each identifier.", "VersionLookup", &example)
}

fn lookup_components() -> Vec<(&'static str, Value)> {
    let result_schema = response_object([
        field::<String>("error_message", "Problem with the identifier, if `status` is `error`."),
        field_with_schema("identifier", "Identifier from the request.", VersionIdentifier::schema()).required(),
        field_with_schema("node_version", "The version, if `status` is `success`.", component_ref("NodeVersion")),
        field_with_schema("status", "Result of the lookup.", one_of(["success", "not_found", "error"])).required(),
    ]);
    vec![
        (
            "VersionLookup",
            response_object([field_with_schema(
                "node_versions",
                "Results in the order of the identifiers.",
                array(&component_ref("BulkNodeVersionResult")),
            )
            .required()]),
        ),
        ("BulkNodeVersionResult", result_schema),
    ]
}

fn statuses_parameter() -> ParameterObject {
    repeatable_query_parameter("statuses", "Only versions with these statuses.", &allow_empty(&VersionStatus::schema()))
}

fn include_reason_parameter() -> ParameterObject {
    bool_query_parameter("include_status_reason", "Include `status_reason`.")
}

/// Returns an example of a version.
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
