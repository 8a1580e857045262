//! sled that the file system refused answers nothing any more. While the service goes on, it is opened again, compared with
//! the journal and filled with what it lacks; meanwhile the journal is read in its place, which is slower.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::Trees;
use super::open::{catch_up, open_existing, refill, start_over};
use super::shared::Shared;
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::journal::{JournalReader, OpenError};
use crate::events::log::LogFailure;
use crate::events::stream::{Position, StreamId, Version};

/// How often sled is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How often is looked whether the last reader has let go of sled.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How far the opening of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStep {
    /// The last event that was worked on.
    pub position: Position,
    /// The last event that there is to work on, once it is known.
    pub head: Option<Position>,
    /// Whether sled is being made anew from the journal.
    pub rebuilding: bool,
}

/// Is told now and then how far the opening of a log is, while sled is being filled.
pub type OpenProgress = Arc<dyn Fn(OpenStep) + Send + Sync>;

impl Shared {
    /// Closes sled and opens it again until it takes what it lacks; false when the log is being closed.
    pub(super) fn bring_back(&self, reason: &str) -> bool {
        tracing::error!(reason, "sled has failed: it is opened again, and the journal is read in its place meanwhile");
        self.stall(reason);
        self.close_trees();
        loop {
            if !self.queue.pause(RETRY_EVERY) {
                return false;
            }
            if self.space.check().is_err() {
                continue;
            }
            match self.reopen() {
                Ok(trees) => {
                    *self.trees.write() = Some(Arc::new(trees));
                    self.scrub.mended();
                    self.queue.stall(None);
                    tracing::info!("sled is filled again");
                    return true;
                }
                Err(reason) => self.stall(&reason),
            }
        }
    }

    /// No changes are taken until sled is filled again: what it lacks is in memory.
    fn stall(&self, reason: &str) {
        let reason = format!("the index of the log (sled) cannot be written: {reason}");
        self.space.refused(&reason);
        self.queue.stall(Some(reason));
    }

    /// Waits until nobody reads it any more: its lock is only free then.
    pub(super) fn close_trees(&self) {
        let Some(mut shared) = self.trees.write().take() else { return };
        loop {
            match Arc::try_unwrap(shared) {
                Ok(trees) => return trees.close(),
                Err(read) => shared = read,
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// sled as the journal has it: what it lacks is filled in; when it holds anything else, it is made anew.
    fn reopen(&self) -> Result<Trees, String> {
        let head = self.tail.read().head();
        let journal = || self.journal.read(Position(0), head);
        let said = |error: OpenError| {
            self.note_damage(&error);
            error.to_string()
        };
        let reason = match open_existing(&self.directory, &self.damage_mark) {
            Ok((trees, reach)) => match catch_up(&trees, reach, journal().map_err(said)?).map_err(said)? {
                Ok(_) => return Ok(trees),
                Err(reason) => reason,
            },
            Err(unusable) => unusable.why.reason,
        };
        tracing::warn!(reason, "sled is made anew from the journal");
        read_through(journal().map_err(said)?).map_err(said)?;
        let trees = start_over(&self.directory).map_err(said)?;
        refill(&trees, journal().map_err(said)?, &self.directory, None).map_err(said)?;
        trees.flush()?;
        let _ = std::fs::remove_file(&self.damage_mark);
        Ok(trees)
    }

    pub(super) fn version_in_journal(&self, stream: &StreamId) -> Result<Version, LogFailure> {
        let before = self.before_tail();
        let mut version = Version(0);
        self.each_commit(Position(0), before, |commit| {
            if let Some(last) = commit.last().filter(|event| event.stream == *stream) {
                version = last.version;
            }
        })?;
        Ok(version)
    }

    /// The events of a stream after version `after` that are before position `end`.
    pub(super) fn stream_in_journal(
        &self,
        stream: &StreamId,
        after: Version,
        end: Position,
    ) -> Result<Vec<RecordedEvent>, LogFailure> {
        let mut events = Vec::new();
        self.each_commit(Position(0), Position(end.0.saturating_sub(1)), |commit| {
            if commit[0].stream == *stream {
                events.extend(commit.iter().filter(|event| event.version > after).cloned());
            }
        })?;
        Ok(events)
    }

    pub(super) fn all_in_journal(&self, after: Position, last: Position) -> Result<Vec<RecordedEvent>, LogFailure> {
        let mut events = Vec::new();
        self.each_commit(after, last, |commit| {
            let wanted = commit.iter().filter(|event| event.position > after && event.position <= last);
            events.extend(wanted.cloned());
        })?;
        Ok(events)
    }

    /// Damage that a reader met in the journal: nobody calls it sound after that, and the next start reads all of it.
    pub(super) fn note_damage(&self, error: &OpenError) {
        if !matches!(error, OpenError::Damaged { .. }) || !self.scrub.met_in_journal(&error.to_string()) {
            return;
        }
        tracing::error!(%error, "damage in the journal, met by a reader");
        self.mark_journal(&error.to_string());
    }

    fn before_tail(&self) -> Position {
        Position(self.tail.read().first_position().0.saturating_sub(1))
    }

    fn each_commit(&self, after: Position, until: Position, mut each: impl FnMut(&Commit)) -> Result<(), LogFailure> {
        let failed = |error: OpenError| {
            self.note_damage(&error);
            unread(error)
        };
        let mut reader = self.journal.read(after, until).map_err(failed)?;
        while let Some(record) = reader.next_record().map_err(failed)? {
            each(&record.commit);
        }
        Ok(())
    }
}

/// What those who asked are told of a journal that could not be read for them.
fn unread(error: OpenError) -> LogFailure {
    match error {
        OpenError::Damaged { file, offset, position, reason } => {
            LogFailure::Damaged { place: format!("{} at offset {offset}", file.display()), position, reason }
        }
        error => {
            let doing = "read the journal in place of sled".to_owned();
            LogFailure::Storage { doing, reason: error.to_string() }
        }
    }
}

/// Reads it to its end: sled is only deleted when the journal is whole.
fn read_through(mut journal: JournalReader) -> Result<(), OpenError> {
    while journal.next_record()?.is_some() {}
    Ok(())
}
