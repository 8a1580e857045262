//! The queue between the journal and what follows it: bounded in bytes, so that the tail in memory is too.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::envelope::Commit;

/// How long after a group was handed over the log is taken to be busy.
const BUSY_FOR: Duration = Duration::from_millis(5);
/// The shortest rest of the follower while the log is busy: what came meanwhile is taken over as one batch.
const REST_MIN: Duration = Duration::from_millis(5);
/// The follower rests at most so many times as long as it worked.
const REST_PARTS_MAX: u32 = 31;

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
    /// Wakes a follower that rests.
    hurry: Condvar,
    /// A group is only let in while fewer bytes than this wait.
    bytes_max: usize,
}

#[derive(Default)]
struct State {
    groups: VecDeque<Handed>,
    /// Bytes in `groups` and in the batch that was taken last.
    bytes: usize,
    /// When the last group was let in.
    pushed_at: Option<Instant>,
    ending: Option<Ending>,
    /// Why nothing is taken over for the moment.
    stalled: Option<String>,
    /// Whether the follower is to look after what it fills, also without a group.
    nudged: bool,
}

enum Ending {
    /// Take what is left, then stop.
    Drained,
    /// Stop now.
    Stopped,
}

impl Queue {
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), room: Condvar::new(), hurry: Condvar::new(), bytes_max }
    }

    /// Waits until the follower is near enough.
    ///
    /// # Errors
    /// Why nothing is taken over for the moment.
    pub fn wait_for_room(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        loop {
            match &state.stalled {
                Some(reason) => return Err(reason.clone()),
                None if state.ending.is_none() && state.bytes >= self.bytes_max => self.room.wait(&mut state),
                None => return Ok(()),
            }
        }
    }

    /// Why nothing is taken over for the moment.
    pub fn stalled(&self) -> Option<String> {
        self.state.lock().stalled.clone()
    }

    /// Says that nothing is taken over for the moment, and why; or that it goes on.
    pub fn stall(&self, reason: Option<String>) {
        self.state.lock().stalled = reason;
        self.room.notify_all();
    }

    /// Lets the follower look after what it fills: [`Queue::take`] returns, perhaps with nothing.
    pub fn nudge(&self) {
        self.state.lock().nudged = true;
        self.work.notify_one();
    }

    /// Waits; false at once when it is time to stop.
    pub fn pause(&self, time: Duration) -> bool {
        let (mut state, until) = (self.state.lock(), Instant::now() + time);
        while state.ending.is_none() && !self.work.wait_until(&mut state, until).timed_out() {}
        state.ending.is_none()
    }

    /// Hands a group over.
    pub fn push(&self, group: Handed) {
        let mut state = self.state.lock();
        state.bytes += group.bytes.len();
        state.pushed_at = Some(Instant::now());
        state.groups.push_back(group);
        self.work.notify_one();
    }

    /// Waits for groups, or for a nudge, and takes some, of together at least `events` events if there are as many; `None`
    /// when it is time to stop.
    pub fn take(&self, events: usize) -> Option<Vec<Handed>> {
        let mut state = self.state.lock();
        while state.groups.is_empty() && state.ending.is_none() && !state.nudged {
            self.work.wait(&mut state);
        }
        if matches!(state.ending, Some(Ending::Stopped)) {
            return None;
        }
        let nudged = std::mem::take(&mut state.nudged);
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < events
            && let Some(group) = state.groups.pop_front()
        {
            count += group.events;
            taken.push(group);
        }
        (!taken.is_empty() || (nudged && state.ending.is_none())).then_some(taken)
    }

    /// Says that the groups taken last, of `bytes` bytes, were taken over.
    pub fn done(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.room.notify_all();
    }

    /// Lets the follower rest after it worked for a time, as long as the log is busy: answers go first, and large batches
    /// cost less. The nearer the queue is to half of its bound the shorter the rest; from there on there is none.
    pub fn rest(&self, worked: Duration) {
        let mut state = self.state.lock();
        let rested = Instant::now() + (worked * rest_parts(state.bytes, self.bytes_max)).max(REST_MIN);
        while state.ending.is_none()
            && rest_parts(state.bytes, self.bytes_max) > 0
            && state.pushed_at.is_some_and(|at| at.elapsed() < BUSY_FOR)
            && Instant::now() < rested
        {
            self.hurry.wait_for(&mut state, REST_MIN);
        }
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
        self.state.lock().ending = Some(ending);
        self.work.notify_all();
        self.room.notify_all();
        self.hurry.notify_all();
    }
}

/// How many times as long as it worked the follower of a busy log rests when so many bytes wait.
fn rest_parts(bytes: usize, bytes_max: usize) -> u32 {
    let parts = (bytes_max / 2).checked_div(bytes).map_or(REST_PARTS_MAX as usize, |share| share.saturating_sub(1));
    u32::try_from(parts).map_or(REST_PARTS_MAX, |parts| parts.min(REST_PARTS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_bound_the_shorter_the_rest() {
        let parts = [0, 1, 10, 25, 26, 50, 100, 200].map(|bytes| rest_parts(bytes, 100));
        assert_eq!(parts, [31, 31, 4, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn the_follower_rests_until_the_log_is_quiet() {
        let queue = Queue::new(100);
        queue.push(Handed { bytes: vec![0], records: Vec::new(), events: 1 });
        let started = Instant::now();
        queue.rest(Duration::from_mins(1));
        assert!((BUSY_FOR..Duration::from_secs(30)).contains(&started.elapsed()));
    }
}
