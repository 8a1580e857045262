//! Members of a publisher: add, change role, remove.

use crate::domain::budget::BudgetSubject;
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::publisher::{MemberRole, PublisherCommand, PublisherProfile};
use crate::http::api::publisher::reply_with_current_publisher;
use crate::http::auth::authorize;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::json_object::json_object;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};

/// Description of a role.
pub const ROLE: &str = "Role: an `owner` may do everything, a `member` may create and change nodes and versions.";

json_object! {
    pub struct MemberBody {
        #[doc = ROLE]
        role: Option<MemberRole>,
    }
}

/// `PUT /publishers/{publisherId}/members/{userId}`: sets the role of a user, effective at once. Without a role in
/// the body, a member keeps the role and a new one becomes a `member`.
pub async fn set(mut call: Call<{ Action::ManageMembers as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.existing_user()?;
    let MemberBody { role } = call.json_object().await?;
    let publisher = call.publisher()?;
    if !call.user()?.is_admin && publisher.role_of(user).is_none() {
        check_open_to_new_members(&call, publisher)?;
    }

    let role = role.or_else(|| publisher.role_of(user)).unwrap_or(MemberRole::Member);
    let command = PublisherCommand::SetMember { user, role };
    call.services().dispatch.publisher(&publisher.id, command, call.command_context()).await?;
    reply_with_current_publisher(&call).await
}

/// Checks that owners may add users: a budget of the publisher would count the tasks of people who did not consent, and
/// would miss those that a member submits between leaving and coming back.
fn check_open_to_new_members(call: &RequestContext, publisher: &PublisherProfile) -> Result<(), Problem> {
    let budget = BudgetSubject::Publisher(publisher.id.clone());
    if call.services().models.read().budgets.get(&budget).is_none() {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "only administrators can add members to a publisher with a budget"))
}

/// `DELETE /publishers/{publisherId}/members/{userId}`: for managers of members, and for the member itself.
pub async fn remove(call: Call<{ Action::RemoveMember as u8 }>) -> Result<ApiResponse, Problem> {
    let publisher = call.publisher()?;
    let user_id = UserId::parse(&call.path_param("userId")).ok();
    if user_id != Some(call.user()?.id) {
        authorize::permit(Action::ManageMembers, call.identity(), Some(publisher))?;
    }
    // An erased user has left all publishers, unless it was added concurrently.
    call.user_in_path()?;
    let user = user_id.ok_or_else(|| Problem::not_found("user"))?;
    let command = PublisherCommand::RemoveMember { user };
    call.services().dispatch.publisher(&publisher.id, command, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}
