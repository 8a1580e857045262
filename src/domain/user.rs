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
        if let (Self::Absent, UserEvent::UserCreated(profile)) = (&*state, event) {
            *state = Self::Present(profile.clone());
        }
    }

    fn narrow(event: &Event) -> Option<&UserEvent> {
        if let Event::User(event) = event { Some(event) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::{given_when, state_after};
    use uuid::Uuid;

    fn profile(email: &str) -> UserProfile {
        UserProfile {
            id: UserId(Uuid::from_u128(1)),
            email: Some(Email::recorded(email.to_owned())),
            name: None,
            is_admin: false,
            is_approved: true,
        }
    }

    fn created(email: &str) -> UserEvent {
        UserEvent::UserCreated(profile(email))
    }

    #[test]
    fn an_account_is_opened_as_asked() {
        let answer = given_when::<User>(&[], UserCommand::Create(profile("a@example.org")));
        assert_eq!(answer, Ok(vec![created("a@example.org")]));
        assert_eq!(state_after::<User>(&[created("a@example.org")]), User::Present(profile("a@example.org")));
    }

    #[test]
    fn an_id_is_given_once() {
        let answer = given_when::<User>(&[created("a@example.org")], UserCommand::Create(profile("b@example.org")));
        assert_eq!(answer, Err(UserRejection::AlreadyExists));
    }

    #[test]
    fn a_second_creation_in_a_history_changes_nothing() {
        let state = state_after::<User>(&[created("a@example.org"), created("b@example.org")]);
        assert_eq!(state, User::Present(profile("a@example.org")));
    }

    #[test]
    fn events_are_told_apart_from_those_of_other_kinds() {
        let event = Event::from(created("a@example.org"));
        assert_eq!((User::narrow(&event), event.name()), (Some(&created("a@example.org")), "UserCreated"));
        assert_eq!(crate::domain::token::Token::narrow(&event), None);
    }
}
