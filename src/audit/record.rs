//! Recorded events as canonical JSON (RFC 8785), built from the stored shapes, so that machines can compare them byte
//! by byte.
//!
//! Stored bytes become text (identifiers as UUIDs, hashes as hexadecimal), absent values are omitted, and whole numbers
//! beyond 2^53, which some JSON parsers round, become text.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::domain::ids::RequestId;
use crate::events::envelope::RecordedEvent;
use crate::events::schema::{self, mapping};

/// Largest number up to which every JSON parser represents all whole numbers exactly (RFC 8785, 3.2.2.3).
const EXACT_INTEGER_MAX: u64 = 1 << 53;

/// A recorded event as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordJson {
    pub position: u64,
    pub stream: String,
    /// The version of the stream after this event.
    pub version: u64,
    /// A UUID.
    pub id: String,
    /// Name of the event, such as `NodeRevised`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// RFC 3339 in UTC, with microseconds.
    pub at: String,
    /// `user/<uuid>`, `token/<uuid>`, `system` or `anonymous`.
    pub actor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causation: Option<String>,
    /// Version of the stored shapes in `data`: the newest, regardless of the version of the record.
    pub schema: u16,
    /// Fields of the event; an empty object if it has none.
    pub data: Value,
}

impl From<&RecordedEvent> for RecordJson {
    fn from(event: &RecordedEvent) -> Self {
        Self {
            position: event.position.0,
            stream: event.stream.to_string(),
            version: event.version.0,
            id: event.id.to_string(),
            kind: event.event.name(),
            at: event.at.to_string(),
            actor: event.actor.to_string(),
            request: event.request.as_ref().map(RequestId::as_str).map(str::to_owned),
            causation: event.causation.map(|id| id.to_string()),
            schema: schema::VERSION,
            data: event_fields(event),
        }
    }
}

impl RecordJson {
    /// Returns the canonical bytes, which are the same wherever the event is written.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// Returns the fields of an event: the object in `{"Node": {"NodeRevised": …}}`; an empty one for
/// `{"Node": "NodeDeleted"}`.
fn event_fields(event: &RecordedEvent) -> Value {
    let stored = serde_json::to_value(&mapping::store_event(event).event).unwrap_or_default();
    let fields = only_member(stored).and_then(only_member).unwrap_or_else(|| Value::Object(Map::new()));
    to_portable(fields)
}

/// Returns the value of the only member of an object.
fn only_member(value: Value) -> Option<Value> {
    let Value::Object(members) = value else { return None };
    members.into_iter().next().map(|(_, member)| member)
}

/// Removes absent members and turns numbers that not every parser represents exactly into text.
fn to_portable(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let non_null = members.into_iter().filter(|(_, member)| !member.is_null());
            non_null.map(|(name, member)| (name, to_portable(member))).collect()
        }
        Value::Array(entries) => entries.into_iter().map(to_portable).collect(),
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > EXACT_INTEGER_MAX) {
                Value::String(number.to_string())
            } else {
                Value::Number(number)
            }
        }
        other => other,
    }
}

/// Writes JSON in the form of RFC 8785: members sorted by UTF-16 code units, without whitespace. Events contain whole
/// numbers only; fractions are written as `serde_json` does.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            write_list(out, ['{', '}'], &members, |(name, member), out| {
                write_scalar(&Value::String((*name).clone()), out);
                out.push(':');
                write_canonical(member, out);
            });
        }
        Value::Array(entries) => write_list(out, ['[', ']'], entries, write_canonical),
        scalar => write_scalar(scalar, out),
    }
}

fn write_list<T>(out: &mut String, [open, close]: [char; 2], items: &[T], write: impl Fn(&T, &mut String)) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

/// Writes a scalar. `serde_json` escapes strings as RFC 8785 requires.
fn write_scalar(scalar: &Value, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{scalar}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_sorted_as_in_rfc_8785() {
        // The example of section 3.2.3, in its order.
        let sorted = ["\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"];
        let value: Map<_, _> = sorted.iter().rev().map(|name| ((*name).to_owned(), json!(1))).collect();

        let text = canonical(&Value::Object(value));

        let offsets: Vec<_> = sorted.iter().map(|name| text.find(&json!(name).to_string()).unwrap()).collect();
        assert!(offsets.is_sorted(), "{text}");
    }

    #[test]
    fn strings_are_escaped_as_in_rfc_8785() {
        let text = "\u{20ac}$\u{f}\nA'B\"\\\\\"/\u{7f}";

        assert_eq!(canonical(&json!(text)), "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\"");
    }

    #[test]
    fn there_is_no_whitespace_between_tokens() {
        let value = json!({"b": [1, -2, true, null, {}], "a": {"d": "x", "c": []}});

        assert_eq!(canonical(&value), r#"{"a":{"c":[],"d":"x"},"b":[1,-2,true,null,{}]}"#);
    }

    #[test]
    fn absent_members_are_left_out_and_numbers_stay_exact() {
        let value =
            json!({"a": null, "b": [{"c": null, "d": EXACT_INTEGER_MAX}, {"e": EXACT_INTEGER_MAX + 1}], "f": i64::MIN});

        let expected = json!({"b": [{"d": EXACT_INTEGER_MAX}, {"e": "9007199254740993"}], "f": "-9223372036854775808"});
        assert_eq!(to_portable(value), expected);
    }
}
