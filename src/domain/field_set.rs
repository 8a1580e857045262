//! Sets of optional fields: a command and an event carry those that change. Each set is declared once, so that taking over,
//! comparing and splitting cannot forget a field.

use std::collections::BTreeMap;

use super::value::{Labels, Link, Text, Timestamp};

/// Most bytes of text in one part of a set, unless it is a single field: with it an event stays below what the log takes
/// (ADR 5).
pub const PART_BYTES_MAX: usize = 60_000;

/// How much room a value takes in an event.
pub trait Measured {
    /// Bytes of text; zero for what has a small fixed size.
    fn text_bytes(&self) -> usize {
        0
    }
}

impl Measured for bool {}
impl Measured for u64 {}
impl Measured for i64 {}
impl Measured for Timestamp {}

impl<const MAX: usize, const MULTILINE: bool> Measured for Text<MAX, MULTILINE> {
    fn text_bytes(&self) -> usize {
        self.as_str().len()
    }
}

impl Measured for Link {
    fn text_bytes(&self) -> usize {
        self.as_str().len()
    }
}

impl Measured for Labels {
    fn text_bytes(&self) -> usize {
        self.iter().map(str::len).sum()
    }
}

impl<K: Measured, V: Measured> Measured for BTreeMap<K, V> {
    fn text_bytes(&self) -> usize {
        self.iter().map(|(key, value)| key.text_bytes() + value.text_bytes()).sum()
    }
}

/// The parts of a set while it is split.
#[derive(Default)]
pub struct Parts<T> {
    full: Vec<T>,
    open: T,
    /// Bytes of text in the open one.
    filled: usize,
}

impl<T: Default> Parts<T> {
    /// The part that takes a value of so many bytes of text.
    pub fn place(&mut self, bytes: usize) -> &mut T {
        if self.filled > 0 && self.filled + bytes > PART_BYTES_MAX {
            self.full.push(std::mem::take(&mut self.open));
            self.filled = 0;
        }
        self.filled += bytes;
        &mut self.open
    }

    /// All parts: at least one.
    #[must_use]
    pub fn finish(mut self) -> Vec<T> {
        self.full.push(self.open);
        self.full
    }
}

/// Declares a set of optional fields.
macro_rules! field_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[$fdoc])* pub $field: Option<$type>),+ }

        impl $name {
            /// Takes over every field that `change` carries.
            pub fn apply(&mut self, change: &Self) {
                $(if let Some(value) = &change.$field {
                    self.$field = Some(value.clone());
                })+
            }

            /// In parts that fit into an event each: at least one, which may be empty.
            #[must_use]
            pub fn split(self) -> Vec<Self> {
                let mut parts = $crate::domain::field_set::Parts::<Self>::default();
                $(if let Some(value) = self.$field {
                    let bytes = $crate::domain::field_set::Measured::text_bytes(&value);
                    parts.place(bytes).$field = Some(value);
                })+
                parts.finish()
            }

            /// What differs from `current`, in parts that fit into an event each; none when nothing differs.
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
        let split = sample(30_000, 30_001).split();
        let first = Sample { first: Some(text(30_000)), flag: Some(true), ..Sample::default() };
        assert_eq!(split, [first, Sample { second: Some(text(30_001)), third: Some(link()), ..Sample::default() }]);
        assert_eq!(sample(60_000, 60_000).split().len(), 3);
    }

    #[test]
    fn an_empty_set_has_one_empty_part() {
        assert_eq!(Sample::default().split(), [Sample::default()]);
    }

    #[test]
    fn parts_together_are_the_whole() {
        let whole = Sample { first: Some(text(60_000)), flag: Some(false), second: Some(text(1)), third: Some(link()) };
        let mut again = Sample::default();
        for part in whole.clone().split() {
            again.apply(&part);
        }
        assert_eq!(again, whole);
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
