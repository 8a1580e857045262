//! Lists of short texts: tags, operating systems, dependencies.

use serde::{Deserialize, Serialize};

use super::value::{InvalidValue, Label};

/// Maximum entries of a list (contract 4).
pub const LIST_MAX: usize = 100;

/// A list of at most [`LIST_MAX`] labels. Uses a single allocation, because a registry holds a million such lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels(
    /// The labels, each followed by [`END`].
    Box<str>,
);

/// Terminator of a label; labels contain no control characters.
const END: char = '\0';

impl Labels {
    /// Validates the number of entries; the entries are already validated.
    ///
    /// # Errors
    /// If there are more than [`LIST_MAX`] entries.
    pub fn new(entries: Vec<Label>) -> Result<Self, InvalidValue> {
        if entries.len() > LIST_MAX {
            return Err(InvalidValue::new(format!("must be an array of at most {LIST_MAX} entries")));
        }
        Ok(Self::from_entries(entries))
    }

    /// Creates a list from recorded entries without validation.
    #[must_use]
    pub fn from_recorded(entries: Vec<String>) -> Self {
        Self::from_entries(entries)
    }

    fn from_entries(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut joined = String::new();
        for entry in entries {
            joined.push_str(entry.as_ref());
            joined.push(END);
        }
        Self(joined.into())
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(END)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_every_entry() {
        for entries in [vec![], vec![""], vec!["", ""], vec!["a", "", "b\tc"], vec!["x"; LIST_MAX]] {
            let parsed: Vec<Label> = entries.iter().map(|entry| Label::parse(*entry).unwrap()).collect();
            let labels = Labels::new(parsed).unwrap();
            assert_eq!(labels.iter().collect::<Vec<_>>(), entries);
            assert_eq!(labels, Labels::from_recorded(entries.into_iter().map(str::to_owned).collect()));
        }
        assert!(Labels::new(vec![Label::default(); LIST_MAX + 1]).is_err());
    }
}
