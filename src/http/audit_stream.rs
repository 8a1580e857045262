//! The events as they happen: `GET /admin/events/stream`, server-sent events (the `text/event-stream` of HTML).
//!
//! A reader pulls: the next events are read from the log when the ones before were taken, so that a slow reader costs no
//! memory and loses nothing. Nothing is kept for a reader who is away; it names the last position that it has seen.

use std::fmt::Write as _;

use actix_web::http::Method;
use actix_web::web::{self, Bytes, Data};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::account_pool::PoolPlace;
use super::answer::Answer;
use super::audit::{read_after, read_filter};
use super::authorize::Identity;
use super::error::Problem;
use super::gate::Call;
use super::server::Shared;
use super::sse::{OF_LAST_SEEN, RETRY_MILLIS, check_reached, failed, last_seen, opened};
use super::stream_access::StreamAccess;
use crate::audit::Position;
use crate::audit::filter::Filter;
use crate::audit::moment::Moment;
use crate::audit::page::{Batch, Bounds};
use crate::domain::policy::Action;

/// What is read at a time.
const BOUNDS: Bounds = Bounds { events: 256, bytes: 64 * 1024, looked: 4096 };
/// Audit streams that may be open at a time.
pub const AUDIT_STREAMS_MAX: usize = 256;
/// A stream that is being read.
struct Feed {
    shared: Data<Shared>,
    filter: Filter,
    /// Up to where everything was looked at.
    after: Position,
    changes: watch::Receiver<Position>,
    /// True once the service stops.
    closing: watch::Receiver<bool>,
    access: StreamAccess,
    /// When the next heartbeat is due.
    due: Instant,
    /// Nothing follows.
    ended: bool,
    _place: PoolPlace,
}

/// `GET /admin/events/stream`: the events that pass a filter, as they happen, from where the reader has left off.
pub async fn stream(call: Call<{ Action::Administer as u8 }>) -> Result<Answer, Problem> {
    let mut query = call.query()?;
    let filter = read_filter(&mut query);
    let asked = read_after(&mut query);
    query.finish()?;
    let seen = last_seen(call.headers())?;
    let shared = call.shared().clone();
    let (changes, closing) = (shared.services.models.changes(), shared.services.closing.clone());
    let head = *changes.borrow();
    let after = match (seen, asked) {
        (Some(seen), _) => check_reached(seen, head, OF_LAST_SEEN).map(|()| seen)?,
        (None, Some(asked)) => check_reached(asked, head, "/after").map(|()| asked)?,
        (None, None) => before_first(filter.from, head),
    };
    let mut response = opened();
    if *call.method() == Method::HEAD {
        return Ok(Answer::ready(response.finish()));
    }
    let place = shared.audit_streams.take(call.account())?;
    let access = StreamAccess::new(&call)?;
    let due = Instant::now() + shared.services.options.heartbeat;
    let feed = Feed { shared, filter, after, changes, closing, access, due, ended: false, _place: place };
    Ok(Answer::ready(response.streaming(feed.into_stream())))
}

/// Where a reader begins who does not say what was seen: where the filter begins, else with what happens next.
fn before_first(from: Option<Moment>, head: Position) -> Position {
    match from {
        None => head,
        Some(Moment::Position(from)) => Position(from.0.saturating_sub(1)).min(head),
        // The log knows the place, and goes there at the first reading.
        Some(Moment::Time(_)) => Position(0),
    }
}

impl Feed {
    fn into_stream(self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        let place = match (self.filter.from, self.after) {
            (Some(Moment::Time(from)), Position(0)) => format!("from {from} on"),
            (_, after) => format!("after position {after}"),
        };
        let greeting = format!("retry: {RETRY_MILLIS}\n: the events {place}\n\n");
        unfold((self, Some(greeting)), |(mut feed, greeting)| async move {
            let text = if greeting.is_some() { greeting } else { feed.next().await };
            text.map(|text| (Ok(Bytes::from(text)), (feed, None)))
        })
    }

    /// What is to be sent next; `None` when the stream is over.
    async fn next(&mut self) -> Option<String> {
        while !self.is_over() && self.may_go_on().await {
            if self.after < *self.changes.borrow_and_update() {
                match self.read().await {
                    Ok(text) if text.is_empty() => {}
                    Ok(text) => return Some(self.sent(text)),
                    Err(problem) => {
                        self.ended = true;
                        return Some(failed(&problem, "/admin/events/stream"));
                    }
                }
                continue;
            }
            let changed = async {
                tokio::select! {
                    changed = self.changes.changed() => changed.is_ok(),
                    _ = self.closing.changed() => true,
                    () = self.access.changed() => true,
                }
            };
            match timeout_at(self.due, changed).await {
                Ok(true) => {}
                Ok(false) => self.ended = true,
                // The id lets a reader whose events are rare come back to where the service has looked.
                Err(_) => return Some(self.sent(format!(": heartbeat\nid: {}\n\n", self.after))),
            }
        }
        None
    }

    fn is_over(&self) -> bool {
        let reached = matches!(self.filter.to, Some(Moment::Position(to)) if self.after >= to);
        self.ended || reached || *self.closing.borrow()
    }

    fn sent(&mut self, text: String) -> String {
        self.due = Instant::now() + self.shared.services.options.heartbeat;
        text
    }

    /// The next events.
    async fn read(&mut self) -> Result<String, Problem> {
        let (audit, filter, after) = (self.shared.services.audit.clone(), self.filter.clone(), self.after);
        let batch = web::block(move || audit.batch(&filter, after, BOUNDS)).await.map_err(Problem::internal)?;
        let Batch { events, reached, end, head } = batch.map_err(super::audit::refusal)?;
        // A filter may begin beyond the last event; nobody could come back to there.
        self.after = reached.min(head);
        // What was asked for lies behind: nothing that is recorded from now on belongs to it.
        self.ended |= reached >= end && end < head;
        Ok(events.iter().fold(String::new(), |mut text, (position, event)| {
            // Writing to a string cannot fail. Canonical JSON has no line breaks.
            let _ = write!(text, "id: {position}\ndata: {}\n\n", event.get());
            text
        }))
    }

    /// Returns `true` if the reader may still read: its token can be revoked, and its right be taken away.
    async fn may_go_on(&mut self) -> bool {
        self.access.allows(Identity::is_admin).await
    }
}
