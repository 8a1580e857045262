//! State of the background check of the log, shared with readers and the writer.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::events::stream::Position;

/// State of the background check of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScrubState {
    /// The whole log was checked, at the start or since.
    Intact,
    /// The check is running.
    Checking,
    /// Damage was found. The log is read-only.
    Damaged { reason: String },
}

/// Verification of the log, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrubStatus {
    /// The state. Damage found by a reader counts too, although it does not make the log read-only.
    pub state: ScrubState,
    /// Position up to which everything was read and found intact; 0 if nothing was checked yet.
    pub position: Position,
    /// The last event at the start. Later events were written by this process, and are checked by the next start.
    pub until: Position,
    /// Time of the last change of the state.
    pub since: Timestamp,
}

/// Shared state of the background check.
pub(super) struct Scrub {
    status: Mutex<ScrubStatus>,
    /// Damage found by a reader, with the time. Kept until the next start has read the whole journal.
    damage: Mutex<Option<(String, Timestamp)>>,
    environment: Environment,
    stopped: AtomicBool,
}

impl Scrub {
    /// Creates the state for a log that ended at `head` when it was opened. `is_deferred` is `true` if a part of it was
    /// not verified then, and is left to the background check.
    pub fn new(is_deferred: bool, head: Position, environment: &Environment) -> Self {
        let (state, position) =
            if is_deferred { (ScrubState::Checking, Position(0)) } else { (ScrubState::Intact, head) };
        let status = Mutex::new(ScrubStatus { state, position, until: head, since: environment.now() });
        let environment = environment.clone();
        Self { status, damage: Mutex::default(), environment, stopped: AtomicBool::new(false) }
    }

    pub fn state(&self) -> ScrubState {
        self.status.lock().state.clone()
    }

    pub fn status(&self) -> ScrubStatus {
        let status = self.status.lock().clone();
        let damage = self.damage.lock();
        match damage.clone() {
            Some((reason, since)) if !matches!(status.state, ScrubState::Damaged { .. }) => {
                ScrubStatus { state: ScrubState::Damaged { reason }, since, ..status }
            }
            _ => status,
        }
    }

    /// Records damage that a reader found in the journal.
    pub fn record_damage(&self, description: &str) {
        let reason = format!("{description}; restart the service to repair the damage, if possible");
        *self.damage.lock() = Some((reason, self.environment.now()));
    }

    pub fn advance_to(&self, position: Position) {
        self.status.lock().position = position;
    }

    /// Records that everything is intact.
    pub fn finish(&self) {
        let mut status = self.status.lock();
        status.state = ScrubState::Intact;
        status.position = status.until;
        status.since = self.environment.now();
    }

    pub fn fail(&self, reason: String) {
        let mut status = self.status.lock();
        status.state = ScrubState::Damaged { reason };
        status.since = self.environment.now();
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
