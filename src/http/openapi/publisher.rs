//! Described: publishers, their members, and who may edit them.

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
        about: "Who owns nodes. Whoever claims an id owns the publisher and may take others in as members.",
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
                    field::<bool>("isAvailable", "Whether the id can be claimed now.").required(),
                    field::<String>("reason", "Why not."),
                ]),
            ),
            ("Permissions", view([field::<bool>("canEdit", "Whether the caller may change it.").required()])),
        ],
    }
}

fn reading() -> Vec<Operation> {
    vec![
        get("/publishers", "listPublishers", "List publishers")
            .about("By id. Banned ones are left out, except for administrators who ask for them.")
            .query(paging(10, LIMIT_MAX))
            .query([include_banned(), many_in_query("publisher_id", "These publishers.", &query_text())])
            .shows("A page of publishers.", "PublisherPage", &page_example()),
        get("/publishers/validate", "validatePublisherId", "Whether an id can be claimed")
            .about("Answers 200 in any case: ids that are taken, reserved or not well-formed are told with the reason.")
            .query([needed_in_query("username", "The id that is to be claimed.", &query_text(), &json!("acme"))])
            .shows("Whether it can.", "Availability", &json!({"isAvailable": false, "reason": "the id is taken"})),
        get("/publishers/{publisher_id}", "getPublisher", "Show a publisher")
            .about("E-mail addresses of members are shown to members and administrators only. A banned publisher is shown as such.")
            .shows("The publisher.", "Publisher", &publisher_example()),
        get("/users/publishers", "listOwnPublishers", "List the caller's publishers")
            .about("Those of which the caller is a member, by id.")
            .answers(200, "The publishers.", &array(&named("Publisher")), &json!([publisher_example()])),
        get("/publishers/{publisher_id}/permissions", "getPublisherPermissions", "Whether the caller may edit a publisher")
            .about("Whether `PUT` of the publisher would be let through.")
            .shows("The answer for this caller.", "Permissions", &json!({"canEdit": true})),
    ]
}

fn writing() -> Vec<Operation> {
    vec![
        post("/publishers", "createPublisher", "Create a publisher")
            .about(
                "Claims an id; the caller becomes the owner. `createdAt` and `status` in the body are ignored, but for `createdAt` \
                 from administrators.",
            )
            .takes("NewPublisherBody", &json!({"id": "acme", "name": "Acme", "website": "https://acme.example"}))
            .creates("The new publisher.", "Publisher", &publisher_example())
            .with_header(201, "Location")
            .fails(Code::QuotaExceeded, "the account has created as many publishers as a day allows")
            .fails(Code::AlreadyExists, "the id is taken, or was"),
        put("/publishers/{publisher_id}", "updatePublisher", "Update a publisher")
            .about(
                "Changes the fields that are present. An empty URL removes it. `id`, `members`, `createdAt` and `status` in the \
                 body are ignored; from administrators `createdAt` is taken, and a `status` must be the one it has: bans have \
                 routes of their own.",
            )
            .takes("PublisherBody", &json!({"description": "Nodes for portraits", "support": "help@acme.example"}))
            .shows("The publisher as it is now.", "Publisher", &publisher_example()),
        delete("/publishers/{publisher_id}", "deletePublisher", "Delete a publisher")
            .about("Final. Its tokens end with it.")
            .answers_nothing(204, "It is deleted.")
            .fails(Code::Conflict, "it still has nodes; the detail says how many"),
    ]
}

fn members() -> Vec<Operation> {
    vec![
        put("/publishers/{publisher_id}/members/{user_id}", "setMember", "Take in a member, or change its role")
            .about("An owner may do everything, a member create and change nodes and versions. Without a role in the body a member keeps its own, and whoever is new becomes `member`.")
            .takes("MemberBody", &json!({"role": "member"}))
            .shows("The publisher as it is now.", "Publisher", &publisher_example())
            .fails(Code::NotFound, "there is no such publisher, or no such user")
            .fails(Code::Conflict, "it is the last owner, who must stay one"),
        delete("/publishers/{publisher_id}/members/{user_id}", "removeMember", "Remove a member, or leave")
            .about("Owners remove anybody; a member only itself. Tokens of the publisher that the user knows stay valid: revoke them.")
            .answers_nothing(204, "The user is no member any more.")
            .fails(Code::NotFound, "there is no such publisher, or the user is no member of it")
            .fails(Code::Conflict, "it is the last owner, who must stay"),
    ]
}

const ROLE: &str = "An `owner` may do everything, a `member` create and change nodes and versions.";

/// What a publisher says of itself.
fn said() -> Vec<Field> {
    vec![
        field::<Name>("name", "For people."),
        field::<PublisherDescription>("description", "What the publisher is about."),
        field::<Link>("logo", "URL of the logo."),
        field::<Link>("source_code_repo", "URL of the source code."),
        field::<Label>("support", "Where to ask for help."),
        field::<Link>("website", "URL of the website."),
    ]
}

/// What administrators say of it besides.
fn of_administrators() -> [Field; 2] {
    let status = field::<PublisherStatus>(
        "status",
        "The one that it has: bans have routes of their own, `POST /admin/publishers/{publisher_id}/ban` and `/unban`.",
    );
    [field::<Moment>("createdAt", "When it was created."), status].map(Field::of_administrators)
}

fn new_publisher() -> Value {
    let id = field::<PublisherId>("id", "The id to claim: a small letter, then small letters, digits and hyphens, 63 in all at most. It is never given out again.").required();
    // GET /publishers/validate stands where a publisher of this name would.
    body(said().into_iter().chain(of_administrators()).chain([id.with("not", json!({"const": "validate"}))]))
}

fn publisher_view() -> Value {
    let said = said().into_iter().map(|field| field.required_among(&["name"]));
    view(said.chain([
        field::<Moment>("createdAt", "When it was created.").required(),
        field::<PublisherId>("id", "By which it is found.").required(),
        field_of("members", "In the order of joining.", array(&named("PublisherMember"))).required(),
        field::<PublisherStatus>("status", "Active, or Banned.").required(),
        field::<Reason>("status_detail", "Why it is banned, when it is."),
    ]))
}

fn member_view() -> Value {
    let user = view([
        field::<Email>("email", "Shown to members and administrators."),
        field::<bool>("erased", "`true` for a user who was erased; otherwise absent."),
        field::<UserId>("id", "The id of the user.").required(),
        field::<Name>("name", "Absent where none was given."),
    ]);
    view([
        field::<UserId>("id", "The id of the user.").required(),
        field::<MemberRole>("role", ROLE).required(),
        field_of("user", "Who it is.", user).required(),
    ])
}

/// Whether banned ones are listed too.
pub fn include_banned() -> Value {
    super::parameter::flag_in_query(
        "include_banned",
        "Whether banned ones are listed too; counts from administrators only.",
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
