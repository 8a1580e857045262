//! Described: what administrators do.

use serde_json::{Value, json};

use super::node::node_example;
use super::operation::{Operation, delete, get, post, put};
use super::parameter::{many_in_query, or_empty, paging};
use super::schema::{Documented, array, body, field, named, page_of, view};
use super::token::{shown, token_example};
use super::user::{NOT_ERASED, user_example};
use super::version::version_example;
use super::{Group, node, version};
use crate::domain::ids::UserId;
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason};
use crate::http::error::Code;
use crate::http::query::LIMIT_MAX;

pub fn group() -> Group {
    let user = body([
        field::<Email>("email", "Where the user is reached."),
        field::<bool>("isAdmin", "Whether the user may do everything."),
        field::<bool>(
            "isApproved",
            "Whether the user may submit media tasks where the service lets only approved users do so.",
        ),
        field::<Name>("name", "For people."),
    ]);
    let reason = field::<Reason>("reason", "Why; it is recorded and shown.").not_blank().required();
    let token = shown().into_iter().filter(|field| !field.is("token"));
    let token = token.chain([field::<String>("token", "What its bearer presents; this once.").required()]);
    Group {
        tag: "Administration",
        about: "Accounts, bans, moderation and proof. For administrators.",
        operations: [users(), tokens(), bans(), moderation(), proof()].into_iter().flatten().collect(),
        components: vec![
            ("UserPage", page_of("users", "User")),
            ("Checkpoint", checkpoint()),
            ("UserBody", user),
            ("IssuedToken", view(token)),
            ("ReasonBody", body([reason])),
            ("AdministeredNodeBody", node::administered()),
            ("AdministeredVersionBody", version::administered()),
        ],
    }
}

fn users() -> Vec<Operation> {
    let page = json!({"limit": 10, "page": 1, "total": 1, "totalPages": 1, "users": [user_example()]});
    vec![
        get("/admin/users", "listUsers", "List users")
            .about("Oldest first; those who were erased are there by their id alone.")
            .query(paging(10, LIMIT_MAX))
            .query([many_in_query("user_id", "These users.", &or_empty(&UserId::schema()))])
            .shows("A page of users.", "UserPage", &page),
        post("/admin/users", "createUser", "Create a user")
            .about("A user without a token cannot do anything yet: see `POST /admin/users/{user_id}/tokens`.")
            .takes("UserBody", &json!({"email": "ada@acme.example", "name": "Ada", "isApproved": true}))
            .creates("The new user.", "User", &user_example()),
        put("/admin/users/{user_id}", "updateUser", "Update a user")
            .about("Changes the fields that are present.")
            .takes("UserBody", &json!({"isApproved": true}))
            .shows("The user as it is now.", "User", &user_example())
            .fails(
                Code::Conflict,
                "administrators cannot give up their own rights, nor can the bootstrap one lose them",
            ),
        delete("/admin/users/{user_id}", "eraseUser", "Erase a user")
            .about(
                "As `DELETE /users`, by an administrator. The user stays in the list of users as an id with \
                 `erased: true`. After a failure ask again: what could not be finished is finished, and 404 says that nothing was left.",
            )
            .answers_nothing(204, "The user is erased.")
            .fails(Code::Conflict, NOT_ERASED),
    ]
}

fn tokens() -> Vec<Operation> {
    let mut issued = token_example();
    issued["token"] = "mdu_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l".into();
    vec![
        get("/admin/users/{user_id}/tokens", "listUserTokens", "List a user's tokens")
            .about("Those that are valid, oldest first, without their secrets.")
            .answers(200, "The tokens.", &array(&named("PersonalAccessToken")), &json!([token_example()])),
        post("/admin/users/{user_id}/tokens", "createUserToken", "Create a token that speaks for a user")
            .about("Whoever presents it is that user. Only a hash of it is kept: it is in this answer and never again.")
            .takes("TokenBody", &json!({"name": "laptop"}))
            .creates("The token, this once.", "IssuedToken", &issued),
        delete("/admin/users/{user_id}/tokens/{token_id}", "revokeUserToken", "Revoke a user's token")
            .about("At once and for good.")
            .answers_nothing(204, "It is revoked."),
    ]
}

fn bans() -> Vec<Operation> {
    let ban = |path, id, summary, about| {
        post(path, id, summary)
            .about(about)
            .takes("ReasonBody", &json!({"reason": "Spread malware"}))
            .answers_nothing(204, "It is banned.")
            .fails(Code::Conflict, "it is banned already, or may not be")
    };
    let unban = |path, id, summary| {
        post(path, id, summary)
            .about("Everything that the ban took away is back.")
            .takes("ReasonBody", &json!({"reason": "Cleared up"}))
            .answers_nothing(204, "It is not banned any more.")
            .fails(Code::Conflict, "it is not banned")
    };
    vec![
        ban(
            "/admin/users/{user_id}/ban",
            "banUser",
            "Ban a user",
            "The user still reads, and changes nothing any more.",
        ),
        unban("/admin/users/{user_id}/unban", "unbanUser", "Unban a user"),
        ban(
            "/admin/publishers/{publisher_id}/ban",
            "banPublisher",
            "Ban a publisher",
            "Only administrators change it, its nodes and their versions; its nodes leave lists and search and cannot be installed.",
        ),
        unban("/admin/publishers/{publisher_id}/unban", "unbanPublisher", "Unban a publisher"),
        ban(
            "/admin/nodes/{node_id}/ban",
            "banNode",
            "Ban a node",
            "Only administrators change it and its versions; it leaves lists and search and cannot be installed.",
        ),
        unban("/admin/nodes/{node_id}/unban", "unbanNode", "Unban a node"),
    ]
}

fn moderation() -> Vec<Operation> {
    vec![
        put("/admin/nodes/{node_id}", "administerNode", "Change anything of a node")
            .about("Changes the fields that are present, those included that are output only for everybody else.")
            .takes(
                "AdministeredNodeBody",
                &json!({"tags_admin": ["security: runs shell commands"], "search_ranking": -1}),
            )
            .shows("The node as it is now.", "Node", &node_example())
            .answers_nothing(204, "It has the status Deleted now, and is not found any more.")
            .fails(Code::Conflict, node::CONFLICT),
        put("/admin/nodes/{node_id}/versions/{version}", "administerVersion", "Change anything of a version")
            .about("Changes the fields that are present, those included that are output only for everybody else.")
            .takes(
                "AdministeredVersionBody",
                &json!({"status": "NodeVersionStatusFlagged", "status_reason": "Under review"}),
            )
            .shows("The version as it is now.", "NodeVersion", &version_example())
            .fails(Code::Conflict, "the version cannot go from its status to that one; both are named"),
    ]
}

fn proof() -> Vec<Operation> {
    let example = json!({
        "format": "mediary checkpoint 1",
        "log": "019384d2-7c11-7f3a-9b20-5e0c3f1d2a44",
        "position": 12_034,
        "chain": "5f".repeat(32),
        "at": "2026-11-21T16:00:00.000000Z",
        "public_key": "3b".repeat(32),
        "signature": "a7".repeat(64),
    });
    vec![
        get("/admin/checkpoint", "getCheckpoint", "A signed statement of what the history is now")
            .about(
                "Position and hash of the last acknowledged event, signed with the key of the log (Ed25519). Kept elsewhere, it proves \
                 later that the history up to there was neither rewritten nor cut: `mediary audit verify --since`.",
            )
            .shows("The checkpoint.", "Checkpoint", &example),
    ]
}

fn checkpoint() -> Value {
    view([
        field::<String>("format", "Names this form.").required(),
        field::<String>("log", "The log, a UUID.").required(),
        field::<u64>("position", "The last event.").required(),
        field::<String>("chain", "SHA-256 over the history up to that event.").required(),
        field::<String>("at", "When it was taken.").required(),
        field::<String>("public_key", "The key of the log, in hexadecimal digits.").required(),
        field::<String>("signature", "Ed25519 over all of it, in hexadecimal digits.").required(),
    ])
}
