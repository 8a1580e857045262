//! Personal fields: encrypted before a command carries them, decrypted for responses (ADR 11).

use actix_web::web;

use crate::disk_space::DiskSpace;
use crate::domain::ids::UserId;
use crate::domain::personal::{PersonalField, PersonalValue};
use crate::domain::user::{Email, User, UserProfile};
use crate::domain::value::{Name, Text};
use crate::http::pipeline::RequestContext;
use crate::http::response::error::{Code, Problem};
use crate::http::server::Services;
use crate::pii::{KEY_BYTES, Keyring, UserKeyError};

/// `Retry-After` in seconds while a key is missing: an operator must restore it.
const RETRY_AFTER: u32 = 30;

/// Encrypted e-mail address and name.
pub type SealedContact = (Option<PersonalValue>, Option<PersonalValue>);

impl Problem {
    /// 404 for an erased user.
    #[must_use]
    pub fn user_erased() -> Self {
        Self::new(Code::NotFound, "user not found: it was erased")
    }
}

/// Returns the error for a change whose key cannot be used.
#[must_use]
pub fn key_error(failure: &UserKeyError, space: &DiskSpace) -> Problem {
    match failure {
        UserKeyError::Erased => Problem::user_erased(),
        _ if failure.is_unavailable() => Problem::files_unavailable(),
        UserKeyError::File { source, .. } => {
            space.to_disk_full(source).map_or_else(|| Problem::internal(failure), Problem::disk_full)
        }
        UserKeyError::Malformed { .. } => Problem::internal(failure),
        UserKeyError::Missing { .. } => {
            tracing::error!(%failure, "user change rejected, key missing");
            let detail = "the key of this user is missing, so name and email address can be neither read nor changed: \
                          the operator must restore it from a backup (the log of the service names the file)";
            // This status is not stored for an idempotency key, so the client can retry.
            Problem::new(Code::ReadOnly, detail).retry_after(RETRY_AFTER)
        }
    }
}

/// Encrypts personal fields. The key of the user is durable on return; it is created if the user has no encrypted
/// fields yet.
///
/// # Errors
/// If the user was erased, if the key is missing (503), or if the key file cannot be read or written.
pub async fn seal(
    call: &RequestContext,
    user: UserId,
    email: Option<Email>,
    name: Option<Name>,
) -> Result<SealedContact, Problem> {
    // Random bytes that do not follow from an idempotency key: a key that can be derived again cannot be destroyed.
    let key_bytes = may_create_key(call, user).then(|| call.shared().services.environment.random_bytes());
    seal_with(call.services(), user, key_bytes, email, name).await
}

/// Encrypts the personal fields of a new user.
///
/// # Errors
/// See [`seal`].
pub async fn seal_new(
    services: &Services,
    user: UserId,
    email: Option<Email>,
    name: Option<Name>,
) -> Result<SealedContact, Problem> {
    seal_with(services, user, Some(services.environment.random_bytes()), email, name).await
}

async fn seal_with(
    services: &Services,
    user: UserId,
    key_bytes: Option<[u8; KEY_BYTES]>,
    email: Option<Email>,
    name: Option<Name>,
) -> Result<SealedContact, Problem> {
    if email.is_none() && name.is_none() {
        return Ok((None, None));
    }

    let keyring = services.keyring.clone();
    let seal_values = move || {
        let email = email.as_ref().map(Text::as_str).map(|text| (PersonalField::Email, text));
        let name = name.as_ref().map(Text::as_str).map(|text| (PersonalField::Name, text));
        let mut sealed = keyring.seal(user, key_bytes, email.into_iter().chain(name))?.into_iter();
        // The sealed values have the order of the fields that are present.
        Ok((email.and_then(|_| sealed.next()), name.and_then(|_| sealed.next())))
    };

    let sealed = web::block(seal_values).await.map_err(Problem::internal)?;
    sealed.map_err(|failure| key_error(&failure, &services.space))
}

/// Returns `true` if the user has no encrypted fields yet, so that a key may be created.
#[must_use]
pub fn may_create_key(call: &RequestContext, user: UserId) -> bool {
    !call.services().models.read().users.get(user).is_some_and(has_sealed_fields)
}

fn has_sealed_fields(user: &UserProfile) -> bool {
    [&user.email, &user.name]
        .into_iter()
        .flatten()
        .chain(user.webhook_secrets.stored())
        .any(|value| matches!(value, PersonalValue::Sealed(_)))
}

/// Loads the keys of users, so that rendering them reads no files.
///
/// # Errors
/// If the keys are in a bucket that cannot be used.
pub async fn preload_keys<'u>(
    keyring: &Keyring,
    users: impl IntoIterator<Item = &'u UserProfile>,
) -> Result<(), Problem> {
    let missing = keyring.uncached(users.into_iter().filter(|user| has_sealed_fields(user)).map(|user| user.id));
    if !missing.is_empty() {
        let keyring = keyring.clone();
        // Fails only while the service is stopping; the keys are then read one by one.
        if let Ok(Err(_)) = web::block(move || keyring.preload(&missing)).await {
            return Err(Problem::files_unavailable());
        }
    }
    Ok(())
}

/// Loads keys for a response. A recorded change succeeds even if names are unreadable at the moment.
///
/// # Errors
/// See [`preload_keys`]; only if the request changes nothing.
pub async fn preload_keys_for_reply<'u>(
    call: &RequestContext,
    users: impl IntoIterator<Item = &'u UserProfile>,
) -> Result<(), Problem> {
    let loaded = preload_keys(&call.services().keyring, users).await;
    if call.method().is_safe() { loaded } else { Ok(()) }
}

/// Personal fields for display.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contact {
    pub email: Option<String>,
    pub name: Option<String>,
    pub erased: bool,
}

impl Contact {
    /// Decrypts the fields of a user; the e-mail address only if `with_email`.
    #[must_use]
    pub fn new(user: &User, with_email: bool, keyring: &Keyring) -> Self {
        let Some(profile) = user.profile() else {
            return Self { erased: matches!(user, User::Erased(_)), ..Self::default() };
        };
        let read =
            |field, value: Option<&PersonalValue>| value.and_then(|value| keyring.read(profile.id, field, value));
        Self {
            email: read(PersonalField::Email, profile.email.as_ref().filter(|_| with_email)),
            name: read(PersonalField::Name, profile.name.as_ref()),
            erased: keyring.is_erased(profile.id),
        }
    }
}
