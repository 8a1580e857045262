//! The caller's own account.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::operation;
use super::publisher_webhook::webhook_schema;
use super::schema::{array, component_ref, field, field_with_schema, one_of, response_object, with_fields};
use super::task::task_schema;
use super::token::{token_example, token_fields};
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::publisher::MemberRole;
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason, Timestamp};
use crate::http::response::error::Code;

pub fn group() -> OperationGroup {
    OperationGroup {
        tag: "Users",
        description: "Account of the calling user.",
        operations: vec![
            operation("getOwnUser", "Get the current user")
                .description("Returns the user whose token the request carries. Personal access tokens have no user.")
                .ok_response("The user.", "User", &user_example()),
            operation("eraseOwnUser", "Erase the current user")
                .description(
                    "Erases the account for good:\n\n- Name and email address become unreadable in every copy of the \
                     log.\n- All tokens of the user, and those the user created for publishers, are rejected from the \
                     next request on.\n- The user leaves all publishers. Past changes stay in the log under the \
                     user's id.",
                )
                .empty_response(204, "The user was erased.")
                .error(Code::Conflict, ERASE_CONFLICT),
            operation("exportOwnUser", "Export everything about the current user")
                .description(
                    "Returns all that the service stores about the account, as one document: the account, its tokens \
                     (also revoked ones, and those that the user created for publishers), publishers, reviews, input \
                     files, credits and budgets; all tasks with their requests and webhooks, newest first; the events \
                     of the account; and which events the user caused, without their content, which may be about \
                     others, and without those of publisher tokens. Secrets are not stored, so they are missing; files \
                     are links. The response is streamed: if it fails, the connection is closed and the document \
                     is incomplete.",
                )
                .content_response(
                    200,
                    "The document.",
                    "application/json",
                    &json!({"schema": component_ref("AccountExport"), "example": export_example()}),
                )
                .untagged()
                .with_header(200, "Content-Disposition")
                .error(Code::TooManyTransfers, "the account has reached its limit of concurrent exports")
                .error(Code::Overloaded, "too many exports are in progress"),
        ],
        components: vec![("User", user_schema()), ("AccountExport", export_schema())],
    }
}

/// Condition under which a user cannot be erased.
pub const ERASE_CONFLICT: &str =
    "the user is the last owner of a publisher (`detail` names each), or the bootstrap administrator";

fn user_schema() -> Value {
    response_object([
        field::<Email>("email", "Email address; absent if unknown."),
        field::<bool>("erased", "`true` if the user was erased and has no other data; absent otherwise."),
        field::<UserId>("id", "Id of the user.").required(),
        field::<bool>("isAdmin", "`true` if the user is an administrator.").required(),
        field::<bool>("isApproved", "`true` if the user may submit media tasks where the service requires approval.")
            .required(),
        field::<Name>("name", "Display name; absent if the user has none. Show the email address or the id instead."),
        field_with_schema("status", "Present for banned users only.", one_of(["UserStatusBanned"])),
        field::<Reason>("statusReason", "Reason of the ban."),
    ])
}

fn export_schema() -> Value {
    let text = || json!({"type": "string"});
    let count = || json!({"type": "integer", "format": "int64", "minimum": 0});
    let membership = response_object([
        field::<PublisherId>("publisher", "Id of the publisher.").required(),
        field::<MemberRole>("role", "Role in the publisher.").required(),
    ]);
    let publisher = field::<PublisherId>("publisher", "Id of the publisher.").required();
    let webhook = with_fields(webhook_schema(), [publisher]);
    let review = response_object([
        field_with_schema("node", "Id of the node.", text()).required(),
        field_with_schema("star", "Stars.", json!({"type": "integer", "minimum": 1, "maximum": 5})).required(),
    ]);
    let credits = response_object([
        field_with_schema("held", "Credits of unfinished tasks.", count()).required(),
        field_with_schema("charged", "Credits of completed tasks.", count()).required(),
        field_with_schema("refunded", "Credits refunded.", count()).required(),
    ]);
    let caused_event = response_object([
        field::<u64>("position", "Position in the log.").required(),
        field::<Timestamp>("at", "Time of the command.").required(),
        field::<String>("stream", "Kind and id of the resource.").required(),
        field::<String>("type", "Type of the event.").required(),
        field::<String>("request", "`X-Request-Id` of the request, if one caused the event."),
    ]);

    let deliveries =
        field_with_schema("deliveries", "Webhooks of the task.", array(&component_ref("Delivery"))).required();
    let task = with_fields(task_schema(), [deliveries]);

    let account_fields = [
        field::<Timestamp>("createdAt", "Time of the creation.").required(),
        field::<u64>("webhookSecrets", "Number of secrets that sign the webhooks of the account.").required(),
    ];
    let account = with_fields(user_schema(), account_fields);

    let token_additions = [
        field::<PublisherId>("publisher", "Publisher of the token; absent for a token of the user."),
        field::<Timestamp>("revokedAt", "Time of the revocation; absent if the token was not revoked."),
    ];
    let token = response_object(token_fields().into_iter().chain(token_additions));

    response_object([
        field::<Timestamp>("exported_at", "Time of the export.").required(),
        field_with_schema("account", "The account.", account).required(),
        field_with_schema("tokens", "Tokens, oldest first.", array(&token)).required(),
        field_with_schema("publishers", "Publishers of which the user is a member.", array(&membership)).required(),
        field_with_schema("webhooks", "Webhooks of publishers whose URL the user set.", array(&webhook)).required(),
        field_with_schema("reviews", "Reviews of nodes.", array(&review)).required(),
        field_with_schema("files", "Input files.", array(&component_ref("InputFile"))).required(),
        field_with_schema("credits", "Credits of all tasks.", credits).required(),
        field_with_schema("budgets", "Budgets that count the caller's tasks.", array(&component_ref("Budget")))
            .required(),
        field_with_schema("tasks", "Tasks, newest first.", array(&task)).required(),
        field_with_schema("account_events", "Events of the account, oldest first.", array(&component_ref("Event")))
            .required(),
        field_with_schema("caused_events", "Events that the user caused, oldest first.", array(&caused_event))
            .required(),
    ])
}

fn export_example() -> Value {
    let mut account = user_example();
    account["createdAt"] = "2026-11-19T08:00:00.000000Z".into();
    account["webhookSecrets"] = 1.into();
    json!({
        "exported_at": "2026-11-20T09:31:00.000000Z",
        "account": account,
        "tokens": [token_example()],
        "publishers": [{"publisher": "acme", "role": "owner"}],
        "webhooks": [],
        "reviews": [{"node": "face-tools", "star": 5}],
        "files": [],
        "credits": {"held": 4, "charged": 120, "refunded": 8},
        "budgets": [],
        "tasks": [],
        "account_events": [],
        "caused_events": [],
    })
}

/// Returns an example of a user.
pub fn user_example() -> Value {
    json!({
        "email": "ada@acme.example",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
        "isAdmin": false,
        "isApproved": true,
        "name": "Ada",
    })
}
