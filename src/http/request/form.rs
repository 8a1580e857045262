//! Forms (`multipart/form-data`, RFC 7578): their content type, and a reader of forms in memory.

use std::future::{Future, ready};
use std::pin::pin;

use actix_multipart::Multipart;
use actix_web::error::PayloadError;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::web::Bytes;
use futures_util::{FutureExt, stream};

use crate::http::response::error::{Code, Problem};

/// Returns `true` for `multipart/form-data`.
#[must_use]
pub fn is_form(content_type: Option<&HeaderValue>) -> bool {
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("multipart/form-data")
}

/// Returns the error for an unreadable form.
pub fn malformed_form(reason: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::MalformedBody, format!("the body is not a valid form: {reason}"))
}

/// Reads the parts of a form in memory with `read`. Blocks, but never waits.
///
/// # Errors
/// Those of `read`; also if the form ends early.
pub fn read_in_memory<T, F: Future<Output = Result<T, Problem>>>(
    content_type: &HeaderValue,
    body: &Bytes,
    read: impl FnOnce(Multipart) -> F,
) -> Result<T, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type.clone());
    let parts = Multipart::new(&headers, stream::once(ready(Ok::<_, PayloadError>(body.clone()))));

    let mut reading = pin!(read(parts));
    // The future may yield after each piece, and each piece has at least one byte.
    for _ in 0..=body.len() {
        if let Some(result) = reading.as_mut().now_or_never() {
            return result;
        }
    }
    Err(malformed_form(&"it is incomplete"))
}
