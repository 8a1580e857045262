//! Pages of events that pass a filter, with a limit on the work per page.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::filter::{AuditFilter, StreamFilter};
use super::point_in_time::PointInTime;
use super::{Audit, AuditError};
use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::stream::Position;

/// Maximum number of events per page.
pub const LIMIT_MAX: u64 = 1000;
/// Default number of events per page.
pub const LIMIT_DEFAULT: u64 = 100;
/// Maximum number of events that one page scans.
pub const SCANNED_MAX: u64 = 50_000;
/// Total size of the events, in bytes, above which a page ends.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of events that are scanned instead of reading a stream from its beginning.
const SHORT_RANGE_MAX: u64 = 2000;
/// Tolerance for events out of time order: their time is that of the command, not of the append.
const TIME_TOLERANCE: Duration = Duration::from_mins(5);

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
pub struct BatchLimits {
    /// Events that pass the filter; at least 1.
    pub events: usize,
    /// Bytes of events. The event that exceeds them is the last.
    pub bytes: usize,
    /// Events scanned, matching or not.
    pub scanned: u64,
}

/// Result of one batch.
#[derive(Debug)]
pub struct EventBatch {
    /// Events with their positions.
    pub events: Vec<(u64, Box<RawValue>)>,
    /// Position up to which the scan is complete.
    pub scanned_to: Position,
    /// Position up to which there are events to scan now.
    pub end: Position,
    /// The position of the last event of the log.
    pub head: Position,
}

/// A batch in progress.
struct EventBatchBuilder<'f> {
    audit: &'f Audit,
    filter: &'f AuditFilter,
    limits: BatchLimits,
    events: Vec<(u64, Box<RawValue>)>,
    bytes: usize,
    /// Number of events scanned.
    scanned: u64,
    /// Position of the last event scanned.
    last: Position,
    /// Error that ended the batch.
    error: Option<AuditError>,
}

impl EventBatchBuilder<'_> {
    /// Scans one event; breaks when the batch is full.
    fn scan_event(&mut self, event: &RecordedEvent) -> ControlFlow<()> {
        self.scanned += 1;
        self.last = event.position;

        if self.filter.matches(event) {
            let json = match self.audit.canonical_json(event) {
                Ok(json) => json,
                Err(failure) => {
                    self.error = Some(failure);
                    return ControlFlow::Break(());
                }
            };
            self.bytes += json.get().len();
            self.events.push((event.position.0, json));
        }

        let BatchLimits { events, bytes, scanned: scan_limit } = self.limits;
        let full = self.events.len() >= events || self.bytes >= bytes || self.scanned >= scan_limit;
        if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Audit {
    /// Renders an event as canonical JSON.
    pub(super) fn canonical_json(&self, event: &RecordedEvent) -> Result<Box<RawValue>, AuditError> {
        Ok(RawValue::from_string(self.record(event)?.canonical()).unwrap_or_default())
    }

    /// Returns at most `limit` events after `after` that pass a filter, oldest first. For a filter on one subject, a
    /// long range reads only the subject's stream; otherwise a page scans at most [`SCANNED_MAX`] events.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn page(&self, filter: &AuditFilter, after: Position, limit: usize) -> Result<EventPage, AuditError> {
        let limits = BatchLimits { events: limit, bytes: BYTES_MAX, scanned: SCANNED_MAX };
        let EventBatch { events, scanned_to, end, head } = self.batch(filter, after, limits)?;
        let next = (scanned_to < end).then_some(scanned_to.0);
        Ok(EventPage { events: events.into_iter().map(|(_, event)| event).collect(), next, head: head.0 })
    }

    /// Returns the events after `after` that pass a filter, oldest first, within limits.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn batch(&self, filter: &AuditFilter, after: Position, limits: BatchLimits) -> Result<EventBatch, AuditError> {
        let head = self.source.head()?;
        let (start, end) = self.scan_range(filter, head)?;
        let after = after.max(start);

        let mut builder = EventBatchBuilder {
            audit: self,
            filter,
            limits,
            events: Vec::new(),
            bytes: 0,
            scanned: 0,
            last: after,
            error: None,
        };
        let mut full = false;

        match &filter.streams {
            _ if after >= end => {}
            StreamFilter::One(subject) if end.0 - after.0 > SHORT_RANGE_MAX => {
                let events = self.source.read_streams(&BTreeSet::from([subject.stream().clone()]), end)?;
                let mut events = events.iter().filter(|event| event.position > after);
                full = events.any(|event| builder.scan_event(event).is_break());
            }
            _ => self.source.scan(after, &mut |event| {
                if event.position > end {
                    return ControlFlow::Break(());
                }
                let flow = builder.scan_event(event);
                full = flow.is_break();
                flow
            })?,
        }

        if let Some(failure) = builder.error {
            return Err(failure);
        }

        let scanned_to = if full { builder.last } else { end.max(after) };
        Ok(EventBatch { events: builder.events, scanned_to, end, head })
    }

    /// Returns the positions after which, and up to which, events can pass the filter.
    fn scan_range(&self, filter: &AuditFilter, head: Position) -> Result<(Position, Position), AuditError> {
        let start = match filter.from {
            None => Position(0),
            Some(PointInTime::Position(position)) => Position(position.0.saturating_sub(1)),
            Some(PointInTime::Time(at)) => self.source.position_at(minus_tolerance(at))?,
        };
        let end = match filter.to {
            None => head,
            Some(PointInTime::Position(position)) => position.min(head),
            Some(PointInTime::Time(at)) => self.source.position_at(at.saturating_add(TIME_TOLERANCE))?.min(head),
        };
        Ok((start, end))
    }

    /// Calls `on_event` with every event after `after` that passes a filter, until it breaks.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn for_each(
        &self,
        filter: &AuditFilter,
        after: Position,
        mut on_event: impl FnMut(&RecordedEvent) -> ControlFlow<()>,
    ) -> Result<(), AuditError> {
        let is_past_end =
            |event: &RecordedEvent| matches!(filter.to, Some(PointInTime::Position(to)) if event.position > to);
        let start = if let Some(PointInTime::Position(from)) = filter.from { from.0.saturating_sub(1) } else { 0 };

        self.source.scan(after.max(Position(start)), &mut |event| {
            if is_past_end(event) {
                return ControlFlow::Break(());
            }
            if filter.matches(event) { on_event(event) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }
}

fn minus_tolerance(at: Timestamp) -> Timestamp {
    let micros = i64::try_from(TIME_TOLERANCE.as_micros()).unwrap_or_default();
    Timestamp::from_micros(at.micros().saturating_sub(micros))
}
