//! Submissions as forms (`multipart/form-data`, RFC 7578): read into the same value as a JSON body, so that both are
//! checked in the same way.
//!
//! The schema of the JSON body decides how a part is read: a file becomes base64, text stays text where the field is a
//! string, and is JSON (`7`, `true`, `{"whites": 60}`) everywhere else. Text that is not the JSON of its field stays
//! text, which the check of the field then rejects. Repeated parts are the entries of an array, and an error for any
//! other field. An empty part counts as absent, because browsers send empty fields. Unknown parts are ignored. The
//! limits of JSON apply to all JSON parts of a form together.

use std::collections::HashMap;
use std::io::Write;

use actix_multipart::{Field, Multipart};
use actix_web::http::header::HeaderValue;
use actix_web::web::Bytes;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::write::EncoderStringWriter;
use futures_util::StreamExt;
use serde_json::{Map, Value};

use super::JsonComplexity;
use super::body_budget::BodyCharge;
use super::json_shape::{self, BodyParseError, JsonShape};
use crate::http::request::fields::FieldError;
use crate::http::request::form::{self, malformed_form};
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
    form::read_in_memory(content_type, bytes, |parts| read(parts, shape, charge))
}

async fn read(mut parts: Multipart, shape: &JsonShape, charge: &mut BodyCharge) -> Result<(Value, usize), Problem> {
    let mut values: HashMap<String, Vec<Value>> = HashMap::new();
    let mut complexity = JsonComplexity::default();
    let mut part_count = 0;
    let mut charged = 0;

    while let Some(part) = parts.next().await {
        let mut part = part.map_err(|error| malformed_form(&error))?;
        part_count += 1;
        if part_count > PARTS_MAX {
            return Err(malformed_form(&format!("more than {PARTS_MAX} parts")));
        }

        let name = part.name().unwrap_or_default();
        // Some clients mark the parts of an array, as in `images[]`.
        let name = name.strip_suffix("[]").unwrap_or(name).to_owned();
        let field = shape.member(&name);
        let mut content = PartContent::new(&part, field);
        while let Some(chunk) = part.next().await {
            let chunk = chunk.map_err(|error| malformed_form(&error))?;
            charged += content.append(&chunk, charge)?;
        }

        if let Some((value, bytes)) = content.finish(field, &mut complexity, charge)? {
            charge.grow(FIELD_BYTES)?;
            charged += FIELD_BYTES + bytes;
            values.entry(name).or_default().push(value);
        }
    }

    let repeated = repeated_fields(&values, shape);
    if !repeated.is_empty() {
        return Err(Problem::invalid(repeated));
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

/// Content of a part as it arrives. A file is encoded at once, so that memory holds it only once beside the body.
enum PartContent {
    Skipped,
    File(Box<EncoderStringWriter<'static, GeneralPurpose, String>>),
    Text(Vec<u8>),
}

impl PartContent {
    fn new(part: &Field, field: &JsonShape) -> Self {
        if *field == JsonShape::Skipped {
            Self::Skipped
        } else if is_file(part) && field.takes_file() {
            Self::File(Box::new(EncoderStringWriter::new(&STANDARD)))
        } else {
            Self::Text(Vec::new())
        }
    }

    /// Adds a chunk; returns the bytes charged.
    fn append(&mut self, chunk: &[u8], charge: &mut BodyCharge) -> Result<usize, Problem> {
        let bytes = match self {
            Self::Skipped => 0,
            Self::File(_) => chunk.len().div_ceil(3) * 4,
            Self::Text(_) => chunk.len(),
        };
        charge.grow(bytes)?;

        match self {
            Self::Skipped => {}
            Self::File(encoder) => encoder.write_all(chunk).map_err(Problem::internal)?,
            Self::Text(text) => text.extend_from_slice(chunk),
        }
        Ok(bytes)
    }

    /// Returns the value of the part and the bytes charged for it beyond its chunks; `None` if it is skipped or empty.
    fn finish(
        self,
        field: &JsonShape,
        complexity: &mut JsonComplexity,
        charge: &mut BodyCharge,
    ) -> Result<Option<(Value, usize)>, Problem> {
        let text = match self {
            Self::Skipped => return Ok(None),
            Self::File(encoder) => {
                let base64 = encoder.into_inner();
                return Ok((!base64.is_empty()).then(|| (base64.into(), 0)));
            }
            Self::Text(text) if text.is_empty() => return Ok(None),
            Self::Text(text) => text,
        };

        let Ok(text) = String::from_utf8(text) else { return Ok(Some((INVALID_TEXT.into(), 0))) };
        if field.is_text() {
            return Ok(Some((text.into(), 0)));
        }

        complexity.add(text.as_bytes())?;
        let is_entry = field.is_array() && !text.trim_start().starts_with('[');
        let shape = if is_entry { field.entry() } else { field };
        match json_shape::parse(text.as_bytes(), shape, charge) {
            // An entry of an array of texts is written without quotes.
            Ok((Value::String(_), _)) | Err(BodyParseError::NotJson(_)) => Ok(Some((text.into(), 0))),
            Ok((value, bytes)) => Ok(Some((value, bytes))),
            Err(BodyParseError::OverBudget(problem)) => Err(problem),
        }
    }
}

/// Returns an error for each field that takes one value and has several parts. Checked before the fields themselves:
/// their errors would describe an array that the client did not send.
fn repeated_fields(values: &HashMap<String, Vec<Value>>, shape: &JsonShape) -> Vec<FieldError> {
    let is_repeated = |(name, values): &(&String, &Vec<Value>)| {
        let field = shape.member(name);
        values.len() > 1 && *field != JsonShape::Whole && !field.is_array()
    };
    let mut repeated: Vec<_> = values.iter().filter(is_repeated).collect();
    repeated.sort_by_key(|(name, _)| *name);

    let to_error = |(name, values): (&String, &Vec<Value>)| {
        let times = if values.len() == 2 { "twice".to_owned() } else { format!("{} times", values.len()) };
        FieldError::new(format!("/{name}"), format!("is given {times}; send one part"))
    };
    repeated.into_iter().map(to_error).collect()
}

/// Returns the value of a field with these parts, at least one.
fn field_value(field: &JsonShape, mut values: Vec<Value>) -> Value {
    // A single part is the whole value, unless it is an entry of an array.
    let is_whole = values.len() == 1 && (!field.is_array() || values[0].is_array());
    if is_whole { values.remove(0) } else { Value::Array(values) }
}

#[cfg(test)]
mod tests {
    use actix_web::http::Method;
    use serde_json::json;

    use super::super::{BodyBudget, BodyLimit};
    use super::*;
    use crate::http::response::error::Code;
    use crate::quota::Account;

    const BOUNDARY: &str = "x7d1";

    /// Parses a form for the route `path`. Each part is given by its name, with further parameters, and its content.
    fn parse_parts(path: &'static str, parts: &[(&str, &str)]) -> Value {
        let mut charge = BodyBudget::default().charge(BodyLimit::Images, Account::from_address([192, 0, 2, 1].into()));
        try_parse(path, parts, &mut charge).expect("a form").0
    }

    fn try_parse(
        path: &'static str,
        parts: &[(&str, &str)],
        charge: &mut BodyCharge,
    ) -> Result<(Value, usize), Problem> {
        let part = |(head, content): &(&str, &str)| {
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name={head}\r\n\r\n{content}\r\n")
        };
        let body = parts.iter().map(part).collect::<String>() + &format!("--{BOUNDARY}--\r\n");
        let content_type = HeaderValue::try_from(format!("multipart/form-data; boundary={BOUNDARY}")).unwrap();
        parse(&content_type, &body.into(), JsonShape::for_route(&Method::POST, path), charge)
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
    fn parts_that_do_not_fit_their_field_stay_text() {
        let parsed = parse_parts(
            "/proxy/imagevendor/v1/ai/image-upscaler",
            &[("\"hdr\"", "much"), ("\"image\"", "YQ=="), ("\"prompt\"; filename=\"p.txt\"", "a")],
        );
        assert_eq!(parsed, json!({"hdr": "much", "image": "YQ==", "prompt": "a"}));
    }

    #[test]
    fn repeated_parts_are_the_entries_of_an_array() {
        let path = "/proxy/videovendor/start-end2video";
        let file = ("\"images\"; filename=\"a.png\"", "abc");
        assert_eq!(parse_parts(path, &[file]), json!({"images": ["YWJj"]}));
        assert_eq!(parse_parts(path, &[("\"images[]\"", "YQ"), file]), json!({"images": ["YQ", "YWJj"]}));
        assert_eq!(parse_parts(path, &[("\"images\"", "[\"YQ\"]")]), json!({"images": ["YQ"]}));
    }

    #[test]
    fn the_limits_of_json_hold_for_all_parts_together() {
        let path = "/proxy/videovendor/start-end2video";
        let refusal = |parts: &[(&str, &str)]| {
            let mut charge =
                BodyBudget::default().charge(BodyLimit::Images, Account::from_address([192, 0, 2, 1].into()));
            let problem = try_parse(path, parts, &mut charge).err()?;
            assert_eq!(problem.code(), Code::MalformedBody);
            Some(problem.to_string())
        };

        let list = |elements: usize| format!("[0{}]", ",0".repeat(elements - 1));
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(refusal(&[("images", &list(100_000))]), None);
        assert_eq!(refusal(&[("images", &nested(64))]), None);

        let too_many = Some("the body has more than 100000 elements".to_owned());
        assert_eq!(refusal(&[("images", &list(100_001))]), too_many);
        assert_eq!(refusal(&[("images", &list(50_001)), ("duration", &list(50_001))]), too_many);
        assert_eq!(refusal(&[("images", &nested(65))]), Some("the body is nested deeper than 64 levels".to_owned()));
    }

    #[test]
    fn the_value_of_a_part_is_charged() {
        let budget = BodyBudget::default();
        let mut charge = budget.charge(BodyLimit::Images, Account::from_address([192, 0, 2, 1].into()));
        let list = format!("[0{}]", ",0".repeat(99_999));
        let parsed = try_parse("/proxy/videovendor/start-end2video", &[("images", &list)], &mut charge);
        let (_, bytes) = parsed.expect("a form");
        assert!(bytes > 64 * 100_000, "{bytes}");
        assert_eq!(budget.held_bytes()[1], bytes);

        // The rest of the account's share (192 MiB) is enough for the list alone.
        charge.grow((192 << 20) - 2 * bytes).unwrap();
        let parsed =
            try_parse("/proxy/videovendor/start-end2video", &[("images", &list), ("images", "[]")], &mut charge);
        assert_eq!(parsed.expect_err("no room").code(), Code::Overloaded);
    }

    #[test]
    fn the_largest_form_fits_into_the_share_of_an_account() {
        let budget = BodyBudget::default();
        let mut charge = budget.charge(BodyLimit::Images, Account::from_address([192, 0, 2, 1].into()));
        let file = "a".repeat(BodyLimit::Images.bytes() - 1000);
        charge.grow(BodyLimit::Images.bytes()).unwrap();

        let parsed = try_parse("/proxy/videovendor/start-end2video", &[("images; filename=a.png", &file)], &mut charge);
        let (value, _) = parsed.expect("a form");
        assert_eq!(value["images"][0].as_str().map(str::len), Some(file.len().div_ceil(3) * 4));
    }
}
