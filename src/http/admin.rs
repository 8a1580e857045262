//! What administrators do: users and their tokens.

use serde::Serialize;

use super::answer::Answer;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::token::{IssuedTokenView, hand_out};
use super::user::UserView;
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::token::TokenSubject;
use crate::domain::user::{Email, UserCommand, UserOpening};
use crate::domain::value::Name;

/// Users of a page, when the caller does not say.
const LIMIT_DEFAULT: u64 = 10;

/// One page of users.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserPage<'m> {
    users: Vec<UserView<'m>>,
    total: u64,
    page: u64,
    limit: u64,
    total_pages: u64,
}

/// `GET /admin/users`: all users, oldest first.
pub async fn list_users(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    query.finish()?;
    let models = call.services().models.read();
    let page = models.users.page(request);
    Answer::ok(&UserPage {
        total: page.total,
        page: request.page,
        limit: request.limit,
        total_pages: page.total_pages(),
        users: page.entries.into_iter().map(UserView::new).collect(),
    })
}

/// `POST /admin/users`: opens an account.
pub async fn create_user(mut call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let body = call.json().await?;
    let services = call.services();
    let id = UserId(services.surroundings.uuid());
    let opening = fields::read(&body, |fields| {
        Some(UserOpening {
            id,
            email: fields.text("email", Email::parse),
            name: fields.text("name", Name::parse),
            is_admin: fields.flag("isAdmin").unwrap_or(false),
            is_approved: fields.flag("isApproved").unwrap_or(false),
        })
    })?;
    services.dispatch.user(id, UserCommand::Create(opening), call.why()).await?;
    let models = services.models.read();
    let profile = models.users.get(id).ok_or_else(|| Problem::not_found("user"))?;
    Answer::created(&UserView::new(profile))
}

/// `POST /admin/users/{user_id}/tokens`: a token that speaks for a user.
pub async fn issue_token(mut call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let known = call.user_id().filter(|id| call.services().models.read().users.get(*id).is_some());
    let user = known.ok_or_else(|| Problem::not_found("user"))?;
    let body = call.json().await?;
    let issued = hand_out(&call, &body, TokenSubject::User(user)).await?;
    Answer::created(&IssuedTokenView::new(&issued))
}
