//! Progress of a node in the engine, for threads that wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use uuid::Uuid;

use super::admission::GroupDecision;
use super::format::Group;
use crate::events::journal::{ChainHash, JournalHead};
use crate::events::log::LogFailure;

/// Progress of a node: the last group that it has applied, and the decision on the group that it waits for.
pub struct NodeProgress {
    session: Uuid,
    state: Mutex<ProgressState>,
    changed: Condvar,
}

struct ProgressState {
    /// The last applied group.
    sequence: u64,
    /// End of the log after that group.
    head: JournalHead,
    /// The last group of the engine at the start; `None` until it is known.
    engine_end: Option<u64>,
    /// The group that the node waits for.
    pending: Option<PendingGroup>,
    /// Reason why the node applies no more groups.
    stopped: Option<LogFailure>,
    /// The attempt that ended the log.
    ended_by: Option<u64>,
    /// Time of the last response of the engine.
    heard_at: Instant,
    /// The last group that the engine has returned.
    received: u64,
    /// Time when the last group was applied, or the first waiting one was received.
    advanced_at: Instant,
}

impl ProgressState {
    fn is_caught_up(&self) -> bool {
        self.engine_end.is_some_and(|end| self.sequence >= end)
    }
}

/// A group of this node that was sent; `decision` is `None` until it is applied.
struct PendingGroup {
    counter: u64,
    decision: Option<GroupDecision>,
}

/// Stops the node when dropped: when a thread of the log ends, even by a panic. Otherwise requests would wait for the
/// thread without an error.
pub struct StopOnExit(pub Arc<NodeProgress>);

impl Drop for StopOnExit {
    fn drop(&mut self) {
        let reason = "one of its threads has ended".to_owned();
        self.0.stop(LogFailure::Storage { doing: "follow the shared log".to_owned(), reason });
    }
}

impl NodeProgress {
    /// Returns the progress of a node that has applied the groups up to `sequence`.
    pub fn new(session: Uuid, sequence: u64, head: JournalHead) -> Self {
        let heard_at = Instant::now();
        let state = ProgressState {
            sequence,
            head,
            engine_end: None,
            pending: None,
            stopped: None,
            ended_by: None,
            heard_at,
            received: sequence,
            advanced_at: heard_at,
        };
        Self { session, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Records applied groups, and the end of the engine once it is known.
    pub fn advance(
        &self,
        sequence: u64,
        head: JournalHead,
        engine_end: Option<u64>,
        decisions: Vec<(Group, GroupDecision)>,
    ) {
        let mut state = self.state.lock();
        state.sequence = sequence;
        state.head = head;
        state.advanced_at = Instant::now();
        state.engine_end = state.engine_end.or(engine_end);
        for (group, decision) in decisions {
            if let Some(pending) = &mut state.pending
                && (group.session, group.counter) == (self.session, pending.counter)
                && pending.decision.is_none()
            {
                pending.decision = Some(decision);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Records that the engine has responded.
    pub fn record_response(&self) {
        self.state.lock().heard_at = Instant::now();
    }

    /// Records that the engine has returned a group.
    pub fn record_received(&self, sequence: u64) {
        let mut state = self.state.lock();
        if state.received <= state.sequence {
            // No group was waiting, so the time without progress begins now.
            state.advanced_at = Instant::now();
        }
        state.received = sequence;
    }

    /// Returns the time for which received groups have been waiting without progress, for example because the disk is
    /// full.
    pub fn stalled(&self) -> Duration {
        let state = self.state.lock();
        if state.received > state.sequence { state.advanced_at.elapsed() } else { Duration::ZERO }
    }

    /// Returns the time since the engine responded.
    pub fn silence(&self) -> Duration {
        self.state.lock().heard_at.elapsed()
    }

    /// Records that no more groups are applied. Keeps the first reason.
    pub fn stop(&self, reason: LogFailure) {
        self.state.lock().stopped.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Records that the log has ended, and by which attempt.
    pub fn end(&self, attempt: u64) {
        self.state.lock().ended_by = Some(attempt);
        self.stop(LogFailure::Closed);
    }

    /// Returns the attempt that ended the log, once this node has everything that precedes the end.
    pub fn ended_by(&self) -> Option<u64> {
        self.state.lock().ended_by
    }

    /// Returns `true` if no more groups are applied.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped.is_some()
    }

    /// Returns `true` if a node that has applied the groups up to `sequence` has everything that the engine contained
    /// at the start. `engine_end` is the last group at the start, if it was not known before.
    pub fn covers_start(&self, sequence: u64, engine_end: Option<u64>) -> bool {
        self.state.lock().engine_end.or(engine_end).is_some_and(|end| sequence >= end)
    }

    /// Checks that groups are applied.
    ///
    /// # Errors
    /// Returns the reason if not.
    pub fn check(&self) -> Result<(), LogFailure> {
        self.state.lock().stopped.clone().map_or(Ok(()), Err)
    }

    /// Returns the last applied group, and the end of the log after it.
    pub fn applied(&self) -> (u64, JournalHead) {
        let state = self.state.lock();
        (state.sequence, state.head)
    }

    /// Returns the last applied group.
    pub fn sequence(&self) -> u64 {
        self.state.lock().sequence
    }

    /// Begins to wait for a group of this node. Returns the stamp of the node's log: the last applied group, and the
    /// chain hash after it.
    pub fn begin_wait(&self, counter: u64) -> (u64, ChainHash) {
        let mut state = self.state.lock();
        state.pending = Some(PendingGroup { counter, decision: None });
        (state.sequence, state.head.chain)
    }

    /// Waits for the decision on the expected group; `None` if it was not applied by the deadline.
    ///
    /// # Errors
    /// Returns the reason if the node applies no more groups.
    pub fn wait_for_decision(&self, deadline: Instant) -> Result<Option<GroupDecision>, LogFailure> {
        let mut state = self.state.lock();
        loop {
            if let Some(decision) = state.pending.as_mut().and_then(|pending| pending.decision.take()) {
                return Ok(Some(decision));
            }
            if let Some(reason) = &state.stopped {
                return Err(reason.clone());
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Ok(state.pending.as_mut().and_then(|pending| pending.decision.take()));
            }
        }
    }

    /// Waits until everything has been applied that the engine contained at the start. Returns `false` if it was not by
    /// the deadline.
    ///
    /// # Errors
    /// Returns the reason if the node applies no more groups.
    pub fn wait_for_start(&self, deadline: Instant) -> Result<bool, LogFailure> {
        let mut state = self.state.lock();
        while !state.is_caught_up() {
            if let Some(reason) = &state.stopped {
                return Err(reason.clone());
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Ok(state.is_caught_up());
            }
        }
        Ok(true)
    }

    /// Waits until the group has been applied. Returns `false` if it was not by the deadline.
    ///
    /// # Errors
    /// Returns the reason if the node applies no more groups.
    pub fn wait_for_sequence(&self, sequence: u64, deadline: Instant) -> Result<bool, LogFailure> {
        let mut state = self.state.lock();
        while state.sequence < sequence {
            if let Some(reason) = &state.stopped {
                return Err(reason.clone());
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return Ok(state.sequence >= sequence);
            }
        }
        Ok(true)
    }
}
