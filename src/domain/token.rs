//! Access tokens: what they stand for and whether they still do. The secret itself is never here, only its hash.

use super::decider::Decider;
use super::event::{Event, part_of_event};
use super::ids::{PublisherId, StreamKind, TokenId, UserId};
use super::value::{Digest, Label, Name, Timestamp};

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSubject {
    /// A user, with everything that the user may do.
    User(UserId),
    /// A publisher: nodes and versions only (contract 3). `issued_by` is the user who made it.
    Publisher { publisher: PublisherId, issued_by: UserId },
}

/// A token that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenGrant {
    pub id: TokenId,
    pub subject: TokenSubject,
    pub name: Name,
    pub description: Option<Label>,
    /// SHA-256 of the secret: enough to recognise it, useless to speak with it.
    pub secret_hash: Digest,
}

/// Why a command on a token was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRejection {
    /// The id is taken.
    AlreadyExists,
}

/// A token's life.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Token {
    /// No token has this id.
    #[default]
    Absent,
    /// The token opens what it was made for.
    Valid(TokenGrant),
}

/// What happened to a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenEvent {
    /// The token was handed out.
    TokenIssued(TokenGrant),
}

part_of_event!(TokenEvent as Token { TokenIssued });

/// What can be asked of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCommand {
    /// Hands out a token.
    Issue(TokenGrant),
}

impl Decider for Token {
    const KIND: StreamKind = StreamKind::Token;
    type State = Self;
    type Command = TokenCommand;
    type Event = TokenEvent;
    type Rejection = TokenRejection;

    fn decide(state: &Self, command: TokenCommand, _now: Timestamp) -> Result<Vec<TokenEvent>, TokenRejection> {
        match (state, command) {
            (Self::Absent, TokenCommand::Issue(grant)) => Ok(vec![TokenEvent::TokenIssued(grant)]),
            (Self::Valid(_), TokenCommand::Issue(_)) => Err(TokenRejection::AlreadyExists),
        }
    }

    fn evolve(state: &mut Self, event: &TokenEvent, _at: Timestamp) {
        if let (Self::Absent, TokenEvent::TokenIssued(grant)) = (&*state, event) {
            *state = Self::Valid(grant.clone());
        }
    }

    fn narrow(event: &Event) -> Option<&TokenEvent> {
        if let Event::Token(event) = event { Some(event) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::testing::{given_when, state_after};
    use uuid::Uuid;

    fn grant(subject: TokenSubject, secret: u8) -> TokenGrant {
        TokenGrant {
            id: TokenId(Uuid::from_u128(1)),
            subject,
            name: Name::parse("ci").unwrap(),
            description: None,
            secret_hash: Digest([secret; 32]),
        }
    }

    fn for_user(secret: u8) -> TokenGrant {
        grant(TokenSubject::User(UserId(Uuid::from_u128(2))), secret)
    }

    fn for_publisher() -> TokenGrant {
        let publisher = PublisherId::parse("acme").unwrap();
        grant(TokenSubject::Publisher { publisher, issued_by: UserId(Uuid::from_u128(2)) }, 1)
    }

    #[test]
    fn tokens_are_issued_to_users_and_publishers() {
        for grant in [for_user(1), for_publisher()] {
            let issued = vec![TokenEvent::TokenIssued(grant.clone())];
            assert_eq!(state_after::<Token>(&issued), Token::Valid(grant.clone()));
            assert_eq!(given_when::<Token>(&[], TokenCommand::Issue(grant)), Ok(issued));
        }
    }

    #[test]
    fn an_id_is_given_once() {
        let answer = given_when::<Token>(&[TokenEvent::TokenIssued(for_user(1))], TokenCommand::Issue(for_user(2)));
        assert_eq!(answer, Err(TokenRejection::AlreadyExists));
    }

    #[test]
    fn a_second_issue_in_a_history_does_not_change_what_the_token_opens() {
        let history = [TokenEvent::TokenIssued(for_user(1)), TokenEvent::TokenIssued(for_user(2))];
        assert_eq!(state_after::<Token>(&history), Token::Valid(for_user(1)));
    }

    #[test]
    fn events_are_told_apart_from_those_of_other_kinds() {
        let event = Event::from(TokenEvent::TokenIssued(for_user(1)));
        assert_eq!(event.name(), "TokenIssued");
        assert!(Token::narrow(&event).is_some());
        assert!(crate::domain::user::User::narrow(&event).is_none());
    }
}
