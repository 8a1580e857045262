//! In-memory engine for tests. It may do everything that the contract of [`Engine`] permits. Nothing survives the
//! process.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::engine::{Engine, EngineFault, EngineSignal, EngineUnreachable, SendResult};
use crate::environment::Environment;

const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Probabilities of what can happen to a group that is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineFaults {
    /// It is lost.
    pub dropped: f64,
    /// It is stored before the next one of its sender, or after one of another sender.
    pub delayed: f64,
    /// It is stored twice.
    pub duplicated: f64,
    /// It is stored, but the sender gets no response.
    pub unanswered: f64,
}

/// An in-memory engine. Clones of it are other senders to the same sequence.
pub struct MemoryEngine {
    shared: Arc<MemoryEngineShared>,
    sender: u32,
    /// Time by which every group reaches the followers of this clone late.
    lag: Duration,
}

struct MemoryEngineShared {
    state: Mutex<MemoryEngineState>,
    changed: Condvar,
    senders: AtomicU32,
    faults: EngineFaults,
    environment: Environment,
}

#[derive(Default)]
struct MemoryEngineState {
    groups: Vec<Vec<u8>>,
    /// Groups that are stored later, with their senders.
    delayed: Vec<(u32, Vec<u8>)>,
    is_unreachable: bool,
    announcements: Vec<Vec<u8>>,
}

impl MemoryEngineState {
    fn store_delayed(&mut self, is_due: impl Fn(u32) -> bool) {
        let (due, later) = std::mem::take(&mut self.delayed).into_iter().partition(|(sender, _)| is_due(*sender));
        let due: Vec<(u32, Vec<u8>)> = due;
        self.delayed = later;
        self.groups.extend(due.into_iter().map(|(_, group)| group));
    }
}

impl MemoryEngine {
    /// Returns an empty engine. The environment decides which groups meet a fault.
    #[must_use]
    pub fn new(faults: EngineFaults, environment: Environment) -> Self {
        let shared = MemoryEngineShared {
            state: Mutex::default(),
            changed: Condvar::new(),
            senders: AtomicU32::new(1),
            faults,
            environment,
        };
        Self { shared: Arc::new(shared), sender: 0, lag: Duration::ZERO }
    }

    /// Returns another sender, whose followers receive every group late.
    #[must_use]
    pub fn with_lag(&self, lag: Duration) -> Self {
        Self { lag, ..self.clone() }
    }

    /// Makes the engine reachable or unreachable, for all senders and followers.
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.state.lock().is_unreachable = !reachable;
        self.shared.changed.notify_all();
    }

    /// Stores a group as another program would.
    pub fn store(&self, group: Vec<u8>) {
        self.shared.state.lock().groups.push(group);
        self.shared.changed.notify_all();
    }

    /// Removes all groups after the first `length`.
    pub fn truncate(&self, length: usize) {
        self.shared.state.lock().groups.truncate(length);
    }

    /// Returns all groups.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<u8>> {
        self.shared.state.lock().groups.clone()
    }
}

impl Clone for MemoryEngine {
    fn clone(&self) -> Self {
        let sender = self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), sender, lag: self.lag }
    }
}

impl Engine for MemoryEngine {
    fn send(&self, group: &[u8]) -> SendResult {
        let MemoryEngineShared { state, changed, faults, environment, .. } = &*self.shared;
        let unknown = || SendResult::Unknown { reason: "no response".to_owned() };
        let mut state = state.lock();
        if state.is_unreachable {
            return SendResult::NotStored { reason: "the engine is unreachable".to_owned() };
        }

        state.store_delayed(|sender| sender == self.sender);
        let happens = |probability| environment.random_f64() < probability;
        let result = if happens(faults.dropped) {
            unknown()
        } else if happens(faults.delayed) {
            state.delayed.push((self.sender, group.to_vec()));
            unknown()
        } else {
            state.groups.push(group.to_vec());
            if happens(faults.duplicated) {
                state.groups.push(group.to_vec());
            }
            if happens(faults.unanswered) {
                unknown()
            } else {
                SendResult::Stored { sequence: state.groups.len() as u64 }
            }
        };

        if happens(0.5) {
            state.store_delayed(|sender| sender != self.sender);
        }
        changed.notify_all();
        result
    }

    fn follow(&self, after: u64, each: &mut dyn FnMut(EngineSignal) -> ControlFlow<()>) -> Result<(), EngineFault> {
        let mut next = usize::try_from(after).unwrap_or(usize::MAX);
        loop {
            let mut state = self.shared.state.lock();
            if state.is_unreachable || state.groups.len() <= next {
                self.shared.changed.wait_for(&mut state, SIGNAL_INTERVAL);
            }
            let signal = match state.groups.get(next) {
                _ if state.is_unreachable => EngineSignal::Silent,
                None => EngineSignal::Alive,
                Some(group) => {
                    next += 1;
                    EngineSignal::Group { sequence: next as u64, group: group.clone() }
                }
            };
            drop(state);
            if matches!(signal, EngineSignal::Group { .. }) && !self.lag.is_zero() {
                thread::sleep(self.lag);
            }
            if each(signal).is_break() {
                return Ok(());
            }
        }
    }

    fn last(&self) -> Result<u64, EngineUnreachable> {
        let state = self.shared.state.lock();
        if state.is_unreachable {
            return Err(EngineUnreachable("the engine is unreachable".to_owned()));
        }
        Ok(state.groups.len() as u64)
    }

    fn announce(&self, message: &[u8]) {
        let mut state = self.shared.state.lock();
        if !state.is_unreachable {
            state.announcements.push(message.to_vec());
            self.shared.changed.notify_all();
        }
    }

    fn listen(&self, each: &mut dyn FnMut(Option<&[u8]>) -> ControlFlow<()>) {
        let mut next = self.shared.state.lock().announcements.len();
        loop {
            let mut state = self.shared.state.lock();
            if state.announcements.len() <= next {
                self.shared.changed.wait_for(&mut state, SIGNAL_INTERVAL);
            }
            let message = state.announcements.get(next).cloned();
            next += usize::from(message.is_some());
            drop(state);
            if each(message.as_deref()).is_break() {
                return;
            }
        }
    }
}
