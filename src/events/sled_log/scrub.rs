//! Background check of the part of the journal that a start from a snapshot has not checked.
//!
//! The check uses at most half of one core, at a low priority. If it finds damage, writing stops, because decisions
//! based on damaged data would be worthless.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::scrub_status::Scrub;
use super::state::SledLogState;
use crate::environment::FailPoint;
use crate::events::journal::{Anchor, Journal, JournalReader};
use crate::events::open_error::OpenError;
use crate::events::stream::Position;
use crate::priority::{BackgroundWork, lower_priority};

/// Working time between two pauses. A pause is as long as the work before it.
const WORK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of loop iterations between two checks of the clock.
const STEPS_PER_CHECK: u32 = 64;

/// The part of the log left for the background check.
pub(super) struct DeferredCheck {
    reader: JournalReader,
    pub anchor: Anchor,
}

impl DeferredCheck {
    /// Creates the check of the journal up to the anchor.
    pub fn new(journal: &Journal, anchor: Anchor) -> Result<Self, OpenError> {
        let reader = journal.read_from(Position(0))?.with_end(anchor.position);
        Ok(Self { reader, anchor })
    }
}

/// The check was stopped.
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
        if self.scrub.is_stopped() {
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

impl SledLogState {
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
                format!("{reason}; restart the service to repair the damage, if possible")
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
