//! Filters of events.

use uuid::Uuid;

use super::point_in_time::PointInTime;
use super::subject::{AuditSubject, parse_kind};
use crate::domain::event;
use crate::domain::ids::{RequestId, StreamKind, TokenId, UserId};
use crate::domain::value::InvalidValue;
use crate::events::envelope::{Actor, RecordedEvent};

/// Conditions on events, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    pub streams: StreamFilter,
    /// Event types, of which one must match; any type if empty.
    pub types: Vec<&'static str>,
    pub actor: Option<ActorFilter>,
    pub request: Option<RequestId>,
    /// First event or time, inclusive.
    pub from: Option<PointInTime>,
    /// Last event or time, inclusive.
    pub to: Option<PointInTime>,
}

/// Streams to include.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum StreamFilter {
    #[default]
    All,
    /// All subjects of a kind.
    Kind(StreamKind),
    One(AuditSubject),
}

/// Actor that caused the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorFilter {
    Is(Actor),
    /// A user or token with this id.
    WithId(Uuid),
}

impl AuditFilter {
    /// Returns `true` if the event passes the filter.
    #[must_use]
    pub fn matches(&self, event: &RecordedEvent) -> bool {
        let stream_matches = match &self.streams {
            StreamFilter::All => true,
            StreamFilter::Kind(kind) => event.stream.kind() == *kind,
            StreamFilter::One(subject) => event.stream == *subject.stream(),
        };

        stream_matches
            && (self.types.is_empty() || self.types.contains(&event.event.name()))
            && self.actor.is_none_or(|actor| actor.matches(event.actor))
            && self.request.as_ref().is_none_or(|request| event.request.as_ref() == Some(request))
            && self.from.is_none_or(|from| match from {
                PointInTime::Position(position) => event.position >= position,
                PointInTime::Time(at) => event.at >= at,
            })
            && self.to.is_none_or(|to| match to {
                PointInTime::Position(position) => event.position <= position,
                PointInTime::Time(at) => event.at <= at,
            })
    }
}

impl ActorFilter {
    fn matches(self, actor: Actor) -> bool {
        match self {
            Self::Is(expected) => expected == actor,
            Self::WithId(id) => {
                matches!(actor, Actor::User(UserId(other)) | Actor::Token(TokenId(other)) if other == id)
            }
        }
    }

    /// Parses `user/<uuid>`, `token/<uuid>`, `system`, `anonymous`, or a UUID alone.
    ///
    /// # Errors
    /// If the text has none of these forms.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let parsed = match text.split_once('/') {
            None if text == "system" => Some(Self::Is(Actor::System)),
            None if text == "anonymous" => Some(Self::Is(Actor::Anonymous)),
            None => UserId::parse(text).ok().map(|id| Self::WithId(id.0)),
            Some(("user", id)) => UserId::parse(id).ok().map(|id| Self::Is(Actor::User(id))),
            Some(("token", id)) => TokenId::parse(id).ok().map(|id| Self::Is(Actor::Token(id))),
            Some(_) => None,
        };
        parsed.ok_or_else(|| InvalidValue::new("must be system, anonymous, user/<uuid>, token/<uuid> or a UUID"))
    }
}

impl StreamFilter {
    /// Parses `kind/id`, or `kind/` for all subjects of a kind.
    ///
    /// # Errors
    /// See [`super::subject::parse_kind`].
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        match text.strip_suffix('/') {
            Some(kind) if !kind.contains('/') => parse_kind(kind).map(Self::Kind),
            _ => AuditSubject::parse(text).map(Self::One),
        }
    }
}

/// Parses the name of an event type.
///
/// # Errors
/// If there is no such type; the error lists all names.
pub fn parse_event_type(text: &str) -> Result<&'static str, InvalidValue> {
    event::names().find(|name| *name == text).ok_or_else(|| {
        InvalidValue::new(format!("must be one of these: {}", event::names().collect::<Vec<_>>().join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_selected_by_subject_or_kind() {
        assert_eq!(StreamFilter::parse("node/"), Ok(StreamFilter::Kind(StreamKind::Node)));
        assert_eq!(StreamFilter::parse("node/A"), Ok(StreamFilter::One(AuditSubject::parse("node/a").unwrap())));
        for bad in ["", "/", "nodes/", "node", "node//"] {
            assert!(StreamFilter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn actors_parse_as_events_name_them() {
        let id = Uuid::from_u128(7);
        assert_eq!(ActorFilter::parse("system"), Ok(ActorFilter::Is(Actor::System)));
        assert_eq!(ActorFilter::parse("anonymous"), Ok(ActorFilter::Is(Actor::Anonymous)));
        assert_eq!(ActorFilter::parse(&format!("user/{id}")), Ok(ActorFilter::Is(Actor::User(UserId(id)))));
        assert_eq!(ActorFilter::parse(&format!("token/{id}")), Ok(ActorFilter::Is(Actor::Token(TokenId(id)))));

        let parsed = ActorFilter::parse(&id.to_string()).unwrap();
        assert!(parsed.matches(Actor::User(UserId(id))) && parsed.matches(Actor::Token(TokenId(id))));
        assert!(!parsed.matches(Actor::System) && !parsed.matches(Actor::User(UserId(Uuid::nil()))));

        for bad in ["", "ann", "user/ann", "node/a", "System"] {
            assert!(ActorFilter::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn event_types_parse_by_name() {
        assert_eq!(parse_event_type("NodeRevised"), Ok("NodeRevised"));
        let message = parse_event_type("nodeRevised").unwrap_err().to_string();
        assert!(message.contains("UserCreated") && message.contains("KeyClaimed"), "{message}");
    }
}
