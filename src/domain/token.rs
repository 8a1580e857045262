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
        match event {
            TokenEvent::TokenIssued(grant) => *state = Self::Valid(grant.clone()),
        }
    }

    fn narrow(event: &Event) -> Option<&TokenEvent> {
        if let Event::Token(event) = event { Some(event) } else { None }
    }
}
