//! Users: people and programs with an account.

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{StreamKind, UserId};
use super::value::{Name, Text, Timestamp};

/// An e-mail address; kept as it was given, checked only for length.
pub type Email = Text<320>;

/// Why a command on a user was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserRejection {
    /// The id is taken.
    AlreadyExists,
}

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserProfile {
    pub id: UserId,
    pub email: Option<Email>,
    pub name: Option<Name>,
    pub is_admin: bool,
    pub is_approved: bool,
}

/// A user's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum User {
    /// Nobody has this id yet.
    #[default]
    Absent,
    /// The account is open.
    Present(UserProfile),
}

/// What happened to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserEvent {
    /// The account was opened.
    UserCreated(UserProfile),
}

part_of_event!(UserEvent as User { UserCreated });

/// What can be asked of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCommand {
    /// Opens an account.
    Create(UserProfile),
}

impl Decider for User {
    const KIND: StreamKind = StreamKind::User;
    type State = Self;
    type Command = UserCommand;
    type Event = UserEvent;
    type Rejection = UserRejection;

    fn decide(state: &Self, command: UserCommand, _now: Timestamp) -> Result<Vec<UserEvent>, UserRejection> {
        match (state, command) {
            (Self::Absent, UserCommand::Create(profile)) => Ok(vec![UserEvent::UserCreated(profile)]),
            (Self::Present(_), UserCommand::Create(_)) => Err(UserRejection::AlreadyExists),
        }
    }

    fn evolve(state: &mut Self, event: &UserEvent, _at: Timestamp) {
        match event {
            UserEvent::UserCreated(profile) => *state = Self::Present(profile.clone()),
        }
    }

    fn narrow(event: &Event) -> Option<&UserEvent> {
        if let Event::User(event) = event { Some(event) } else { None }
    }
}
