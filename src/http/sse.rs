//! Server-sent events (the `text/event-stream` of HTML): what all streams have in common.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};

use super::answer::identity;
use super::audit::read_position;
use super::error::Problem;
use super::fields::Fault;
use crate::audit::Position;

/// How soon a client that lost the connection comes back, in milliseconds.
pub const RETRY_MILLIS: u32 = 2000;
/// Task streams that may be open at a time.
pub const TASK_STREAMS_MAX: usize = 1024;
/// Task streams that one account may have open.
pub const TASK_STREAMS_PER_ACCOUNT: usize = 64;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
