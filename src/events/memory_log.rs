//! In-memory log for tests, which also compare other logs with it. Its events are lost when the process ends.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::codec;
use super::envelope::{Append, Commit, RecordedEvent};
use super::log::{AppendRejection, EventLog, GroupOutcome, LogFailure};
use super::stream::{Position, StreamId, Version};

/// An in-memory log.
#[derive(Default)]
pub struct MemoryLog {
    history: RwLock<MemoryHistory>,
}

#[derive(Default)]
struct MemoryHistory {
    events: Vec<RecordedEvent>,
    /// Indices into `events` of each stream's events.
    streams: HashMap<StreamId, Vec<usize>>,
}

impl MemoryHistory {
    fn version(&self, stream: &StreamId) -> Version {
        Version(self.streams.get(stream).map_or(0, Vec::len) as u64)
    }

    fn append(&mut self, append: Append) -> Result<Commit, AppendRejection> {
        append.check_version(self.version(&append.stream))?;
        let commit = append.into_commit(Position(self.events.len() as u64));
        codec::encode(&commit, &mut Vec::new()).map_err(|error| AppendRejection::TooLarge { bytes: error.bytes })?;
        for event in commit.iter() {
            self.streams.entry(event.stream.clone()).or_default().push(self.events.len());
            self.events.push(event.clone());
        }
        Ok(commit)
    }
}

impl EventLog for MemoryLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        let mut history = self.history.write();
        Ok(group.into_iter().map(|append| history.append(append)).collect())
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        let history = self.history.read();
        let indices = history.streams.get(stream).map_or(&[][..], Vec::as_slice);
        let skipped = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(indices.iter().skip(skipped).map(|index| history.events[*index].clone()).collect())
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        let skipped = usize::try_from(after.0).unwrap_or(usize::MAX);
        Ok(self.history.read().events.iter().skip(skipped).take(limit).cloned().collect())
    }

    fn head(&self) -> Position {
        Position(self.history.read().events.len() as u64)
    }
}
