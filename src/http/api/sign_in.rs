//! Sign-in with tokens of an `OpenID` Connect issuer (contract 3, ADR 17). The first token of a person creates an
//! account.

use std::time::Duration;

use actix_web::{HttpMessage, HttpRequest};
use serde::Serialize;

use crate::actors::error::CommandError;
use crate::actors::{Actor, CommandContext};
use crate::domain::ids::{RequestId, UserId};
use crate::domain::policy::Action;
use crate::domain::user::{Email, NewUser, User, UserCommand, UserProfile, UserRejection};
use crate::domain::value::Name;
use crate::http::auth::authorize::{Identity, invalid_credentials};
use crate::http::auth::personal_fields;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};
use crate::http::server::{IssuerSignIn, Services};
use crate::oidc::{OidcAuthenticator, OidcIdentity, OidcRejection};

/// Maximum number of erased accounts of one person.
const ERASED_MAX: u32 = 1000;

/// Ways to sign in besides tokens of this service.
#[derive(Serialize)]
struct SignInView {
    #[serde(skip_serializing_if = "Option::is_none")]
    oidc: Option<IssuerView>,
}

#[derive(Serialize)]
struct IssuerView {
    issuer: String,
    client_id: String,
    audience: String,
}

/// `GET /sign-in`: how people sign in to the console.
pub async fn show(call: Call<{ Action::ReadServiceState as u8 }>) -> Result<ApiResponse, Problem> {
    let sign_in = call.services().options.issuer_sign_in.clone();
    let oidc = sign_in.map(|IssuerSignIn { issuer, client_id, audience }| IssuerView { issuer, client_id, audience });
    ApiResponse::ok(&SignInView { oidc })
}

/// Resolves a token to its user. `request` provides the metadata of a new account; without it, no account is created.
///
/// # Errors
/// 401 if the token is invalid; 503 if the issuer is unreachable; any error of the account creation.
pub async fn sign_in(
    token: &str,
    oidc: &OidcAuthenticator,
    services: &Services,
    request: Option<&HttpRequest>,
) -> Result<Identity, Problem> {
    let person = oidc.authenticate(token, services.environment.now()).await.map_err(|refused| {
        tracing::debug!(%refused, "OIDC token rejected");
        match refused {
            OidcRejection::Token(_) => invalid_credentials(),
            OidcRejection::Unavailable { retry_after } => {
                Problem::new(Code::IssuerUnavailable, "the keys of the token issuer cannot be fetched; try again soon")
                    .retry_after(ceil_seconds(retry_after))
            }
        }
    })?;

    let mut former_accounts = Vec::new();

    for generation in 0..ERASED_MAX {
        let id = oidc.user_id(&person, generation);
        match find_account(id, services) {
            AccountLookup::Active(profile) => {
                FormerAccounts(former_accounts).attach(request);
                return Ok(Identity::from_profile(*profile));
            }
            AccountLookup::Erased => former_accounts.push(id),
            AccountLookup::Missing => {
                // Open streams create no account: the account that they belonged to was erased.
                let request = request.ok_or_else(invalid_credentials)?;
                FormerAccounts(former_accounts).attach(Some(request));
                return create_account(id, person, services, request).await.map(Identity::from_profile);
            }
        }
    }
    Err(invalid_credentials())
}

/// Rounds up to seconds, at least 1, so that the client does not retry before the issuer is queried again.
fn ceil_seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// Erased accounts of a caller, oldest first. Derived from each token and never stored. Their use still counts for
/// quotas and limits.
pub struct FormerAccounts(pub Vec<UserId>);

impl FormerAccounts {
    /// Returns the erased accounts of the caller of a request.
    #[must_use]
    pub fn from_request(request: &HttpRequest) -> Vec<UserId> {
        request.extensions().get::<Self>().map(|former| former.0.clone()).unwrap_or_default()
    }

    fn attach(self, request: Option<&HttpRequest>) {
        if let Some(request) = request.filter(|_| !self.0.is_empty()) {
            request.extensions_mut().insert(self);
        }
    }
}

enum AccountLookup {
    Active(Box<UserProfile>),
    Erased,
    Missing,
}

fn find_account(id: UserId, services: &Services) -> AccountLookup {
    match services.models.read().users.find(id) {
        Some(User::Present(profile)) => AccountLookup::Active(Box::new(profile.clone())),
        Some(User::Erased(_)) => AccountLookup::Erased,
        Some(User::Absent) | None => AccountLookup::Missing,
    }
}

/// Creates an account. Concurrent requests share the account that is created first.
async fn create_account(
    id: UserId,
    person: OidcIdentity,
    services: &Services,
    request: &HttpRequest,
) -> Result<UserProfile, Problem> {
    services.space.check().map_err(Problem::disk_full)?;

    // Invalid profile fields are dropped rather than rejecting the user.
    let email = person.email.and_then(|email| Email::parse(email).ok());
    let name = person.name.and_then(|name| Name::parse(name).ok());
    let (email, name) = personal_fields::seal_new(services, id, email, name).await?;

    let new_user = NewUser { id, email, name, is_admin: false, is_approved: false };
    let command_context = CommandContext {
        actor: Actor::System,
        request: request.extensions().get::<RequestId>().cloned(),
        causation: None,
        at: services.environment.now(),
        claim: None,
    };

    match services.dispatch.user(id, UserCommand::Create(new_user), command_context).await {
        Ok(_) => tracing::info!(user = %id, "account created for OIDC user"),
        Err(CommandError::Rejected(UserRejection::AlreadyExists)) => {}
        Err(error) => return Err(error.into()),
    }

    match find_account(id, services) {
        AccountLookup::Active(profile) => Ok(*profile),
        AccountLookup::Erased | AccountLookup::Missing => Err(invalid_credentials()),
    }
}
