//! Checking, while the service runs, what a start from a snapshot has not: the journal before it, record by record, and what
//! sled held at the start, against the journal.
//!
//! It takes half of one core at most, at a low priority. What it finds stops all writing: what was decided on top of damage
//! would be worth nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::open::{Reach, Sum};
use super::shared::Shared;
use super::{Trees, guarded, stream_entry, u64_at};
use crate::clock::{Place, Surroundings};
use crate::domain::value::Timestamp;
use crate::events::journal::{Anchor, Journal, JournalReader, OpenError};
use crate::events::stream::Position;
use crate::priority::{Work, yield_to_answers};

/// How long it works without a pause; the pause is as long.
const SHIFT: Duration = Duration::from_millis(10);
/// How many steps of a loop go without a look at the clock.
const STEPS: u32 = 64;

/// How far the part of the log that a start left for later was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScrubState {
    /// All of the log was checked: at the start, or since.
    Whole,
    /// That is under way.
    Checking,
    /// Damage was found: the log is read-only.
    Damaged { reason: String },
}

/// What was verified of the log, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// What came of it. Damage that a reader met is damage here too, though it does not make the log read-only.
    pub state: ScrubState,
    /// Up to where everything was read and found sound; 0: nothing as yet.
    pub position: Position,
    /// The last event at the start: what came later was written by this log itself, and is read back by the next start.
    pub until: Position,
    /// Since when the state is what it is.
    pub since: Timestamp,
}

/// What a start left for later.
pub(super) struct Older {
    reader: JournalReader,
    pub anchor: Anchor,
    reach: Reach,
}

impl Older {
    /// The journal up to what sled held, and at least up to the anchor.
    pub fn of(journal: &Journal, anchor: Anchor, reach: Reach) -> Result<Self, OpenError> {
        let reader = journal.read_from(Position(0))?.until(anchor.position.max(reach.end));
        Ok(Self { reader, anchor, reach })
    }
}

/// The check as others see it.
pub(super) struct Scrub {
    known: Mutex<Verified>,
    met: Mutex<Met>,
    surroundings: Surroundings,
    stopped: AtomicBool,
}

/// What readers came upon, each with when it was.
#[derive(Default)]
struct Met {
    /// Over when sled is made anew.
    in_sled: Option<(String, Timestamp)>,
    /// Not over before the next start has read all of it.
    in_journal: Option<(String, Timestamp)>,
}

/// The check was told to stop.
struct Stopped;

/// Why the check ends early.
enum End {
    Stopped,
    Damaged(String),
    /// The copy in sled is not what the journal holds; the journal is sound.
    SledDamaged(String),
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl Scrub {
    /// Of a log that ended at `head` when it was opened.
    pub fn of(older: Option<&Older>, head: Position, surroundings: &Surroundings) -> Self {
        let (state, position) = match older {
            None => (ScrubState::Whole, head),
            Some(_) => (ScrubState::Checking, Position(0)),
        };
        let known = Mutex::new(Verified { state, position, until: head, since: surroundings.now() });
        let surroundings = surroundings.clone();
        Self { known, met: Mutex::default(), surroundings, stopped: AtomicBool::new(false) }
    }

    pub fn state(&self) -> ScrubState {
        self.known.lock().state.clone()
    }

    pub fn verified(&self) -> Verified {
        let known = self.known.lock().clone();
        let met = self.met.lock();
        match met.in_journal.clone().or_else(|| met.in_sled.clone()) {
            Some((reason, since)) if !matches!(known.state, ScrubState::Damaged { .. }) => {
                Verified { state: ScrubState::Damaged { reason }, since, ..known }
            }
            _ => known,
        }
    }

    /// A reader found damage in sled; the first one is told.
    pub fn met_in_sled(&self, what: &str) {
        self.met.lock().in_sled.get_or_insert_with(|| {
            let reason = format!("{what}; restart the service, which makes the index anew from the journal");
            (reason, self.surroundings.now())
        });
    }

    /// A reader found damage in the journal; whether it is the first one, which is told.
    pub fn met_in_journal(&self, what: &str) -> bool {
        let mut met = self.met.lock();
        if met.in_journal.is_some() {
            return false;
        }
        let reason = format!("{what}; restart the service, which heals what can be proven");
        met.in_journal = Some((reason, self.surroundings.now()));
        true
    }

    /// What a reader met in sled is gone: it holds what the journal holds again.
    pub fn mended(&self) {
        self.met.lock().in_sled = None;
    }

    fn reached(&self, position: Position) {
        self.known.lock().position = position;
    }

    /// All of it is sound.
    fn finish(&self) {
        let mut known = self.known.lock();
        (known.state, known.position, known.since) = (ScrubState::Whole, known.until, self.surroundings.now());
    }

    fn fail(&self, reason: String) {
        let mut known = self.known.lock();
        (known.state, known.since) = (ScrubState::Damaged { reason }, self.surroundings.now());
    }

    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Lets others have the core.
struct Pace<'s> {
    scrub: &'s Scrub,
    since: Instant,
    steps: u32,
}

impl Pace<'_> {
    fn step(&mut self) -> Result<(), Stopped> {
        self.steps += 1;
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        if self.scrub.stopped.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        let worked = self.since.elapsed();
        if worked >= SHIFT {
            thread::sleep(worked);
            self.since = Instant::now();
        }
        Ok(())
    }
}

impl Shared {
    /// Checks on a thread of its own.
    pub fn begin_scrub(self: Arc<Self>, older: Older) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("log-scrub".to_owned()).spawn(move || {
            yield_to_answers(Work::LogUpkeep);
            self.scrub_through(older);
        })
    }

    fn scrub_through(&self, older: Older) {
        self.mishaps.reach(Place::Scrub, "");
        let (last, started) = (older.anchor.position, Instant::now());
        let ended = self.go_through(older);
        let reason = match ended {
            Err(End::Stopped) => return,
            Ok(()) => {
                tracing::info!(position = %last, seconds = started.elapsed().as_secs(), "the older part of the log is sound");
                self.scrub.finish();
                *self.expected.write() = None;
                return;
            }
            Err(End::Damaged(reason)) => {
                self.mark_journal(&reason);
                format!("{reason}; restart the service, which heals what can be proven")
            }
            Err(End::SledDamaged(reason)) => {
                self.mark_sled(&reason);
                format!("{reason}; restart the service, which makes the index anew from the journal")
            }
        };
        tracing::error!(reason, "damage in the older part of the log: it is read-only now");
        self.scrub.fail(reason);
    }

    fn go_through(&self, older: Older) -> Result<(), End> {
        let Older { mut reader, anchor, reach } = older;
        let mut pace = Pace { scrub: &self.scrub, since: Instant::now(), steps: 0 };
        let (mut expected, mut met) = (Sum::default(), false);
        loop {
            let record = reader.next_record().map_err(|error| End::Damaged(error.to_string()))?;
            let Some(record) = record else { break };
            let first = record.commit[0].position;
            if first <= reach.last_commit {
                let (key, value) = stream_entry(&record.commit);
                expected.add(&key, &value);
                expected.add(&first.0.to_be_bytes(), record.payload);
            }
            let position = Position(reader.next_position().0 - 1);
            met |= position == anchor.position && reader.chain() == anchor.chain;
            pace.step()?;
            if pace.steps == 0 && position <= anchor.position {
                self.scrub.reached(position);
            }
        }
        if !met {
            let reason = format!("the journal has another history up to position {}", anchor.position);
            return Err(End::Damaged(reason));
        }
        let Some(trees) = self.trees.read().clone() else { return self.wait_for_sled() };
        match sum_of(&trees, reach.last_commit, &mut pace) {
            _ if trees.has_stopped() => {
                drop(trees);
                self.wait_for_sled()
            }
            Ok(found) if found == expected => Ok(()),
            Ok(_) => Err(End::SledDamaged("damage in sled: it does not hold what the journal holds".to_owned())),
            Err(end) => Err(end),
        }
    }

    /// Until sled is there again: whoever opened it has compared it with the journal.
    fn wait_for_sled(&self) -> Result<(), End> {
        while self.trees.read().as_ref().is_none_or(|trees| trees.has_stopped()) {
            if self.scrub.stopped.load(Ordering::Relaxed) {
                return Err(End::Stopped);
            }
            thread::sleep(SHIFT);
        }
        Ok(())
    }
}

/// Sums up what sled has up to the commit at `last`.
fn sum_of(trees: &Trees, last: Position, pace: &mut Pace<'_>) -> Result<Sum, End> {
    let mut sum = Sum::default();
    let mut events = trees.events.range(..=last.0.to_be_bytes());
    while let Some((key, value)) = guarded(|| events.next().transpose()).map_err(End::SledDamaged)? {
        if trees.has_stopped() {
            break;
        }
        sum.add(&key, &value);
        pace.step()?;
    }
    let mut streams = trees.streams.iter();
    while let Some((key, value)) = guarded(|| streams.next().transpose()).map_err(End::SledDamaged)? {
        if trees.has_stopped() {
            break;
        }
        if u64_at(&value, 0).is_some_and(|position| position <= last.0) {
            sum.add(&key, &value);
        }
        pace.step()?;
    }
    Ok(sum)
}
