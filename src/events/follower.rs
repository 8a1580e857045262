//! The queue between the journal and what follows it: bounded in bytes, so that the tail in memory is too.

use std::collections::VecDeque;
use std::ops::Range;

use parking_lot::{Condvar, Mutex};

use super::envelope::Commit;

/// A group that the journal made durable.
pub struct Handed {
    /// The bytes of the group.
    pub bytes: Vec<u8>,
    /// Its commits, and where in the bytes the payload of each is.
    pub records: Vec<(Commit, Range<usize>)>,
    /// How many events they hold.
    pub events: usize,
}

/// Groups that wait to be taken over.
pub struct Queue {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
    /// A group is only let in while fewer bytes than this wait.
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    groups: VecDeque<Handed>,
    /// Bytes in `groups` and in the batch that was taken last.
    bytes: usize,
    ending: Option<Ending>,
}

enum Ending {
    /// Take what is left, then stop.
    Drained,
    /// Stop now.
    Stopped,
    /// The follower gave up.
    Failed(String),
}

impl Queue {
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), room: Condvar::new(), bytes_max }
    }

    /// Waits until the follower is near enough.
    ///
    /// # Errors
    /// Why the follower gave up.
    pub fn wait_for_room(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        loop {
            match &state.ending {
                Some(Ending::Failed(reason)) => return Err(reason.clone()),
                None if state.bytes >= self.bytes_max => self.room.wait(&mut state),
                _ => return Ok(()),
            }
        }
    }

    /// Hands a group over.
    pub fn push(&self, group: Handed) {
        let mut state = self.state.lock();
        state.bytes += group.bytes.len();
        state.groups.push_back(group);
        self.work.notify_one();
    }

    /// Waits for groups and takes some, of together at least `events` events if there are as many; `None` when it is time
    /// to stop.
    pub fn take(&self, events: usize) -> Option<Vec<Handed>> {
        let mut state = self.state.lock();
        while state.groups.is_empty() && state.ending.is_none() {
            self.work.wait(&mut state);
        }
        if matches!(state.ending, Some(Ending::Stopped | Ending::Failed(_))) {
            return None;
        }
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < events
            && let Some(group) = state.groups.pop_front()
        {
            count += group.events;
            taken.push(group);
        }
        (!taken.is_empty()).then_some(taken)
    }

    /// Says that the groups taken last, of `bytes` bytes, were taken over.
    pub fn done(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.room.notify_all();
    }

    /// Says that nothing more will be taken over.
    pub fn fail(&self, reason: String) {
        self.end(Ending::Failed(reason));
    }

    /// Asks the follower to take what is left and stop.
    pub fn drain(&self) {
        self.end(Ending::Drained);
    }

    /// Asks the follower to stop.
    pub fn stop(&self) {
        self.end(Ending::Stopped);
    }

    fn end(&self, ending: Ending) {
        let mut state = self.state.lock();
        if !matches!(state.ending, Some(Ending::Failed(_))) {
            state.ending = Some(ending);
        }
        self.work.notify_all();
        self.room.notify_all();
    }
}
