//! Described: personal access tokens of publishers.

use serde_json::{Value, json};

use super::Group;
use super::operation::{delete, get, post};
use super::schema::{Field, Moment, array, body, field, named, view};
use crate::domain::ids::TokenId;
use crate::domain::value::{Label, Name};

pub fn group() -> Group {
    Group {
        tag: "Tokens",
        about: "Personal access tokens of publishers: for programs that publish. Only a hash is kept; the token itself is in the \
                answer to its making and never again.",
        operations: vec![
            get("/publishers/{publisher_id}/tokens", "listPublisherTokens", "List a publisher's tokens")
                .about("Those that are valid, oldest first, without their secrets.")
                .answers(200, "The tokens.", &array(&named("PersonalAccessToken")), &json!([token_example()])),
            post("/publishers/{publisher_id}/tokens", "createPublisherToken", "Create a personal access token")
                .about("`id`, `createdAt` and `token` in the body are ignored.")
                .takes(
                    "TokenBody",
                    &json!({"name": "release pipeline", "description": "Publishes from the main branch"}),
                )
                .creates(
                    "The token, this once.",
                    "NewToken",
                    &json!({"token": "mdp_hQ2oZ9Zc1yXb0QmJrS5uT8vW3xY6zA1bC4dE7fG0hI2jK3l"}),
                ),
            delete(
                "/publishers/{publisher_id}/tokens/{token_id}",
                "revokePublisherToken",
                "Revoke a personal access token",
            )
            .about("At once and for good.")
            .answers_nothing(204, "It is revoked."),
        ],
        components: vec![
            ("PersonalAccessToken", view(shown())),
            ("NewToken", view([field::<String>("token", "What its bearer presents.").required()])),
            ("TokenBody", token_body()),
        ],
    }
}

/// What is asked of a new token.
fn token_body() -> Value {
    body([
        field::<Label>("description", "What it is for."),
        field::<Name>("name", "By which its owner tells it from others; not blank.").not_blank().required(),
    ])
}

/// A token as it is listed.
pub fn shown() -> Vec<Field> {
    vec![
        field::<Moment>("createdAt", "When it was made.").required(),
        field::<Label>("description", "What it is for."),
        field::<TokenId>("id", "By which it is revoked; no secret.").required(),
        field::<Moment>("lastUsedAt", "When it was last used, to the minute; absent before."),
        field::<Name>("name", "By which its owner tells it from others.").required(),
        field::<String>("token", "Masked: only its kind is still known.").required(),
    ]
}

/// A token as it is listed.
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
