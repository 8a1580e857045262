//! Plural forms of nouns in messages.

/// Formats a number with a noun: `1 event`, `2 events`.
#[must_use]
pub fn pluralize(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| pluralize(count, "event")), ["0 events", "1 event", "2 events"]);
    }
}
