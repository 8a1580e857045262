//! Stored response of an idempotency key: selection and serialization.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::Bytes;
use serde::{Deserialize, Serialize};

use crate::domain::value::{Digest, Timestamp};

/// Maximum size of a stored body, in bytes.
pub const STORED_BODY_MAX: usize = 8 << 20;
/// Statuses of final errors; after any other the client may retry with the same key.
pub const STORED_ERROR_STATUSES: [u16; 4] = [400, 404, 409, 410];

/// Stored response; without body and headers if they were not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// Time of the first execution of the request.
    pub at: Timestamp,
    pub fingerprint: Digest,
    /// 0 if the response itself is not stored.
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// Serialized form of everything but the body, written before it.
#[derive(Serialize, Deserialize)]
struct StoredResponseHead {
    at_micros: i64,
    fingerprint: String,
    status: u16,
    headers: Vec<(String, String)>,
}

impl StoredResponse {
    /// Returns the response to store, or `None` if the client may retry or the body is too large. `is_rerun` means
    /// that an earlier run executed the request, so a 404 only says that its result is gone.
    #[must_use]
    pub fn new(
        at: Timestamp,
        fingerprint: Digest,
        head: &HttpResponse<()>,
        body: Bytes,
        is_rerun: bool,
    ) -> Option<Self> {
        let status = head.status();
        let is_gone = is_rerun && status == StatusCode::NOT_FOUND;
        let is_storable = status.is_success() || (STORED_ERROR_STATUSES.contains(&status.as_u16()) && !is_gone);

        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        };

        // Headers of every response are added later, to replays as well.
        let headers = head.headers().iter().filter_map(text).collect();
        (is_storable && body.len() <= STORED_BODY_MAX).then_some(Self {
            at,
            fingerprint,
            status: status.as_u16(),
            headers,
            body,
        })
    }

    /// Records only that the key was used, and for what; a replay rebuilds the response.
    #[must_use]
    pub fn without_response(at: Timestamp, fingerprint: Digest) -> Self {
        Self { at, fingerprint, status: 0, headers: Vec::new(), body: Bytes::new() }
    }

    /// Returns the stored response, if any.
    #[must_use]
    pub fn into_response(self) -> Option<HttpResponse> {
        let mut response = HttpResponse::build(StatusCode::from_u16(self.status).ok()?);
        for header in self.headers {
            response.append_header(header);
        }
        Some(response.body(self.body))
    }

    /// Serializes the response for sealing.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { at, fingerprint, status, headers, body } = self;
        let at_micros = at.micros();
        let fingerprint = fingerprint.to_string();
        let headers = headers.clone();

        let head = StoredResponseHead { at_micros, fingerprint, status: *status, headers };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(body);
        bytes
    }

    /// Deserializes a response; `None` if the bytes are malformed.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let head_end = bytes.iter().position(|byte| *byte == b'\n')?;
        let StoredResponseHead { at_micros, fingerprint, status, headers } =
            serde_json::from_slice(&bytes[..head_end]).ok()?;
        let at = Timestamp::from_micros(at_micros);
        let fingerprint = Digest::parse(&fingerprint).ok()?;
        Some(Self { at, fingerprint, status, headers, body: Bytes::from(bytes).slice(head_end + 1..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_RUN: bool = false;
    const RERUN: bool = true;

    fn stored_response(status: u16, bytes: usize, is_rerun: bool) -> Option<StoredResponse> {
        let response = HttpResponse::build(StatusCode::from_u16(status).unwrap()).finish();
        let (head, ()) = response.set_body(()).into_parts();
        StoredResponse::new(Timestamp::from_micros(0), Digest([9; 32]), &head, Bytes::from(vec![b'x'; bytes]), is_rerun)
    }

    #[test]
    fn only_final_responses_are_stored() {
        for status in [200, 201, 204, 400, 404, 409, 410] {
            assert!(stored_response(status, 0, FIRST_RUN).is_some(), "{status}");
        }
        for status in [302, 401, 403, 408, 413, 415, 422, 429, 500, 503, 507] {
            assert!(stored_response(status, 0, FIRST_RUN).is_none(), "{status}");
        }
        assert!(stored_response(200, STORED_BODY_MAX, FIRST_RUN).is_some(), "a body of the maximum size");
        assert!(stored_response(200, STORED_BODY_MAX + 1, FIRST_RUN).is_none(), "a body above the maximum size");
    }

    #[test]
    fn a_404_on_a_rerun_is_not_stored() {
        let is_stored = |status, is_rerun| stored_response(status, 0, is_rerun).is_some();
        assert!(!is_stored(404, RERUN));
        assert!(is_stored(404, FIRST_RUN), "a 404 of the first run is stored");
        assert!(is_stored(200, RERUN) && is_stored(409, RERUN), "other final responses of a rerun are stored");
    }
}
