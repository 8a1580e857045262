//! Log whose appends a test can block and make fail, to observe the actors.

use std::sync::Arc;

use mediary::events::envelope::{Append, RecordedEvent};
use mediary::events::log::{EventLog, GroupOutcome, LogFailure};
use mediary::events::memory_log::MemoryLog;
use mediary::events::stream::{Position, StreamId, Version};
use parking_lot::{Condvar, Mutex};

/// In-memory log whose appends wait while it is blocked.
#[derive(Default)]
pub struct SlowLog {
    inner: MemoryLog,
    state: Mutex<SlowLogState>,
    changed: Condvar,
}

#[derive(Default)]
struct SlowLogState {
    /// `true` while appends must wait.
    is_held: bool,
    /// `true` while an append is in progress.
    is_appending: bool,
    /// `true` if appends fail.
    is_broken: bool,
    group_sizes: Vec<usize>,
}

impl SlowLog {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Blocks appends.
    pub fn hold(&self) {
        self.state.lock().is_held = true;
    }

    /// Unblocks appends.
    pub fn release(&self) {
        self.state.lock().is_held = false;
        self.changed.notify_all();
    }

    /// Makes appends fail.
    pub fn fail_appends(&self) {
        self.state.lock().is_broken = true;
    }

    /// Blocks the thread until an append is in progress.
    pub fn wait_for_append(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.is_appending);
    }

    /// Returns the number of appends in each group so far.
    pub fn group_sizes(&self) -> Vec<usize> {
        self.state.lock().group_sizes.clone()
    }
}

impl EventLog for SlowLog {
    /// Waits while the log is blocked, and then appends or fails.
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        let mut state = self.state.lock();
        state.group_sizes.push(group.len());
        state.is_appending = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.is_held);
        state.is_appending = false;
        if state.is_broken {
            return Err(LogFailure::Storage { doing: "syncing".to_owned(), reason: "made to fail".to_owned() });
        }
        drop(state);
        self.inner.append(group)
    }

    fn read_stream(&self, stream: &StreamId, after: Version) -> Result<Vec<RecordedEvent>, LogFailure> {
        self.inner.read_stream(stream, after)
    }

    fn read_all(&self, after: Position, limit: usize) -> Result<Vec<RecordedEvent>, LogFailure> {
        self.inner.read_all(after, limit)
    }

    fn head(&self) -> Position {
        self.inner.head()
    }
}
