//! Background check of the part of the journal that a start from a snapshot has not checked.
//!
//! The check uses at most half of one core, at a low priority. If it finds damage, writing stops, because decisions
//! based on damaged data would be worthless.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::shared::SharedLogState;
use crate::domain::value::Timestamp;
use crate::environment::{Environment, FailPoint};
use crate::events::journal::{Anchor, Journal, JournalReader};
use crate::events::open_error::OpenError;
use crate::events::stream::Position;
use crate::priority::{BackgroundWork, lower_priority};

/// Working time between two pauses. A pause is as long as the work before it.
const WORK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of loop iterations between two checks of the clock.
const STEPS_PER_CHECK: u32 = 64;

/// State of the background check.
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

/// The part of the log left for the background check.
pub(super) struct DeferredCheck {
    reader: JournalReader,
    pub anchor: Anchor,
}

impl DeferredCheck {
    /// The journal up to the anchor.
    pub fn new(journal: &Journal, anchor: Anchor) -> Result<Self, OpenError> {
        let reader = journal.read_from(Position(0))?.with_end(anchor.position);
        Ok(Self { reader, anchor })
    }
}

/// Shared state of the background check.
pub(super) struct Scrub {
    status: Mutex<ScrubStatus>,
    /// Damage found by a reader, with the time. Kept until the next start has read the whole journal.
    damage: Mutex<Option<(String, Timestamp)>>,
    environment: Environment,
    stopped: AtomicBool,
}

/// The check was told to stop.
struct ScrubStopped;

/// Reason why the check ends early.
enum ScrubEnd {
    Stopped,
    Damaged(String),
}

impl From<ScrubStopped> for ScrubEnd {
    fn from(_: ScrubStopped) -> Self {
        Self::Stopped
    }
}

impl Scrub {
    /// State for a log that ended at `head` when it was opened.
    pub fn new(deferred: Option<&DeferredCheck>, head: Position, environment: &Environment) -> Self {
        let (state, position) = match deferred {
            None => (ScrubState::Intact, head),
            Some(_) => (ScrubState::Checking, Position(0)),
        };
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
        let reason = format!("{description}; restart the service, which repairs what it can prove");
        *self.damage.lock() = Some((reason, self.environment.now()));
    }

    fn advance_to(&self, position: Position) {
        self.status.lock().position = position;
    }

    /// Records that everything is intact.
    fn finish(&self) {
        let mut status = self.status.lock();
        status.state = ScrubState::Intact;
        status.position = status.until;
        status.since = self.environment.now();
    }

    fn fail(&self, reason: String) {
        let mut status = self.status.lock();
        status.state = ScrubState::Damaged { reason };
        status.since = self.environment.now();
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Limits the check to half of a core.
struct ScrubThrottle<'s> {
    scrub: &'s Scrub,
    since: Instant,
    steps: u32,
}

impl ScrubThrottle<'_> {
    fn step(&mut self) -> Result<(), ScrubStopped> {
        self.steps += 1;
        if self.steps < STEPS_PER_CHECK {
            return Ok(());
        }

        self.steps = 0;
        if self.scrub.stopped.load(Ordering::Relaxed) {
            return Err(ScrubStopped);
        }

        let work_time = self.since.elapsed();
        if work_time >= WORK_INTERVAL {
            thread::sleep(work_time);
            self.since = Instant::now();
        }
        Ok(())
    }
}

impl SharedLogState {
    /// Starts the check on its own thread.
    pub fn start_scrub(self: Arc<Self>, deferred: DeferredCheck) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("log-scrub".to_owned()).spawn(move || {
            lower_priority(BackgroundWork::LogMaintenance);
            self.run_scrub(deferred);
        })
    }

    fn run_scrub(&self, deferred: DeferredCheck) {
        self.fail_points.hit(FailPoint::Scrub, "");

        let last = deferred.anchor.position;
        let started = Instant::now();
        let outcome = self.check_deferred(deferred);

        let reason = match outcome {
            Err(ScrubEnd::Stopped) => return,
            Ok(()) => {
                tracing::info!(position = %last, seconds = started.elapsed().as_secs(), "log verified");
                self.scrub.finish();
                return;
            }
            Err(ScrubEnd::Damaged(reason)) => {
                self.mark_journal_damaged(&reason);
                format!("{reason}; restart the service, which repairs what it can prove")
            }
        };

        tracing::error!(reason, "log damaged, now read-only");
        self.scrub.fail(reason);
    }

    fn check_deferred(&self, deferred: DeferredCheck) -> Result<(), ScrubEnd> {
        let DeferredCheck { mut reader, anchor } = deferred;
        let mut throttle = ScrubThrottle { scrub: &self.scrub, since: Instant::now(), steps: 0 };
        while reader.next_record().map_err(|error| ScrubEnd::Damaged(error.to_string()))?.is_some() {
            throttle.step()?;
            if throttle.steps == 0 {
                self.scrub.advance_to(Position(reader.next_position().0 - 1));
            }
        }

        if reader.next_position().0 == anchor.position.0 + 1 && reader.chain() == anchor.chain {
            return Ok(());
        }
        Err(ScrubEnd::Damaged(format!("the journal has another history up to position {}", anchor.position)))
    }
}
