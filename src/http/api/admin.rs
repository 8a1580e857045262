//! Administration of users, tokens and bans.

use std::collections::HashSet;

use serde::Serialize;

use crate::domain::ids::UserId;
use crate::domain::node::NodeCommand;
use crate::domain::policy::Action;
use crate::domain::publisher::PublisherCommand;
use crate::domain::token::TokenSubject;
use crate::domain::user::{NewUser, User, UserCommand, UserFields};
use crate::domain::value::{Name, Reason};
use crate::http::api::token::{self, IssuedTokenView};
use crate::http::api::user::{self, UserView};
use crate::http::auth::personal_fields;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::json_object::json_object;
use crate::http::request::json_value::{EmailAddress, NotBlank};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};

/// Default page size.
const LIMIT_DEFAULT: u64 = 10;

/// Page of users.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserPage {
    users: Vec<UserView>,
    total: u64,
    page: u64,
    limit: u64,
    total_pages: u64,
}

/// `GET /admin/users`: all or the named users, oldest first. Erased users appear with their id only.
pub async fn list_users(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let request = query.page(LIMIT_DEFAULT);
    let ids: HashSet<_> = query.parsed_values("user_id", UserId::parse).into_iter().collect();
    query.finish()?;

    let page = call.services().models.read().users.page(request, &ids).map(User::clone);
    let keyring = &call.services().keyring;
    personal_fields::preload_keys(keyring, page.entries.iter().filter_map(User::profile)).await?;

    ApiResponse::ok(&UserPage {
        total: page.total,
        page: request.page,
        limit: request.limit,
        total_pages: page.total_pages(),
        users: page.entries.iter().filter_map(|user| UserView::new(user, keyring)).collect(),
    })
}

/// `POST /admin/users`: creates an account.
pub async fn create_user(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let UserBody { email, name, is_admin, is_approved } = call.json_object().await?;
    let services = call.services();
    let id = UserId(services.environment.uuid());

    let is_admin = is_admin.unwrap_or(false);
    let is_approved = is_approved.unwrap_or(false);
    let email = email.map(|EmailAddress(email)| email);
    let (email, name) = personal_fields::seal(&call, id, email, name).await?;
    let new_user = NewUser { id, email, name, is_admin, is_approved };
    services.dispatch.user(id, UserCommand::Create(new_user), call.command_context()).await?;

    reply_with_current_user(&call, id, ApiResponse::created).await
}

/// `PUT /admin/users/{userId}`: changes the fields that are present.
pub async fn update_user(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    let UserBody { email, name, is_admin, is_approved } = call.json_object().await?;

    if is_admin == Some(false) {
        protect_admin(&call, user, "lose administrator rights")?;
    }

    let email = email.map(|EmailAddress(email)| email);
    let (email, name) = personal_fields::seal(&call, user, email, name).await?;
    let change = UserFields { email, name, is_admin, is_approved };
    call.services().dispatch.user(user, UserCommand::Revise { change }, call.command_context()).await?;
    reply_with_current_user(&call, user, ApiResponse::ok).await
}

json_object! {
    pub struct UserBody {
        /// Email address.
        email: Option<EmailAddress>,
        /// Display name.
        name: Option<Name>,
        /// `true` to make the user an administrator.
        #[name("isAdmin")]
        is_admin: Option<bool>,
        /// `true` to let the user submit media tasks where the service requires approval.
        #[name("isApproved")]
        is_approved: Option<bool>,
    }
}

json_object! {
    /// Body of a ban and of its removal (contract 4).
    pub struct ReasonBody {
        /// Reason, which is recorded and shown.
        reason: NotBlank<Reason>,
    }
}

/// Protects administrators from locking themselves out, and the bootstrap administrator from anyone.
fn protect_admin(call: &RequestContext, user: UserId, action: &str) -> Result<(), Problem> {
    let subject = if call.services().auth.admin.user == user {
        "the bootstrap administrator"
    } else if call.user()?.id == user {
        "your own account"
    } else {
        return Ok(());
    };
    Err(Problem::new(Code::Conflict, format!("{subject} cannot {action}")))
}

async fn reply_with_current_user(
    call: &RequestContext,
    user: UserId,
    respond: impl FnOnce(&UserView) -> Result<ApiResponse, Problem>,
) -> Result<ApiResponse, Problem> {
    let profile = call.services().models.read().users.get(user).cloned();
    user::reply_with_user(call, profile.ok_or_else(|| Problem::not_found("user"))?, respond).await
}

/// `POST /admin/users/{userId}/tokens`: issues a token for a user.
pub async fn issue_token(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    let body = call.json_object().await?;
    let issued = token::issue_token(&call, body, TokenSubject::User(user)).await?;
    ApiResponse::created(&IssuedTokenView::new(&issued))
}

/// `GET /admin/users/{userId}/tokens`: the tokens that were not revoked, oldest first.
pub async fn list_tokens(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    token::list_user_tokens(&call, call.existing_user()?)
}

/// `DELETE /admin/users/{userId}/tokens/{tokenId}`: effective from the next request.
pub async fn revoke_token(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    token::revoke_token(&call, |subject| *subject == TokenSubject::User(user)).await
}

/// `POST /admin/users/{userId}/ban`.
pub async fn ban_user(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    protect_admin(&call, user, "be banned")?;
    call.services().dispatch.user(user, UserCommand::Ban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /admin/users/{userId}/unban`.
pub async fn unban_user(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    call.services().dispatch.user(user, UserCommand::Unban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /admin/publishers/{publisherId}/ban`.
pub async fn ban_publisher(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    let publisher = &call.publisher()?.id;
    call.services().dispatch.publisher(publisher, PublisherCommand::Ban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /admin/publishers/{publisherId}/unban`.
pub async fn unban_publisher(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    let publisher = &call.publisher()?.id;
    call.services().dispatch.publisher(publisher, PublisherCommand::Unban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /admin/nodes/{nodeId}/ban`.
pub async fn ban_node(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    call.services().dispatch.node(&node, NodeCommand::Ban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

/// `POST /admin/nodes/{nodeId}/unban`.
pub async fn unban_node(mut call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let node = call.existing_node()?;
    let ReasonBody { reason: NotBlank(reason) } = call.json_object().await?;
    call.services().dispatch.node(&node, NodeCommand::Unban { reason }, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}
