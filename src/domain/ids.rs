//! Identifiers. Each has its own type, validated on construction, so that ids cannot be mixed up.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::value::InvalidValue;

/// Declares an identifier that is a UUID.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Parses the hyphenated form.
            ///
            /// # Errors
            /// If the text is not a hyphenated UUID.
            pub fn parse(text: &str) -> Result<Self, InvalidValue> {
                // Of the forms that `Uuid` accepts, only the hyphenated one has this length.
                let hyphenated = (text.len() == uuid::fmt::Hyphenated::LENGTH).then_some(text);
                let parsed = hyphenated.and_then(|text| Uuid::try_parse(text).ok());
                parsed.map(Self).ok_or_else(|| InvalidValue::new("must be a UUID"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.as_bytes().serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <[u8; 16]>::deserialize(deserializer).map(|bytes| Self(Uuid::from_bytes(bytes)))
            }
        }
    };
}

uuid_id!(
    /// A user account.
    UserId
);
uuid_id!(
    /// Public id of a bearer token; not the secret.
    TokenId
);
uuid_id!(
    /// A version of a node.
    VersionId
);
uuid_id!(
    /// A media generation job.
    TaskId
);
uuid_id!(
    /// A file that a client uploaded as an input.
    FileId
);
uuid_id!(
    /// A webhook of a publisher.
    WebhookId
);
uuid_id!(
    /// A webhook delivery. Derived from the event that it reports, so it stays the same across restarts. A task has one
    /// receiver, so the id of its event is the id of the delivery.
    DeliveryId
);

impl DeliveryId {
    /// Returns the id of the delivery of an event to one of the webhooks of a publisher. Both ids are random, so their
    /// combination is unique.
    #[must_use]
    pub fn from_event(event: EventId, webhook: WebhookId) -> Self {
        let combined = event.0.as_u128() ^ webhook.0.as_u128();
        Self(uuid::Builder::from_custom_bytes(combined.to_be_bytes()).into_uuid())
    }

    /// Returns the `webhook-id` header, the same for every attempt (Standard Webhooks 1.0).
    #[must_use]
    pub fn webhook_id(self) -> String {
        format!("msg_{self}")
    }
}

uuid_id!(
    /// One recorded event.
    EventId
);

/// Publisher id in URLs: `^[a-z][a-z0-9-]{0,62}$` (contract 4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PublisherId(String);

impl PublisherId {
    /// Validates the text.
    ///
    /// # Errors
    /// If the text does not match the pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let bytes = text.as_bytes();
        let is_valid = bytes.first().is_some_and(u8::is_ascii_lowercase)
            && bytes.len() <= 63
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-');
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidValue::new(
                "must start with a lowercase letter and have at most 63 lowercase letters, digits and hyphens",
            ))
        }
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PublisherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Node id in URLs: `^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$` (contract 4). Unique ignoring case; keeps the
/// case of its registration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(String);

impl NodeId {
    /// Validates the text.
    ///
    /// # Errors
    /// If the text does not match the pattern.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let bytes = text.as_bytes();
        let has_valid_ends =
            bytes.first().is_some_and(u8::is_ascii_alphanumeric) && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
        let has_valid_characters = bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if has_valid_ends && has_valid_characters && bytes.len() <= 100 {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidValue::new(
                "must have 1 to 100 letters, digits and . _ -, and start and end with a letter or digit",
            ))
        }
    }

    /// Derives an id from a display name: lowercase, with hyphens for separators; other characters are dropped.
    ///
    /// # Errors
    /// If no usable character is left.
    pub fn from_display_name(name: &str) -> Result<Self, InvalidValue> {
        let mut id = String::new();
        for c in name.chars() {
            match c {
                c if c.is_ascii_alphanumeric() || c == '.' || c == '_' => id.push(c.to_ascii_lowercase()),
                c if (c.is_whitespace() || c.is_ascii_punctuation()) && !id.ends_with('-') => id.push('-'),
                _ => {}
            }
        }
        id.truncate(100);
        Self::parse(id.trim_matches(|c: char| !c.is_ascii_alphanumeric()))
            .map_err(|_| InvalidValue::new("is required: no id can be derived from the name"))
    }

    /// Returns the id as registered.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the unique form: ids that differ only in case have the same key.
    #[must_use]
    pub fn key(&self) -> NodeKey {
        NodeKey(self.0.to_ascii_lowercase())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node id in lowercase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey(String);

impl NodeKey {
    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Id of a request in logs, responses and events: 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Validates the text.
    ///
    /// # Errors
    /// If the text is empty, longer than 128 characters, or contains anything but visible ASCII.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidValue::new("must be 1 to 128 visible ASCII characters"))
        }
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Uuid> for RequestId {
    fn from(uuid: Uuid) -> Self {
        Self((&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())).into())
    }
}

/// Kinds of streams, one per aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    User,
    Publisher,
    Token,
    Node,
    Task,
    Delivery,
    Budget,
}

impl StreamKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Publisher, Self::Token, Self::Node, Self::Task, Self::Delivery, Self::Budget];

    /// Returns the part of a stream name before the slash.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Publisher => "publisher",
            Self::Token => "token",
            Self::Node => "node",
            Self::Task => "task",
            Self::Delivery => "delivery",
            Self::Budget => "budget",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_hyphenated() {
        let text = "0198c9a2-0000-7000-8000-00000000abcd";
        assert_eq!(TaskId::parse(text).map(|id| id.to_string()), Ok(text.to_owned()));
        let invalid =
            [text.replace('-', ""), format!("{{{text}}}"), format!("urn:uuid:{text}"), text.replace('-', "0")];
        for invalid_id in invalid.iter().map(String::as_str).chain(["", &text[1..]]) {
            assert!(TaskId::parse(invalid_id).is_err(), "{invalid_id}");
        }
    }

    #[test]
    fn publisher_ids_follow_the_pattern() {
        for good in ["a", "acme", "acme-2", &"a".repeat(63)] {
            assert!(PublisherId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Acme", "2acme", "-a", "a_b", "a.b", "ä", &"a".repeat(64)] {
            assert!(PublisherId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn node_ids_follow_the_pattern() {
        for good in ["a", "9", "Ab", "a.b_c-d", &"x".repeat(100)] {
            assert!(NodeId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", ".a", "a b", "a/b", "ä", &"x".repeat(101)] {
            assert!(NodeId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn node_ids_that_differ_in_case_share_a_key() {
        let upper = NodeId::parse("Face-Tools").unwrap();
        let lower = NodeId::parse("face-tools").unwrap();
        assert_ne!(upper, lower);
        assert_eq!(upper.key(), lower.key());
    }

    #[test]
    fn node_ids_are_derived_from_names() {
        assert_eq!(NodeId::from_display_name("  Face  Tools (v2)! ").unwrap().as_str(), "face-tools-v2");
        assert!(NodeId::from_display_name("日本語").is_err());
    }

    #[test]
    fn request_ids_are_visible_and_short() {
        assert!(RequestId::parse("req-1").is_ok());
        for bad in ["", "a b", "a\n", "é", &"x".repeat(129)] {
            assert!(RequestId::parse(bad).is_err());
        }
    }
}
