//! Pages of events that pass a filter, with a limit on the work per page.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::filter::{Filter, Streams};
use super::moment::Moment;
use super::{Audit, Unanswered};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

/// Maximum number of events per page.
pub const LIMIT_MAX: u64 = 1000;
/// Default number of events per page.
pub const LIMIT_DEFAULT: u64 = 100;
/// Maximum number of events that one page scans.
pub const LOOKED_MAX: u64 = 50_000;
/// A page ends once its events exceed this number of bytes.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Up to this many events are scanned rather than reading a stream from its beginning.
const NEAR: u64 = 2000;
/// Tolerance for events out of time order: their time is that of the command, not of the append.
const DISORDER: Duration = Duration::from_mins(5);

/// A page of events, oldest first.
#[derive(Debug, Serialize)]
pub struct EventPage {
    pub events: Vec<Box<RawValue>>,
    /// The position after which the next page begins; absent if the scan is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The position of the last event of the log.
    pub head: u64,
}

/// Limits of one batch.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Events that pass the filter; at least 1.
    pub events: usize,
    /// Bytes of events. The event that exceeds them is the last.
    pub bytes: usize,
    /// Events scanned, matching or not.
    pub looked: u64,
}

/// Result of one batch.
#[derive(Debug)]
pub struct Batch {
    /// Events with their positions.
    pub events: Vec<(u64, Box<RawValue>)>,
    /// Position up to which the scan is complete.
    pub reached: Position,
    /// Position up to which there are events to scan now.
    pub end: Position,
    /// The position of the last event of the log.
    pub head: Position,
}

/// A batch in progress.
struct Filling<'f> {
    audit: &'f Audit,
    filter: &'f Filter,
    bounds: Bounds,
    events: Vec<(u64, Box<RawValue>)>,
    bytes: usize,
    /// Number of events scanned.
    looked: u64,
    /// Position of the last event scanned.
    last: Position,
    /// Error that ended the batch.
    failed: Option<Unanswered>,
}

impl Filling<'_> {
    /// Scans one event; breaks when the batch is full.
    fn take(&mut self, event: &RecordedEvent) -> ControlFlow<()> {
        self.looked += 1;
        self.last = event.position;

        if self.filter.matches(event) {
            let json = match self.audit.raw(event) {
                Ok(json) => json,
                Err(failure) => {
                    self.failed = Some(failure);
                    return ControlFlow::Break(());
                }
            };
            self.bytes += json.get().len();
            self.events.push((event.position.0, json));
        }

        let Bounds { events, bytes, looked } = self.bounds;
        let full = self.events.len() >= events || self.bytes >= bytes || self.looked >= looked;
        if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Audit {
    /// Renders an event as canonical JSON.
    pub(super) fn raw(&self, event: &RecordedEvent) -> Result<Box<RawValue>, Unanswered> {
        Ok(RawValue::from_string(self.record(event)?.canonical()).unwrap_or_default())
    }

    /// Returns at most `limit` events after `after` that pass a filter, oldest first. For a filter on one subject, a
    /// long range reads only the subject's stream; otherwise a page scans at most [`LOOKED_MAX`] events.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn page(&self, filter: &Filter, after: Position, limit: usize) -> Result<EventPage, Unanswered> {
        let bounds = Bounds { events: limit, bytes: BYTES_MAX, looked: LOOKED_MAX };
        let Batch { events, reached, end, head } = self.batch(filter, after, bounds)?;
        let next = (reached < end).then_some(reached.0);
        Ok(EventPage { events: events.into_iter().map(|(_, event)| event).collect(), next, head: head.0 })
    }

    /// Returns the events after `after` that pass a filter, oldest first, within limits.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn batch(&self, filter: &Filter, after: Position, bounds: Bounds) -> Result<Batch, Unanswered> {
        let head = self.source.head()?;
        let (begin, end) = self.bounds(filter, head)?;
        let after = after.max(begin);

        let mut filling =
            Filling { audit: self, filter, bounds, events: Vec::new(), bytes: 0, looked: 0, last: after, failed: None };
        let mut full = false;

        match &filter.streams {
            _ if after >= end => {}
            Streams::One(thing) if end.0 - after.0 > NEAR => {
                let events = self.source.streams(&BTreeSet::from([thing.stream().clone()]), end)?;
                let mut events = events.iter().filter(|event| event.position > after);
                full = events.any(|event| filling.take(event).is_break());
            }
            _ => self.source.walk(after, &mut |event| {
                if event.position > end {
                    return ControlFlow::Break(());
                }
                let taken = filling.take(event);
                full = taken.is_break();
                taken
            })?,
        }

        if let Some(failure) = filling.failed {
            return Err(failure);
        }

        let reached = if full { filling.last } else { end.max(after) };
        Ok(Batch { events: filling.events, reached, end, head })
    }

    /// The positions after which, and up to which, events can pass the filter.
    fn bounds(&self, filter: &Filter, head: Position) -> Result<(Position, Position), Unanswered> {
        let begin = match filter.from {
            None => Position(0),
            Some(Moment::Position(position)) => Position(position.0.saturating_sub(1)),
            Some(Moment::Time(at)) => self.source.reached(earlier(at))?,
        };
        let end = match filter.to {
            None => head,
            Some(Moment::Position(position)) => position.min(head),
            Some(Moment::Time(at)) => self.source.reached(at.after(DISORDER))?.min(head),
        };
        Ok((begin, end))
    }

    /// Calls `each` with every event after `after` that passes a filter, until it breaks.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn each(
        &self,
        filter: &Filter,
        after: Position,
        mut each: impl FnMut(&RecordedEvent) -> ControlFlow<()>,
    ) -> Result<(), Unanswered> {
        let ended = |event: &RecordedEvent| matches!(filter.to, Some(Moment::Position(to)) if event.position > to);
        let begin = if let Some(Moment::Position(from)) = filter.from { from.0.saturating_sub(1) } else { 0 };

        self.source.walk(after.max(Position(begin)), &mut |event| {
            if ended(event) {
                return ControlFlow::Break(());
            }
            if filter.matches(event) { each(event) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }
}

fn earlier(at: Timestamp) -> Timestamp {
    let micros = i64::try_from(DISORDER.as_micros()).unwrap_or_default();
    Timestamp::from_micros(at.micros().saturating_sub(micros))
}
