//! Envelopes of events: position, time, actor and cause.

use std::fmt;
use std::sync::Arc;

use super::guard::Guard;
use super::stream::{Position, StreamId, Version};
use crate::domain::claim::IdempotencyClaim;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, RequestId, TokenId, UserId};
use crate::domain::value::Timestamp;

/// The actor that caused an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The service itself: startup and reactors.
    System,
    /// A user, authenticated by a user token or the bootstrap token.
    User(UserId),
    /// A publisher's personal access token.
    Token(TokenId),
    /// A caller without credentials, where none are required.
    Anonymous,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Anonymous => f.write_str("anonymous"),
            Self::User(id) => write!(f, "user/{id}"),
            Self::Token(id) => write!(f, "token/{id}"),
        }
    }
}

/// Metadata of a command, shared by all its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandContext {
    pub actor: Actor,
    /// The request that carried the command; `None` for reactors.
    pub request: Option<RequestId>,
    /// The event that the command reacts to; `None` for requests.
    pub causation: Option<EventId>,
    pub at: Timestamp,
    /// The idempotency key that is recorded with the command; `None` for requests without one and for reactors.
    pub claim: Option<CommandClaim>,
}

/// The idempotency key of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandClaim {
    pub claim: IdempotencyClaim,
    /// Time of the first run of the request. If the key was claimed at another time, another node runs the request.
    pub first_run_at: Timestamp,
}

impl CommandContext {
    /// Creates the metadata of a command of the service itself. `causation` is the event that it reacts to.
    #[must_use]
    pub fn from_system(causation: Option<EventId>, at: Timestamp) -> Self {
        Self { actor: Actor::System, request: None, causation, at, claim: None }
    }
}

/// An event that is not recorded yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub id: EventId,
    pub event: Event,
}

/// The events of one command for one stream, recorded atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    pub stream: StreamId,
    /// The version that the stream must have now.
    pub expected: Version,
    pub context: CommandContext,
    /// New events, at least one.
    pub events: Vec<NewEvent>,
    /// State outside of the stream that the decision depends on. Only a shared log checks it.
    pub guards: Vec<Guard>,
}

/// An event in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    pub position: Position,
    pub stream: StreamId,
    /// The version of the stream after this event.
    pub version: Version,
    pub id: EventId,
    pub at: Timestamp,
    pub actor: Actor,
    pub request: Option<RequestId>,
    pub causation: Option<EventId>,
    pub event: Event,
}

/// The recorded events of one command, in order; never empty.
pub type Commit = Arc<[RecordedEvent]>;

/// A commit with the payload of its record in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedCommit {
    pub commit: Commit,
    pub payload: Vec<u8>,
}

impl Append {
    /// Converts the append to recorded events, of which the first follows position `head`.
    #[must_use]
    pub fn into_commit(self, head: Position) -> Commit {
        let Self { stream, expected, context, events, guards: _ } = self;

        let recorded = (1..).zip(events).map(|(offset, NewEvent { id, event })| RecordedEvent {
            position: Position(head.0 + offset),
            stream: stream.clone(),
            version: Version(expected.0 + offset),
            id,
            at: context.at,
            actor: context.actor,
            request: context.request.clone(),
            causation: context.causation,
            event,
        });
        recorded.collect()
    }
}
