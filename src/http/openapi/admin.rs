//! Operations for administrators.

use serde_json::{Value, json};

use super::node::node_example;
use super::operation::{Operation, operation};
use super::parameter::{allow_empty, paging_parameters, repeatable_query_parameter};
use super::schema::{HasSchema, array, component_ref, field, page_of, response_object};
use super::token::{issued_user_token_example, token_example, token_fields};
use super::user::{ERASE_CONFLICT, user_example};
use super::version::version_example;
use super::{OperationGroup, node};
use crate::domain::ids::UserId;
use crate::http::api::admin::{ReasonBody, UserBody};
use crate::http::api::token::TokenBody;
use crate::http::api::version_body::AdministeredVersionBody;
use crate::http::request::query::LIMIT_MAX;
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    let token = token_fields().into_iter().filter(|field| !field.is_named("token"));
    let token =
        token
            .chain([field::<String>("token", "Token to send in the `Authorization` header; it is not shown again.")
                .required()]);
    OperationGroup {
        tag: "Administration",
        description: "User accounts, bans, moderation and log checkpoints, for administrators.",
        operations: [
            user_operations(),
            token_operations(),
            ban_operations(),
            moderation_operations(),
            checkpoint_operations(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        components: vec![
            ("UserPage", page_of("users", "User")),
            ("Checkpoint", checkpoint_schema()),
            ("IssuedToken", response_object(token)),
            ("AdministeredNodeBody", node::administrator_body()),
        ],
    }
}

fn user_operations() -> Vec<Operation> {
    let page = json!({"limit": 10, "page": 1, "total": 1, "totalPages": 1, "users": [user_example()]});
    vec![
        operation("listUsers", "List users")
            .description("Returns a page of users, oldest first. Erased users are listed with their id only.")
            .query(paging_parameters(10, LIMIT_MAX))
            .query([repeatable_query_parameter(
                "user_id",
                "Only users with these ids.",
                &allow_empty(&UserId::schema()),
            )])
            .ok_response("A page of users.", "UserPage", &page),
        operation("createUser", "Create a user")
            .description("Creates a user without a token. Create one with `POST /admin/users/{userId}/tokens`.")
            .json_object::<UserBody>(&json!({"email": "ada@acme.example", "name": "Ada", "isApproved": true}))
            .created_response("The new user.", "User", &user_example()),
        operation("updateUser", "Update a user")
            .description("Changes the fields that are present.")
            .json_object::<UserBody>(&json!({"isApproved": true}))
            .ok_response("The updated user.", "User", &user_example())
            .error(
                Code::Conflict,
                "administrators cannot remove their own rights, and the bootstrap administrator cannot lose them",
            ),
        operation("eraseUser", "Erase a user")
            .description(
                "Erases a user for good, with the effects of `DELETE /users`. The list of users keeps the id with \
                 `erased: true`. After an error, retry: the service finishes the remaining steps, and 404 means that \
                 nothing was left to do.",
            )
            .empty_response(204, "The user was erased.")
            .error(Code::Conflict, ERASE_CONFLICT),
    ]
}

fn token_operations() -> Vec<Operation> {
    vec![
        operation("listUserTokens", "List the tokens of a user")
            .description("Returns the tokens that were not revoked, oldest first, without their secrets.")
            .json_response(
                200,
                "The tokens.",
                &array(&component_ref("PersonalAccessToken")),
                &json!([token_example()]),
            ),
        operation("createUserToken", "Create a token for a user")
            .description(
                "Creates a token that authenticates as the user. The service stores only a hash, so the token is not \
                 shown again.",
            )
            .json_object::<TokenBody>(&json!({"name": "laptop"}))
            .created_response("The token; it is not shown again.", "IssuedToken", &issued_user_token_example()),
        operation("revokeUserToken", "Revoke a token of a user")
            .description("Revokes the token immediately and for good.")
            .empty_response(204, "The token was revoked."),
    ]
}

fn ban_operations() -> Vec<Operation> {
    let ban = |id, summary, about| {
        operation(id, summary)
            .description(about)
            .json_object::<ReasonBody>(&json!({"reason": "Spread malware"}))
            .empty_response(204, "The ban is in effect.")
            .error(Code::Conflict, "the user, publisher or node is already banned, or cannot be banned")
    };
    let unban = |id, summary| {
        operation(id, summary)
            .description("Lifts the ban and restores everything it took away.")
            .json_object::<ReasonBody>(&json!({"reason": "Cleared up"}))
            .empty_response(204, "The ban was lifted.")
            .error(Code::Conflict, "the user, publisher or node is not banned")
    };
    vec![
        ban("banUser", "Ban a user", "Bans a user, who can then read but not write."),
        unban("unbanUser", "Unban a user"),
        ban(
            "banPublisher",
            "Ban a publisher",
            "Bans a publisher. Only administrators can then change it, its nodes and their versions; its nodes are \
             omitted from lists and searches and cannot be installed.",
        ),
        unban("unbanPublisher", "Unban a publisher"),
        ban(
            "banNode",
            "Ban a node",
            "Bans a node. Only administrators can then change it and its versions; it is omitted from lists and \
             searches and cannot be installed.",
        ),
        unban("unbanNode", "Unban a node"),
    ]
}

fn moderation_operations() -> Vec<Operation> {
    vec![
        operation("administerNode", "Update a node as administrator")
            .description("Changes the fields that are present, including those that other callers cannot set.")
            .json_body(
                "AdministeredNodeBody",
                &json!({"tags_admin": ["security: runs shell commands"], "search_ranking": -1}),
            )
            .ok_response("The updated node.", "Node", &node_example())
            .empty_response(204, "The node was deleted by its new status.")
            .error(Code::Conflict, node::UPDATE_CONFLICT),
        operation("administerVersion", "Update a version as administrator")
            .description("Changes the fields that are present, including those that other callers cannot set.")
            .json_object::<AdministeredVersionBody>(
                &json!({"status": "NodeVersionStatusFlagged", "status_reason": "Under review"}),
            )
            .ok_response("The updated version.", "NodeVersion", &version_example())
            .error(
                Code::Conflict,
                "the status cannot change from the current to the requested one; `detail` names them",
            ),
    ]
}

fn checkpoint_operations() -> Vec<Operation> {
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
        operation("getCheckpoint", "Get a signed checkpoint of the log")
            .description(
                "Returns the position and hash of the last acknowledged event, signed with the Ed25519 key of the \
                 log. A checkpoint kept elsewhere proves later, with `mediary audit verify --since`, that the history \
                 up to that position was neither changed nor truncated.",
            )
            .ok_response("The checkpoint.", "Checkpoint", &example),
    ]
}

fn checkpoint_schema() -> Value {
    response_object([
        field::<String>("format", "Name and version of the format.").required(),
        field::<String>("log", "Id of the log, a UUID.").required(),
        field::<u64>("position", "Position of the last event.").required(),
        field::<String>("chain", "SHA-256 hash chain up to that event.").required(),
        field::<String>("at", "Creation time.").required(),
        field::<String>("public_key", "Public key of the log in hexadecimal.").required(),
        field::<String>("signature", "Ed25519 signature of all other fields in hexadecimal.").required(),
    ])
}
