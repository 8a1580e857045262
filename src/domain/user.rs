//! Users: people and programs with an account.

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event_enum::event_enum;
use super::field_set::field_set;
use super::ids::{StreamKind, UserId};
use super::personal::PersonalValue;
use super::value::{Reason, SingleLineText, Timestamp, Transition, named_values};
use super::webhook_secret::WebhookSecrets;

/// An e-mail address as entered; only its length is validated.
pub type Email = SingleLineText<320>;

named_values! {
    /// States of a user. Only error messages contain them; the API's `User` has no status.
    UserStatus { Active = "UserStatusActive", Banned = "UserStatusBanned" }
}

field_set! {
    /// Changeable fields of a user; a command or event contains only those that change.
    UserFields { email: PersonalValue, name: PersonalValue, is_admin: bool, is_approved: bool }
}

/// Initial data of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    pub id: UserId,
    pub email: Option<PersonalValue>,
    pub name: Option<PersonalValue>,
    pub is_admin: bool,
    pub is_approved: bool,
}

/// Account that is open, perhaps banned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserProfile {
    pub id: UserId,
    pub email: Option<PersonalValue>,
    pub name: Option<PersonalValue>,
    pub is_admin: bool,
    pub is_approved: bool,
    /// Reason of the ban; `None` if not banned.
    pub ban_reason: Option<Reason>,
    pub created_at: Timestamp,
    /// Secrets that sign the user's webhooks in addition to the key of the service.
    pub webhook_secrets: WebhookSecrets,
}

/// State of a user.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum User {
    /// No user has this id.
    #[default]
    Absent,
    /// The account is open, perhaps banned.
    Present(UserProfile),
    /// The user was erased; only the id and times remain.
    Erased(Tombstone),
}

/// Remains of an erased user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub id: UserId,
    pub created_at: Timestamp,
    pub erased_at: Timestamp,
}

impl User {
    /// Returns the account if it is open.
    #[must_use]
    pub fn profile(&self) -> Option<&UserProfile> {
        if let Self::Present(profile) = self { Some(profile) } else { None }
    }
}

impl UserProfile {
    fn new(new_user: NewUser, created_at: Timestamp) -> Self {
        let NewUser { id, email, name, is_admin, is_approved } = new_user;
        let webhook_secrets = WebhookSecrets::default();
        Self { id, email, name, is_admin, is_approved, ban_reason: None, created_at, webhook_secrets }
    }

    /// Returns `Banned` or `Active`.
    #[must_use]
    pub fn status(&self) -> UserStatus {
        if self.ban_reason.is_some() { UserStatus::Banned } else { UserStatus::Active }
    }

    fn fields(&self) -> UserFields {
        UserFields {
            email: self.email.clone(),
            name: self.name.clone(),
            is_admin: Some(self.is_admin),
            is_approved: Some(self.is_approved),
        }
    }
}

/// Commands of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCommand {
    /// Opens an account.
    Create(NewUser),
    /// Changes the fields that are present.
    Revise { change: UserFields },
    /// Bans the user.
    Ban { reason: Reason },
    /// Lifts the ban.
    Unban { reason: Reason },
    /// Erases the user permanently. Idempotent.
    Erase,
    /// Replaces the current webhook secret.
    RotateWebhookSecret { secret: PersonalValue },
    /// Revokes all webhook secrets immediately. Idempotent.
    RevokeWebhookSecrets,
}

event_enum! {
    /// Events of a user.
    UserEvent {
        /// The account was opened.
        UserCreated(NewUser),
        /// Some fields changed.
        UserRevised { change: UserFields },
        /// The user was banned: write access ends.
        UserBanned { reason: Reason },
        /// The ban was lifted.
        UserUnbanned { reason: Reason },
        /// The user was erased. The key of the personal fields is destroyed afterwards; no event follows.
        UserErased,
        /// The secret signs all webhooks from now on; the previous one stays valid for another day.
        WebhookSecretRotated { secret: PersonalValue },
        /// All webhook secrets of the user were revoked.
        WebhookSecretsRevoked,
    }
}

/// Reason why a command on a user was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRejection {
    /// The id is taken.
    AlreadyExists,
    /// No user has this id.
    NotFound,
    /// The user is already banned, or is not banned.
    IllegalTransition(Transition),
    /// The user was erased permanently.
    Erased,
    /// The maximum number of replaced secrets is still valid; the first one expires at `until`.
    TooManySecrets { until: Timestamp },
}

impl Decider for User {
    const KIND: StreamKind = StreamKind::User;
    type State = Self;
    type Command = UserCommand;
    type Event = UserEvent;
    type Rejection = UserRejection;

    fn decide(state: &Self, command: UserCommand, now: Timestamp) -> Result<Vec<UserEvent>, UserRejection> {
        match (state, command) {
            (Self::Absent, UserCommand::Create(new_user)) => Ok(vec![UserEvent::UserCreated(new_user)]),
            (Self::Absent, _) => Err(UserRejection::NotFound),
            (Self::Present(_) | Self::Erased(_), UserCommand::Create(_)) => Err(UserRejection::AlreadyExists),
            (Self::Present(_), UserCommand::Erase) => Ok(vec![UserEvent::UserErased]),
            (Self::Erased(_), UserCommand::Erase) => Ok(Vec::new()),
            (Self::Erased(_), _) => Err(UserRejection::Erased),
            (Self::Present(user), UserCommand::Revise { change }) => {
                // Long fields are split into several events.
                let parts = change.changing(&user.fields());
                Ok(parts.into_iter().map(|change| UserEvent::UserRevised { change }).collect())
            }
            (Self::Present(user), UserCommand::Ban { reason }) => {
                user.check_transition(UserStatus::Banned)?;
                Ok(vec![UserEvent::UserBanned { reason }])
            }
            (Self::Present(user), UserCommand::Unban { reason }) => {
                user.check_transition(UserStatus::Active)?;
                Ok(vec![UserEvent::UserUnbanned { reason }])
            }
            (Self::Present(user), UserCommand::RotateWebhookSecret { secret }) => {
                match user.webhook_secrets.rotation_blocked_until(now) {
                    Some(until) => Err(UserRejection::TooManySecrets { until }),
                    None => Ok(vec![UserEvent::WebhookSecretRotated { secret }]),
                }
            }
            (Self::Present(user), UserCommand::RevokeWebhookSecrets) => {
                let has_secrets = !user.webhook_secrets.is_empty();
                Ok(has_secrets.then_some(UserEvent::WebhookSecretsRevoked).into_iter().collect())
            }
        }
    }

    fn evolve(state: &mut Self, event: &UserEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Absent, UserEvent::UserCreated(new_user)) => {
                *state = Self::Present(UserProfile::new(new_user.clone(), at));
            }
            (Self::Present(user), UserEvent::UserErased) => {
                *state = Self::Erased(Tombstone { id: user.id, created_at: user.created_at, erased_at: at });
            }
            (Self::Present(user), event) => user.evolve(event, at),
            (Self::Absent | Self::Erased(_), _) => {}
        }
    }
}

impl UserProfile {
    fn check_transition(&self, to: UserStatus) -> Result<(), UserRejection> {
        let from = self.status();
        let transition = Transition { subject: "user", from: from.as_str(), to: to.as_str() };
        if from == to { Err(UserRejection::IllegalTransition(transition)) } else { Ok(()) }
    }

    fn evolve(&mut self, event: &UserEvent, at: Timestamp) {
        match event {
            UserEvent::UserCreated(_) | UserEvent::UserErased => {}
            UserEvent::UserRevised { change } => {
                let mut revised = self.fields();
                revised.apply(change);
                self.email = revised.email;
                self.name = revised.name;
                self.is_admin = revised.is_admin.unwrap_or(self.is_admin);
                self.is_approved = revised.is_approved.unwrap_or(self.is_approved);
            }
            UserEvent::UserBanned { reason } => self.ban_reason = Some(reason.clone()),
            UserEvent::UserUnbanned { .. } => self.ban_reason = None,
            UserEvent::WebhookSecretRotated { secret } => self.webhook_secrets.rotate(secret.clone(), at),
            UserEvent::WebhookSecretsRevoked => self.webhook_secrets.revoke(),
        }
    }
}

#[cfg(test)]
mod tests;
