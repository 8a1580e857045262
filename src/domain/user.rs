//! Users: people and programs with an account.

use serde::{Deserialize, Serialize};

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::field_set::field_set;
use super::ids::{StreamKind, UserId};
use super::personal::Personal;
use super::value::{Line, Reason, Timestamp, Transition, named_values};
use super::webhook_secret::WebhookSecrets;

/// An e-mail address; kept as it was given, checked only for length.
pub type Email = Line<320>;

named_values! {
    /// The states of a user. They show in refusals only: the seed's `User` has no status.
    UserStatus { Active = "UserStatusActive", Banned = "UserStatusBanned" }
}

field_set! {
    /// What can be changed of a user; in a command and an event only what is present changes.
    UserFields { email: Personal, name: Personal, is_admin: bool, is_approved: bool }
}

/// Why a command on a user was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRejection {
    /// The id is taken.
    AlreadyExists,
    /// No user has this id.
    NotFound,
    /// The user is banned already, or is not banned.
    IllegalTransition(Transition),
    /// The user was erased, which is final.
    Erased,
    /// As many replaced secrets as there may be still sign; the first of them ends then.
    TooManySecrets { until: Timestamp },
}

/// An account as it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOpening {
    pub id: UserId,
    pub email: Option<Personal>,
    pub name: Option<Personal>,
    pub is_admin: bool,
    pub is_approved: bool,
}

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserProfile {
    pub id: UserId,
    pub email: Option<Personal>,
    pub name: Option<Personal>,
    pub is_admin: bool,
    pub is_approved: bool,
    /// Why the user is banned, if it is.
    pub banned: Option<Reason>,
    pub created_at: Timestamp,
    /// What signs the user's callbacks besides the key of the service.
    pub webhook_secrets: WebhookSecrets,
}

/// A user's life.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum User {
    /// Nobody has this id yet.
    #[default]
    Absent,
    /// The account is open, perhaps banned.
    Present(UserProfile),
    /// The user was erased: what is left says only that somebody had this id.
    Erased(Tombstone),
}

/// What is left of a user who was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub id: UserId,
    pub created_at: Timestamp,
    pub erased_at: Timestamp,
}

/// What happened to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserEvent {
    /// The account was opened.
    UserCreated(UserOpening),
    /// Some of what is known changed.
    UserRevised { change: UserFields },
    /// The user may write no more.
    UserBanned { reason: Reason },
    /// The user may write again.
    UserUnbanned { reason: Reason },
    /// The user was erased: the key of the personal fields is destroyed after this, and nothing comes after it.
    UserErased,
    /// Callbacks are signed with this secret from now on, and for a day with the one before, too.
    WebhookSecretRotated { secret: Personal },
    /// No secret of the user signs callbacks any more.
    WebhookSecretsRevoked,
}

part_of_event!(UserEvent as User {
    UserCreated, UserRevised, UserBanned, UserUnbanned, UserErased, WebhookSecretRotated, WebhookSecretsRevoked
});

/// What can be asked of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCommand {
    /// Opens an account.
    Create(UserOpening),
    /// Changes what is present.
    Revise { change: UserFields },
    /// Bans the user.
    Ban { reason: Reason },
    /// Takes the ban back.
    Unban { reason: Reason },
    /// Erases the user, for good. Fine when that was done before.
    Erase,
    /// Puts a secret for callbacks in use.
    RotateWebhookSecret { secret: Personal },
    /// Ends all secrets for callbacks at once. Fine when there is none.
    RevokeWebhookSecrets,
}

impl Decider for User {
    const KIND: StreamKind = StreamKind::User;
    type State = Self;
    type Command = UserCommand;
    type Event = UserEvent;
    type Rejection = UserRejection;

    fn decide(state: &Self, command: UserCommand, now: Timestamp) -> Result<Vec<UserEvent>, UserRejection> {
        match (state, command) {
            (Self::Absent, UserCommand::Create(opening)) => Ok(vec![UserEvent::UserCreated(opening)]),
            (Self::Absent, _) => Err(UserRejection::NotFound),
            (Self::Present(_) | Self::Erased(_), UserCommand::Create(_)) => Err(UserRejection::AlreadyExists),
            (Self::Present(_), UserCommand::Erase) => Ok(vec![UserEvent::UserErased]),
            (Self::Erased(_), UserCommand::Erase) => Ok(Vec::new()),
            (Self::Erased(_), _) => Err(UserRejection::Erased),
            (Self::Present(user), UserCommand::Revise { change }) => {
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
                match user.webhook_secrets.full_until(now) {
                    Some(until) => Err(UserRejection::TooManySecrets { until }),
                    None => Ok(vec![UserEvent::WebhookSecretRotated { secret }]),
                }
            }
            (Self::Present(user), UserCommand::RevokeWebhookSecrets) => {
                let any = !user.webhook_secrets.is_empty();
                Ok(any.then_some(UserEvent::WebhookSecretsRevoked).into_iter().collect())
            }
        }
    }

    fn evolve(state: &mut Self, event: &UserEvent, at: Timestamp) {
        match (&mut *state, event) {
            (Self::Absent, UserEvent::UserCreated(opening)) => {
                *state = Self::Present(UserProfile::new(opening.clone(), at));
            }
            (Self::Present(user), UserEvent::UserErased) => {
                *state = Self::Erased(Tombstone { id: user.id, created_at: user.created_at, erased_at: at });
            }
            (Self::Present(user), event) => user.evolve(event, at),
            (Self::Absent | Self::Erased(_), _) => {}
        }
    }

    fn narrow(event: &Event) -> Option<&UserEvent> {
        if let Event::User(event) = event { Some(event) } else { None }
    }
}

impl User {
    /// The account, if it is open.
    #[must_use]
    pub fn profile(&self) -> Option<&UserProfile> {
        if let Self::Present(profile) = self { Some(profile) } else { None }
    }
}

impl UserProfile {
    fn new(opening: UserOpening, created_at: Timestamp) -> Self {
        let UserOpening { id, email, name, is_admin, is_approved } = opening;
        let webhook_secrets = WebhookSecrets::default();
        Self { id, email, name, is_admin, is_approved, banned: None, created_at, webhook_secrets }
    }

    /// Whether the user is banned.
    #[must_use]
    pub fn status(&self) -> UserStatus {
        if self.banned.is_some() { UserStatus::Banned } else { UserStatus::Active }
    }

    fn fields(&self) -> UserFields {
        UserFields {
            email: self.email.clone(),
            name: self.name.clone(),
            is_admin: Some(self.is_admin),
            is_approved: Some(self.is_approved),
        }
    }

    fn check_transition(&self, to: UserStatus) -> Result<(), UserRejection> {
        let from = self.status();
        let transition = Transition { what: "user", from: from.as_str(), to: to.as_str() };
        if from == to { Err(UserRejection::IllegalTransition(transition)) } else { Ok(()) }
    }

    fn evolve(&mut self, event: &UserEvent, at: Timestamp) {
        match event {
            UserEvent::UserCreated(_) | UserEvent::UserErased => {}
            UserEvent::UserRevised { change } => {
                let mut revised = self.fields();
                revised.apply(change);
                (self.email, self.name) = (revised.email, revised.name);
                self.is_admin = revised.is_admin.unwrap_or(self.is_admin);
                self.is_approved = revised.is_approved.unwrap_or(self.is_approved);
            }
            UserEvent::UserBanned { reason } => self.banned = Some(reason.clone()),
            UserEvent::UserUnbanned { .. } => self.banned = None,
            UserEvent::WebhookSecretRotated { secret } => self.webhook_secrets.rotate(secret.clone(), at),
            UserEvent::WebhookSecretsRevoked => self.webhook_secrets.revoke(),
        }
    }
}

#[cfg(test)]
mod tests;
