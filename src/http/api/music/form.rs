//! Form of the music endpoint (RFC 7578): `prompt` and `duration`; other parts are ignored.

use std::future::ready;

use actix_multipart::Multipart;
use actix_web::error::PayloadError;
use actix_web::http::header::HeaderMap;
use actix_web::web::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;

use crate::domain::music::{MusicPrompt, MusicSeconds, MusicWork};
use crate::domain::value::InvalidValue;
use crate::http::openapi::schema::{SchemaField, field_with_schema};
use crate::http::request::fields::FieldErrors;
use crate::http::request::form::malformed_form;
use crate::http::response::error::Problem;

/// Maximum size of a prompt in bytes: 2000 characters of four bytes, and surrounding white space.
const PROMPT_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a duration in bytes.
const DURATION_BYTES_MAX: usize = 64;
/// Placeholder for text over the limit: invalid for every field, so that the error states what is allowed.
const INVALID_TEXT: &str = "\0";
/// Maximum number of parts, including ignored ones.
const PARTS_MAX: usize = 64;

/// Describes the fields of the form.
pub fn describe_fields() -> Vec<SchemaField> {
    let seconds = json!({"type": "integer", "minimum": 1, "maximum": MusicSeconds::MAX});
    vec![
        field_with_schema(
            "prompt",
            "Prompt: mood, genre, tempo, key, metre, instruments, form. Whitespace at both ends is ignored.",
            json!({"type": "string", "minLength": 1, "maxLength": 2000}),
        )
        .required(),
        field_with_schema("duration", "Duration in seconds; inferred from the prompt if absent.", seconds),
    ]
}

/// Reads the form. An empty duration counts as absent, because browsers send empty fields.
///
/// # Errors
/// 400 with all invalid fields, or if the body is not a form.
pub async fn read(headers: &HeaderMap, body: Bytes) -> Result<MusicWork, Problem> {
    let mut errors = FieldErrors::default();
    let mut prompt = FormFieldValue::Absent;
    let mut seconds = FormFieldValue::Absent;
    let mut parts = Multipart::new(headers, stream::once(ready(Ok::<_, PayloadError>(body))));
    let mut part_count = 0;

    while let Some(part) = parts.next().await {
        let mut part = part.map_err(|error| malformed_form(&error))?;
        part_count += 1;
        if part_count > PARTS_MAX {
            return Err(malformed_form(&format!("more than {PARTS_MAX} parts")));
        }

        let (field, bytes_max) = match part.name() {
            Some("prompt") => (&mut prompt, PROMPT_BYTES_MAX),
            Some("duration") => (&mut seconds, DURATION_BYTES_MAX),
            _ => {
                // Drain the part; its bytes are in memory already.
                while let Some(chunk) = part.next().await {
                    chunk.map_err(|error| malformed_form(&error))?;
                }
                continue;
            }
        };

        let text = match part.bytes(bytes_max).await {
            Ok(bytes) => decode_utf8(&bytes.map_err(|error| malformed_form(&error))?),
            Err(_) => Ok(INVALID_TEXT.to_owned()),
        };

        *field = match field {
            FormFieldValue::Absent => FormFieldValue::Present(text),
            FormFieldValue::Present(_) | FormFieldValue::Repeated => FormFieldValue::Repeated,
        };
    }

    let sent_duration = seconds.sent_text();
    let prompt = prompt.read(|text| MusicPrompt::parse(text).map(Some));
    let seconds = seconds.read(|text| match text.trim() {
        "" => Ok(None),
        text => parse_seconds(text).map(Some),
    });

    let prompt = prompt.map_err(|reason| errors.add("/prompt", reason)).ok();
    if prompt == Some(None) {
        errors.add("/prompt", "is required");
    }
    let seconds = seconds.map_err(|reason| errors.add_with_value("/duration", reason, &sent_duration)).ok();
    let work = prompt.flatten().zip(seconds).map(|(prompt, seconds)| MusicWork { prompt, seconds, credits: 0 });
    errors.finish(work)
}

/// Occurrences of a field, and its value.
enum FormFieldValue {
    Absent,
    Present(Result<String, InvalidValue>),
    Repeated,
}

impl FormFieldValue {
    /// Returns the text that was sent; empty if the field is absent, repeated or not UTF-8.
    fn sent_text(&self) -> String {
        match self {
            Self::Present(Ok(text)) => text.clone(),
            Self::Absent | Self::Present(Err(_)) | Self::Repeated => String::new(),
        }
    }

    /// Parses the value; `None` if the field is absent.
    fn read<T>(self, parse: impl FnOnce(&str) -> Result<Option<T>, InvalidValue>) -> Result<Option<T>, InvalidValue> {
        match self {
            Self::Absent => Ok(None),
            Self::Present(text) => parse(&text?),
            Self::Repeated => Err(InvalidValue::new("must be given at most once")),
        }
    }
}

fn decode_utf8(bytes: &[u8]) -> Result<String, InvalidValue> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| InvalidValue::new("must be text in UTF-8"))
}

fn parse_seconds(text: &str) -> Result<MusicSeconds, InvalidValue> {
    /// Out of range, so that the error states the allowed range.
    const INVALID_SECONDS: i64 = -1;
    let is_numeric = text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows is out of range too.
    MusicSeconds::new(if is_numeric { text.parse().unwrap_or(i64::MAX) } else { INVALID_SECONDS })
}
