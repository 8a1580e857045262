//! `GET /admin/events/stream`: the event log as server-sent events.
//!
//! The reader pulls: the next events are read from the log after the previous ones were taken, so a slow reader costs
//! no memory and misses nothing. The server keeps no state for disconnected readers; they resume with the last position
//! received.

use std::fmt::Write as _;

use actix_web::http::Method;
use actix_web::web::{self, Bytes, Data};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::audit::Position;
use crate::audit::filter::AuditFilter;
use crate::audit::page::{BatchLimits, EventBatch};
use crate::audit::point_in_time::PointInTime;
use crate::domain::policy::Action;
use crate::http::api::audit::{query_error, read_after, read_filter};
use crate::http::auth::authorize::Identity;
use crate::http::auth::stream_access::StreamAccess;
use crate::http::limits::account_pool::PoolPermit;
use crate::http::pipeline::Call;
use crate::http::response::api_response::ApiResponse;
use crate::http::response::error::Problem;
use crate::http::response::sse::{
    LAST_EVENT_ID_POINTER, RETRY_MILLIS, check_within_log, failed_event, last_event_id, start_response,
};
use crate::http::server::AppState;

/// Limits of one read.
const READ_LIMITS: BatchLimits = BatchLimits { events: 256, bytes: 64 * 1024, scanned: 4096 };
/// Maximum number of open audit streams.
pub const AUDIT_STREAMS_MAX: usize = 256;

/// Open event stream.
struct AuditEventStream {
    shared: Data<AppState>,
    filter: AuditFilter,
    /// Position up to which the log was filtered.
    after: Position,
    changes: watch::Receiver<Position>,
    /// `true` once the service shuts down.
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    /// Time of the next heartbeat.
    heartbeat_at: Instant,
    /// `true` once the last event was sent.
    ended: bool,
    _permit: PoolPermit,
}

/// `GET /admin/events/stream`: the events that match a filter, live, after the last position received.
pub async fn stream(call: Call<{ Action::Administer as u8 }>) -> Result<ApiResponse, Problem> {
    let mut query = call.query()?;
    let filter = read_filter(&mut query);
    let requested = read_after(&mut query);
    query.finish()?;

    let last_id = last_event_id(call.headers())?;
    let shared = call.shared().clone();
    let changes = shared.services.models.changes();
    let closing = shared.services.closing.clone();
    let head = *changes.borrow();
    let after = match (last_id, requested) {
        (Some(last_id), _) => check_within_log(last_id, head, LAST_EVENT_ID_POINTER).map(|()| last_id)?,
        (None, Some(requested)) => check_within_log(requested, head, "/after").map(|()| requested)?,
        (None, None) => start_position(filter.from, head),
    };

    let mut response = start_response();
    if *call.method() == Method::HEAD {
        return Ok(ApiResponse::from_response(response.finish()));
    }

    let permit = shared.audit_streams.try_acquire(call.account())?;
    let access = StreamAccess::new(&call)?;
    let heartbeat_at = Instant::now() + shared.services.options.heartbeat;
    let feed = AuditEventStream {
        shared,
        filter,
        after,
        changes,
        closing,
        access,
        heartbeat_at,
        ended: false,
        _permit: permit,
    };
    Ok(ApiResponse::from_response(response.streaming(feed.into_stream())))
}

/// Returns the start position of a reader that requests none: the start of the filter, or else the head of the log.
fn start_position(from: Option<PointInTime>, head: Position) -> Position {
    match from {
        None => head,
        Some(PointInTime::Position(from)) => Position(from.0.saturating_sub(1)).min(head),
        // The log finds the position of the time at the first read.
        Some(PointInTime::Time(_)) => Position(0),
    }
}

impl AuditEventStream {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        let range_text = match (self.filter.from, self.after) {
            (Some(PointInTime::Time(from)), Position(0)) => format!("from {from} on"),
            (_, after) => format!("after position {after}"),
        };
        let greeting = format!("retry: {RETRY_MILLIS}\n: the events {range_text}\n\n");
        unfold((self, Some(greeting)), |(mut feed, greeting)| async move {
            let text = if greeting.is_some() { greeting } else { feed.next().await };
            text.map(|text| (Ok(Bytes::from(text)), (feed, None)))
        })
    }

    /// Returns the next text to send, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<String> {
        while !self.is_over() && self.has_access().await {
            if self.after < *self.changes.borrow_and_update() {
                match self.read().await {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => return Some(self.postpone_heartbeat(text)),
                    Err(problem) => {
                        self.ended = true;
                        return Some(failed_event(&problem, "/admin/events/stream"));
                    }
                }
                continue;
            }

            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.closing.changed() => true,
                    () = self.access.wait_for_change() => true,
                }
            };

            match timeout_at(self.heartbeat_at, changed).await {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                // The id lets a reader with few matches resume at the position up to which the log was filtered.
                Err(_) => return Some(self.postpone_heartbeat(format!(": heartbeat\nid: {}\n\n", self.after))),
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        let reached_end = matches!(self.filter.to, Some(PointInTime::Position(to)) if self.after >= to);
        self.ended || reached_end || *self.closing.borrow()
    }

    /// Restarts the heartbeat interval and returns `text` unchanged.
    fn postpone_heartbeat(&mut self, text: String) -> String {
        self.heartbeat_at = Instant::now() + self.shared.services.options.heartbeat;
        text
    }

    /// Reads the next events, as text to send; empty if none of them matches the filter. Advances the position.
    async fn read(&mut self) -> Result<String, Problem> {
        let audit = self.shared.services.operations.audit.clone();
        let filter = self.filter.clone();
        let after = self.after;
        let batch = web::block(move || audit.batch(&filter, after, READ_LIMITS)).await.map_err(Problem::internal)?;
        let EventBatch { events, scanned_to, end, head } = batch.map_err(query_error)?;

        // A filter may begin after the last event; readers could not resume from there.
        self.after = scanned_to.min(head);
        // The range of the filter is complete: later events cannot match.
        self.ended |= scanned_to >= end && end < head;

        Ok(events.iter().fold(String::new(), |mut text, (position, event)| {
            // Writing to a string cannot fail. Canonical JSON has no line breaks.
            let _ = write!(text, "id: {position}\ndata: {}\n\n", event.get());
            text
        }))
    }

    /// Returns `true` if the reader still has access: tokens can be revoked and permissions withdrawn.
    async fn has_access(&mut self) -> bool {
        self.access.allows(Identity::is_admin).await
    }
}
