//! Signal that wakes and ends the follower.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Wakes and ends the follower.
#[derive(Default)]
pub(super) struct FollowerSignal {
    state: Mutex<FollowerState>,
    changed: Condvar,
}

#[derive(Default)]
struct FollowerState {
    has_work: bool,
    ending: Option<FollowerEnd>,
}

/// Requested end of the follower.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowerEnd {
    /// Fill sled up to the head, then end.
    Drain,
    /// End at once.
    Stop,
}

impl FollowerSignal {
    pub fn wake(&self) {
        self.state.lock().has_work = true;
        self.changed.notify_all();
    }

    /// Tells the follower to fill sled up to the head, and to end.
    pub fn drain(&self) {
        self.end(FollowerEnd::Drain);
    }

    /// Tells the follower to end.
    pub fn stop(&self) {
        self.end(FollowerEnd::Stop);
    }

    fn end(&self, ending: FollowerEnd) {
        self.state.lock().ending = Some(ending);
        self.changed.notify_all();
    }

    /// Returns the requested end, if any.
    pub fn ending(&self) -> Option<FollowerEnd> {
        self.state.lock().ending
    }

    /// Waits for work, or for the end.
    pub fn wait_for_work(&self) {
        let mut state = self.state.lock();
        while !state.has_work && state.ending.is_none() {
            self.changed.wait(&mut state);
        }
        state.has_work = false;
    }

    /// Waits for a time, or for the end.
    pub fn sleep(&self, time: Duration) {
        let mut state = self.state.lock();
        let until = Instant::now() + time;
        while state.ending.is_none() && !self.changed.wait_until(&mut state, until).timed_out() {}
    }
}
