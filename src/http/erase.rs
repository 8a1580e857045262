//! Erasing users: what must be settled before the event, and what is done after it.
//!
//! The event is final. What comes after it — kept answers are dropped, the key is destroyed — is done again at the next start for
//! whoever still has a key, so that a crash in between leaves nothing readable for long.

use actix_web::{rt, web};
use tracing::Instrument;

use super::answer::Answer;
use super::error::{Code, Problem};
use super::gate::{Admitted, Call};
use super::personal;
use super::server::Services;
use crate::actors::Circumstances;
use crate::actors::error::CommandError;
use crate::clock::Place;
use crate::domain::ids::{PublisherId, UserId};
use crate::domain::policy::Action;
use crate::domain::publisher::{PublisherCommand, PublisherRejection};
use crate::domain::user::{User, UserCommand};
use crate::projections::read_models::Models;

/// `DELETE /users`: the user who is asking.
pub async fn erase_own(call: Call<{ Action::EraseOwnAccount as u8 }>) -> Result<Answer, Problem> {
    erase(&call, call.user()?.id).await
}

/// `DELETE /admin/users/{user_id}`; for a user who was erased before it finishes what could not be finished then.
pub async fn erase_user(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    match call.named_user()? {
        User::Present(profile) => erase(&call, profile.id).await,
        User::Absent => Err(Problem::not_found("user")),
        User::Erased(tombstone) if call.services().personal.is_unfinished(tombstone.id) => {
            finish(tombstone.id, call.services()).await.map(|()| Answer::no_content())
        }
        User::Erased(_) => Err(Problem::erased()),
    }
}

/// Once begun it goes on when the caller goes away.
async fn erase(call: &Admitted, user: UserId) -> Result<Answer, Problem> {
    let services = call.services().clone();
    if services.admin.user == user {
        let detail = "the administrator of the bootstrap token cannot be erased: there would be none left";
        return Err(Problem::new(Code::Conflict, detail));
    }
    let why = call.why();
    let work = async move { erase_for(user, &services, &why).await };
    rt::spawn(work.in_current_span()).await.map_err(Problem::internal)??;
    Ok(Answer::no_content())
}

async fn erase_for(user: UserId, services: &Services, why: &Circumstances) -> Result<(), Problem> {
    let publishers = publishers_to_leave(user, &services.models.read())?;
    for publisher in publishers {
        match services.dispatch.publisher(&publisher, PublisherCommand::RemoveMember { user }, why.clone()).await {
            Ok(_) | Err(CommandError::Rejected(PublisherRejection::MemberNotFound | PublisherRejection::NotFound)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let keyring = services.personal.clone();
    let begun = web::block(move || keyring.begin_erasure(user)).await.map_err(Problem::internal)?;
    begun.map_err(|failure| personal::refusal(&failure, &services.space))?;
    services.dispatch.user(user, UserCommand::Erase, why.clone()).await?;
    services.personal.mark_erased(user);
    services.surroundings.reach(Place::Erased, &user.to_string());
    finish(user, services).await
}

/// Where the user is a member, if no publisher would be left without an owner.
fn publishers_to_leave(user: UserId, models: &Models) -> Result<Vec<PublisherId>, Problem> {
    let (mut publishers, mut sentences) = (Vec::new(), Vec::new());
    for publisher in models.publishers.of_member(user) {
        if publisher.is_last_owner(user) {
            sentences.push(format!("{} has no other owner: make another member one, or delete it", publisher.id));
        }
        publishers.push(publisher.id.clone());
    }
    if sentences.is_empty() { Ok(publishers) } else { Err(Problem::listing(Code::Conflict, sentences, 0)) }
}

async fn finish(user: UserId, services: &Services) -> Result<(), Problem> {
    let services = services.clone();
    web::block(move || forget(user, &services)).await.map_err(Problem::internal)?
}

/// What follows from the event that a user was erased: no kept answer shows the user, no snapshot what an older release had recorded
/// in plain, and nothing opens what is recorded. Blocks.
fn forget(user: UserId, services: &Services) -> Result<(), Problem> {
    // The key goes last: that it is there tells the next start that this is unfinished.
    services.keys.forget_answers().map_err(Problem::internal)?;
    if services.audit.was_readable(user).map_err(Problem::internal)? {
        (services.drop_snapshots)().map_err(Problem::internal)?;
    }
    services.personal.forget(user).map_err(Problem::internal)
}
