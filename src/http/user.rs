//! Users: how they are shown, the one who is asking, and those whom paths name.

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::gate::{Admitted, Call};
use super::personal::{self, Contact};
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::user::{Tombstone, User, UserProfile};
use crate::domain::value::Text;
use crate::personal::Keyring;

/// The seed's `User`.
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
    /// Why the user is banned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// Only of users who were erased: nothing else is known of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
}

impl UserView {
    /// A user as it is shown to itself and to administrators; `None` when nobody ever had the id.
    #[must_use]
    pub fn new(user: &User, keyring: &Keyring) -> Option<Self> {
        match user {
            User::Absent => None,
            User::Present(profile) => Some(Self::of(profile, Contact::new(user, true, keyring))),
            User::Erased(tombstone) => Some(Self::tombstone(tombstone)),
        }
    }

    fn of(profile: &UserProfile, Contact { email, name, erased }: Contact) -> Self {
        Self {
            id: profile.id.to_string(),
            email,
            name,
            is_admin: profile.is_admin,
            is_approved: profile.is_approved,
            status: profile.banned.as_ref().map(|_| "UserStatusBanned"),
            status_reason: profile.banned.as_ref().map(Text::to_string),
            erased,
        }
    }

    fn tombstone(tombstone: &Tombstone) -> Self {
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

/// `GET /users`: the user who is asking.
pub async fn own(call: Call<{ Action::ReadOwnAccount as u8 }>) -> Result<Answer, Problem> {
    show(&call, call.user()?.clone(), Answer::ok).await
}

/// Answers with a user.
///
/// # Errors
/// Those of `answer`.
pub async fn show(
    call: &Admitted,
    profile: UserProfile,
    answer: impl FnOnce(&UserView) -> Result<Answer, Problem>,
) -> Result<Answer, Problem> {
    let keyring = &call.services().personal;
    personal::ready(keyring, [&profile]).await;
    let view = UserView::new(&User::Present(profile), keyring);
    answer(&view.ok_or_else(|| Problem::not_found("user"))?)
}

impl Admitted {
    /// The user of the path.
    ///
    /// # Errors
    /// 404, when nobody has this id, perhaps because who had it was erased.
    pub fn known_user(&self) -> Result<UserId, Problem> {
        match self.named_user()? {
            User::Present(profile) => Ok(profile.id),
            User::Absent | User::Erased(_) => Err(Problem::erased()),
        }
    }

    /// The user of the path, or what is left of it.
    ///
    /// # Errors
    /// 404, when nobody ever had this id.
    pub fn named_user(&self) -> Result<User, Problem> {
        let id = UserId::parse(&self.segment("user_id")).ok();
        let user = id.and_then(|id| self.services().models.read().users.find(id).cloned());
        user.ok_or_else(|| Problem::not_found("user"))
    }
}
