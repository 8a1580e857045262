//! Users: rendering, the caller's own account, and users in paths.

use serde::Serialize;

use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::user::{Tombstone, User, UserProfile};
use crate::domain::value::Text;
use crate::http::auth::personal_fields::{self, Contact};
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::pii::Keyring;

/// `User` of the API.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserView {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub is_admin: bool,
    pub is_approved: bool,
    /// Only while the user is banned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<&'static str>,
    /// Reason of the ban.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// `true` for erased users, of which only the id is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
}

impl UserView {
    /// Renders a user with all fields, for itself and for administrators; `None` if the id was never used.
    #[must_use]
    pub fn new(user: &User, keyring: &Keyring) -> Option<Self> {
        match user {
            User::Absent => None,
            User::Present(profile) => {
                let with_email = true;
                Some(Self::from_profile(profile, Contact::new(user, with_email, keyring)))
            }
            User::Erased(tombstone) => Some(Self::from_tombstone(tombstone)),
        }
    }

    fn from_profile(profile: &UserProfile, Contact { email, name, erased }: Contact) -> Self {
        Self {
            id: profile.id.to_string(),
            email,
            name,
            is_admin: profile.is_admin,
            is_approved: profile.is_approved,
            status: profile.ban_reason.as_ref().map(|_| "UserStatusBanned"),
            status_reason: profile.ban_reason.as_ref().map(Text::to_string),
            erased,
        }
    }

    fn from_tombstone(tombstone: &Tombstone) -> Self {
        Self {
            id: tombstone.id.to_string(),
            email: None,
            name: None,
            is_admin: false,
            is_approved: false,
            status: None,
            status_reason: None,
            erased: true,
        }
    }
}

/// `GET /users`: the caller.
pub async fn show_own(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<ApiResponse, Problem> {
    reply_with_user(&call, call.user()?.clone(), ApiResponse::ok).await
}

/// Responds with a user.
///
/// # Errors
/// Errors of `respond`, or 404 if the user was erased.
pub async fn reply_with_user(
    call: &RequestContext,
    profile: UserProfile,
    respond: impl FnOnce(&UserView) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    personal_fields::preload_keys_for_reply(call, [&profile]).await?;
    let view = UserView::new(&User::Present(profile), &call.services().keyring);
    respond(&view.ok_or_else(|| Problem::not_found("user"))?)
}

impl RequestContext {
    /// Returns the user of the path.
    ///
    /// # Errors
    /// 404 if the user does not exist or was erased.
    pub fn existing_user(&self) -> Result<UserId, Problem> {
        match self.user_in_path()? {
            User::Present(profile) => Ok(profile.id),
            User::Erased(_) => Err(Problem::user_erased()),
            User::Absent => Err(Problem::not_found("user")),
        }
    }

    /// Returns the user of the path, or the tombstone of an erased one.
    ///
    /// # Errors
    /// 404 if the id was never used.
    pub fn user_in_path(&self) -> Result<User, Problem> {
        let id = UserId::parse(&self.path_param("userId")).ok();
        let user = id.and_then(|id| self.services().models.read().users.find(id).cloned());
        user.ok_or_else(|| Problem::not_found("user"))
    }
}
