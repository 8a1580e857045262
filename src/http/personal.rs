//! Personal fields on their way in and out: sealed before a command carries them, opened when they are shown (ADR 11).

use actix_web::web;

use super::error::{Code, Problem};
use super::gate::Admitted;
use super::server::Services;
use crate::domain::ids::UserId;
use crate::domain::personal::{Personal, PersonalField};
use crate::domain::user::{Email, User, UserProfile};
use crate::domain::value::{Name, Text};
use crate::personal::{KEY_BYTES, KeyFailure, Keyring};
use crate::space::Space;

/// When to come back after a key was lost, in seconds: somebody must have put it back.
const RETRY_AFTER: u32 = 30;

/// E-mail address and name as they are recorded.
pub type Sealed = (Option<Personal>, Option<Personal>);

impl Problem {
    /// The user is there no more, and never comes back.
    #[must_use]
    pub fn erased() -> Self {
        Self::new(Code::NotFound, "there is no such user any more: it was erased, which is final")
    }
}

/// How a change is refused whose key cannot be used.
#[must_use]
pub fn refusal(failure: &KeyFailure, space: &Space) -> Problem {
    match failure {
        KeyFailure::Forgotten => Problem::erased(),
        KeyFailure::File { source, .. } => {
            space.shortage(source).map_or_else(|| Problem::internal(failure), Problem::no_room)
        }
        KeyFailure::Malformed { .. } => Problem::internal(failure),
        KeyFailure::Missing { .. } => {
            tracing::error!(%failure, "a change of a user was refused");
            let detail = "the key of this user is missing, so name and e-mail address can be neither read nor changed: \
                          an operator must put the key back from a backup (the log of the service names the file)";
            // Not a refusal that is kept for an idempotency key: the request can be tried again.
            Problem::new(Code::ReadOnly, detail).retry_after(RETRY_AFTER)
        }
    }
}

/// Seals what was given; the key of the user is durable when this returns. It is made when nothing is sealed of the user yet.
///
/// # Errors
/// When the user was erased, the key was lost (503), or it cannot be read or written.
pub async fn seal(call: &Admitted, user: UserId, email: Option<Email>, name: Option<Name>) -> Result<Sealed, Problem> {
    // Never what follows from an idempotency key: what can be made again cannot be destroyed.
    let chance = is_unsealed(call, user).then(|| call.shared().services.surroundings.secret());
    seal_with(call.services(), user, chance, email, name).await
}

/// Seals what is known of a user who is to come into being.
///
/// # Errors
/// As [`seal`].
pub async fn seal_new(
    services: &Services,
    user: UserId,
    email: Option<Email>,
    name: Option<Name>,
) -> Result<Sealed, Problem> {
    seal_with(services, user, Some(services.surroundings.secret()), email, name).await
}

async fn seal_with(
    services: &Services,
    user: UserId,
    chance: Option<[u8; KEY_BYTES]>,
    email: Option<Email>,
    name: Option<Name>,
) -> Result<Sealed, Problem> {
    if email.is_none() && name.is_none() {
        return Ok((None, None));
    }
    let keyring = services.personal.clone();
    let sealing = move || {
        let email = email.as_ref().map(Text::as_str).map(|text| (PersonalField::Email, text));
        let name = name.as_ref().map(Text::as_str).map(|text| (PersonalField::Name, text));
        let mut sealed = keyring.seal(user, chance, email.into_iter().chain(name))?.into_iter();
        Ok((email.and_then(|_| sealed.next()), name.and_then(|_| sealed.next())))
    };
    let sealed = web::block(sealing).await.map_err(Problem::internal)?;
    sealed.map_err(|failure| refusal(&failure, &services.space))
}

/// Whether nothing is sealed of a user yet, so that a key may be made.
#[must_use]
pub fn is_unsealed(call: &Admitted, user: UserId) -> bool {
    !call.services().models.read().users.get(user).is_some_and(has_sealed)
}

fn has_sealed(user: &UserProfile) -> bool {
    [&user.email, &user.name]
        .into_iter()
        .flatten()
        .chain(user.webhook_secrets.kept())
        .any(|value| matches!(value, Personal::Sealed(_)))
}

/// Brings the keys of users who are to be shown into memory, so that showing them reads no files.
pub async fn ready<'u>(keyring: &Keyring, users: impl IntoIterator<Item = &'u UserProfile>) {
    let missing = keyring.missing(users.into_iter().filter(|user| has_sealed(user)).map(|user| user.id));
    if !missing.is_empty() {
        let keyring = keyring.clone();
        // Without a thread for it the service is stopping; they are read one by one then.
        let _ = web::block(move || keyring.load(&missing)).await;
    }
}

/// What can be shown of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contact {
    pub email: Option<String>,
    pub name: Option<String>,
    pub erased: bool,
}

impl Contact {
    /// Of a user; the e-mail address only for those who may see it.
    #[must_use]
    pub fn new(user: &User, with_email: bool, keyring: &Keyring) -> Self {
        let Some(profile) = user.profile() else {
            return Self { erased: matches!(user, User::Erased(_)), ..Self::default() };
        };
        let read = |field, value: Option<&Personal>| value.and_then(|value| keyring.read(profile.id, field, value));
        Self {
            email: read(PersonalField::Email, profile.email.as_ref().filter(|_| with_email)),
            name: read(PersonalField::Name, profile.name.as_ref()),
            erased: keyring.has_forgotten(profile.id),
        }
    }
}
