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
pub enum SourceFailure {
    /// From the log of a running service.
    #[error(transparent)]
    Log(#[from] LogFailure),
    /// From the journal of a stopped service.
    #[error(transparent)]
    Journal(#[from] OpenError),
}

impl From<JournalError> for SourceFailure {
    fn from(error: JournalError) -> Self {
        OpenError::from(error).into()
    }
}

/// Callback for each event. A break ends the walk.
pub type Each<'f> = &'f mut dyn FnMut(&RecordedEvent) -> ControlFlow<()>;

/// A source of events. All calls block.
pub trait Source: Send + Sync + 'static {
    /// The position of the last event.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn head(&self) -> Result<Position, SourceFailure>;

    /// Calls `each` with the events after `after`, in order.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn walk(&self, after: Position, each: Each<'_>) -> Result<(), SourceFailure>;

    /// Returns the events of these streams up to `until`, in order.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn streams(&self, streams: &BTreeSet<StreamId>, until: Position) -> Result<Vec<RecordedEvent>, SourceFailure>;

    /// Returns the position that the log had reached at a time: that of the last event not later. Event times increase,
    /// except that commands may wait for each other and the clock may be set back.
    ///
    /// # Errors
    /// If the events cannot be read.
    fn reached(&self, at: Timestamp) -> Result<Position, SourceFailure>;
}

/// The log of a running service.
pub struct Live(pub Arc<dyn EventLog>);

impl Source for Live {
    fn head(&self) -> Result<Position, SourceFailure> {
        Ok(self.0.head())
    }

    fn walk(&self, after: Position, each: Each<'_>) -> Result<(), SourceFailure> {
        let mut after = after;
        loop {
            let events = self.0.read_all(after, CHUNK)?;
            let Some(last) = events.last() else { return Ok(()) };
            after = last.position;
            if events.iter().any(|event| each(event).is_break()) {
                return Ok(());
            }
        }
    }

    fn streams(&self, streams: &BTreeSet<StreamId>, until: Position) -> Result<Vec<RecordedEvent>, SourceFailure> {
        let mut events = Vec::new();
        for stream in streams {
            let own = self.0.read_stream(stream, Version(0))?;
            events.extend(own.into_iter().take_while(|event| event.position <= until));
        }
        events.sort_unstable_by_key(|event| event.position);
        Ok(events)
    }

    fn reached(&self, at: Timestamp) -> Result<Position, SourceFailure> {
        let mut not_later = 0;
        let mut later = self.0.head().0 + 1;
        while not_later + 1 < later {
            let middle = u64::midpoint(not_later, later);
            let event = self.0.read_all(Position(middle - 1), 1)?;
            if event.first().is_some_and(|event| event.at <= at) {
                not_later = middle;
            } else {
                later = middle;
            }
        }

        Ok(Position(not_later))
    }
}

/// The journal of a stopped service.
pub struct Stopped(ReadOnlyJournal);

impl Stopped {
    /// Opens a log without changing it.
    ///
    /// # Errors
    /// If there is no log, it cannot be read, or HEAD was signed for another log.
    pub fn open(directory: &Path) -> Result<Self, SourceFailure> {
        let journal = ReadOnlyJournal::open(directory)?;

        // Checks HEAD before any output; most queries need it only at the end.
        journal.head()?;

        Ok(Self(journal))
    }
}

impl Source for Stopped {
    fn head(&self) -> Result<Position, SourceFailure> {
        Ok(self.0.head()?)
    }

    fn walk(&self, after: Position, each: Each<'_>) -> Result<(), SourceFailure> {
        let mut journal = self.0.read_from(after)?;
        while let Some(record) = journal.next_record()? {
            let mut events = record.commit.iter().filter(|event| event.position > after);
            if events.any(|event| each(event).is_break()) {
                return Ok(());
            }
        }
        Ok(self.0.check_end(&journal)?)
    }

    fn streams(&self, streams: &BTreeSet<StreamId>, until: Position) -> Result<Vec<RecordedEvent>, SourceFailure> {
        let mut events = Vec::new();
        self.walk(Position(0), &mut |event| {
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

    fn reached(&self, at: Timestamp) -> Result<Position, SourceFailure> {
        let mut reached = Position(0);
        self.walk(Position(0), &mut |event| {
            if event.at <= at {
                reached = event.position;
            }
            ControlFlow::Continue(())
        })?;
        Ok(reached)
    }
}
