//! Access tokens: issue, list and revoke. Only the response to the request that issues a token contains the secret.

use serde::Serialize;

use crate::domain::bearer_secret::{self, SecretKind};
use crate::domain::ids::{TokenId, UserId};
use crate::domain::policy::{Action, TokenScope};
use crate::domain::token::{TokenCommand, TokenGrant, TokenLimits, TokenRecord, TokenSubject};
use crate::domain::value::{Label, Name, Timestamp};
use crate::http::auth::authorize;
use crate::http::pipeline::{Call, RequestContext};
use crate::http::request::fields::FieldError;
use crate::http::request::json_object::json_object;
use crate::http::request::json_value::NotBlank;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::{Code, Problem};

/// Maximum number of tokens that users create for themselves. Administrators can issue more.
const USER_TOKENS_MAX: usize = 100;

/// Token that was just issued.
pub struct IssuedToken {
    pub grant: TokenGrant,
    pub limits: TokenLimits,
    /// Secret that the bearer presents.
    pub secret: String,
    pub at: Timestamp,
}

/// `PersonalAccessToken` of the API, with the secret.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IssuedTokenView {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    created_at: String,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    token: String,
}

impl IssuedTokenView {
    /// Renders the token with its secret, which is shown only once.
    #[must_use]
    pub fn new(issued: &IssuedToken) -> Self {
        Self {
            id: issued.grant.id.to_string(),
            name: issued.grant.name.to_string(),
            description: issued.grant.description.as_ref().map(ToString::to_string),
            created_at: issued.at.to_string(),
            scope: issued.limits.scope.as_str(),
            expires_at: issued.limits.expires_at.map(|at| at.to_string()),
            token: issued.secret.clone(),
        }
    }
}

/// `PersonalAccessToken` of the API in lists. The secret is not stored, so the mask shows only the prefix.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTokenView {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<String>,
    scope: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Id of the token that authenticated the request for this token.
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_with: Option<String>,
    token: String,
}

impl ListedTokenView {
    /// Renders the token without its secret.
    #[must_use]
    pub fn new(record: &TokenRecord) -> Self {
        let TokenRecord { grant, limits, issued_with, issued_at, last_used_at, .. } = record;
        Self {
            id: grant.id.to_string(),
            name: grant.name.to_string(),
            description: grant.description.as_ref().map(ToString::to_string),
            created_at: issued_at.to_string(),
            last_used_at: last_used_at.map(|at| at.to_string()),
            scope: limits.scope.as_str(),
            expires_at: limits.expires_at.map(|at| at.to_string()),
            issued_with: issued_with.map(|id| id.to_string()),
            token: format!("{}********", secret_kind(&grant.subject).prefix()),
        }
    }
}

#[derive(Serialize)]
struct TokenSecretView {
    token: String,
}

/// `POST /publishers/{publisherId}/tokens`: issues a personal access token of the publisher.
pub async fn issue(mut call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<ApiResponse, Problem> {
    let body = call.json_object().await?;
    let subject = TokenSubject::Publisher { publisher: call.publisher()?.id.clone(), issued_by: call.user()?.id };
    let issued = issue_token(&call, body, subject).await?;
    ApiResponse::created(&TokenSecretView { token: issued.secret })
}

/// `GET /publishers/{publisherId}/tokens`: the tokens that were not revoked, oldest first.
pub async fn list(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<ApiResponse, Problem> {
    let publisher = &call.publisher()?.id;
    let tokens: Vec<_> = {
        let models = call.services().models.read();
        // Tokens issued by an erased user are invalid.
        let is_valid = |token: &&TokenRecord| authorize::identity_of_token(token, &models).is_ok();
        models.tokens.for_publisher(publisher).filter(is_valid).map(ListedTokenView::new).collect()
    };
    ApiResponse::ok(&tokens)
}

/// `DELETE /publishers/{publisherId}/tokens/{tokenId}`: effective from the next request.
pub async fn revoke(call: Call<{ Action::ManagePublisherTokens as u8 }>) -> Result<ApiResponse, Problem> {
    let publisher_id = &call.publisher()?.id;
    revoke_token(
        &call,
        |subject| matches!(subject, TokenSubject::Publisher { publisher, .. } if publisher == publisher_id),
    )
    .await
}

/// `POST /users/tokens`: issues a token for the caller.
pub async fn issue_own(mut call: Call<{ Action::ManageOwnTokens as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?.id;
    let body = call.json_object().await?;
    let now = call.services().environment.now();
    let is_valid = |token: &&TokenRecord| !token.limits.is_expired(now);
    if call.services().models.read().tokens.for_user(user).filter(is_valid).count() >= USER_TOKENS_MAX {
        let message = format!("the account has {USER_TOKENS_MAX} tokens, the maximum: revoke one first");
        return Err(Problem::new(Code::Conflict, message));
    }
    let issued = issue_token(&call, body, TokenSubject::User(user)).await?;
    ApiResponse::created(&IssuedTokenView::new(&issued))
}

/// `GET /users/tokens`: the caller's tokens that were not revoked, oldest first.
pub async fn list_own(call: Call<{ Action::ManageOwnTokens as u8 }>) -> Result<ApiResponse, Problem> {
    list_user_tokens(&call, call.user()?.id)
}

/// `DELETE /users/tokens/{tokenId}`: effective from the next request.
pub async fn revoke_own(call: Call<{ Action::ManageOwnTokens as u8 }>) -> Result<ApiResponse, Problem> {
    let user = call.user()?.id;
    revoke_token(&call, |subject| *subject == TokenSubject::User(user)).await
}

/// Responds with the tokens of a user that were not revoked, oldest first.
///
/// # Errors
/// An internal error if the response cannot be serialized.
pub fn list_user_tokens(call: &RequestContext, user: UserId) -> Result<ApiResponse, Problem> {
    let tokens: Vec<_> = call.services().models.read().tokens.for_user(user).map(ListedTokenView::new).collect();
    ApiResponse::ok(&tokens)
}

/// Revokes the token of the path.
///
/// # Errors
/// 404 if there is no such token, or `is_owned` returns `false` for its subject.
pub async fn revoke_token(
    call: &RequestContext,
    is_owned: impl FnOnce(&TokenSubject) -> bool,
) -> Result<ApiResponse, Problem> {
    let not_found = || Problem::not_found("token");
    let id = TokenId::parse(&call.path_param("tokenId")).map_err(|_| not_found())?;
    let services = call.services();
    let exists = services.models.read().tokens.get(id).is_some_and(|record| is_owned(&record.grant.subject));
    if !exists {
        return Err(not_found());
    }
    services.dispatch.token(id, TokenCommand::Revoke, call.command_context()).await?;
    Ok(ApiResponse::no_content())
}

fn secret_kind(subject: &TokenSubject) -> SecretKind {
    match subject {
        TokenSubject::User(_) => SecretKind::User,
        TokenSubject::Publisher { .. } => SecretKind::Publisher,
    }
}

json_object! {
    pub struct TokenBody {
        /// Name that identifies the token to its owner; not blank.
        name: NotBlank<Name>,
        /// Intended use of the token.
        description: Option<Label>,
        /// `read_only` for a token that can change nothing.
        scope: TokenScope = TokenScope::All,
        /// Time from which the token is rejected. A token without it is valid until it is revoked.
        #[name("expiresAt")]
        expires_at: Option<Timestamp>,
    }
}

/// Issues a token for `subject`.
///
/// # Errors
/// 400 if the token would have expired already, or outlast the token of the request; any error of the command.
pub async fn issue_token(
    call: &RequestContext,
    body: TokenBody,
    subject: TokenSubject,
) -> Result<IssuedToken, Problem> {
    let TokenBody { name: NotBlank(name), description, scope, expires_at } = body;
    let limits = TokenLimits { scope, expires_at };
    check_limits(call, &limits)?;

    // A token of a publisher records the user who issued it instead.
    let is_for_user = matches!(subject, TokenSubject::User(_));
    let issued_with = call.identity().user_token().filter(|_| is_for_user);

    let services = call.services();
    let secret = bearer_secret::mint(secret_kind(&subject), services.environment.random_bytes());
    let id = TokenId(services.environment.uuid());
    let grant = TokenGrant { id, subject, name, description, secret_hash: bearer_secret::hash(&secret) };
    let command = TokenCommand::Issue { grant: grant.clone(), limits, issued_with };
    services.dispatch.token(id, command, call.command_context()).await?;

    // Use the recorded time, because a repeated request is later than its token.
    let at = services.models.read().tokens.get(id).map(|token| token.issued_at);
    let at = at.ok_or_else(|| Problem::not_found("token"))?;
    Ok(IssuedToken { grant, limits, secret, at })
}

/// Checks that a new token has not expired, and does not outlast the token of the request. The scope needs no check:
/// only a token with all permissions can create another.
fn check_limits(call: &RequestContext, limits: &TokenLimits) -> Result<(), Problem> {
    let now = call.services().environment.now();
    let own = call.identity().limits();
    let reason = match own.expires_at {
        _ if limits.is_expired(now) => format!("must be after {now}, the current time"),
        Some(end) if !own.outlasts(limits) => format!("must be at most {end}, when the token of this request expires"),
        _ => return Ok(()),
    };
    Err(Problem::invalid(vec![FieldError::new("/expiresAt", reason)]))
}
