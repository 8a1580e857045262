//! Subjects of audit queries: a kind and an id, in the form of a stream name.

use std::fmt;

use crate::domain::budget::BudgetSubject;
use crate::domain::ids::{DeliveryId, NodeId, PublisherId, StreamKind, TaskId, TokenId, UserId};
use crate::domain::value::InvalidValue;
use crate::events::stream::StreamId;

/// One subject, such as `publisher/acme`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditSubject(StreamId);

impl AuditSubject {
    /// Parses `kind/id`.
    ///
    /// # Errors
    /// If the kind is unknown, or the id is not valid for that kind.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let (kind, id) = text.split_once('/').unwrap_or((text, ""));
        let kind = parse_kind(kind)?;
        if id.is_empty() {
            return Err(InvalidValue::new(format!("must name one resource, such as {}", example(kind))));
        }

        let stream = match kind {
            StreamKind::User => StreamId::from(&UserId::parse(id)?),
            StreamKind::Publisher => StreamId::from(&PublisherId::parse(id)?),
            StreamKind::Token => StreamId::from(&TokenId::parse(id)?),
            StreamKind::Node => StreamId::from(&NodeId::parse(id)?.key()),
            StreamKind::Task => StreamId::from(&TaskId::parse(id)?),
            StreamKind::Delivery => StreamId::from(&DeliveryId::parse(id)?),
            StreamKind::Budget => StreamId::from(&BudgetSubject::parse_key(id)?),
        };

        Ok(Self(stream))
    }

    /// Creates the subject of a stream.
    #[must_use]
    pub fn from_stream(stream: StreamId) -> Self {
        Self(stream)
    }

    /// Returns the stream of the subject.
    #[must_use]
    pub fn stream(&self) -> &StreamId {
        &self.0
    }

    /// Returns the kind of the subject.
    #[must_use]
    pub fn kind(&self) -> StreamKind {
        self.0.kind()
    }

    /// Returns the id, as in the name of the stream.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.key()
    }
}

impl fmt::Display for AuditSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses the kind of a subject.
///
/// # Errors
/// If there is no such kind; the error lists all kinds.
pub fn parse_kind(text: &str) -> Result<StreamKind, InvalidValue> {
    let found = StreamKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| {
        let kinds: Vec<_> = StreamKind::ALL.iter().map(|kind| kind.as_str()).collect();
        InvalidValue::new(format!("must begin with one of these kinds and a slash: {}", kinds.join(", ")))
    })
}

fn example(kind: StreamKind) -> String {
    let id = match kind {
        StreamKind::Publisher => "acme",
        StreamKind::Node => "face-tools",
        StreamKind::Budget => "publisher.acme",
        _ => "0198c9a2-6f0e-7c3a-9d4b-3f1f2a9b7c10",
    };
    format!("{}/{id}", kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_the_name_of_its_stream() {
        let parse_to_string = |text: &str| AuditSubject::parse(text).map(|subject| subject.to_string());
        assert_eq!(parse_to_string("publisher/acme"), Ok("publisher/acme".to_owned()));
        assert_eq!(parse_to_string("node/Face-Tools"), Ok("node/face-tools".to_owned()));
        assert!(parse_to_string("user/00000000-0000-4000-8000-000000000001").is_ok());
    }

    #[test]
    fn invalid_names_are_rejected_with_examples() {
        let message = |text: &str| AuditSubject::parse(text).unwrap_err().to_string();
        for bad in ["", "nodes/a", "acme", "Node/a"] {
            assert!(
                message(bad).ends_with("user, publisher, token, node, task, delivery, budget"),
                "{bad}: {}",
                message(bad)
            );
        }
        assert_eq!(message("node"), "must name one resource, such as node/face-tools");
        assert_eq!(message("user/ann"), UserId::parse("ann").unwrap_err().to_string());
    }
}
