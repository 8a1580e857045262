//! Submissions as forms (`multipart/form-data`, RFC 7578): read into the same value as a JSON body, so that both are
//! checked alike.
//!
//! The schema of the JSON body decides how a part is read: a file becomes base64, text stays text where the field is a
//! string, and is JSON (`7`, `true`, `{"whites": 60}`) everywhere else. Text that is not the JSON of its field stays text,
//! which the check of the field then rejects. Repeated parts are the entries of an array. An empty part counts as
//! absent, because browsers send empty fields. Unknown parts are ignored.

use std::collections::HashMap;
use std::future::ready;

use actix_multipart::{Field, Multipart};
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Map, Value};

use super::body_budget::BodyCharge;
use super::json_shape::JsonShape;
use super::malformed_form;
use crate::http::response::error::Problem;

/// Maximum number of parts, including ignored ones.
const PARTS_MAX: usize = 256;
/// Placeholder for bytes that are not text: invalid for every field, so that the error states what is allowed.
const INVALID_TEXT: &str = "\0";
/// Memory of a field beside its text, in bytes.
const FIELD_BYTES: usize = 640;

/// Reads a form into the parts that `shape` keeps, charging the memory budget as the value grows. Returns the value and
/// the bytes charged. Blocks for the time that the encoding of files takes.
///
/// # Errors
/// If the body is not a form, or the memory budget is exhausted.
pub fn parse(
    content_type: &HeaderValue,
    bytes: &Bytes,
    shape: &JsonShape,
    charge: &mut BodyCharge,
) -> Result<(Value, usize), Problem> {
    // The body is in memory, so reading it never waits.
    let reading = read(content_type, bytes.clone(), shape, charge).now_or_never();
    reading.unwrap_or_else(|| Err(malformed_form(&"it is incomplete")))
}

async fn read(
    content_type: &HeaderValue,
    bytes: Bytes,
    shape: &JsonShape,
    charge: &mut BodyCharge,
) -> Result<(Value, usize), Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type.clone());
    let mut parts = Multipart::new(&headers, stream::once(ready(Ok::<_, PayloadError>(bytes))));

    let mut values: HashMap<String, Vec<Value>> = HashMap::new();
    let mut count = 0;
    let mut charged = 0;

    while let Some(part) = parts.next().await {
        let mut part = part.map_err(|error| malformed_form(&error))?;
        count += 1;
        if count > PARTS_MAX {
            return Err(malformed_form(&format!("more than {PARTS_MAX} parts")));
        }

        let name = part.name().unwrap_or_default();
        // Some clients mark the parts of an array.
        let name = name.strip_suffix("[]").unwrap_or(name).to_owned();
        let field = shape.member(&name);
        let is_known = *field != JsonShape::Skipped;
        let mut content = Vec::new();
        while let Some(chunk) = part.next().await {
            let chunk = chunk.map_err(|error| malformed_form(&error))?;
            if is_known {
                charge.grow(chunk.len())?;
                content.extend_from_slice(&chunk);
            }
        }
        if !is_known || content.is_empty() {
            continue;
        }

        let bytes = FIELD_BYTES + if is_file(&part) { content.len().div_ceil(3) * 4 } else { content.len() };
        charge.grow(bytes)?;
        charged += bytes;
        values.entry(name).or_default().push(part_value(&part, field, content));
    }

    let object: Map<_, _> = values
        .into_iter()
        .map(|(name, values)| {
            let value = field_value(shape.member(&name), values);
            (name, value)
        })
        .collect();
    Ok((Value::Object(object), charged))
}

/// Returns `true` if the part is a file rather than a text.
fn is_file(part: &Field) -> bool {
    let has_file_name = part.content_disposition().is_some_and(|disposition| disposition.get_filename().is_some());
    has_file_name || part.content_type().is_some_and(|kind| kind.type_() == "image")
}

fn part_value(part: &Field, field: &JsonShape, content: Vec<u8>) -> Value {
    if is_file(part) && field.takes_file() {
        return STANDARD.encode(content).into();
    }
    let Ok(text) = String::from_utf8(content) else { return INVALID_TEXT.into() };
    if field.is_text() {
        return text.into();
    }
    // An entry of an array of texts is written without quotes.
    serde_json::from_str(&text).ok().filter(|value: &Value| !value.is_string()).unwrap_or_else(|| text.into())
}

/// Returns the value of a field with these parts, at least one.
fn field_value(field: &JsonShape, mut values: Vec<Value>) -> Value {
    let is_whole = values.len() == 1 && (!field.is_array() || values[0].is_array());
    match values.pop() {
        Some(value) if is_whole => value,
        last => values.into_iter().chain(last).collect(),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::Method;
    use serde_json::json;

    use super::super::{BodyBudget, BodyLimit};
    use super::*;
    use crate::quota::Account;

    const BOUNDARY: &str = "x7d1";

    fn parse_parts(path: &'static str, parts: &[(&str, &str)]) -> Value {
        let part = |(head, content): &(&str, &str)| {
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name={head}\r\n\r\n{content}\r\n")
        };
        let body = parts.iter().map(part).collect::<String>() + &format!("--{BOUNDARY}--\r\n");
        let content_type = HeaderValue::try_from(format!("multipart/form-data; boundary={BOUNDARY}")).unwrap();
        let mut charge = BodyBudget::default().charge(BodyLimit::Images, Account::from_address([192, 0, 2, 1].into()));
        let shape = JsonShape::for_route(&Method::POST, path);
        parse(&content_type, &body.into(), shape, &mut charge).expect("a form").0
    }

    #[test]
    fn parts_become_the_values_of_their_fields() {
        let parsed = parse_parts(
            "/proxy/imagevendor/v1/ai/image-relight",
            &[
                ("\"image\"; filename=\"a.png\"", "abc"),
                ("\"prompt\"", "123"),
                ("\"light_transfer_strength\"", "70"),
                ("\"change_background\"", "false"),
                ("\"advanced_settings\"", "{\"whites\": 60}"),
                ("\"style\"", "smooth"),
                ("\"webhook_url\"", ""),
                ("\"unknown\"", "{"),
            ],
        );
        let expected = json!({"image": "YWJj", "prompt": "123", "light_transfer_strength": 70,
            "change_background": false, "advanced_settings": {"whites": 60}, "style": "smooth"});
        assert_eq!(parsed, expected);
    }

    #[test]
    fn what_is_not_the_value_of_a_field_stays_text_or_becomes_an_array() {
        let parsed = parse_parts(
            "/proxy/imagevendor/v1/ai/image-upscaler",
            &[
                ("\"hdr\"", "much"),
                ("\"image\"", "YQ=="),
                ("\"image\"", "Yg=="),
                ("\"prompt\"; filename=\"p.txt\"", "a"),
            ],
        );
        assert_eq!(parsed, json!({"hdr": "much", "image": ["YQ==", "Yg=="], "prompt": "a"}));
    }

    #[test]
    fn repeated_parts_are_the_entries_of_an_array() {
        let path = "/proxy/videovendor/start-end2video";
        let file = ("\"images\"; filename=\"a.png\"", "abc");
        assert_eq!(parse_parts(path, &[file]), json!({"images": ["YWJj"]}));
        assert_eq!(parse_parts(path, &[("\"images[]\"", "YQ"), file]), json!({"images": ["YQ", "YWJj"]}));
        assert_eq!(parse_parts(path, &[("\"images\"", "[\"YQ\"]")]), json!({"images": ["YQ"]}));
    }
}
