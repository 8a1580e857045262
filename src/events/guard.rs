//! Guards of appends: the state outside of its own stream that a decision depends on.
//!
//! If several nodes append to one log, another node may change this state between the decision and the append.

use std::fmt;

use super::stream::Position;

/// Maximum length of a tag in bytes.
pub const TAG_BYTES_MAX: usize = u8::MAX as usize;

/// Name of something that a guard protects, such as `nodes-of/acme`. At most [`TAG_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(Box<str>);

impl Tag {
    /// Returns the tag with this name; `None` if the name is too long.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>) -> Option<Self> {
        let name = name.into();
        (name.len() <= TAG_BYTES_MAX).then_some(Self(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Condition of an append: no event after the position touches the tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    pub tag: Tag,
    pub position: Position,
}
