//! A log that a test can hold up and make fail, to see what the actors do meanwhile.

use std::sync::Arc;

use mediary::events::envelope::{Append, RecordedEvent};
use mediary::events::log::{EventLog, GroupOutcome, LogFailure};
use mediary::events::memory_log::MemoryLog;
use mediary::events::stream::{Position, StreamId, Version};
use parking_lot::{Condvar, Mutex};

/// A memory log whose appends wait while it is held.
#[derive(Default)]
pub struct SlowLog {
    inner: MemoryLog,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: bool,
    waiting: bool,
    broken: bool,
    groups: Vec<usize>,
}

impl SlowLog {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// From now on appends wait.
    pub fn hold(&self) {
        self.state.lock().held = true;
    }

    /// Lets the appends go on.
    pub fn release(&self) {
        self.state.lock().held = false;
        self.changed.notify_all();
    }

    /// From now on appends fail.
    pub fn break_down(&self) {
        self.state.lock().broken = true;
    }

    /// Returns once an append waits. Blocks.
    pub fn await_append(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.waiting);
    }

    /// How many appends each group had.
    pub fn groups(&self) -> Vec<usize> {
        self.state.lock().groups.clone()
    }
}

impl EventLog for SlowLog {
    fn append(&self, group: Vec<Append>) -> Result<GroupOutcome, LogFailure> {
        let mut state = self.state.lock();
        state.groups.push(group.len());
        state.waiting = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.held);
        state.waiting = false;
        if state.broken {
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
