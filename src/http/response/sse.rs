//! Server-sent events (the `text/event-stream` of HTML): parts common to all streams.

use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};

use crate::audit::Position;
use crate::http::api::audit::parse_position;
use crate::http::request::fields::FieldError;
use crate::http::response::api_response::identity_encoding;
use crate::http::response::error::Problem;

/// Reconnection delay of clients, in milliseconds.
pub const RETRY_MILLIS: u32 = 2000;
/// Maximum number of open task streams.
pub const TASK_STREAMS_MAX: usize = 1024;
/// Maximum number of open task streams of one account.
pub const TASK_STREAMS_PER_ACCOUNT: usize = 64;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Pointer of errors in the `Last-Event-ID` header.
pub const LAST_EVENT_ID_POINTER: &str = "/Last-Event-ID";
/// Disables response buffering in proxies.
pub const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Starts the response of a stream.
pub fn start_response() -> HttpResponseBuilder {
    let mut response = HttpResponse::build(StatusCode::OK);
    response.content_type("text/event-stream").insert_header(identity_encoding());
    response.insert_header((CACHE_CONTROL, "no-store"));
    response.insert_header((X_ACCEL_BUFFERING, HeaderValue::from_static("no")));
    response
}

/// Returns the position in `Last-Event-ID`, which browsers send when they reconnect.
///
/// # Errors
/// If the header is not a position.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<Position>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let position = parse_position(value.to_str().unwrap_or_default());
    position.map(Some).map_err(|reason| Problem::invalid(vec![FieldError::new(LAST_EVENT_ID_POINTER, reason)]))
}

/// Checks that the log has reached a position; otherwise the position belongs to another log. `pointer` names the
/// parameter or header in the error.
///
/// # Errors
/// If `after` is beyond `head`.
pub fn check_within_log(after: Position, head: Position, pointer: &str) -> Result<(), Problem> {
    if after <= head {
        return Ok(());
    }
    let reason = format!("is after the last event (position {head}): the position is from another log");
    Err(Problem::invalid(vec![FieldError::new(pointer, reason)]))
}

/// Returns the last event of a stream that failed; `path` is that of the request.
#[must_use]
pub fn failed_event(problem: &Problem, path: &str) -> String {
    format!("event: failed\ndata: {}\n\n", problem.to_json(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_event_is_a_problem_response() {
        let event = failed_event(&Problem::internal("a test"), "/admin/events/stream");
        let data = event.strip_prefix("event: failed\ndata: ").and_then(|data| data.strip_suffix("\n\n")).unwrap();
        let problem: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(
            (&problem["error"], &problem["instance"]),
            (&"internal_error".into(), &"/admin/events/stream".into())
        );
        assert!(!data.contains('\n'));
    }
}
