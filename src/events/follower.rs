//! Queue between the journal and its follower, bounded in bytes, which also bounds the tail in memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::envelope::Commit;

/// Time after a group during which the log counts as busy.
const BUSY_FOR: Duration = Duration::from_millis(5);
/// Minimum pause of the follower while the log is busy. Groups that arrive in the pause become one batch.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Maximum pause of the follower, in multiples of its last working time.
const PAUSE_FACTOR_MAX: u32 = 31;

/// A group that the journal made durable.
pub struct DurableGroup {
    /// The bytes of the group.
    pub bytes: Vec<u8>,
    /// Its commits, each with the range of its payload in `bytes`.
    pub records: Vec<(Commit, Range<usize>)>,
    /// Number of events in the commits.
    pub events: usize,
}

/// Groups that wait for the follower.
pub struct FollowerQueue {
    state: Mutex<FollowerQueueState>,
    work_available: Condvar,
    space_available: Condvar,
    /// Wakes a pausing follower.
    wake: Condvar,
    /// Limit of waiting bytes below which another group is admitted.
    bytes_max: usize,
}

#[derive(Default)]
struct FollowerQueueState {
    groups: VecDeque<DurableGroup>,
    /// Bytes in `groups` and in the batch taken last.
    bytes: usize,
    /// Time at which the last group was added.
    pushed_at: Option<Instant>,
    ending: Option<QueueEnd>,
    /// Reason why the follower makes no progress.
    stalled: Option<String>,
    /// `true` if the follower must check its store even without a group.
    check_requested: bool,
}

enum QueueEnd {
    /// Process the remaining groups, then stop.
    Drained,
    /// Stop immediately.
    Stopped,
}

impl FollowerQueue {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            work_available: Condvar::new(),
            space_available: Condvar::new(),
            wake: Condvar::new(),
            bytes_max,
        }
    }

    /// Waits until there is room for another group.
    ///
    /// # Errors
    /// If the follower is stalled: the reason.
    pub fn wait_for_room(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        loop {
            match &state.stalled {
                Some(reason) => return Err(reason.clone()),
                None if state.ending.is_none() && state.bytes >= self.bytes_max => {
                    self.space_available.wait(&mut state);
                }
                None => return Ok(()),
            }
        }
    }

    /// Reason why the follower makes no progress.
    pub fn stalled(&self) -> Option<String> {
        self.state.lock().stalled.clone()
    }

    /// Sets the reason why the follower makes no progress; `None` when it continues.
    pub fn set_stalled(&self, reason: Option<String>) {
        self.state.lock().stalled = reason;
        self.space_available.notify_all();
    }

    /// Makes the follower check its store: [`FollowerQueue::take`] returns, possibly without groups.
    pub fn request_check(&self) {
        self.state.lock().check_requested = true;
        self.work_available.notify_one();
    }

    /// Waits for a time. Returns `false` immediately if the follower must end.
    pub fn sleep(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        let deadline = Instant::now() + time;
        while state.ending.is_none() && !self.work_available.wait_until(&mut state, deadline).timed_out() {}
        state.ending.is_none()
    }

    /// Adds a group.
    pub fn push(&self, group: DurableGroup) {
        let mut state = self.state.lock();
        state.bytes += group.bytes.len();
        state.pushed_at = Some(Instant::now());
        state.groups.push_back(group);
        self.work_available.notify_one();
    }

    /// Waits for groups or a nudge. Takes groups with at least `events` events in total, or all if there are fewer;
    /// `None` if the follower must end.
    pub fn take(&self, events: usize) -> Option<Vec<DurableGroup>> {
        let mut state = self.state.lock();
        while state.groups.is_empty() && state.ending.is_none() && !state.check_requested {
            self.work_available.wait(&mut state);
        }

        if matches!(state.ending, Some(QueueEnd::Stopped)) {
            return None;
        }

        let check_requested = std::mem::take(&mut state.check_requested);
        let mut groups = Vec::new();
        let mut count = 0;

        while count < events
            && let Some(group) = state.groups.pop_front()
        {
            count += group.events;
            groups.push(group);
        }

        (!groups.is_empty() || (check_requested && state.ending.is_none())).then_some(groups)
    }

    /// Records that the groups taken last, with `bytes` bytes, are processed.
    pub fn finish_batch(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.space_available.notify_all();
    }

    /// Pauses the follower after it worked for a time, while the log is busy: commits take priority, and larger batches
    /// are cheaper. The pause shrinks as the queue fills, to none at half of its limit.
    pub fn pause_while_busy(&self, work_time: Duration) {
        let mut state = self.state.lock();
        let deadline = Instant::now() + (work_time * pause_factor(state.bytes, self.bytes_max)).max(PAUSE_MIN);
        while state.ending.is_none()
            && pause_factor(state.bytes, self.bytes_max) > 0
            && state.pushed_at.is_some_and(|at| at.elapsed() < BUSY_FOR)
            && Instant::now() < deadline
        {
            self.wake.wait_for(&mut state, PAUSE_MIN);
        }
    }

    /// Tells the follower to process the remaining groups and stop.
    pub fn drain(&self) {
        self.end(QueueEnd::Drained);
    }

    /// Tells the follower to stop.
    pub fn stop(&self) {
        self.end(QueueEnd::Stopped);
    }

    fn end(&self, ending: QueueEnd) {
        self.state.lock().ending = Some(ending);
        self.work_available.notify_all();
        self.space_available.notify_all();
        self.wake.notify_all();
    }
}

/// Length of a pause in multiples of the working time, for this many waiting bytes.
fn pause_factor(bytes: usize, bytes_max: usize) -> u32 {
    let factor = (bytes_max / 2).checked_div(bytes).map_or(PAUSE_FACTOR_MAX as usize, |ratio| ratio.saturating_sub(1));
    u32::try_from(factor).map_or(PAUSE_FACTOR_MAX, |factor| factor.min(PAUSE_FACTOR_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_the_bound_the_shorter_the_rest() {
        let factors = [0, 1, 10, 25, 26, 50, 100, 200].map(|bytes| pause_factor(bytes, 100));
        assert_eq!(factors, [31, 31, 4, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn the_follower_rests_until_the_log_is_quiet() {
        let queue = FollowerQueue::new(100);
        queue.push(DurableGroup { bytes: vec![0], records: Vec::new(), events: 1 });
        let started = Instant::now();
        queue.pause_while_busy(Duration::from_mins(1));
        assert!((BUSY_FOR..Duration::from_secs(30)).contains(&started.elapsed()));
    }
}
