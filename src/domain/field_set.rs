//! Sets of optional fields; a command or event contains only the fields that change.
//!
//! A macro declares each set once, so that `apply`, `changing` and `split` cannot miss a field.

use std::collections::BTreeMap;

use super::value::{Link, Text, TextList, Timestamp};

/// Maximum bytes of text in one part of a set. A single larger field gets a part of its own. Keeps an event below the
/// size limit of the log (ADR 5).
pub const PART_BYTES_MAX: usize = 60_000;

/// Size of a value in an event.
pub trait TextSize {
    /// Returns the bytes of text; 0 for values of small fixed size.
    fn text_bytes(&self) -> usize {
        0
    }
}

impl TextSize for bool {}
impl TextSize for u64 {}
impl TextSize for i64 {}
impl TextSize for Timestamp {}

impl<const MAX: usize, const MULTILINE: bool> TextSize for Text<MAX, MULTILINE> {
    fn text_bytes(&self) -> usize {
        self.as_str().len()
    }
}

impl TextSize for Link {
    fn text_bytes(&self) -> usize {
        self.as_str().len()
    }
}

impl<const ENTRIES: usize, const CHARS: usize> TextSize for TextList<ENTRIES, CHARS> {
    fn text_bytes(&self) -> usize {
        self.iter().map(str::len).sum()
    }
}

impl<K: TextSize, V: TextSize> TextSize for BTreeMap<K, V> {
    fn text_bytes(&self) -> usize {
        self.iter().map(|(key, value)| key.text_bytes() + value.text_bytes()).sum()
    }
}

/// Accumulates the parts of a set while it is split.
#[derive(Default)]
pub struct FieldSetParts<T> {
    full: Vec<T>,
    open: T,
    /// Bytes of text in `open`.
    filled: usize,
}

impl<T: Default> FieldSetParts<T> {
    /// Returns the part for the next value, which has `bytes` bytes of text.
    pub fn part_for(&mut self, bytes: usize) -> &mut T {
        if self.filled > 0 && self.filled + bytes > PART_BYTES_MAX {
            self.full.push(std::mem::take(&mut self.open));
            self.filled = 0;
        }
        self.filled += bytes;
        &mut self.open
    }

    /// Returns all parts; at least one.
    #[must_use]
    pub fn finish(mut self) -> Vec<T> {
        self.full.push(self.open);
        self.full
    }
}

/// Declares a struct of optional fields.
macro_rules! field_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[$fdoc])* pub $field: Option<$type>),+ }

        impl $name {
            /// Overwrites every field that is present in `change`.
            pub fn apply(&mut self, change: &Self) {
                $(if let Some(value) = &change.$field {
                    self.$field = Some(value.clone());
                })+
            }

            /// Splits the set into parts that each fit into an event. Returns at least one part, which may be empty.
            #[must_use]
            pub fn split(self) -> Vec<Self> {
                let mut parts = $crate::domain::field_set::FieldSetParts::<Self>::default();
                $(if let Some(value) = self.$field {
                    let bytes = $crate::domain::field_set::TextSize::text_bytes(&value);
                    parts.part_for(bytes).$field = Some(value);
                })+
                parts.finish()
            }

            /// Returns the fields that differ from `current`, split into parts that each fit into an event; empty if
            /// none differ.
            #[must_use]
            pub fn changing(mut self, current: &Self) -> Vec<Self> {
                $(if self.$field == current.$field {
                    self.$field = None;
                })+
                if self == Self::default() { Vec::new() } else { self.split() }
            }
        }
    };
}
pub(crate) use field_set;

#[cfg(test)]
mod tests {
    use super::*;

    field_set! {
        /// Two texts and a flag.
        Sample { first: Text<60_000>, flag: bool, second: Text<60_000>, third: Link }
    }

    fn text(bytes: usize) -> Text<60_000> {
        Text::parse("x".repeat(bytes)).unwrap()
    }

    fn link() -> Link {
        Link::parse("https://a.example").unwrap()
    }

    #[test]
    fn a_set_is_split_where_a_part_is_full() {
        let sample = |first, second| Sample {
            first: Some(text(first)),
            flag: Some(true),
            second: Some(text(second)),
            third: Some(link()),
        };
        assert_eq!(sample(30_000, 29_983).split(), [sample(30_000, 29_983)]);
        let parts = sample(30_000, 30_001).split();
        let first = Sample { first: Some(text(30_000)), flag: Some(true), ..Sample::default() };
        assert_eq!(parts, [first, Sample { second: Some(text(30_001)), third: Some(link()), ..Sample::default() }]);
        assert_eq!(sample(60_000, 60_000).split().len(), 3);
    }

    #[test]
    fn an_empty_set_has_one_empty_part() {
        assert_eq!(Sample::default().split(), [Sample::default()]);
    }

    #[test]
    fn parts_together_are_the_whole() {
        let original =
            Sample { first: Some(text(60_000)), flag: Some(false), second: Some(text(1)), third: Some(link()) };
        let mut merged = Sample::default();
        for part in original.clone().split() {
            merged.apply(&part);
        }
        assert_eq!(merged, original);
    }

    #[test]
    fn only_what_differs_changes() {
        let current = Sample { first: Some(text(1)), flag: Some(true), ..Sample::default() };
        let change = Sample { flag: Some(false), ..current.clone() };
        assert_eq!(change.changing(&current), [Sample { flag: Some(false), ..Sample::default() }]);
        assert_eq!(current.clone().changing(&current), []);
        assert_eq!(Sample::default().changing(&current), []);
    }
}
