//! The caller's own account.

use serde_json::{Value, json};

use super::OperationGroup;
use super::operation::operation;
use super::schema::{field, field_with_schema, one_of, response_object};
use crate::domain::ids::UserId;
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason};
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
        ],
        components: vec![("User", user_schema())],
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

/// Example of a user.
pub fn user_example() -> Value {
    json!({
        "email": "ada@acme.example",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
        "isAdmin": false,
        "isApproved": true,
        "name": "Ada",
    })
}
