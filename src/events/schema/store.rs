//! Conversion of domain values to the newest stored shapes. The shapes borrow, so nothing is copied.

use std::borrow::Cow;

use super::{v1, v2};
use crate::domain::claim::{ClaimEvent, IdempotencyClaim};
use crate::domain::event::Event;
use crate::domain::value::{Labels, Link, Text};
use crate::events::envelope::{Actor, RecordedEvent};

mod image;
mod media;
mod node;
mod registry;
mod video;

/// The stored shape of a commit; `None` if there are no events.
#[must_use]
pub fn commit(events: &[RecordedEvent]) -> Option<v2::CommitV2<'_>> {
    let first = events.first()?;
    Some(v2::CommitV2 {
        position: first.position.0,
        stream: Cow::Borrowed(first.stream.as_str()),
        version: first.version.0,
        at_micros: first.at.micros(),
        actor: actor(first.actor),
        request: first.request.as_ref().map(|id| Cow::Borrowed(id.as_str())),
        causation: first.causation.map(|id| id.0.into()),
        events: events.iter().map(entry).collect(),
    })
}

/// The stored shape of one event.
#[must_use]
pub fn entry(recorded: &RecordedEvent) -> v2::EntryV2<'_> {
    let event = match &recorded.event {
        Event::User(event) => v2::EventV2::User(registry::user(event)),
        Event::Publisher(event) => v2::EventV2::Publisher(registry::publisher(event)),
        Event::Token(event) => v2::EventV2::Token(registry::token(event)),
        Event::Node(event) => v2::EventV2::Node(node::node(event)),
        Event::Task(event) => v2::EventV2::Task(media::task(event)),
        Event::Delivery(event) => v2::EventV2::Delivery(media::delivery(event)),
        Event::Claim(event) => v2::EventV2::Claim(claim(event)),
    };
    v2::EntryV2 { id: recorded.id.0.into(), event }
}

fn claim(event: &ClaimEvent) -> v1::ClaimEventV1 {
    let ClaimEvent::KeyClaimed(IdempotencyClaim { key, fingerprint, command_index }) = event;
    v1::ClaimEventV1::KeyClaimed {
        key: v1::StoredSha256(key.0),
        fingerprint: v1::StoredSha256(fingerprint.0),
        nth: *command_index,
    }
}

fn actor(actor: Actor) -> v1::ActorV1 {
    match actor {
        Actor::System => v1::ActorV1::System,
        Actor::User(id) => v1::ActorV1::User(id.0.into()),
        Actor::Token(id) => v1::ActorV1::Token(id.0.into()),
        Actor::Anonymous => v1::ActorV1::Anonymous,
    }
}

fn text<const MAX: usize, const MULTILINE: bool>(text: &Text<MAX, MULTILINE>) -> v1::Str<'_> {
    Cow::Borrowed(text.as_str())
}

fn some_text<const MAX: usize, const MULTILINE: bool>(value: Option<&Text<MAX, MULTILINE>>) -> Option<v1::Str<'_>> {
    value.map(text)
}

fn some_link(link: Option<&Link>) -> Option<v1::Str<'_>> {
    link.map(|link| Cow::Borrowed(link.as_str()))
}

fn some_labels(labels: Option<&Labels>) -> Option<v1::Strs<'_>> {
    labels.map(|labels| labels.iter().map(Cow::Borrowed).collect())
}
