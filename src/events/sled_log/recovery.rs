//! Recovery of sled after a file system error. Sled does not work after such an error, so the running service reopens
//! it, compares it with the journal and fills the gap. Until then reads use the journal, which is slower.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::SledTrees;
use super::open::{catch_up, open_existing, recreate, refill};
use super::shared::SharedLogState;
use crate::events::envelope::{Commit, RecordedEvent};
use crate::events::journal::{JournalError, JournalReader};
use crate::events::log::LogFailure;
use crate::events::open_error::OpenError;
use crate::events::stream::{Position, StreamId, Version};

/// Pause between attempts to reopen sled.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Interval of the check for remaining readers of sled.
const READER_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Progress of opening a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStep {
    /// The last event processed.
    pub position: Position,
    /// The last event to process, once known.
    pub head: Option<Position>,
    /// `true` if sled is being rebuilt from the journal.
    pub rebuilding: bool,
}

/// Progress callback, called from time to time while sled is filled.
pub type OpenProgress = Arc<dyn Fn(OpenStep) + Send + Sync>;

impl SharedLogState {
    /// Closes sled, and reopens it until it accepts the events that it lacks. Returns `false` if the log is being
    /// closed.
    pub(super) fn reopen_until_filled(&self, reason: &str) -> bool {
        tracing::error!(reason, "sled failed, reopening it; reads use the journal");
        self.stall_appends(reason);
        self.close_trees();

        loop {
            if !self.queue.sleep(RETRY_EVERY) {
                return false;
            }
            if self.space.check().is_err() {
                continue;
            }

            match self.reopen() {
                Ok(trees) => {
                    *self.trees.write() = Some(Arc::new(trees));
                    self.scrub.clear_sled_damage();
                    self.queue.set_stalled(None);
                    tracing::info!("sled is up to date again");
                    return true;
                }
                Err(reason) => self.stall_appends(&reason),
            }
        }
    }

    /// Stops appends until sled is up to date again, because the events that it lacks are in memory.
    fn stall_appends(&self, reason: &str) {
        let reason = format!("cannot write the index (sled): {reason}");
        self.space.record_refusal(&reason);
        self.queue.set_stalled(Some(reason));
    }

    /// Closes sled after the last reader has finished; its lock is not free before that.
    pub(super) fn close_trees(&self) {
        let Some(mut trees) = self.trees.write().take() else { return };
        loop {
            match Arc::try_unwrap(trees) {
                Ok(trees) => return trees.close(),
                Err(still_shared) => trees = still_shared,
            }
            thread::sleep(READER_POLL_INTERVAL);
        }
    }

    /// Reopens sled: inserts the events that it lacks, or rebuilds it if it differs from the journal.
    fn reopen(&self) -> Result<SledTrees, String> {
        let head = self.tail.read().head();
        let journal = || Ok::<JournalReader, OpenError>(self.journal.read(Position(0), head)?);
        let report_error = |error: OpenError| {
            self.report_journal_damage(&error);
            error.to_string()
        };

        let reason = match open_existing(&self.directory, &self.damage_mark) {
            Ok((trees, extent)) => {
                match catch_up(&trees, extent, journal().map_err(report_error)?).map_err(report_error)? {
                    Ok(_) => return Ok(trees),
                    Err(reason) => reason,
                }
            }
            Err(unusable) => unusable.rebuild.reason,
        };

        tracing::warn!(reason, "rebuilding sled from the journal");
        verify_journal(journal().map_err(report_error)?).map_err(report_error)?;
        let trees = recreate(&self.directory).map_err(report_error)?;
        refill(&trees, journal().map_err(report_error)?, &self.directory, None).map_err(report_error)?;

        trees.flush()?;
        let _ = std::fs::remove_file(&self.damage_mark);
        Ok(trees)
    }

    pub(super) fn stream_version_from_journal(&self, stream: &StreamId) -> Result<Version, LogFailure> {
        let last_position = self.position_before_tail();
        let mut version = Version(0);
        self.for_each_commit(Position(0), last_position, |commit| {
            if let Some(last) = commit.last().filter(|event| event.stream == *stream) {
                version = last.version;
            }
        })?;
        Ok(version)
    }

    /// The events of a stream after version `after` and before position `end`.
    pub(super) fn read_stream_from_journal(
        &self,
        stream: &StreamId,
        after: Version,
        end: Position,
    ) -> Result<Vec<RecordedEvent>, LogFailure> {
        let mut events = Vec::new();
        self.for_each_commit(Position(0), Position(end.0.saturating_sub(1)), |commit| {
            if commit[0].stream == *stream {
                events.extend(commit.iter().filter(|event| event.version > after).cloned());
            }
        })?;
        Ok(events)
    }

    pub(super) fn read_all_from_journal(
        &self,
        after: Position,
        last: Position,
    ) -> Result<Vec<RecordedEvent>, LogFailure> {
        let mut events = Vec::new();
        self.for_each_commit(after, last, |commit| {
            let events_in_range = commit.iter().filter(|event| event.position > after && event.position <= last);
            events.extend(events_in_range.cloned());
        })?;
        Ok(events)
    }

    /// Records damage that a reader found in the journal. The log is not reported as intact after that, and the next
    /// start reads the whole journal.
    pub(super) fn report_journal_damage(&self, error: &OpenError) {
        if !matches!(error, OpenError::Damaged { .. }) || !self.scrub.record_journal_damage(&error.to_string()) {
            return;
        }
        tracing::error!(%error, "damage in the journal found by a reader");
        self.mark_journal_damaged(&error.to_string());
    }

    fn position_before_tail(&self) -> Position {
        Position(self.tail.read().first_position().0.saturating_sub(1))
    }

    fn for_each_commit(
        &self,
        after: Position,
        last: Position,
        mut visit: impl FnMut(&Commit),
    ) -> Result<(), LogFailure> {
        let to_failure = |error: JournalError| {
            let error = OpenError::from(error);
            self.report_journal_damage(&error);
            read_failure(error)
        };

        let mut reader: JournalReader = self.journal.read(after, last).map_err(to_failure)?;
        while let Some(record) = reader.next_record().map_err(to_failure)? {
            visit(&record.commit);
        }
        Ok(())
    }
}

/// Error for a read that failed in the journal.
fn read_failure(error: OpenError) -> LogFailure {
    match error {
        OpenError::Damaged { file, offset, position, reason } => {
            LogFailure::Damaged { location: format!("{} at offset {offset}", file.display()), position, reason }
        }
        error => {
            let doing = "read the journal instead of sled".to_owned();
            LogFailure::Storage { doing, reason: error.to_string() }
        }
    }
}

/// Reads the whole journal, because sled may only be deleted if the journal is intact.
fn verify_journal(mut journal: JournalReader) -> Result<(), OpenError> {
    while journal.next_record()?.is_some() {}
    Ok(())
}
