//! Users: how they are shown, and the one who is asking.

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::Call;
use crate::domain::policy::Action;
use crate::domain::user::UserProfile;
use crate::domain::value::Text;

/// The seed's `User`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserView<'m> {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'m str>,
    pub is_admin: bool,
    pub is_approved: bool,
    /// Only while the user is banned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Why the user is banned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<&'m str>,
}

impl<'m> UserView<'m> {
    /// A user as it is shown to itself and to administrators.
    #[must_use]
    pub fn new(profile: &'m UserProfile) -> Self {
        Self {
            id: profile.id.to_string(),
            email: profile.email.as_ref().map(Text::as_str),
            name: profile.name.as_ref().map(Text::as_str),
            is_admin: profile.is_admin,
            is_approved: profile.is_approved,
            status: profile.banned.as_ref().map(|_| "UserStatusBanned"),
            status_reason: profile.banned.as_ref().map(Text::as_str),
        }
    }
}

/// `GET /users`: the user who is asking.
pub async fn own(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<Answer, Problem> {
    Answer::ok(&UserView::new(call.user()?))
}
