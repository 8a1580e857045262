//! Described: the caller's own account.

use serde_json::{Value, json};

use super::Group;
use super::operation::get;
use super::schema::{field, field_of, one_of, view};
use crate::domain::ids::UserId;
use crate::domain::user::Email;
use crate::domain::value::{Name, Reason};

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
        ],
        components: vec![("User", user_view())],
    }
}

fn user_view() -> Value {
    view([
        field::<Email>("email", ""),
        field::<UserId>("id", "").required(),
        field::<bool>("isAdmin", "").required(),
        field::<bool>("isApproved", "").required(),
        field::<Name>("name", ""),
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
