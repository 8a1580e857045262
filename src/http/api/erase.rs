//! Erasure of users: preconditions, event and follow-up.
//!
//! The event is final. The follow-up, which deletes stored responses and destroys the key, is repeated at the next
//! start for each user whose key still exists, so a crash in between leaves no data readable for long.

use actix_web::{rt, web};
use tracing::Instrument;

use crate::actors::CommandContext;
use crate::actors::error::CommandError;
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::policy::Action;
use crate::domain::publisher::{PublisherCommand, PublisherRejection};
use crate::domain::user::{User, UserCommand};
use crate::environment::FailPoint;
use crate::http::auth::personal_fields;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;
use crate::projections::read_models::Models;

/// `DELETE /users`: erases the caller.
pub async fn erase_own(call: Call<{ Action::EraseOwnAccount as u8 }>) -> Result<ApiResponse, Problem> {
    erase(&call, call.user()?.id).await
}

/// `DELETE /admin/users/{userId}`: erases a user, or completes an unfinished erasure.
pub async fn erase_user(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    match call.user_in_path()? {
        User::Present(profile) => erase(&call, profile.id).await,
        User::Absent => Err(Problem::not_found("user")),
        User::Erased(tombstone) => {
            let services = call.services();
            let keyring = services.keyring.clone();
            let unfinished = web::block(move || keyring.is_erasure_unfinished(tombstone.id)).await;
            let unfinished = unfinished.map_err(Problem::internal)?;
            if !unfinished.map_err(|failure| personal_fields::key_error(&failure, &services.space))? {
                return Err(Problem::user_erased());
            }
            complete_erasure(tombstone.id, services).await.map(|()| ApiResponse::no_content())
        }
    }
}

/// Erases a user. Continues if the client disconnects.
async fn erase(call: &RequestContext, user: UserId) -> Result<ApiResponse, Problem> {
    let services = call.services().clone();
    if services.auth.admin.user == user {
        let detail = "the bootstrap administrator cannot be erased";
        return Err(Problem::new(Code::Conflict, detail));
    }

    let command_context = call.command_context();
    let work = async move { run_erasure(user, &services, &command_context).await };
    rt::spawn(work.in_current_span()).await.map_err(Problem::internal)??;
    Ok(ApiResponse::no_content())
}

async fn run_erasure(user: UserId, services: &Services, command_context: &CommandContext) -> Result<(), Problem> {
    publishers_to_leave(user, &services.models.read())?;
    // Begin before the user leaves publishers: this step fails while the bucket of a cluster does not respond.
    let keyring = services.keyring.clone();
    let started = web::block(move || keyring.begin_erasure(user)).await.map_err(Problem::internal)?;
    started.map_err(|failure| personal_fields::key_error(&failure, &services.space))?;

    // Read again, because the bucket may have taken seconds.
    let publishers = publishers_to_leave(user, &services.models.read())?;
    for publisher in publishers {
        match services
            .dispatch
            .publisher(&publisher, PublisherCommand::RemoveMember { user }, command_context.clone())
            .await
        {
            Ok(_) | Err(CommandError::Rejected(PublisherRejection::MemberNotFound | PublisherRejection::NotFound)) => {}
            Err(error) => return Err(error.into()),
        }
    }

    services.dispatch.user(user, UserCommand::Erase, command_context.clone()).await?;
    services.keyring.mark_erased(user);
    services.environment.hit(FailPoint::BeforeKeyDestroyed, &user.to_string());
    complete_erasure(user, services).await
}

/// Returns the publishers of a user, or an error if one of them would lose its last owner.
fn publishers_to_leave(user: UserId, models: &Models) -> Result<Vec<PublisherId>, Problem> {
    let mut publishers = Vec::new();
    let mut messages = Vec::new();
    for publisher in models.publishers.for_member(user) {
        if publisher.is_last_owner(user) {
            messages.push(format!("{} has no other owner: make another member owner, or delete it", publisher.id));
        }
        publishers.push(publisher.id.clone());
    }

    if messages.is_empty() { Ok(publishers) } else { Err(Problem::from_messages(Code::Conflict, messages, 0)) }
}

async fn complete_erasure(user: UserId, services: &Services) -> Result<(), Problem> {
    let services = services.clone();
    web::block(move || delete_remains(user, &services)).await.map_err(Problem::internal)?
}

/// Deletes what an erased user left behind: stored responses, uploaded files, snapshots with plain-text fields of an
/// older release, and the key. Blocks.
fn delete_remains(user: UserId, services: &Services) -> Result<(), Problem> {
    // The key goes last: while it exists, the next start knows that the erasure is unfinished.
    services.idempotency_keys.purge_responses().map_err(Problem::internal)?;
    services.media.store.uploads().remove_all_of(user).map_err(|error| Problem::from_read_error(&error))?;
    if services.operations.audit.had_plain_text(user).map_err(Problem::internal)? {
        (services.operations.drop_snapshots)().map_err(Problem::internal)?;
    }
    services.keyring.destroy_key(user).map_err(|failure| personal_fields::key_error(&failure, &services.space))
}
