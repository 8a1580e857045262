//! Publishers, their members and the permissions on them.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::{Operation, operation};
use super::parameter::{paging_parameters, query_text_schema, repeatable_query_parameter, required_query_parameter};
use super::schema::{array, component_ref, field, field_with_schema, page_of, response_object};
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::publisher::{MemberRole, PublisherFields, PublisherStatus};
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason, Timestamp};
use crate::http::api::member::{MemberBody, ROLE};
use crate::http::api::publisher::{NewPublisherBody, PublisherBody};
use crate::http::request::json_object::JsonObject;
use crate::http::request::query::LIMIT_MAX;
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Publishers",
        description: "Publishers own nodes. The user who creates a publisher becomes its owner and can add members.",
        operations: [read_operations(), write_operations(), member_operations()].into_iter().flatten().collect(),
        components: vec![
            ("Publisher", publisher_schema()),
            ("PublisherPage", page_of("publishers", "Publisher")),
            ("PublisherMember", member_schema()),
            (
                "Availability",
                response_object([
                    field::<bool>("isAvailable", "`true` if the id is available.").required(),
                    field::<String>("reason", "Reason why the id is not available."),
                ]),
            ),
            (
                "Permissions",
                response_object([field::<bool>("canEdit", "`true` if the caller may change the resource.").required()]),
            ),
        ],
    }
}

fn read_operations() -> Vec<Operation> {
    vec![
        operation("listPublishers", "List publishers")
            .description(
                "Returns a page of publishers, sorted by id. Banned publishers are omitted; administrators can \
                 include them.",
            )
            .query(paging_parameters(10, LIMIT_MAX))
            .query([
                include_banned(),
                repeatable_query_parameter("publisher_id", "Only publishers with these ids.", &query_text_schema()),
            ])
            .ok_response("A page of publishers.", "PublisherPage", &page_example()),
        operation("validatePublisherId", "Check whether a publisher id is available")
            .description(
                "Returns 200 in every case. For an id that is taken, reserved or malformed, `reason` states why it is \
                 not available.",
            )
            .query([required_query_parameter("username", "Id to check.", &query_text_schema(), &json!("acme"))])
            .ok_response(
                "Availability of the id.",
                "Availability",
                &json!({"isAvailable": false, "reason": "the id is taken"}),
            ),
        operation("getPublisher", "Get a publisher")
            .description(
                "Returns a publisher with its members. Only members and administrators see the email addresses of \
                 members. A banned publisher is returned with its ban.",
            )
            .ok_response("The publisher.", "Publisher", &publisher_example()),
        operation("listOwnPublishers", "List the caller's publishers")
            .description("Returns the publishers of which the caller is a member, sorted by id.")
            .json_response(200, "The publishers.", &array(&component_ref("Publisher")), &json!([publisher_example()])),
        operation("getPublisherPermissions", "Check permission to edit a publisher")
            .description("Reports whether the caller may use `PUT` on the publisher.")
            .ok_response("Permission of the caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn write_operations() -> Vec<Operation> {
    vec![
        operation("createPublisher", "Create a publisher")
            .description(
                "Creates a publisher with the caller as its owner. `status` in the body is ignored, and so is \
                 `createdAt` unless the caller is an administrator.",
            )
            .json_object::<NewPublisherBody>(&json!({"id": "acme", "name": "Acme", "website": "https://acme.example"}))
            .created_response("The new publisher.", "Publisher", &publisher_example())
            .with_header(201, "Location")
            .error(Code::QuotaExceeded, "the account has reached its daily limit of new publishers")
            .error(Code::AlreadyExists, "the id is in use, or was used before"),
        operation("updatePublisher", "Update a publisher")
            .description(
                "Changes the fields that are present; an empty URL removes the value. `id`, `members`, `createdAt` \
                 and `status` in the body are ignored. From administrators, `createdAt` is applied and `status` must \
                 be the current one: use the ban and unban operations.",
            )
            .json_object::<PublisherBody>(
                &json!({"description": "Nodes for portraits", "support": "help@acme.example"}),
            )
            .ok_response("The updated publisher.", "Publisher", &publisher_example()),
        operation("deletePublisher", "Delete a publisher")
            .description(
                "Deletes the publisher for good and revokes its tokens. A publisher that still has nodes cannot be \
                 deleted.",
            )
            .empty_response(204, "The publisher was deleted.")
            .error(Code::Conflict, "the publisher still has nodes; `detail` has their number"),
    ]
}

fn member_operations() -> Vec<Operation> {
    vec![
        operation("setMember", "Add a member or change a role")
            .description(
                "Adds a user to the publisher or changes the user's role. Owners may do everything; members may \
                 create and change nodes and versions. Without `role`, an existing member keeps the current role and \
                 a new one becomes `member`. While the publisher has a budget, only administrators can add members.",
            )
            .json_object::<MemberBody>(&json!({"role": "member"}))
            .ok_response("The updated publisher.", "Publisher", &publisher_example())
            .error(Code::NotFound, "the publisher or the user does not exist")
            .error(Code::Conflict, "the user is the last owner"),
        operation("removeMember", "Remove a member or leave a publisher")
            .description(
                "Removes a user from the publisher. Owners can remove any member, other members only themselves. \
                 Tokens of the publisher that the user knows stay valid: revoke them.",
            )
            .empty_response(204, "The member was removed.")
            .error(Code::NotFound, "the publisher does not exist, or the user is not a member")
            .error(Code::Conflict, "the user is the last owner"),
    ]
}

/// Returns the schema of a publisher. Nodes contain their publisher with the required fields alone.
fn publisher_schema() -> Value {
    let own_fields = PublisherFields::describe_fields().into_iter().map(|field| field.required_among(&["name"]));
    response_object(own_fields.chain([
        field::<Timestamp>("createdAt", "Creation time; absent in nodes."),
        field::<PublisherId>("id", "Unique id.").required(),
        field_with_schema(
            "members",
            "Members in the order in which they joined; absent in nodes.",
            array(&component_ref("PublisherMember")),
        ),
        field::<PublisherStatus>("status", "Status: active or banned; absent in nodes."),
        field::<Reason>("status_detail", "Reason of the ban; absent unless banned."),
    ]))
}

fn member_schema() -> Value {
    let user = response_object([
        field::<Email>("email", "Email address; visible to members and administrators only."),
        field::<bool>("erased", "`true` if the user was erased; absent otherwise."),
        field::<UserId>("id", "Id of the user.").required(),
        field::<Name>("name", "Display name; absent if the user has none."),
    ]);
    response_object([
        field::<UserId>("id", "Id of the user.").required(),
        field::<MemberRole>("role", ROLE).required(),
        field_with_schema("user", "The user.", user).required(),
    ])
}

/// Returns the query parameter that includes banned resources, for administrators.
pub fn include_banned() -> Value {
    super::parameter::bool_query_parameter(
        "include_banned",
        "Include banned entries; only for administrators, ignored for other callers.",
    )
}

fn publisher_example() -> Value {
    let user = "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10";
    json!({
        "createdAt": "2026-11-20T09:30:00.000000Z",
        "description": "Nodes for portraits",
        "id": "acme",
        "members": [{"id": user, "role": "owner", "user": {"email": "ada@acme.example", "id": user, "name": "Ada"}}],
        "name": "Acme",
        "source_code_repo": "https://git.acme.example/nodes",
        "status": "PublisherStatusActive",
        "support": "help@acme.example",
        "website": "https://acme.example",
    })
}

fn page_example() -> Value {
    json!({"limit": 10, "page": 1, "publishers": [publisher_example()], "total": 1, "totalPages": 1})
}
