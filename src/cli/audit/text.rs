//! Text for terminals: untrusted text must not move the cursor or change the reading direction.

use std::fmt::Write as _;

/// Escapes characters that control a terminal.
pub(in crate::cli) fn printable(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    escaped
}

/// Escapes the same characters as [`printable`] in JSON, with JSON escapes, so that the value stays the same.
pub(in crate::cli) fn printable_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        // Line breaks occur only between tokens.
        if is_unsafe(c) && c != '\n' {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Formats texts as indented lines, each after a line break.
pub(in crate::cli) fn indented_lines(texts: &[String]) -> String {
    texts.iter().fold(String::new(), |lines, text| lines + "\n  " + &printable(text))
}

/// Returns `true` for control characters and for characters that change the text direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Shortens text to `max_chars` characters, of which the last one is an ellipsis if the text was cut.
pub(in crate::cli) fn truncate(text: &str, max_chars: usize) -> String {
    if text.char_indices().nth(max_chars).is_none() {
        return text.to_owned();
    }
    let end = text.char_indices().nth(max_chars.saturating_sub(1)).map_or(text.len(), |(byte_index, _)| byte_index);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        let escaped = printable("a\u{1b}[2Jb\u{9b}c\u{202e}d\ne\u{7f}ä");
        assert_eq!(escaped, "a\\u{1b}[2Jb\\u{9b}c\\u{202e}d\\u{a}e\\u{7f}ä");
        let json = serde_json::json!({"a": "\u{9b}x\u{202e}\u{7f}\u{1b}"});
        let text = printable_json(&json.to_string());
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(truncate("ääää", 4), "ääää");
        assert_eq!(truncate("äääää", 4), "äää…");
        assert_eq!(truncate("", 4), "");
    }
}
