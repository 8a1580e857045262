//! A page of events: those that pass a filter, within a bound of work.

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

/// Most events of a page.
pub const LIMIT_MAX: u64 = 1000;
/// Events of a page, when the caller does not say.
pub const LIMIT_DEFAULT: u64 = 100;
/// Most events that one page looks at, whatever it finds.
pub const LOOKED_MAX: u64 = 50_000;
/// A page with more bytes of events than this takes no further one.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// So few events are looked at rather than a stream read from its beginning.
const NEAR: u64 = 2000;
/// How far times of events may be out of order: they are of the moment when a command was given.
const DISORDER: Duration = Duration::from_mins(5);

/// Events, oldest first.
#[derive(Debug, Serialize)]
pub struct EventPage {
    pub events: Vec<Box<RawValue>>,
    /// The position after which to ask for more; absent when everything that was asked for has been looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// The position of the last event of the log.
    pub head: u64,
}

/// How much one reading takes at most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Events that pass the filter; at least 1.
    pub events: usize,
    /// Bytes of events: one that has as many takes no further one.
    pub bytes: usize,
    /// Events that are looked at, whether they pass or not.
    pub looked: u64,
}

/// What one reading found.
#[derive(Debug)]
pub struct Batch {
    /// Each with its position.
    pub events: Vec<(u64, Box<RawValue>)>,
    /// Up to where everything was looked at.
    pub reached: Position,
    /// Up to where there is something to look at now.
    pub end: Position,
    /// The position of the last event of the log.
    pub head: Position,
}

/// What is taken into a batch.
struct Filling<'f> {
    audit: &'f Audit,
    filter: &'f Filter,
    bounds: Bounds,
    events: Vec<(u64, Box<RawValue>)>,
    bytes: usize,
    /// How many events were looked at.
    looked: u64,
    /// The last of them.
    last: Position,
    /// Why an event could not be taken.
    failed: Option<Unanswered>,
}

impl Filling<'_> {
    /// Looks at one more event; breaks when the batch takes no further one.
    fn take(&mut self, event: &RecordedEvent) -> ControlFlow<()> {
        (self.looked, self.last) = (self.looked + 1, event.position);
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
    /// An event as canonical JSON, ready to be joined with others.
    pub(super) fn raw(&self, event: &RecordedEvent) -> Result<Box<RawValue>, Unanswered> {
        Ok(RawValue::from_string(self.record(event)?.canonical()).unwrap_or_default())
    }

    /// The events after `after` that pass a filter, oldest first; at most `limit` of them. A filter that names one thing reads
    /// its stream alone; any other looks at [`LOOKED_MAX`] events at most.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn page(&self, filter: &Filter, after: Position, limit: usize) -> Result<EventPage, Unanswered> {
        let bounds = Bounds { events: limit, bytes: BYTES_MAX, looked: LOOKED_MAX };
        let Batch { events, reached, end, head } = self.batch(filter, after, bounds)?;
        let next = (reached < end).then_some(reached.0);
        Ok(EventPage { events: events.into_iter().map(|(_, event)| event).collect(), next, head: head.0 })
    }

    /// The events after `after` that pass a filter, oldest first, within bounds.
    ///
    /// # Errors
    /// When the events cannot be read.
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

    /// After which position events can pass the filter, and up to which.
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

    /// Hands out, as canonical JSON, every event after `after` that passes a filter, however many there are.
    ///
    /// # Errors
    /// When the events cannot be read.
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
