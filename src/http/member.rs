//! Members of a publisher: taking them in, changing what they may, and letting them go.

use super::answer::Answer;
use super::authorize;
use super::error::Problem;
use super::fields;
use super::gate::Call;
use super::publisher::current;
use crate::domain::ids::UserId;
use crate::domain::policy::Action;
use crate::domain::publisher::{MemberRole, PublisherCommand};

/// `PUT /publishers/{publisher_id}/members/{user_id}`: gives a user a role, which counts at once. Without a role in the body
/// who is a member already keeps the own one, and a new one becomes a member.
pub async fn set(mut call: Call<{ Action::ManageMembers as u8 }>) -> Result<Answer, Problem> {
    let user = call.known_user()?;
    let body = call.json().await?;
    let role = fields::read(&body, |fields| Some(fields.text("role", MemberRole::parse)))?;
    let publisher = call.publisher()?;
    let role = role.or_else(|| publisher.role_of(user)).unwrap_or(MemberRole::Member);
    let command = PublisherCommand::SetMember { user, role };
    call.services().dispatch.publisher(&publisher.id, command, call.why()).await?;
    current(&call).await
}

/// `DELETE /publishers/{publisher_id}/members/{user_id}`: by whoever manages members, and by the member itself.
pub async fn remove(call: Call<{ Action::RemoveMember as u8 }>) -> Result<Answer, Problem> {
    let (publisher, leaving) = (call.publisher()?, UserId::parse(&call.segment("user_id")).ok());
    if leaving != Some(call.user()?.id) {
        authorize::permit(Action::ManageMembers, call.identity(), Some(publisher))?;
    }
    // Whoever was erased has left before, unless it was taken in at the same moment.
    call.named_user()?;
    let user = leaving.ok_or_else(|| Problem::not_found("user"))?;
    let command = PublisherCommand::RemoveMember { user };
    call.services().dispatch.publisher(&publisher.id, command, call.why()).await?;
    Ok(Answer::no_content())
}
