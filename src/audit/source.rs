//! Sources of events: the log of a running service, or the journal of a stopped one.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::domain::value::Timestamp;
use crate::events::envelope::RecordedEvent;
use crate::events::journal::{JournalError, ReadOnlyJournal};
use crate::events::log::{EventLog, LogFailure};
use crate::events::open_error::OpenError;
use crate::events::stream::{Position, StreamId, Version};

/// Number of events read from a running log at a time.
const CHUNK: usize = 512;

/// Failure to read the events.
#[derive(Debug, thiserror::Error)]
pub enum EventSourceError {
    /// From the log of a running service.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// From the journal of a stopped service.
    #[error(transparent)]
    Journal(#[from] OpenError),
}

impl From<JournalError> for EventSourceError {
    fn from(error: JournalError) -> Self {
        OpenError::from(error).into()
    }
}

/// Callback for each event. A break ends the scan.
pub type EventCallback<'f> = &'f mut dyn FnMut(&RecordedEvent) -> ControlFlow<()>;

/// A source of events. All calls block.
pub trait EventSource: Send + Sync + 'static {
    /// Returns the position of the last event.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn head(&self) -> Result<Position, EventSourceError>;

    /// Calls `on_event` with the events after `after`, in order.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn scan(&self, after: Position, on_event: EventCallback<'_>) -> Result<(), EventSourceError>;

    /// Returns the events of `streams` up to the position `until`, in order.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn read_streams(
        &self,
        streams: &BTreeSet<StreamId>,
        until: Position,
    ) -> Result<Vec<RecordedEvent>, EventSourceError>;

    /// Returns the position that the log had reached at a time: that of the last event that is not later. This is only
    /// approximate where event times decrease, because commands waited for each other or the clock was set back.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn position_at(&self, at: Timestamp) -> Result<Position, EventSourceError>;
}

/// The log of a running service.
pub struct LiveEventSource(pub Arc<dyn EventLog>);

impl EventSource for LiveEventSource {
    fn head(&self) -> Result<Position, EventSourceError> {
        Ok(self.0.head())
    }

    fn scan(&self, mut after: Position, on_event: EventCallback<'_>) -> Result<(), EventSourceError> {
        loop {
            let events = self.0.read_all(after, CHUNK)?;
            let Some(last) = events.last() else { return Ok(()) };
            after = last.position;
            if events.iter().any(|event| on_event(event).is_break()) {
                return Ok(());
            }
        }
    }

    fn read_streams(
        &self,
        streams: &BTreeSet<StreamId>,
        until: Position,
    ) -> Result<Vec<RecordedEvent>, EventSourceError> {
        let mut events = Vec::new();
        for stream in streams {
            let stream_events = self.0.read_stream(stream, Version(0))?;
            events.extend(stream_events.into_iter().take_while(|event| event.position <= until));
        }
        events.sort_unstable_by_key(|event| event.position);
        Ok(events)
    }

    fn position_at(&self, at: Timestamp) -> Result<Position, EventSourceError> {
        let mut low = 0;
        let mut high = self.0.head().0 + 1;
        while low + 1 < high {
            let middle = u64::midpoint(low, high);
            let event = self.0.read_all(Position(middle - 1), 1)?;
            if event.first().is_some_and(|event| event.at <= at) {
                low = middle;
            } else {
                high = middle;
            }
        }

        Ok(Position(low))
    }
}

/// The journal of a stopped service.
pub struct StoppedEventSource(ReadOnlyJournal);

impl StoppedEventSource {
    /// Opens a log without changing it.
    ///
    /// # Errors
    /// If there is no log, it cannot be read, or HEAD was signed for another log.
    pub fn open(directory: &Path) -> Result<Self, EventSourceError> {
        let journal = ReadOnlyJournal::open(directory)?;

        // Fail before any output if HEAD is invalid: most queries check it only at the end.
        journal.head()?;

        Ok(Self(journal))
    }
}

impl EventSource for StoppedEventSource {
    fn head(&self) -> Result<Position, EventSourceError> {
        Ok(self.0.head()?)
    }

    fn scan(&self, after: Position, on_event: EventCallback<'_>) -> Result<(), EventSourceError> {
        let mut journal = self.0.read_from(after)?;
        while let Some(record) = journal.next_record()? {
            let mut events = record.commit.iter().filter(|event| event.position > after);
            if events.any(|event| on_event(event).is_break()) {
                return Ok(());
            }
        }
        Ok(self.0.check_end(&journal)?)
    }

    fn read_streams(
        &self,
        streams: &BTreeSet<StreamId>,
        until: Position,
    ) -> Result<Vec<RecordedEvent>, EventSourceError> {
        let mut events = Vec::new();
        self.scan(Position(0), &mut |event| {
            if event.position > until {
                return ControlFlow::Break(());
            }
            if streams.contains(&event.stream) {
                events.push(event.clone());
            }
            ControlFlow::Continue(())
        })?;
        Ok(events)
    }

    fn position_at(&self, at: Timestamp) -> Result<Position, EventSourceError> {
        let mut position = Position(0);
        self.scan(Position(0), &mut |event| {
            if event.at <= at {
                position = event.position;
            }
            ControlFlow::Continue(())
        })?;
        Ok(position)
    }
}
