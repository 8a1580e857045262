//! A request body as it comes: how much of it, how fast, chunk by chunk (contract 10).

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap};
use actix_web::web::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::body::BodyLimit;
use super::error::{Code, Problem};

/// Slowest rate at which a body may arrive, in bytes a second.
const RATE_MIN: u64 = 1024;
/// What a body may be late against that rate, at any time.
const GRACE: Duration = Duration::from_secs(10);

/// A body of which some has come.
pub struct Chunks {
    payload: Payload,
    limit: BodyLimit,
    /// How long it says that it is; nothing when it does not say.
    announced: Option<usize>,
    received: usize,
    patience: Patience,
}

impl Chunks {
    /// A body of which nothing has come yet.
    ///
    /// # Errors
    /// When it is compressed, or announces that it is too large.
    pub fn new(headers: &HeaderMap, payload: Payload, limit: BodyLimit) -> Result<Self, Problem> {
        let coding = headers.get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Problem::new(Code::UnsupportedMedia, "the body must not be compressed"));
        }
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > limit.bytes()) {
            return Err(too_large(limit));
        }
        Ok(Self { payload, limit, announced, received: 0, patience: Patience::new(Instant::now()) })
    }

    /// How many bytes it announces; nothing when it does not.
    #[must_use]
    pub fn announced(&self) -> Option<usize> {
        self.announced
    }

    /// The same body, which must have come whole after this time, however fast it comes.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.patience.end_at(Instant::now() + time);
        self
    }

    /// The next of it; `None` when it has come whole.
    ///
    /// # Errors
    /// When it is too large, too slow, or breaks off.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let next = timeout_at(self.patience.due, self.payload.next()).await.map_err(|_| self.patience.refusal())?;
        let Some(chunk) = next else { return Ok(None) };
        let chunk = chunk.map_err(|_| Problem::new(Code::MalformedRequest, "the body broke off"))?;
        self.received += chunk.len();
        if self.received > self.limit.bytes() {
            return Err(too_large(self.limit));
        }
        self.patience.received(chunk.len(), Instant::now());
        Ok(Some(chunk))
    }
}

fn too_large(limit: BodyLimit) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("the body may have at most {} bytes", limit.bytes()))
}

/// Until when the next bytes of a body must have come: bytes buy time, but never more than [`GRACE`] in advance.
struct Patience {
    due: Instant,
    /// When the body must have come whole.
    end: Option<Instant>,
}

impl Patience {
    fn new(now: Instant) -> Self {
        Self { due: now + GRACE, end: None }
    }

    fn received(&mut self, bytes: usize, now: Instant) {
        let bought = Duration::from_micros(bytes as u64 * 1_000_000 / RATE_MIN);
        let due = (self.due + bought).min(now + GRACE);
        self.due = self.end.map_or(due, |end| due.min(end));
    }

    fn end_at(&mut self, end: Instant) {
        self.end = Some(end);
        self.due = self.due.min(end);
    }

    fn refusal(&self) -> Problem {
        let detail = if self.end == Some(self.due) {
            "the body took too long as a whole".to_owned()
        } else {
            format!("the body must arrive at {RATE_MIN} bytes a second or faster")
        };
        Problem::new(Code::RequestTimeout, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_body_earns_more_than_the_grace_in_advance() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        // However much came at once, only the grace is left for the rest.
        patience.received(1 << 20, start);
        assert_eq!(patience.due, start + GRACE);
        // A body at half the rate is late after nearly twice the grace.
        let in_time = (1..).map(|second| start + Duration::from_secs(second)).take_while(|now| {
            let in_time = *now < patience.due;
            patience.received(512, *now);
            in_time
        });
        assert_eq!(in_time.count(), 18);
    }

    #[test]
    fn a_body_may_have_an_end_that_no_bytes_put_off() {
        let start = Instant::now();
        let (mut patience, end) = (Patience::new(start), start + Duration::from_mins(15));
        patience.end_at(end);
        assert_eq!(patience.due, start + GRACE);
        patience.received(1 << 20, end - Duration::from_secs(1));
        assert_eq!(patience.due, end);
        assert_eq!(patience.refusal().code(), Code::RequestTimeout);
        patience.end_at(start);
        assert_eq!(patience.due, start);
    }
}
