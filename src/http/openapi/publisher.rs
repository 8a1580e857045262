//! Publishers, their members and the permissions on them.

use serde_json::{Value, json};

use super::Group;
use super::operation::{Operation, delete, get, post, put};
use super::parameter::{many_in_query, needed_in_query, paging, query_text};
use super::schema::{Field, Moment, array, body, field, field_of, named, page_of, view};
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::publisher::{MemberRole, PublisherDescription, PublisherStatus};
use crate::domain::user::Email;
use crate::domain::value::{Label, Link, Name, Reason};
use crate::http::error::Code;
use crate::http::query::LIMIT_MAX;

pub fn group() -> Group {
    Group {
        tag: "Publishers",
        about: "Publishers own nodes. The user who creates a publisher becomes its owner and can add members.",
        operations: [reading(), writing(), members()].into_iter().flatten().collect(),
        components: vec![
            ("Publisher", publisher_view()),
            ("PublisherPage", page_of("publishers", "Publisher")),
            ("PublisherBody", body(said().into_iter().chain(of_administrators()))),
            ("NewPublisherBody", new_publisher()),
            ("PublisherMember", member_view()),
            ("MemberBody", body([field::<MemberRole>("role", ROLE)])),
            (
                "Availability",
                view([
                    field::<bool>("isAvailable", "`true` if the id is available.").required(),
                    field::<String>("reason", "Reason why the id is not available."),
                ]),
            ),
            (
                "Permissions",
                view([field::<bool>("canEdit", "`true` if the caller may change the resource.").required()]),
            ),
        ],
    }
}

fn reading() -> Vec<Operation> {
    vec![
        get("/publishers", "listPublishers", "List publishers")
            .about(
                "Returns a page of publishers, sorted by id. Banned publishers are omitted; administrators can \
                 include them.",
            )
            .query(paging(10, LIMIT_MAX))
            .query([include_banned(), many_in_query("publisher_id", "Only publishers with these ids.", &query_text())])
            .shows("A page of publishers.", "PublisherPage", &page_example()),
        get("/publishers/validate", "validatePublisherId", "Check whether a publisher id is available")
            .about(
                "Returns 200 in every case. For an id that is taken, reserved or malformed, `reason` states why it is \
                 not available.",
            )
            .query([needed_in_query("username", "Id to check.", &query_text(), &json!("acme"))])
            .shows(
                "Availability of the id.",
                "Availability",
                &json!({"isAvailable": false, "reason": "the id is taken"}),
            ),
        get("/publishers/{publisher_id}", "getPublisher", "Get a publisher")
            .about(
                "Returns a publisher with its members. Only members and administrators see the email addresses of \
                 members. A banned publisher is returned with its ban.",
            )
            .shows("The publisher.", "Publisher", &publisher_example()),
        get("/users/publishers", "listOwnPublishers", "List the caller's publishers")
            .about("Returns the publishers of which the caller is a member, sorted by id.")
            .answers(200, "The publishers.", &array(&named("Publisher")), &json!([publisher_example()])),
        get(
            "/publishers/{publisher_id}/permissions",
            "getPublisherPermissions",
            "Check permission to edit a publisher",
        )
        .about("Reports whether the caller may use `PUT` on the publisher.")
        .shows("Permission of the caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn writing() -> Vec<Operation> {
    vec![
        post("/publishers", "createPublisher", "Create a publisher")
            .about(
                "Creates a publisher with the caller as its owner. `status` in the body is ignored, and so is \
                 `createdAt` unless the caller is an administrator.",
            )
            .takes("NewPublisherBody", &json!({"id": "acme", "name": "Acme", "website": "https://acme.example"}))
            .creates("The new publisher.", "Publisher", &publisher_example())
            .with_header(201, "Location")
            .fails(Code::QuotaExceeded, "the account has reached its daily limit of new publishers")
            .fails(Code::AlreadyExists, "the id is in use, or was used before"),
        put("/publishers/{publisher_id}", "updatePublisher", "Update a publisher")
            .about(
                "Changes the fields that are present; an empty URL removes the value. `id`, `members`, `createdAt` \
                 and `status` in the body are ignored. From administrators, `createdAt` is applied and `status` must \
                 be the current one: use the ban and unban operations.",
            )
            .takes("PublisherBody", &json!({"description": "Nodes for portraits", "support": "help@acme.example"}))
            .shows("The updated publisher.", "Publisher", &publisher_example()),
        delete("/publishers/{publisher_id}", "deletePublisher", "Delete a publisher")
            .about(
                "Deletes the publisher for good and revokes its tokens. A publisher that still has nodes cannot be \
                 deleted.",
            )
            .answers_nothing(204, "The publisher was deleted.")
            .fails(Code::Conflict, "the publisher still has nodes; `detail` has their number"),
    ]
}

fn members() -> Vec<Operation> {
    vec![
        put("/publishers/{publisher_id}/members/{user_id}", "setMember", "Add a member or change a role")
            .about(
                "Adds a user to the publisher or changes the user's role. Owners may do everything; members may \
                 create and change nodes and versions. Without `role`, an existing member keeps the current role and \
                 a new one becomes `member`.",
            )
            .takes("MemberBody", &json!({"role": "member"}))
            .shows("The updated publisher.", "Publisher", &publisher_example())
            .fails(Code::NotFound, "the publisher or the user does not exist")
            .fails(Code::Conflict, "the user is the last owner"),
        delete("/publishers/{publisher_id}/members/{user_id}", "removeMember", "Remove a member or leave a publisher")
            .about(
                "Removes a user from the publisher. Owners can remove any member, other members only themselves. \
                 Tokens of the publisher that the user knows stay valid: revoke them.",
            )
            .answers_nothing(204, "The member was removed.")
            .fails(Code::NotFound, "the publisher does not exist, or the user is not a member")
            .fails(Code::Conflict, "the user is the last owner"),
    ]
}

const ROLE: &str = "Role: an `owner` may do everything, a `member` may create and change nodes and versions.";

/// Fields that the publisher itself sets.
fn said() -> Vec<Field> {
    vec![
        field::<Name>("name", "Display name."),
        field::<PublisherDescription>("description", "Description of the publisher."),
        field::<Link>("logo", "URL of the logo."),
        field::<Link>("source_code_repo", "URL of the source code."),
        field::<Label>("support", "Support contact, such as an email address or URL."),
        field::<Link>("website", "URL of the website."),
    ]
}

/// Fields that only administrators set.
fn of_administrators() -> [Field; 2] {
    let status = field::<PublisherStatus>(
        "status",
        "Must be the current status. To change it, use `POST /admin/publishers/{publisher_id}/ban` and `/unban`.",
    );
    [field::<Moment>("createdAt", "Creation time."), status].map(Field::of_administrators)
}

fn new_publisher() -> Value {
    let id = field::<PublisherId>(
        "id",
        "Id of the publisher: a lowercase letter, then lowercase letters, digits and hyphens, at most 63 characters. \
         An id is never reused.",
    )
    .required();
    // The path of this publisher would collide with GET /publishers/validate.
    body(said().into_iter().chain(of_administrators()).chain([id.with("not", json!({"const": "validate"}))]))
}

fn publisher_view() -> Value {
    let said = said().into_iter().map(|field| field.required_among(&["name"]));
    view(said.chain([
        field::<Moment>("createdAt", "Creation time.").required(),
        field::<PublisherId>("id", "Unique id.").required(),
        field_of("members", "Members in the order in which they joined.", array(&named("PublisherMember"))).required(),
        field::<PublisherStatus>("status", "Status: active or banned.").required(),
        field::<Reason>("status_detail", "Reason of the ban; absent unless banned."),
    ]))
}

fn member_view() -> Value {
    let user = view([
        field::<Email>("email", "Email address; visible to members and administrators only."),
        field::<bool>("erased", "`true` if the user was erased; absent otherwise."),
        field::<UserId>("id", "Id of the user.").required(),
        field::<Name>("name", "Display name; absent if the user has none."),
    ]);
    view([
        field::<UserId>("id", "Id of the user.").required(),
        field::<MemberRole>("role", ROLE).required(),
        field_of("user", "The user.", user).required(),
    ])
}

/// Query parameter that includes banned resources, for administrators.
pub fn include_banned() -> Value {
    super::parameter::flag_in_query(
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
