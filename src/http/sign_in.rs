//! Sign-in with tokens of an `OpenID` Connect issuer (contract 3, ADR 17). The first token of a person creates an
//! account.

use std::time::Duration;

use actix_web::{HttpMessage, HttpRequest};

use super::authorize::{Identity, bad_credentials};
use super::error::{Code, Problem};
use super::personal;
use super::server::Services;
use crate::actors::error::CommandError;
use crate::actors::{Actor, CommandContext};
use crate::domain::ids::{RequestId, UserId};
use crate::domain::user::{Email, User, UserCommand, UserOpening, UserProfile, UserRejection};
use crate::domain::value::Name;
use crate::oidc::{Oidc, Person, Refused};

/// Maximum number of erased accounts of one person.
const ERASED_MAX: u32 = 1000;

/// Resolves a token to its user. `request` provides the metadata of a new account; without it, no account is created.
///
/// # Errors
/// 401 if the token is invalid; 503 if the issuer is unreachable; any error of the account creation.
pub async fn sign_in(
    token: &str,
    oidc: &Oidc,
    services: &Services,
    request: Option<&HttpRequest>,
) -> Result<Identity, Problem> {
    let person = oidc.judge(token, services.surroundings.now()).await.map_err(|refused| {
        tracing::debug!(%refused, "a token of the issuer was not believed");
        match refused {
            Refused::Token(_) => bad_credentials(),
            Refused::Unavailable { again_after } => Problem::new(
                Code::IssuerUnavailable,
                "the issuer of the token cannot be asked for its keys; try again soon",
            )
            .retry_after(whole_seconds(again_after)),
        }
    })?;

    let mut former = Vec::new();

    for nth in 0..ERASED_MAX {
        let id = oidc.user_id(&person, nth);
        match account(id, services) {
            Found::Open(profile) => {
                Former(former).note(request);
                return Ok(Identity::User(*profile));
            }
            Found::Erased => former.push(id),
            Found::Nobody => {
                // Open streams create no account: the one they belonged to was erased.
                let request = request.ok_or_else(bad_credentials)?;
                Former(former).note(Some(request));
                return open(id, person, services, request).await.map(Identity::User);
            }
        }
    }
    Err(bad_credentials())
}

/// Rounds up to seconds, at least 1, so that the client does not retry before the issuer is queried again.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// Erased accounts of a caller, oldest first. Derived from each token and never stored. Their use still counts for
/// quotas and limits.
pub struct Former(pub Vec<UserId>);

impl Former {
    /// Returns the erased accounts of the caller of a request.
    #[must_use]
    pub fn of(request: &HttpRequest) -> Vec<UserId> {
        request.extensions().get::<Self>().map(|former| former.0.clone()).unwrap_or_default()
    }

    fn note(self, request: Option<&HttpRequest>) {
        if let Some(request) = request.filter(|_| !self.0.is_empty()) {
            request.extensions_mut().insert(self);
        }
    }
}

enum Found {
    Open(Box<UserProfile>),
    Erased,
    Nobody,
}

fn account(id: UserId, services: &Services) -> Found {
    match services.models.read().users.find(id) {
        Some(User::Present(profile)) => Found::Open(Box::new(profile.clone())),
        Some(User::Erased(_)) => Found::Erased,
        Some(User::Absent) | None => Found::Nobody,
    }
}

/// Creates an account. Concurrent requests share the one that is created first.
async fn open(id: UserId, person: Person, services: &Services, request: &HttpRequest) -> Result<UserProfile, Problem> {
    services.space.check().map_err(Problem::no_room)?;

    // Invalid profile fields are dropped rather than rejecting the user.
    let email = person.email.and_then(|email| Email::parse(email).ok());
    let name = person.name.and_then(|name| Name::parse(name).ok());
    let (email, name) = personal::seal_new(services, id, email, name).await?;

    let opening = UserOpening { id, email, name, is_admin: false, is_approved: false };
    let why = CommandContext {
        actor: Actor::System,
        request: request.extensions().get::<RequestId>().cloned(),
        causation: None,
        at: services.surroundings.now(),
        claim: None,
    };

    match services.dispatch.user(id, UserCommand::Create(opening), why).await {
        Ok(_) => tracing::info!(user = %id, "an account was opened for somebody whom the issuer knows"),
        Err(CommandError::Rejected(UserRejection::AlreadyExists)) => {}
        Err(error) => return Err(error.into()),
    }

    match account(id, services) {
        Found::Open(profile) => Ok(*profile),
        Found::Erased | Found::Nobody => Err(bad_credentials()),
    }
}
