//! Personal access tokens of publishers.

use serde_json::{Value, json};

use super::Group;
use super::operation::{delete, get, post};
use super::schema::{Field, Moment, array, body, field, named, view};
use crate::domain::ids::TokenId;
use crate::domain::value::{Label, Name};

pub fn group() -> Group {
    Group {
        tag: "Tokens",
        about: "Personal access tokens of publishers, for build servers and other programs that publish. The service \
                stores only a hash; the token is shown once, when it is created.",
        operations: vec![
            get("/publishers/{publisher_id}/tokens", "listPublisherTokens", "List the tokens of a publisher")
                .about("Returns the valid tokens, oldest first, without their secrets.")
                .answers(200, "The tokens.", &array(&named("PersonalAccessToken")), &json!([token_example()])),
            post("/publishers/{publisher_id}/tokens", "createPublisherToken", "Create a personal access token")
                .about(
                    "Creates a token that can read and can create and change nodes and versions of this publisher. \
                     `id`, `createdAt` and `token` in the body are ignored.",
                )
                .takes(
                    "TokenBody",
                    &json!({"name": "release pipeline", "description": "Publishes from the main branch"}),
                )
                .creates(
                    "The token; it is not shown again.",
                    "NewToken",
                    &json!({"token": "mdp_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l"}),
                ),
            delete(
                "/publishers/{publisher_id}/tokens/{token_id}",
                "revokePublisherToken",
                "Revoke a personal access token",
            )
            .about("Revokes the token immediately and for good.")
            .answers_nothing(204, "The token was revoked."),
        ],
        components: vec![
            ("PersonalAccessToken", view(shown())),
            ("NewToken", view([field::<String>("token", "Token to send in the `Authorization` header.").required()])),
            ("TokenBody", token_body()),
        ],
    }
}

/// Request body of a new token.
fn token_body() -> Value {
    body([
        field::<Label>("description", "Intended use of the token."),
        field::<Name>("name", "Name that identifies the token to its owner; not blank.").not_blank().required(),
    ])
}

/// Token as listed.
pub fn shown() -> Vec<Field> {
    vec![
        field::<Moment>("createdAt", "Creation time.").required(),
        field::<Label>("description", "Intended use of the token."),
        field::<TokenId>("id", "Id, used to revoke the token. It is not a secret.").required(),
        field::<Moment>("lastUsedAt", "Time of the last use, to the minute; absent if the token was never used."),
        field::<Name>("name", "Name that identifies the token to its owner.").required(),
        field::<String>("token", "Masked token; only its prefix is visible.").required(),
    ]
}

/// Token as listed.
pub fn token_example() -> Value {
    json!({
        "createdAt": "2026-11-20T09:31:00.000000Z",
        "description": "Publishes from the main branch",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c20",
        "lastUsedAt": "2026-11-20T10:02:00.000000Z",
        "name": "release pipeline",
        "token": "mdp_********",
    })
}
