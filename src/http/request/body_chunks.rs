//! Streamed request body, with limits of size and speed (contract 10).

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use actix_web::web::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::http::request::body::BodyLimit;
use crate::http::response::error::{Code, Problem};

/// Minimum transfer rate, in bytes a second.
const RATE_MIN: u64 = 1024;
/// Tolerated delay against [`RATE_MIN`].
const GRACE: Duration = Duration::from_secs(10);

/// Request body being received.
pub struct BodyChunks {
    payload: Payload,
    limit: BodyLimit,
    /// Value of `Content-Length`, if present.
    content_length: Option<usize>,
    received: usize,
    deadline: TransferDeadline,
}

impl BodyChunks {
    /// Prepares to receive a body within `limit`; the time limits start now.
    ///
    /// # Errors
    /// If the body is compressed, or `Content-Length` exceeds the limit.
    pub fn new(headers: &HeaderMap, payload: Payload, limit: BodyLimit) -> Result<Self, Problem> {
        let encoding = headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Problem::new(Code::UnsupportedMedia, "the body must not be compressed"));
        }

        let content_length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if content_length.is_some_and(|length| length > limit.bytes()) {
            return Err(too_large(limit));
        }

        Ok(Self { payload, limit, content_length, received: 0, deadline: TransferDeadline::new(Instant::now()) })
    }

    /// Returns `Content-Length`, if present.
    #[must_use]
    pub fn content_length(&self) -> Option<usize> {
        self.content_length
    }

    /// Adds a deadline for the whole body, regardless of its speed.
    #[must_use]
    pub fn with_deadline(mut self, timeout: Duration) -> Self {
        self.deadline.end_at(Instant::now() + timeout);
        self
    }

    /// Returns the next chunk, or `None` at the end of the body.
    ///
    /// # Errors
    /// If the body is too large, too slow or incomplete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let next =
            timeout_at(self.deadline.due, self.payload.next()).await.map_err(|_| self.deadline.timeout_error())?;

        let Some(chunk) = next else { return Ok(None) };
        let chunk = chunk.map_err(|_| Problem::new(Code::MalformedRequest, "the body is incomplete"))?;
        self.received += chunk.len();
        if self.received > self.limit.bytes() {
            return Err(too_large(self.limit));
        }

        self.deadline.extend_for(chunk.len(), Instant::now());
        Ok(Some(chunk))
    }
}

fn too_large(limit: BodyLimit) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("the body may have at most {} bytes", limit.bytes()))
}

/// Deadline of the next bytes. Received bytes extend it, to at most [`GRACE`] from now.
struct TransferDeadline {
    due: Instant,
    /// Deadline of the whole body.
    end: Option<Instant>,
}

impl TransferDeadline {
    fn new(now: Instant) -> Self {
        Self { due: now + GRACE, end: None }
    }

    /// Extends the deadline by the time that `bytes` take at the minimum rate.
    fn extend_for(&mut self, bytes: usize, now: Instant) {
        let extension = Duration::from_micros(bytes as u64 * 1_000_000 / RATE_MIN);
        let due = (self.due + extension).min(now + GRACE);
        self.due = self.end.map_or(due, |end| due.min(end));
    }

    fn end_at(&mut self, end: Instant) {
        self.end = Some(end);
        self.due = self.due.min(end);
    }

    fn timeout_error(&self) -> Problem {
        let detail = if self.end == Some(self.due) {
            "the upload exceeded the total time limit".to_owned()
        } else {
            format!("the body arrived more slowly than {RATE_MIN} bytes per second")
        };
        Problem::new(Code::RequestTimeout, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_bytes_extend_the_deadline_by_at_most_the_grace_period() {
        let start = Instant::now();
        let mut deadline = TransferDeadline::new(start);
        // However much came at once, only the grace period is left for the rest.
        deadline.extend_for(1 << 20, start);
        assert_eq!(deadline.due, start + GRACE);

        // At half the minimum rate, the deadline passes after nearly twice the grace period.
        let in_time = (1..).map(|second| start + Duration::from_secs(second)).take_while(|now| {
            let in_time = *now < deadline.due;
            deadline.extend_for(512, *now);
            in_time
        });
        assert_eq!(in_time.count(), 18);
    }

    #[test]
    fn a_deadline_is_not_extended_by_received_bytes() {
        let start = Instant::now();
        let mut deadline = TransferDeadline::new(start);
        let end = start + Duration::from_mins(15);
        deadline.end_at(end);
        assert_eq!(deadline.due, start + GRACE);
        deadline.extend_for(1 << 20, end - Duration::from_secs(1));
        assert_eq!(deadline.due, end);
        assert_eq!(deadline.timeout_error().code(), Code::RequestTimeout);
        deadline.end_at(start);
        assert_eq!(deadline.due, start);
    }
}
