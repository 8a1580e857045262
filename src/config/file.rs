//! Settings files: TOML, parsed into single values with their line numbers.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// Sections that may also be lists of tables. The key of an item has its number: `vendors.image[1].url`.
const LISTS: [&str; 3] = ["vendors.image", "vendors.video", "vendors.music"];

/// Last name of settings whose value is a table.
const TABLE_SETTING: &str = "except";

/// A value from a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileSetting {
    /// Section and name, for example `tasks.deadline`.
    pub(super) key: String,
    pub(super) value: Value,
    /// Line number, counted from 1.
    pub(super) line: usize,
}

/// Error for a file that is not TOML. The reason does not quote the file, which may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TomlSyntaxError {
    pub(super) line: usize,
    pub(super) reason: String,
}

/// Returns the values of a file in their order. A section or list item without values is returned as an empty table.
pub(super) fn read(text: &str) -> Result<Vec<FileSetting>, TomlSyntaxError> {
    let document = DeTable::parse(text).map_err(|error| TomlSyntaxError {
        line: line_at(text, error.span().map_or(0, |span| span.start)),
        reason: format!("is not valid TOML: {}{}", error.message(), quoting_hint(text, &error)),
    })?;
    let mut values = Vec::new();
    flatten(text, "", document.get_ref(), &mut values);
    values.sort_by_key(|setting| setting.line);
    Ok(values)
}

/// Returns advice about missing quotes: the most common mistake, which the parser's message does not explain.
fn quoting_hint(text: &str, error: &toml::de::Error) -> &'static str {
    let line = error.span().and_then(|span| text.lines().nth(line_at(text, span.start) - 1)).unwrap_or_default();
    let value = line.split_once('=').map_or("", |(_, value)| value.trim());
    let is_bare = !value.is_empty() && !value.starts_with(['"', '\'', '[', '{']) && !matches!(value, "true" | "false");
    if is_bare && !error.message().contains("quote") {
        "; strings, addresses and durations need quotes, as in listen = \"127.0.0.1:8080\""
    } else {
        ""
    }
}

/// Adds the values of a table and of its sections to `values`. `text` is the whole file, for the line numbers.
fn flatten(text: &str, section: &str, table: &DeTable<'_>, values: &mut Vec<FileSetting>) {
    for (name, value) in table {
        let key = if section.is_empty() { name.get_ref().to_string() } else { format!("{section}.{}", name.get_ref()) };
        let line = line_at(text, name.span().start);
        match value.get_ref() {
            DeValue::Table(_) if name.get_ref() == TABLE_SETTING => {
                values.push(FileSetting { key, value: to_value(text, value), line });
            }
            DeValue::Table(table) => flatten_section(text, key, table, line, values),
            DeValue::Array(items) if LISTS.contains(&key.as_str()) && items.iter().all(is_table) => {
                for (number, item) in (1..).zip(items) {
                    if let DeValue::Table(table) = item.get_ref() {
                        let item_line = line_at(text, item.span().start);
                        flatten_section(text, format!("{key}[{number}]"), table, item_line, values);
                    }
                }
            }
            _ => values.push(FileSetting { key, value: to_value(text, value), line }),
        }
    }
}

fn flatten_section(text: &str, key: String, table: &DeTable<'_>, line: usize, values: &mut Vec<FileSetting>) {
    if table.is_empty() {
        values.push(FileSetting { key, value: Table::new().into(), line });
    } else {
        flatten(text, &key, table, values);
    }
}

fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    matches!(value.get_ref(), DeValue::Table(_))
}

/// Converts a value. A number that does not fit is kept as text, so that the check of the setting rejects it.
fn to_value(text: &str, value: &Spanned<DeValue<'_>>) -> Value {
    let source_text = |_| Value::String(text[value.span()].to_owned());
    Value::deserialize(value.clone().into_deserializer()).unwrap_or_else(source_text)
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: impl Into<Value>, line: usize) -> FileSetting {
        FileSetting { key: key.to_owned(), value: value.into(), line }
    }

    #[test]
    fn values_keep_their_lines_and_sections() {
        let text = "listen = \"a\"\n\n[vendors.image]\nurl = 'u'\n[log]\n[tasks]\ndeadline = 99999999999999999999\n";

        let values = read(text).unwrap();

        let expected = vec![
            setting("listen", "a", 1),
            setting("vendors.image.url", "u", 4),
            setting("log", Table::new(), 5),
            setting("tasks.deadline", "99999999999999999999", 7),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn items_of_a_list_are_numbered_and_table_settings_are_kept_whole() {
        let text = "[[vendors.image]]\nname = 'a'\nexcept = { engine = ['x'] }\n\n[[vendors.image]]\n[[vendors.image]]\nname = 'c'\n";

        let values = read(text).unwrap();

        let except: Table = "engine = ['x']".parse().unwrap();
        let expected = vec![
            setting("vendors.image[1].name", "a", 2),
            setting("vendors.image[1].except", except, 3),
            setting("vendors.image[2]", Table::new(), 5),
            setting("vendors.image[3].name", "c", 7),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_syntax_error_is_reported_by_line_without_quoting_the_file() {
        let error = read("listen = \"a\"\nadmin_token = \"hunter2\n").unwrap_err();

        assert_eq!(error.line, 2);
        assert!(!error.reason.contains("hunter2"), "{}", error.reason);
    }

    #[test]
    fn the_quoting_hint_is_omitted_for_other_errors() {
        for text in ["listen = 'a'\nlisten = 'b'", "[log", "listen =", "workers = true\nworkers = true"] {
            let error = read(text).unwrap_err();
            assert!(!error.reason.contains("need quotes"), "{text}: {}", error.reason);
        }
    }

    #[test]
    fn missing_quotes_are_mentioned_once() {
        for text in ["listen = 127.0.0.1:9090", "deadline = 10m", "data_dir = /srv/x"] {
            let error = read(text).unwrap_err();
            assert_eq!(error.reason.matches("quote").count(), 1, "{text}: {}", error.reason);
        }
    }
}
