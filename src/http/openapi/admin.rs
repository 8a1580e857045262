//! Operations for administrators.

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
        field::<Email>("email", "Email address."),
        field::<bool>("isAdmin", "`true` to make the user an administrator."),
        field::<bool>("isApproved", "`true` to let the user submit media tasks where the service requires approval."),
        field::<Name>("name", "Display name."),
    ]);
    let reason = field::<Reason>("reason", "Reason, which is recorded and shown.").not_blank().required();
    let token = shown().into_iter().filter(|field| !field.is("token"));
    let token =
        token
            .chain([field::<String>("token", "Token to send in the `Authorization` header; it is not shown again.")
                .required()]);
    Group {
        tag: "Administration",
        about: "User accounts, bans, moderation and log checkpoints, for administrators.",
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
            .about("Returns a page of users, oldest first. Erased users are listed with their id only.")
            .query(paging(10, LIMIT_MAX))
            .query([many_in_query("user_id", "Only users with these ids.", &or_empty(&UserId::schema()))])
            .shows("A page of users.", "UserPage", &page),
        post("/admin/users", "createUser", "Create a user")
            .about("Creates a user without a token. Create one with `POST /admin/users/{user_id}/tokens`.")
            .takes("UserBody", &json!({"email": "ada@acme.example", "name": "Ada", "isApproved": true}))
            .creates("The new user.", "User", &user_example()),
        put("/admin/users/{user_id}", "updateUser", "Update a user")
            .about("Changes the fields that are present.")
            .takes("UserBody", &json!({"isApproved": true}))
            .shows("The updated user.", "User", &user_example())
            .fails(
                Code::Conflict,
                "administrators cannot remove their own rights, and the bootstrap administrator cannot lose them",
            ),
        delete("/admin/users/{user_id}", "eraseUser", "Erase a user")
            .about(
                "Erases a user for good, with the effects of `DELETE /users`. The list of users keeps the id with \
                 `erased: true`. After an error, retry: the service finishes the remaining steps, and 404 means that \
                 nothing was left to do.",
            )
            .answers_nothing(204, "The user was erased.")
            .fails(Code::Conflict, NOT_ERASED),
    ]
}

fn tokens() -> Vec<Operation> {
    let mut issued = token_example();
    issued["token"] = "mdu_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l".into();
    vec![
        get("/admin/users/{user_id}/tokens", "listUserTokens", "List the tokens of a user")
            .about("Returns the valid tokens, oldest first, without their secrets.")
            .answers(200, "The tokens.", &array(&named("PersonalAccessToken")), &json!([token_example()])),
        post("/admin/users/{user_id}/tokens", "createUserToken", "Create a token for a user")
            .about(
                "Creates a token that authenticates as the user. The service stores only a hash, so the token is not \
                 shown again.",
            )
            .takes("TokenBody", &json!({"name": "laptop"}))
            .creates("The token; it is not shown again.", "IssuedToken", &issued),
        delete("/admin/users/{user_id}/tokens/{token_id}", "revokeUserToken", "Revoke a token of a user")
            .about("Revokes the token immediately and for good.")
            .answers_nothing(204, "The token was revoked."),
    ]
}

fn bans() -> Vec<Operation> {
    let ban = |path, id, summary, about| {
        post(path, id, summary)
            .about(about)
            .takes("ReasonBody", &json!({"reason": "Spread malware"}))
            .answers_nothing(204, "The ban is in effect.")
            .fails(Code::Conflict, "it is already banned, or cannot be banned")
    };
    let unban = |path, id, summary| {
        post(path, id, summary)
            .about("Lifts the ban and restores everything it took away.")
            .takes("ReasonBody", &json!({"reason": "Cleared up"}))
            .answers_nothing(204, "The ban was lifted.")
            .fails(Code::Conflict, "it is not banned")
    };
    vec![
        ban("/admin/users/{user_id}/ban", "banUser", "Ban a user", "Bans a user, who can then read but not write."),
        unban("/admin/users/{user_id}/unban", "unbanUser", "Unban a user"),
        ban(
            "/admin/publishers/{publisher_id}/ban",
            "banPublisher",
            "Ban a publisher",
            "Bans a publisher. Only administrators can then change it, its nodes and their versions; its nodes are \
             omitted from lists and searches and cannot be installed.",
        ),
        unban("/admin/publishers/{publisher_id}/unban", "unbanPublisher", "Unban a publisher"),
        ban(
            "/admin/nodes/{node_id}/ban",
            "banNode",
            "Ban a node",
            "Bans a node. Only administrators can then change it and its versions; it is omitted from lists and \
             searches and cannot be installed.",
        ),
        unban("/admin/nodes/{node_id}/unban", "unbanNode", "Unban a node"),
    ]
}

fn moderation() -> Vec<Operation> {
    vec![
        put("/admin/nodes/{node_id}", "administerNode", "Update a node as administrator")
            .about("Changes the fields that are present, including those that other callers cannot set.")
            .takes(
                "AdministeredNodeBody",
                &json!({"tags_admin": ["security: runs shell commands"], "search_ranking": -1}),
            )
            .shows("The updated node.", "Node", &node_example())
            .answers_nothing(204, "The node was deleted by its new status.")
            .fails(Code::Conflict, node::CONFLICT),
        put("/admin/nodes/{node_id}/versions/{version}", "administerVersion", "Update a version as administrator")
            .about("Changes the fields that are present, including those that other callers cannot set.")
            .takes(
                "AdministeredVersionBody",
                &json!({"status": "NodeVersionStatusFlagged", "status_reason": "Under review"}),
            )
            .shows("The updated version.", "NodeVersion", &version_example())
            .fails(
                Code::Conflict,
                "the status cannot change from the current to the requested one; `detail` names both",
            ),
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
        get("/admin/checkpoint", "getCheckpoint", "Get a signed checkpoint of the log")
            .about(
                "Returns the position and hash of the last acknowledged event, signed with the Ed25519 key of the \
                 log. A checkpoint kept elsewhere proves later, with `mediary audit verify --since`, that the history \
                 up to that position was neither changed nor truncated.",
            )
            .shows("The checkpoint.", "Checkpoint", &example),
    ]
}

fn checkpoint() -> Value {
    view([
        field::<String>("format", "Name and version of the format.").required(),
        field::<String>("log", "Id of the log, a UUID.").required(),
        field::<u64>("position", "Position of the last event.").required(),
        field::<String>("chain", "SHA-256 hash chain up to that event.").required(),
        field::<String>("at", "Creation time.").required(),
        field::<String>("public_key", "Public key of the log in hexadecimal.").required(),
        field::<String>("signature", "Ed25519 signature of all other fields in hexadecimal.").required(),
    ])
}
