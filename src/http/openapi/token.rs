//! Personal access tokens of publishers.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::operation;
use super::schema::{SchemaField, array, component_ref, field, response_object};
use crate::domain::ids::TokenId;
use crate::domain::policy::TokenScope;
use crate::domain::value::{Label, Name, Timestamp};
use crate::http::api::token::TokenBody;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Tokens",
        description: "Tokens of the calling user, and personal access tokens of publishers, for build servers and other \
                programs that publish. The service stores only a hash; the token is shown once, when it is created. A \
                token cannot create tokens with more permissions or a longer validity than its own.",
        operations: vec![
            operation("listOwnTokens", "List the caller's tokens")
                .description("Returns the tokens that were not revoked, oldest first, without their secrets.")
                .json_response(
                    200,
                    "The tokens.",
                    &array(&component_ref("PersonalAccessToken")),
                    &json!([token_example()]),
                ),
            operation("createOwnToken", "Create a token for the caller")
                .description(
                    "Creates a token that authenticates as the caller, with all permissions or only those to read. An account \
                     has at most 100 tokens.",
                )
                .json_object::<TokenBody>(&json!({
                    "name": "backup script",
                    "scope": "read_only",
                    "expiresAt": "2099-01-01T00:00:00Z",
                }))
                .created_response("The token; it is not shown again.", "IssuedToken", &issued_user_token_example()),
            operation("revokeOwnToken", "Revoke a token of the caller")
                .description("Revokes the token immediately and for good, even if it is the one that authenticates the request.")
                .empty_response(204, "The token was revoked."),
            operation("listPublisherTokens", "List the tokens of a publisher")
                .description("Returns the tokens that were not revoked, oldest first, without their secrets.")
                .json_response(
                    200,
                    "The tokens.",
                    &array(&component_ref("PersonalAccessToken")),
                    &json!([token_example()]),
                ),
            operation("createPublisherToken", "Create a personal access token")
                .description(
                    "Creates a token that can read and can create and change nodes and versions of this publisher. \
                     `id`, `createdAt` and `token` in the body are ignored.",
                )
                .json_object::<TokenBody>(
                    &json!({"name": "release pipeline", "description": "Publishes from the main branch"}),
                )
                .created_response(
                    "The token; it is not shown again.",
                    "NewToken",
                    &json!({"token": "mdp_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l"}),
                ),
            operation("revokePublisherToken", "Revoke a personal access token")
                .description("Revokes the token immediately and for good.")
                .empty_response(204, "The token was revoked."),
        ],
        components: vec![
            ("PersonalAccessToken", response_object(token_fields())),
            (
                "NewToken",
                response_object([field::<String>("token", "Token to send in the `Authorization` header.").required()]),
            ),
        ],
    }
}

/// Returns the fields of a token in a list.
pub fn token_fields() -> Vec<SchemaField> {
    vec![
        field::<Timestamp>("createdAt", "Creation time.").required(),
        field::<Label>("description", "Intended use of the token."),
        field::<Timestamp>("expiresAt", "Time from which the token is rejected; absent if it does not expire."),
        field::<TokenId>("id", "Id, used to revoke the token. It is not a secret.").required(),
        field::<TokenId>("issuedWith", "Id of the user token that issued this one to its user; absent without one."),
        field::<Timestamp>("lastUsedAt", "Time of the last use, to the minute; absent if the token was never used."),
        field::<Name>("name", "Name that identifies the token to its owner.").required(),
        field::<TokenScope>("scope", "`read_only` if the token can change nothing.").required(),
        field::<String>("token", "Masked token; only its prefix is visible.").required(),
    ]
}

/// Returns an example of a new token of a user, with its secret.
pub fn issued_user_token_example() -> Value {
    let mut issued = token_example();
    issued["token"] = "mdu_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l".into();
    issued
}

/// Returns an example of a token in a list, with its secret masked.
pub fn token_example() -> Value {
    json!({
        "createdAt": "2026-11-20T09:31:00.000000Z",
        "description": "Publishes from the main branch",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c20",
        "lastUsedAt": "2026-11-20T10:02:00.000000Z",
        "name": "release pipeline",
        "scope": "all",
        "token": "mdp_********",
    })
}
