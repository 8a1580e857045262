//! Authentication and authorization: tokens, and the role of their holder towards a resource (contract 3).

use actix_web::HttpRequest;
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use serde_json::Value;
use subtle::ConstantTimeEq;

use crate::actors::Actor;
use crate::domain::bearer_secret;
use crate::domain::ids::{PublisherId, TokenId, UserId};
use crate::domain::policy::{Action, CallerRole};
use crate::domain::publisher::{MemberRole, PublisherProfile};
use crate::domain::token::{TokenLimits, TokenRecord, TokenSubject};
use crate::domain::user::{User, UserProfile};
use crate::domain::value::Reason;
use crate::http::api::sign_in::sign_in;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;
use crate::oidc::OidcAuthenticator;
use crate::projections::read_models::Models;

/// Authenticated caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A request without credentials.
    Anonymous,
    /// A user, authenticated by a user token, the bootstrap token or a token of the issuer. `token` is the id of the
    /// user token; the other two have neither an id nor limits.
    User { profile: UserProfile, token: Option<TokenId>, limits: TokenLimits },
    /// A personal access token of a publisher. `ban` is that of the publisher or of the user who issued the token.
    Token { id: TokenId, publisher: PublisherId, issued_by: UserId, ban: Option<Reason>, limits: TokenLimits },
}

impl Identity {
    /// Returns the identity of a user without a token of this service.
    #[must_use]
    pub const fn from_profile(profile: UserProfile) -> Self {
        Self::User { profile, token: None, limits: TokenLimits::NONE }
    }

    /// Returns the actor of the events of the request.
    #[must_use]
    pub fn actor(&self) -> Option<Actor> {
        match self {
            Self::Anonymous => None,
            Self::User { profile, .. } => Some(Actor::User(profile.id)),
            Self::Token { id, .. } => Some(Actor::Token(*id)),
        }
    }

    /// Returns the user; `None` for publisher tokens and anonymous callers.
    #[must_use]
    pub fn user(&self) -> Option<&UserProfile> {
        if let Self::User { profile, .. } = self { Some(profile) } else { None }
    }

    /// Returns the token of a user who authenticated with one.
    #[must_use]
    pub fn user_token(&self) -> Option<TokenId> {
        if let Self::User { token, .. } = self { *token } else { None }
    }

    /// Returns the limits of the token that the caller authenticated with.
    #[must_use]
    pub const fn limits(&self) -> TokenLimits {
        match self {
            Self::Anonymous => TokenLimits::NONE,
            Self::User { limits, .. } | Self::Token { limits, .. } => *limits,
        }
    }

    /// Returns `true` for administrators.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.user().is_some_and(|profile| profile.is_admin)
    }

    /// Returns the reason of the ban, if the caller is banned.
    #[must_use]
    pub fn ban(&self) -> Option<&Reason> {
        match self {
            Self::Anonymous => None,
            Self::User { profile, .. } => profile.ban_reason.as_ref(),
            Self::Token { ban, .. } => ban.as_ref(),
        }
    }

    /// Returns the role towards a publisher, or towards the service if no publisher is involved.
    #[must_use]
    pub fn role(&self, publisher: Option<&PublisherProfile>) -> CallerRole {
        match self {
            Self::Anonymous => CallerRole::Anonymous,
            Self::User { profile, .. } if profile.is_admin => CallerRole::Admin,
            Self::User { profile, .. } => match publisher.and_then(|publisher| publisher.role_of(profile.id)) {
                Some(MemberRole::Owner) => CallerRole::Owner,
                Some(MemberRole::Member) => CallerRole::Member,
                None => CallerRole::User,
            },
            Self::Token { publisher: token_publisher, .. }
                if publisher.is_some_and(|requested| requested.id == *token_publisher) =>
            {
                CallerRole::OwnToken
            }
            Self::Token { .. } => CallerRole::OtherToken,
        }
    }

    /// Returns `true` for members and tokens of the publisher, and for administrators.
    #[must_use]
    pub fn is_insider_of(&self, publisher: Option<&PublisherProfile>) -> bool {
        let role = self.role(publisher);
        matches!(role, CallerRole::Member | CallerRole::Owner | CallerRole::OwnToken | CallerRole::Admin)
    }
}

/// Header that carries a token like `Authorization`, without a scheme.
pub static X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Returns the token of `Authorization` or `X-API-KEY`; `None` without these headers.
///
/// # Errors
/// If a header holds anything but one token, or the two headers hold different tokens.
pub fn presented_token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    match (bearer_token(headers)?, api_key(headers)?) {
        (Some(bearer), Some(key)) if bearer != key => Err(Problem::unauthorized(
            "Authorization and X-API-KEY contain different tokens; send one of them",
            "Bearer error=\"invalid_token\"",
        )),
        (bearer, key) => Ok(bearer.or(key)),
    }
}

fn api_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&X_API_KEY);
    let Some(value) = values.next() else { return Ok(None) };

    let token = value.to_str().ok().map(str::trim).filter(|_| values.next().is_none());
    match token.filter(|token| !token.is_empty() && !token.contains(char::is_whitespace)) {
        Some(token) => Ok(Some(token)),
        None => Err(Problem::unauthorized("the X-API-KEY header must be one token", "Bearer error=\"invalid_token\"")),
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION);
    let Some(value) = values.next() else { return Ok(None) };

    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let token = text.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));

    match token.map(|(_, token)| token.trim()) {
        Some(token) if !token.is_empty() && !token.contains(char::is_whitespace) => Ok(Some(token)),
        _ => Err(Problem::unauthorized(
            "the Authorization header must be `Bearer` and one token",
            "Bearer error=\"invalid_token\"",
        )),
    }
}

/// Resolves a secret to its owner. The bootstrap token may have any format, so it is compared first, in constant time.
/// A valid token of the issuer creates an account on first use, recorded with the metadata of `request`; without
/// `request` it creates none.
///
/// # Errors
/// If the secret is unknown, or cannot be checked at the moment.
pub async fn authenticate(
    secret: &str,
    services: &Services,
    request: Option<&HttpRequest>,
) -> Result<Identity, Problem> {
    let admin = &services.auth.admin;
    if bool::from(bearer_secret::hash(secret).0.ct_eq(&admin.secret_hash.0)) {
        let models = services.models.read();
        return Ok(Identity::from_profile(existing_profile(admin.user, &models)?));
    }

    match &services.auth.oidc {
        // Boxed to keep the future of all other requests small.
        Some(oidc) if OidcAuthenticator::looks_like_jwt(secret) => {
            Box::pin(sign_in(secret, oidc, services, request)).await
        }
        _ => authenticate_secret(secret, services),
    }
}

/// Resolves the publisher token in a body. User tokens are rejected there, because more tools log and store bodies than
/// headers.
///
/// # Errors
/// If the secret is unknown or belongs to a user.
pub fn authenticate_publisher_token(secret: &str, services: &Services) -> Result<Identity, Problem> {
    match authenticate_secret(secret, services)? {
        token @ Identity::Token { .. } => Ok(token),
        Identity::Anonymous | Identity::User { .. } => Err(invalid_credentials()),
    }
}

/// Rejects an invalid token in the body. A caller authenticated by a header needs no token there, but an invalid token
/// is still an error.
///
/// # Errors
/// If the token is not a publisher token.
pub fn check_body_token(body: &Value, services: &Services) -> Result<(), Problem> {
    let token = body.get("personal_access_token").and_then(Value::as_str).map(str::trim);
    match token.filter(|secret| !secret.is_empty()) {
        Some(secret) => authenticate_publisher_token(secret, services).map(drop),
        None => Ok(()),
    }
}

/// Resolves a secret issued by this service to its owner and counts the use of the token.
fn authenticate_secret(secret: &str, services: &Services) -> Result<Identity, Problem> {
    if bearer_secret::parse_kind(secret).is_none() {
        return Err(invalid_credentials());
    }

    let models = services.models.read();
    let token = models.tokens.by_secret(&bearer_secret::hash(secret)).ok_or_else(invalid_credentials)?;
    let now = services.environment.now();
    if token.limits.is_expired(now) {
        return Err(Problem::unauthorized("the token has expired", "Bearer error=\"invalid_token\""));
    }
    services.registry.usage_counters.count_token_use(token, now);
    identity_of_token(token, &models)
}

/// Resolves a token that was not revoked to its owner, even if it has expired.
///
/// # Errors
/// If the owner no longer exists.
pub fn identity_of_token(token: &TokenRecord, models: &Models) -> Result<Identity, Problem> {
    let TokenRecord { grant, limits, .. } = token;
    match &grant.subject {
        TokenSubject::User(id) => {
            let profile = existing_profile(*id, models)?;
            Ok(Identity::User { profile, token: Some(grant.id), limits: *limits })
        }
        TokenSubject::Publisher { publisher, issued_by } => {
            // Tokens of deleted publishers are invalid.
            let profile = models.publishers.get(publisher).ok_or_else(invalid_credentials)?;

            let issuer = match models.users.find(*issued_by) {
                // The issuer was erased: no user is responsible for the token now.
                Some(User::Erased(_)) => return Err(invalid_credentials()),
                issuer => issuer.and_then(User::profile),
            };

            let ban = profile.ban_reason.as_ref().or(issuer.and_then(|user| user.ban_reason.as_ref())).cloned();
            Ok(Identity::Token {
                id: grant.id,
                publisher: publisher.clone(),
                issued_by: *issued_by,
                ban,
                limits: *limits,
            })
        }
    }
}

fn existing_profile(id: UserId, models: &Models) -> Result<UserProfile, Problem> {
    models.users.get(id).cloned().ok_or_else(invalid_credentials)
}

/// Checks that a caller may perform an action on a publisher, or on the service if no publisher is involved. Read-only
/// tokens and banned callers may change nothing, and only administrators may change a banned publisher.
///
/// # Errors
/// 401 if an anonymous caller needs credentials; otherwise 403, with the reason if it is a ban.
pub fn permit(action: Action, caller: &Identity, publisher: Option<&PublisherProfile>) -> Result<(), Problem> {
    permit_read(action, caller, publisher)?;
    if !action.is_write() {
        return Ok(());
    }

    if !caller.limits().scope.allows(action) {
        let message = format!("this token is read-only: it may not {}", action.as_str());
        return Err(Problem::new(Code::Forbidden, message));
    }

    if let Some(reason) = caller.ban() {
        let kind = if caller.user().is_some() { "account" } else { "token" };
        return Err(Problem::banned(kind, Some(reason)));
    }

    match publisher.and_then(|publisher| publisher.ban_reason.as_ref()) {
        Some(reason) if !caller.is_admin() => Err(Problem::banned("publisher", Some(reason))),
        _ => Ok(()),
    }
}

/// Like [`permit`], but ignores bans and the scope of the token, for requests that only read.
///
/// # Errors
/// 401 if an anonymous caller needs credentials; otherwise 403.
pub fn permit_read(action: Action, caller: &Identity, publisher: Option<&PublisherProfile>) -> Result<(), Problem> {
    if action.allows(caller.role(publisher)) {
        return Ok(());
    }
    Err(match caller {
        Identity::Anonymous => missing_credentials(),
        _ => Problem::new(Code::Forbidden, format!("these credentials may not {}", action.as_str())),
    })
}

/// Checks that a user may submit tasks.
///
/// # Errors
/// 403 if the service requires approved accounts and the account is not approved.
pub fn require_approval(user: &UserProfile, services: &Services) -> Result<(), Problem> {
    if !services.options.require_approval || user.is_approved || user.is_admin {
        return Ok(());
    }
    Err(Problem::new(Code::ApprovalRequired, "this account must be approved by an administrator first"))
}

/// 401 for a request without the required credentials.
#[must_use]
pub fn missing_credentials() -> Problem {
    Problem::unauthorized("a token is required, as `Authorization: Bearer <token>` or `X-API-KEY: <token>`", "Bearer")
}

/// 401 for invalid credentials.
#[must_use]
pub fn invalid_credentials() -> Problem {
    Problem::unauthorized("the token is invalid, expired or revoked", "Bearer error=\"invalid_token\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::publisher::{PublisherFields, PublisherStatus};
    use crate::domain::value::Timestamp;
    use crate::domain::webhook_secret::WebhookSecrets;
    use actix_web::http::header::HeaderValue;
    use uuid::Uuid;

    fn bearer_of(values: &[&'static str]) -> Result<Option<String>, ()> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        bearer_token(&headers).map(|token| token.map(str::to_owned)).map_err(|_| ())
    }

    #[test]
    fn the_scheme_is_case_insensitive() {
        for good in ["Bearer abc", "bearer abc", "BEARER   abc "] {
            assert_eq!(bearer_of(&[good]), Ok(Some("abc".to_owned())), "{good}");
        }
        assert_eq!(bearer_of(&[]), Ok(None));
    }

    #[test]
    fn other_authorization_headers_are_rejected() {
        for bad in ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearer a b", "Bearer\tabc"] {
            assert_eq!(bearer_of(&[bad]), Err(()), "{bad}");
        }
        assert_eq!(bearer_of(&["Bearer a", "Bearer a"]), Err(()));
    }

    #[test]
    fn a_token_may_be_sent_as_an_api_key() {
        let presented = |pairs: &[(&HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append((*name).clone(), HeaderValue::from_static(value));
            }
            presented_token(&headers).map(|token| token.map(str::to_owned)).map_err(|_| ())
        };

        assert_eq!(presented(&[(&X_API_KEY, "abc")]), Ok(Some("abc".to_owned())));
        assert_eq!(presented(&[(&AUTHORIZATION, "Bearer abc"), (&X_API_KEY, "abc")]), Ok(Some("abc".to_owned())));
        assert_eq!(presented(&[(&AUTHORIZATION, "Bearer abc"), (&X_API_KEY, "other")]), Err(()));
        for bad in ["", " ", "Bearer abc", "a b"] {
            assert_eq!(presented(&[(&X_API_KEY, bad)]), Err(()), "{bad:?}");
        }
        assert_eq!(presented(&[(&X_API_KEY, "abc"), (&X_API_KEY, "abc")]), Err(()));
    }

    #[test]
    fn the_caller_role_depends_on_membership_and_token() {
        let person = |number: u128, is_admin| {
            let id = UserId(Uuid::from_u128(number));
            let email = None;
            let name = None;
            let ban_reason = None;
            let created_at = Timestamp::from_micros(0);
            let webhook_secrets = WebhookSecrets::default();
            let is_approved = false;
            let profile =
                UserProfile { id, email, name, is_admin, is_approved, ban_reason, created_at, webhook_secrets };
            Identity::from_profile(profile)
        };
        let token = |publisher| {
            let publisher = PublisherId::parse(publisher).unwrap();
            Identity::Token {
                id: TokenId(Uuid::nil()),
                publisher,
                issued_by: UserId(Uuid::nil()),
                ban: None,
                limits: TokenLimits::NONE,
            }
        };
        let member_entry = |number: u128, role| (UserId(Uuid::from_u128(number)), role);
        let acme = PublisherProfile {
            id: PublisherId::parse("acme").unwrap(),
            fields: PublisherFields::default(),
            members: vec![member_entry(1, MemberRole::Owner), member_entry(2, MemberRole::Member)],
            created_at: Timestamp::from_micros(0),
            status: PublisherStatus::Active,
            ban_reason: None,
            webhooks: Vec::new(),
        };

        let [owner, member, outsider] = [1, 2, 3].map(|number| person(number, false));
        let admin = person(3, true);
        let roles = [owner, member, outsider, admin, token("acme")]
            .map(|identity| (identity.role(Some(&acme)), identity.role(None)));
        assert_eq!(
            roles,
            [
                (CallerRole::Owner, CallerRole::User),
                (CallerRole::Member, CallerRole::User),
                (CallerRole::User, CallerRole::User),
                (CallerRole::Admin, CallerRole::Admin),
                (CallerRole::OwnToken, CallerRole::OtherToken),
            ]
        );
        assert_eq!(token("other").role(Some(&acme)), CallerRole::OtherToken);
        assert_eq!(Identity::Anonymous.role(Some(&acme)), CallerRole::Anonymous);
    }
}
