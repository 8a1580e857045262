//! Background check of the part that a start from a snapshot has not checked: the older journal, record by record, and
//! sled's content at the start, against the journal.
//!
//! The check uses at most half of one core, at a low priority. If it finds damage, writing stops, because decisions
//! based on damaged data would be worthless.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::open::{ContentSum, SledExtent};
use super::shared::SharedLogState;
use super::{SledTrees, catch_panic, stream_entry, u64_at};
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
    extent: SledExtent,
}

impl DeferredCheck {
    /// The journal up to the end of sled, and at least up to the anchor.
    pub fn new(journal: &Journal, anchor: Anchor, extent: SledExtent) -> Result<Self, OpenError> {
        let reader = journal.read_from(Position(0))?.with_end(anchor.position.max(extent.end));
        Ok(Self { reader, anchor, extent })
    }
}

/// Shared state of the background check.
pub(super) struct Scrub {
    status: Mutex<ScrubStatus>,
    damage: Mutex<DamageFound>,
    environment: Environment,
    stopped: AtomicBool,
}

/// Damage found by readers, with the time.
#[derive(Default)]
struct DamageFound {
    /// Cleared when sled is rebuilt.
    in_sled: Option<(String, Timestamp)>,
    /// Kept until the next start has read the whole journal.
    in_journal: Option<(String, Timestamp)>,
}

/// The check was told to stop.
struct ScrubStopped;

/// Reason why the check ends early.
enum ScrubEnd {
    Stopped,
    Damaged(String),
    /// Sled differs from the journal, which is intact.
    SledDamaged(String),
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
        match damage.in_journal.clone().or_else(|| damage.in_sled.clone()) {
            Some((reason, since)) if !matches!(status.state, ScrubState::Damaged { .. }) => {
                ScrubStatus { state: ScrubState::Damaged { reason }, since, ..status }
            }
            _ => status,
        }
    }

    /// Records damage that a reader found in sled. Only the first report counts.
    pub fn record_sled_damage(&self, description: &str) {
        self.damage.lock().in_sled.get_or_insert_with(|| {
            let reason = format!("{description}; restart the service, which rebuilds the index from the journal");
            (reason, self.environment.now())
        });
    }

    /// Records damage that a reader found in the journal. Returns `true` for the first report, the only one that
    /// counts.
    pub fn record_journal_damage(&self, description: &str) -> bool {
        let mut damage = self.damage.lock();
        if damage.in_journal.is_some() {
            return false;
        }
        let reason = format!("{description}; restart the service, which repairs what it can prove");
        damage.in_journal = Some((reason, self.environment.now()));
        true
    }

    /// Clears damage in sled, because sled equals the journal again.
    pub fn clear_sled_damage(&self) {
        self.damage.lock().in_sled = None;
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
                *self.expected_versions.write() = None;
                return;
            }
            Err(ScrubEnd::Damaged(reason)) => {
                self.mark_journal_damaged(&reason);
                format!("{reason}; restart the service, which repairs what it can prove")
            }
            Err(ScrubEnd::SledDamaged(reason)) => {
                self.mark_sled_damaged(&reason);
                format!("{reason}; restart the service, which rebuilds the index from the journal")
            }
        };

        tracing::error!(reason, "log damaged, now read-only");
        self.scrub.fail(reason);
    }

    fn check_deferred(&self, deferred: DeferredCheck) -> Result<(), ScrubEnd> {
        let DeferredCheck { mut reader, anchor, extent } = deferred;
        let mut throttle = ScrubThrottle { scrub: &self.scrub, since: Instant::now(), steps: 0 };
        let mut expected = ContentSum::default();
        let mut anchor_found = false;
        loop {
            let record = reader.next_record().map_err(|error| ScrubEnd::Damaged(error.to_string()))?;
            let Some(record) = record else { break };

            let first = record.commit[0].position;
            if first <= extent.last_commit {
                let (key, value) = stream_entry(&record.commit);
                expected.add(&key, &value);
                expected.add(&first.0.to_be_bytes(), record.payload);
            }

            let position = Position(reader.next_position().0 - 1);
            anchor_found |= position == anchor.position && reader.chain() == anchor.chain;

            throttle.step()?;
            if throttle.steps == 0 && position <= anchor.position {
                self.scrub.advance_to(position);
            }
        }

        if !anchor_found {
            let reason = format!("the journal has another history up to position {}", anchor.position);
            return Err(ScrubEnd::Damaged(reason));
        }

        let Some(trees) = self.trees.read().clone() else { return self.wait_for_sled() };

        match sum_content_throttled(&trees, extent.last_commit, &mut throttle) {
            _ if trees.has_failed() => {
                drop(trees);
                self.wait_for_sled()
            }
            Ok(actual) if actual == expected => Ok(()),
            Ok(_) => Err(ScrubEnd::SledDamaged("damage in sled: it differs from the journal".to_owned())),
            Err(end) => Err(end),
        }
    }

    /// Waits until sled is open again. Reopening has then compared it with the journal.
    fn wait_for_sled(&self) -> Result<(), ScrubEnd> {
        while self.trees.read().as_ref().is_none_or(|trees| trees.has_failed()) {
            if self.scrub.stopped.load(Ordering::Relaxed) {
                return Err(ScrubEnd::Stopped);
            }
            thread::sleep(WORK_INTERVAL);
        }
        Ok(())
    }
}

/// Computes the sum of sled's content up to the commit at `last`.
fn sum_content_throttled(
    trees: &SledTrees,
    last: Position,
    throttle: &mut ScrubThrottle<'_>,
) -> Result<ContentSum, ScrubEnd> {
    let mut sum = ContentSum::default();
    let mut events = trees.events.range(..=last.0.to_be_bytes());
    while let Some((key, value)) = catch_panic(|| events.next().transpose()).map_err(ScrubEnd::SledDamaged)? {
        if trees.has_failed() {
            break;
        }
        sum.add(&key, &value);
        throttle.step()?;
    }

    let mut streams = trees.streams.iter();
    while let Some((key, value)) = catch_panic(|| streams.next().transpose()).map_err(ScrubEnd::SledDamaged)? {
        if trees.has_failed() {
            break;
        }
        if u64_at(&value, 0).is_some_and(|position| position <= last.0) {
            sum.add(&key, &value);
        }
        throttle.step()?;
    }

    Ok(sum)
}
