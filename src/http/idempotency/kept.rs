//! An answer as it is kept for an idempotency key: which ones are, and how it is written.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::value::{Digest, Timestamp};

/// Answers of more bytes than this are not kept.
pub const ANSWER_MAX: usize = 8 << 20;
/// Refusals that stay the same when the request comes again; after any other the caller may try again.
pub const REFUSALS_KEPT: [u16; 4] = [400, 404, 409, 410];

/// An answer as it is kept; of one that was too large, only what it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// When the request was first carried out.
    pub at: Timestamp,
    pub fingerprint: Digest,
    /// 0 when the answer itself is not kept.
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// All of a kept answer but its body, as it is written before it.
#[derive(Serialize, Deserialize)]
struct Head {
    at_micros: i64,
    fingerprint: String,
    status: u16,
    headers: Vec<(String, String)>,
}

impl Kept {
    /// What is kept of an answer; nothing when the request may be tried again, or the answer is too large. `again`: the
    /// request was carried out before, so that a 404 only says that what it made is gone now.
    #[must_use]
    pub fn new(at: Timestamp, fingerprint: Digest, head: &HttpResponse<()>, body: Bytes, again: bool) -> Option<Self> {
        let status = head.status();
        let gone = again && status == StatusCode::NOT_FOUND;
        let stays = status.is_success() || (REFUSALS_KEPT.contains(&status.as_u16()) && !gone);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };
        // What every answer has is added later, to a replay as well.
        let headers = head.headers().iter().filter_map(text).collect();
        (stays && body.len() <= ANSWER_MAX).then_some(Self { at, fingerprint, status: status.as_u16(), headers, body })
    }

    /// That the key was used, and for what: the answer is made anew when the request comes again.
    #[must_use]
    pub fn without_answer(at: Timestamp, fingerprint: Digest) -> Self {
        Self { at, fingerprint, status: 0, headers: Vec::new(), body: Bytes::new() }
    }

    /// The answer once more, if it is kept.
    #[must_use]
    pub fn respond(self) -> Option<HttpResponse> {
        let mut response = HttpResponse::build(StatusCode::from_u16(self.status).ok()?);
        for header in self.headers {
            response.append_header(header);
        }
        Some(response.body(self.body))
    }

    /// As it is sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { at, fingerprint, status, headers, body } = self;
        let (at_micros, fingerprint, headers) = (at.micros(), fingerprint.to_string(), headers.clone());
        let head = Head { at_micros, fingerprint, status: *status, headers };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        bytes
    }

    /// From what was sealed.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        let Head { at_micros, fingerprint, status, headers } = serde_json::from_slice(&bytes[..line]).ok()?;
        let (at, fingerprint) = (Timestamp::from_micros(at_micros), Digest::parse(&fingerprint).ok()?);
        Some(Self { at, fingerprint, status, headers, body: Bytes::from(bytes).slice(line + 1..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(status: u16, bytes: usize, again: bool) -> Option<Kept> {
        let response = HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish();
        let (head, ()) = response.set_body(()).into_parts();
        Kept::new(Timestamp::from_micros(0), Digest([9; 32]), &head, Bytes::from(vec![b'x'; bytes]), again)
    }

    #[test]
    fn only_answers_that_stay_the_same_are_kept() {
        for status in [200, 201, 204, 400, 404, 409, 410] {
            assert!(kept(status, 0, false).is_some(), "{status}");
        }
        for status in [302, 401, 403, 408, 413, 415, 422, 429, 500, 503, 507] {
            assert!(kept(status, 0, false).is_none(), "{status}");
        }
        assert!(kept(200, ANSWER_MAX, false).is_some() && kept(200, ANSWER_MAX + 1, false).is_none());
    }

    #[test]
    fn that_something_is_gone_by_now_is_not_kept() {
        let is_kept = |status, again| kept(status, 0, again).is_some();
        assert!(is_kept(404, false) && !is_kept(404, true) && is_kept(200, true) && is_kept(409, true));
    }
}
