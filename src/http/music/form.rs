//! Form of the music endpoint (RFC 7578): `prompt` and `duration`; other parts are ignored.

use std::future::ready;

use actix_multipart::Multipart;
use actix_web::error::PayloadError;
use actix_web::http::header::HeaderMap;
use actix_web::web::Bytes;
use futures_util::{StreamExt, stream};

use crate::domain::music::{MusicPrompt, MusicSeconds, MusicWork};
use crate::domain::value::Invalid;
use crate::http::error::{Code, Problem};
use crate::http::fields::Faults;

/// Maximum size of a prompt in bytes: 2000 characters of four bytes, and surrounding white space.
const PROMPT_BYTES_MAX: usize = 16 * 1024;
/// Maximum size of a duration in bytes.
const DURATION_BYTES_MAX: usize = 64;
/// Placeholder for text over the limit: invalid for every field, so that the error states what is allowed.
const NEVER: &str = "\0";
/// Maximum number of parts, including ignored ones.
const PARTS_MAX: usize = 64;

/// Reads the form. An empty duration counts as absent, because browsers send empty fields.
///
/// # Errors
/// 400 if the body is not a form; or with all invalid fields.
pub async fn read(headers: &HeaderMap, body: Bytes) -> Result<MusicWork, Problem> {
    let mut faults = Faults::default();
    let mut prompt = Given::Not;
    let mut seconds = Given::Not;
    let mut parts = Multipart::new(headers, stream::once(ready(Ok::<_, PayloadError>(body))));
    let mut count = 0;

    while let Some(part) = parts.next().await {
        let mut part = part.map_err(|error| malformed(&error))?;
        count += 1;
        if count > PARTS_MAX {
            return Err(malformed(&format!("it has more than {PARTS_MAX} parts")));
        }

        let (given, bytes_max) = match part.name() {
            Some("prompt") => (&mut prompt, PROMPT_BYTES_MAX),
            Some("duration") => (&mut seconds, DURATION_BYTES_MAX),
            _ => {
                // Drain the part; its bytes are in memory already.
                while let Some(chunk) = part.next().await {
                    chunk.map_err(|error| malformed(&error))?;
                }
                continue;
            }
        };

        let text = match part.bytes(bytes_max).await {
            Ok(bytes) => text_of(&bytes.map_err(|error| malformed(&error))?),
            Err(_) => Ok(NEVER.to_owned()),
        };

        *given = match given {
            Given::Not => Given::Once(text),
            Given::Once(_) | Given::Often => Given::Often,
        };
    }

    let prompt = prompt.read(|text| MusicPrompt::parse(text).map(Some));
    let seconds = seconds.read(|text| match text.trim() {
        "" => Ok(None),
        text => seconds_of(text).map(Some),
    });

    let prompt = prompt.map_err(|reason| faults.add("/prompt", reason)).ok();
    if prompt == Some(None) {
        faults.add("/prompt", "is required");
    }
    let seconds = seconds.map_err(|reason| faults.add("/duration", reason)).ok();
    let work = prompt.flatten().zip(seconds).map(|(prompt, seconds)| MusicWork { prompt, seconds });
    faults.settle(work)
}

/// Occurrences of a field, and its value.
enum Given {
    Not,
    Once(Result<String, Invalid>),
    Often,
}

impl Given {
    /// Parses the value; `None` if the field is absent.
    fn read<T>(self, parse: impl FnOnce(&str) -> Result<Option<T>, Invalid>) -> Result<Option<T>, Invalid> {
        match self {
            Self::Not => Ok(None),
            Self::Once(text) => parse(&text?),
            Self::Often => Err(Invalid::new("must be given once")),
        }
    }
}

fn text_of(bytes: &[u8]) -> Result<String, Invalid> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Invalid::new("must be text in UTF-8"))
}

fn seconds_of(text: &str) -> Result<MusicSeconds, Invalid> {
    // A number that overflows is too long in any case.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    MusicSeconds::new(if digits { text.parse().unwrap_or(i64::MAX) } else { -1 })
}

fn malformed(reason: &dyn std::fmt::Display) -> Problem {
    Problem::new(Code::MalformedBody, format!("the body is not a valid form: {reason}"))
}
