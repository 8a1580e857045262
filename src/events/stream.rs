//! Streams: the history of one aggregate, named `<kind>/<key>` and counted in versions.

use std::fmt;
use std::sync::Arc;

pub use mediary_journal::Position;

use crate::domain::budget::BudgetSubject;
use crate::domain::ids::{DeliveryId, NodeKey, PublisherId, StreamKind, TaskId, TokenId, UserId};

/// The name of a stream, for example `publisher/acme`. Cheap to clone. Contains no personal data (ADR 11).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    kind: StreamKind,
    name: Arc<str>,
}

impl StreamId {
    fn new(kind: StreamKind, key: &dyn fmt::Display) -> Self {
        Self { kind, name: format!("{}/{key}", kind.as_str()).into() }
    }

    /// Parses a stream name; `None` if the kind is unknown or the key is empty.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, key) = name.split_once('/')?;
        let kind = StreamKind::ALL.into_iter().find(|candidate| candidate.as_str() == kind)?;
        (!key.is_empty()).then(|| Self { kind, name: name.into() })
    }

    /// Returns the kind of aggregate.
    #[must_use]
    pub fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Returns the part after the slash.
    #[must_use]
    pub fn key(&self) -> &str {
        self.name.split_once('/').map_or("", |(_, key)| key)
    }

    /// Returns the whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Implements the conversion of identifiers to stream names.
macro_rules! stream_ids {
    ($($id:ident => $kind:ident),+ $(,)?) => {
        $(impl From<&$id> for StreamId {
            fn from(id: &$id) -> Self {
                Self::new(StreamKind::$kind, id)
            }
        })+
    };
}

stream_ids! {
    UserId => User,
    PublisherId => Publisher,
    TokenId => Token,
    TaskId => Task,
    DeliveryId => Delivery,
    BudgetSubject => Budget,
}

impl From<&NodeKey> for StreamId {
    fn from(key: &NodeKey) -> Self {
        Self::new(StreamKind::Node, &key.as_str())
    }
}

/// Number of events of a stream. The first event makes it version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
