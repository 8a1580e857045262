//! Shared wording of user-visible messages.

/// Formats a number with a noun: `1 event`, `2 events`.
#[must_use]
pub fn pluralize(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_no_plural() {
        assert_eq!([0, 1, 2].map(|number| pluralize(number, "event")), ["0 events", "1 event", "2 events"]);
    }
}
