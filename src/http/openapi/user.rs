//! Described: the caller's own account.

use serde_json::{Value, json};

use super::Group;
use super::operation::{delete, get};
use super::schema::{field, field_of, one_of, view};
use crate::domain::ids::UserId;
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason};
use crate::http::error::Code;

pub fn group() -> Group {
    Group {
        tag: "Users",
        about: "The account of the user who is asking.",
        operations: vec![
            get("/users", "getOwnUser", "Show the current user").about("A personal access token is no user.").shows(
                "The user.",
                "User",
                &user_example(),
            ),
            delete("/users", "eraseOwnUser", "Erase the current user")
                .about(
                    "For good. Name and e-mail address can be read by nobody any more, in no copy of the log; all tokens of the \
                     user, and those it made for publishers, are refused from the next request on; the user leaves all \
                     publishers. What it did stays, by its id.",
                )
                .answers_nothing(204, "The user is erased.")
                .fails(Code::Conflict, NOT_ERASED),
        ],
        components: vec![("User", user_view())],
    }
}

/// When a user is not erased.
pub const NOT_ERASED: &str =
    "the user is the last owner of a publisher, each of which is named, or the administrator of the bootstrap token";

fn user_view() -> Value {
    view([
        field::<Email>("email", "Absent where none is known."),
        field::<bool>("erased", "`true` for users who were erased, of whom nothing else is known; otherwise absent."),
        field::<UserId>("id", "A UUID.").required(),
        field::<bool>("isAdmin", "Whether the user may do everything.").required(),
        field::<bool>(
            "isApproved",
            "Whether the user may submit media tasks where the service lets only approved users do so.",
        )
        .required(),
        field::<Name>("name", "Absent where none was given: show the e-mail address in its place, or the id."),
        field_of("status", "Only of banned users.", one_of(["UserStatusBanned"])),
        field::<Reason>("statusReason", "Why the user is banned."),
    ])
}

/// A user as it is shown.
pub fn user_example() -> Value {
    json!({
        "email": "ada@acme.example",
        "id": "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
        "isAdmin": false,
        "isApproved": true,
        "name": "Ada",
    })
}
