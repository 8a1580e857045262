//! Server-sent events (the `text/event-stream` of HTML): what all streams have in common.

use std::collections::HashMap;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use parking_lot::Mutex;

use super::answer::identity;
use super::audit::read_position;
use super::error::{Code, Problem};
use super::fields::Fault;
use crate::audit::Position;
use crate::domain::ids::UserId;

/// How soon a client that lost the connection comes back, in milliseconds.
pub const RETRY_MILLIS: u32 = 2000;
/// Streams of tasks that may be open at a time.
pub const TASK_STREAMS_MAX: usize = 1024;
/// How many of them one user may have.
pub const TASK_STREAMS_OF_USER: usize = 64;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Where what is wrong with it is.
pub const OF_LAST_SEEN: &str = "/Last-Event-ID";
/// Keeps a proxy in between from gathering events.
pub const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The beginning of a stream.
pub fn opened() -> HttpResponseBuilder {
    let mut response = HttpResponse::build(StatusCode::OK);
    response.content_type("text/event-stream").insert_header(identity());
    response.insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((X_ACCEL_BUFFERING, HeaderValue::from_static("no")));
    response
}

/// The position in the header with which browsers come back.
///
/// # Errors
/// When the header is there and is no position.
pub fn last_seen(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let position = read_position(value.to_str().unwrap_or_default());
    position.map(Some).map_err(|reason| Problem::invalid(vec![Fault::new(OF_LAST_SEEN, reason)]))
}

/// A position that the log has not reached belongs to another history; `pointer` says where it was given.
///
/// # Errors
/// When it is beyond `head`.
pub fn check_reached(after: Position, head: Position, pointer: &str) -> Result<(), Problem> {
    if after <= head {
        return Ok(());
    }
    let reason = format!("is beyond the last event, which has position {head}: this is another history");
    Err(Problem::invalid(vec![Fault::new(pointer, reason)]))
}

/// The last event of a stream that cannot go on; `path` is that of its request.
#[must_use]
pub fn failed(problem: &Problem, path: &str) -> String {
    format!("event: failed\ndata: {}\n\n", problem.written(path))
}

/// The streams of tasks that are open, by who reads them.
#[derive(Clone, Default)]
pub struct TaskStreams(Arc<Mutex<HashMap<UserId, usize>>>);

/// A place among them; given back when it is dropped.
pub struct Place {
    streams: TaskStreams,
    reader: UserId,
}

impl TaskStreams {
    /// Takes a place.
    ///
    /// # Errors
    /// 429 when the reader has too many streams, 503 when all have.
    pub fn take(&self, reader: UserId) -> Result<Place, Problem> {
        let mut open = self.0.lock();
        let own = open.get(&reader).copied().unwrap_or(0);
        if own >= TASK_STREAMS_OF_USER {
            let detail = format!("{own} of your streams are open; close some of them first");
            return Err(Problem::new(Code::TooManyStreams, detail).retry_after(5));
        }
        if open.values().sum::<usize>() >= TASK_STREAMS_MAX {
            return Err(Problem::overloaded());
        }
        open.insert(reader, own + 1);
        Ok(Place { streams: self.clone(), reader })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock();
        let left = open.remove(&self.reader).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            open.insert(self.reader, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn user(number: usize) -> UserId {
        UserId(Uuid::from_u128(number as u128 + 1))
    }

    #[test]
    fn what_ends_a_stream_is_told_as_every_failure_is() {
        let told = failed(&Problem::internal("a test"), "/admin/events/stream");
        let data = told.strip_prefix("event: failed\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
        let problem: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(
            (&problem["error"], &problem["instance"]),
            (&"internal_error".into(), &"/admin/events/stream".into())
        );
        assert!(!data.contains('\n'));
    }

    #[test]
    fn one_reader_has_some_places_all_have_more_and_they_come_back() {
        let streams = TaskStreams::default();
        let refused = |reader| streams.take(user(reader)).err().map(|problem| problem.code());
        let readers = TASK_STREAMS_MAX / TASK_STREAMS_OF_USER;
        let mut places = Vec::new();
        for reader in 0..readers {
            assert_eq!(refused(readers + 1), None);
            places.extend((0..TASK_STREAMS_OF_USER).filter_map(|_| streams.take(user(reader)).ok()));
            assert_eq!(refused(reader), Some(Code::TooManyStreams));
        }
        assert_eq!((places.len(), refused(readers + 1)), (TASK_STREAMS_MAX, Some(Code::Overloaded)));
        places.pop();
        assert_eq!(refused(readers + 1), None);
        places.clear();
        assert!(streams.0.lock().is_empty());
    }
}
