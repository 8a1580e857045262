//! Taking in a request body: how much, how fast, of what type, and as JSON of what depth (contract 10).

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use actix_web::web::{self, Bytes, BytesMut, Payload};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::error::{Code, Problem};

/// Deepest nesting of a JSON body.
const DEPTH_MAX: usize = 64;
/// Slowest rate at which a body may arrive, in bytes a second.
const RATE_MIN: u64 = 1024;
/// What a body may be late against that rate.
const GRACE: Duration = Duration::from_secs(10);
/// Memory that all bodies together may take while they are worked on, in [`UNIT`]s: 512 MiB.
const ROOM_UNITS: usize = 512 * 1024;
/// What room is counted in, in bytes.
const UNIT: usize = 1024;
/// JSON of more bytes than this is parsed on a thread of its own.
const PARSED_IN_PLACE_MAX: usize = 128 * 1024;

/// How large the body of a route may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    /// The route takes no body.
    None,
    /// JSON without images: 2 MiB.
    Json,
    /// JSON with base64 images: 70 MiB.
    Images,
}

impl BodyLimit {
    /// Most bytes of the body.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Json => 2 << 20,
            Self::Images => 70 << 20,
        }
    }
}

/// The memory that bodies may take together; when it is used up, requests are answered 503.
#[derive(Clone)]
pub struct BodyRoom(Arc<Semaphore>);

impl Default for BodyRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_UNITS)))
    }
}

/// A body that has arrived whole.
pub struct Body {
    bytes: Bytes,
    /// Given back when the body is dropped.
    _room: Option<OwnedSemaphorePermit>,
}

impl Body {
    /// The body as it came.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is no JSON, or nested too deeply.
    pub async fn json(&self) -> Result<Value, Problem> {
        if self.bytes.len() <= PARSED_IN_PLACE_MAX {
            return parse(&self.bytes);
        }
        let bytes = self.bytes.clone();
        web::block(move || parse(&bytes)).await.map_err(Problem::internal)?
    }
}

/// Reads a JSON body to its end.
///
/// # Errors
/// When it is not JSON by its type, too large, too slow, or breaks off; or when there is no room for it.
pub async fn receive(
    headers: &HeaderMap,
    payload: Payload,
    limit: BodyLimit,
    room: &BodyRoom,
) -> Result<Body, Problem> {
    check_type(headers)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit.bytes()) {
        return Err(too_large(limit));
    }
    let (mut bytes, mut held, mut payload) = (BytesMut::new(), None, payload);
    let started = Instant::now();
    loop {
        let allowed = GRACE + Duration::from_secs(bytes.len() as u64 / RATE_MIN);
        let next = timeout_at(started + allowed, payload.next()).await.map_err(|_| too_slow())?;
        let Some(chunk) = next else { break };
        let chunk = chunk.map_err(|_| Problem::new(Code::MalformedRequest, "the body broke off"))?;
        if bytes.len() + chunk.len() > limit.bytes() {
            return Err(too_large(limit));
        }
        hold(room, &mut held, bytes.len(), chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(Body { bytes: bytes.freeze(), _room: held })
}

/// Takes the room for `more` bytes after `before`.
fn hold(room: &BodyRoom, held: &mut Option<OwnedSemaphorePermit>, before: usize, more: usize) -> Result<(), Problem> {
    let units = (before + more).div_ceil(UNIT) - before.div_ceil(UNIT);
    let units = u32::try_from(units).map_err(Problem::internal)?;
    let permit = Arc::clone(&room.0).try_acquire_many_owned(units).map_err(|_| Problem::overloaded())?;
    match held {
        Some(held) => held.merge(permit),
        None => *held = Some(permit),
    }
    Ok(())
}

fn too_large(limit: BodyLimit) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("the body may have at most {} bytes", limit.bytes()))
}

fn too_slow() -> Problem {
    Problem::new(Code::RequestTimeout, format!("the body must arrive at {RATE_MIN} bytes a second or faster"))
}

/// A body without a type is taken for JSON; one of another type, charset or coding is not looked at.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let refusal = |detail| Problem::new(Code::UnsupportedMedia, detail);
    let coded =
        headers.get(CONTENT_ENCODING).is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if coded {
        return Err(refusal("the body must not be compressed"));
    }
    let Some(content_type) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let content_type = content_type.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if !json {
        return Err(refusal("the body must be application/json"));
    }
    let charset = parts.find_map(|part| part.strip_prefix("charset=")).map(|charset| charset.trim_matches('"'));
    match charset {
        None | Some("utf-8" | "utf8") => Ok(()),
        Some(_) => Err(refusal("the body must be in UTF-8")),
    }
}

/// Parses a body as JSON.
///
/// # Errors
/// When it is empty, no JSON (with the place of the mistake), or nested too deeply.
pub fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Err(Problem::new(Code::MalformedBody, "a JSON body is needed, and there is none"));
    }
    if depth(bytes) > DEPTH_MAX {
        let detail = format!("the body is nested deeper than {DEPTH_MAX} levels");
        return Err(Problem::new(Code::MalformedBody, detail));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(Code::MalformedBody, format!("the body is not valid JSON: {error}")))
}

/// How deeply arrays and objects are nested, told without parsing: brackets inside strings do not count.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    #[test]
    fn depth_counts_brackets_outside_strings() {
        assert_eq!(depth(br#"{"a": ["[[[", "\"[", {"b": []}]}"#), 4);
        assert_eq!(depth(b"]]]["), 1);
    }

    #[test]
    fn sixty_four_levels_are_allowed() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(nested(64).as_bytes()).is_ok());
        assert!(parse(nested(65).as_bytes()).is_err());
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let detail = parse(b"{\n  \"a\": x}").unwrap_err().to_string();
        assert!(detail.ends_with("line 2 column 8"), "{detail}");
        assert!(parse(b"").is_err() && parse(b"{} x").is_err() && parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn only_json_is_taken() {
        let taken = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            check_type(&headers).is_ok()
        };
        for good in ["application/json", "Application/JSON; charset=UTF-8", "application/merge-patch+json"] {
            assert!(taken(good), "{good}");
        }
        for bad in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "x+json"] {
            assert!(!taken(bad), "{bad}");
        }
        assert!(check_type(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn bodies_share_a_bounded_room() {
        let room = BodyRoom::default();
        let mut held = None;
        assert!(hold(&room, &mut held, 0, ROOM_UNITS * UNIT).is_ok());
        assert_eq!(hold(&room, &mut None, 0, 1).unwrap_err().code(), Code::Overloaded);
        drop(held);
        assert!(hold(&room, &mut None, 0, 1).is_ok());
    }
}
