//! Conversion of the newest stored shapes to domain values. Length limits are not checked again, because they may have
//! been lowered since. A name or identifier that no release recorded is an error, never a panic.

use std::borrow::Cow;

use uuid::Uuid;

use super::{CommitDecodeError, v1, v2};
use crate::domain::claim::{ClaimEvent, IdempotencyClaim};
use crate::domain::event::Event;
use crate::domain::ids::{EventId, RequestId, TokenId, UserId};
use crate::domain::value::{Digest, InvalidValue, Labels, Link, Text, Timestamp};
use crate::events::envelope::{Actor, Commit, RecordedEvent};
use crate::events::stream::{Position, StreamId, Version};

mod image;
mod media;
mod node;
mod registry;
mod video;

/// Converts a stored commit.
///
/// # Errors
/// If the commit has no events, or contains an unknown name.
pub fn commit(stored: v2::CommitV2<'_>) -> Result<Commit, CommitDecodeError> {
    let stream = StreamId::parse(&stored.stream).ok_or_else(|| CommitDecodeError::Value {
        field: "stream",
        reason: format!("{} has no known kind", stored.stream),
    })?;
    let request = stored.request.map(|id| check_field("request", RequestId::parse(&id))).transpose()?;
    let causation = stored.causation.map(|id| EventId(uuid(id)));
    let at = Timestamp::from_micros(stored.at_micros);
    let actor = actor(&stored.actor);
    let mut events = Vec::with_capacity(stored.events.len());
    for (offset, entry) in (0..).zip(stored.events) {
        events.push(RecordedEvent {
            position: Position(stored.position.saturating_add(offset)),
            stream: stream.clone(),
            version: Version(stored.version.saturating_add(offset)),
            id: EventId(uuid(entry.id)),
            at,
            actor,
            request: request.clone(),
            causation,
            event: event(entry.event)?,
        });
    }

    if events.is_empty() { Err(CommitDecodeError::Empty) } else { Ok(events.into()) }
}

fn event(stored: v2::EventV2<'_>) -> Result<Event, CommitDecodeError> {
    Ok(match stored {
        v2::EventV2::User(event) => registry::user(event).into(),
        v2::EventV2::Publisher(event) => registry::publisher(event)?.into(),
        v2::EventV2::Token(event) => registry::token(event)?.into(),
        v2::EventV2::Node(event) => node::node(event)?.into(),
        v2::EventV2::Task(event) => media::task(event)?.into(),
        v2::EventV2::Delivery(event) => media::delivery(event).into(),
        v2::EventV2::Claim(event) => claim(&event).into(),
    })
}

fn claim(stored: &v1::ClaimEventV1) -> ClaimEvent {
    let v1::ClaimEventV1::KeyClaimed { key, fingerprint, nth } = *stored;
    ClaimEvent::KeyClaimed(IdempotencyClaim {
        key: Digest(key.0),
        fingerprint: Digest(fingerprint.0),
        command_index: nth,
    })
}

fn check_field<T>(field: &'static str, value: Result<T, InvalidValue>) -> Result<T, CommitDecodeError> {
    value.map_err(|reason| CommitDecodeError::Value { field, reason: reason.to_string() })
}

fn uuid(id: v1::StoredId) -> Uuid {
    Uuid::from_bytes(id.0)
}

fn actor(stored: &v1::ActorV1) -> Actor {
    match *stored {
        v1::ActorV1::System => Actor::System,
        v1::ActorV1::User(id) => Actor::User(UserId(uuid(id))),
        v1::ActorV1::Token(id) => Actor::Token(TokenId(uuid(id))),
        v1::ActorV1::Anonymous => Actor::Anonymous,
    }
}

fn text<const MAX: usize, const MULTILINE: bool>(stored: v1::Str<'_>) -> Text<MAX, MULTILINE> {
    Text::from_recorded(stored.into_owned())
}

fn link(stored: v1::Str<'_>) -> Link {
    Link::from_recorded(stored.into_owned())
}

fn labels(stored: v1::Strs<'_>) -> Labels {
    Labels::from_recorded(stored.into_iter().map(Cow::into_owned).collect())
}
