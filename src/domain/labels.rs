//! Lists of short texts: tags, systems, dependencies.

use serde::{Deserialize, Serialize};

use super::value::{Invalid, Label};

/// Most entries that a list may have (contract 4).
pub const LIST_MAX: usize = 100;

/// A list of labels: at most [`LIST_MAX`] of them. One piece of memory, as a registry has a million such lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Labels(
    /// Each followed by [`END`].
    Box<str>,
);

/// What no label holds, because it is a control character.
const END: char = '\0';

impl Labels {
    /// Checks the number of entries; each entry was checked when it was made.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(entries: Vec<Label>) -> Result<Self, Invalid> {
        if entries.len() > LIST_MAX {
            return Err(Invalid::new(format!("must be an array of at most {LIST_MAX} entries")));
        }
        Ok(Self::joined(entries))
    }

    /// A list that was checked when it was recorded.
    #[must_use]
    pub fn recorded(entries: Vec<String>) -> Self {
        Self::joined(entries)
    }

    fn joined(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut all = String::new();
        for entry in entries {
            all.push_str(entry.as_ref());
            all.push(END);
        }
        Self(all.into())
    }

    /// The entries in their order.
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
            assert_eq!(labels, Labels::recorded(entries.into_iter().map(str::to_owned).collect()));
        }
        assert!(Labels::new(vec![Label::default(); LIST_MAX + 1]).is_err());
    }
}
