//! The only source of time and chance, and of mishaps. Everything else is given a [`Surroundings`], so that tests can
//! decide all three.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use uuid::Uuid;

use crate::domain::value::Timestamp;

/// Time, chance and mishaps, as everything that needs them is given them. Cheap to clone.
#[derive(Clone)]
pub struct Surroundings {
    clock: Clock,
    chance: Arc<Mutex<StdRng>>,
    mishaps: Mishaps,
    names: Option<Names>,
    /// Whether ids come from chance alone, not from the clock.
    timeless: bool,
}

/// What a test makes happen at a place in the code, given the place and what is worked on there: it may panic, block or end
/// the process.
pub type Mishap = Arc<dyn Fn(Place, &str) + Send + Sync>;

/// What host names are resolved to in a test; the machine's resolver is not asked then.
pub type Names = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// What a test makes happen; nothing in the service. Cheap to clone.
#[derive(Clone, Default)]
pub struct Mishaps(Option<Mishap>);

impl Mishaps {
    /// Tells that the code has reached a place where a test may make something go wrong; does nothing in the service.
    pub fn reach(&self, place: Place, subject: &str) {
        if let Some(mishap) = &self.0 {
            mishap(place, subject);
        }
    }

    /// Tells that a step of a commit is done.
    pub fn done(&self, step: Step) {
        self.reach(Place::After(step), "");
    }
}

impl fmt::Debug for Mishaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mishaps").field(&self.0.is_some()).finish()
    }
}

/// Where a test can make something go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a request handler; worked on is the path.
    Handler,
    /// In a request handler with an idempotency key, after its commands and before its answer is kept; worked on is the
    /// path.
    Answer,
    /// In an aggregate actor before it decides; worked on is the stream.
    Decide,
    /// In an aggregate actor between deciding and appending; worked on is the stream.
    Append,
    /// Between the event that a user is erased and the end of the user's key; worked on is the user.
    Erased,
    /// In the check of what a start left for later, before it reads anything; nothing is named.
    Scrub,
    /// In a reactor before it acts; worked on is its name.
    Reactor,
    /// At a step of a task's way through a vendor; worked on is the task.
    Vendor(VendorStep),
    /// Where a step of a commit is done and the next is not begun.
    After(Step),
}

/// The steps of a task's way through a vendor: a process that ends at any of them must not have the task paid for twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VendorStep {
    /// Nothing is recorded of the submission that comes next.
    BeforeIntent,
    /// The submission is announced in the log, and not made.
    IntentRecorded,
    /// The vendor has answered the submission, and nothing of that is recorded.
    Answered,
    /// That the vendor took the job is recorded.
    AcceptanceRecorded,
    /// The vendor has told how the job stands, and nothing of that is recorded.
    Polled,
    /// A result is fetched, and not stored.
    ResultFetched,
    /// A result is stored, and nothing of that is recorded.
    ResultStored,
}

impl VendorStep {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::BeforeIntent,
        Self::IntentRecorded,
        Self::Answered,
        Self::AcceptanceRecorded,
        Self::Polled,
        Self::ResultFetched,
        Self::ResultStored,
    ];
}

/// Declares the steps with their list.
macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident),+ $(,)?) => {
        /// The steps by which a command becomes durable, numbered in the order in which a commit takes them; then those of a
        /// segment, of a start, and of files beside the log. A process that ends after any of them must start again by
        /// itself with everything that it answered: `tests/it/fail_points.rs` ends it after each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Step {
            $($(#[$doc])* $step,)+
        }

        impl Step {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[$(Self::$step,)+];
        }
    };
}

steps! {
    /// 1: the commit is encoded and chained, in memory.
    Staged,
    /// 2: its group is written to the journal, and in the page cache only.
    Written,
    /// 3: the group is synced: from here on it is durable.
    Synced,
    /// 4: readers of the log see it, and it waits for sled.
    Published,
    /// 5: the read models have it.
    Projected,
    /// 6: the answers are handed out.
    Answered,
    /// 7: HEAD names it, signed; in the page cache only.
    HeadSigned,
    /// 8: sled's index of streams has it, its record is not there yet.
    SledIndexed,
    /// 9: sled has it; nothing of that is synced.
    SledInserted,
    /// 10: at a clean stop, HEAD is synced, sled is not.
    HeadSynced,
    /// 11: at a clean stop, sled is synced.
    SledFlushed,
    /// 12: the zeros of the next segment are written and synced.
    SegmentZeroed,
    /// 13: it has its header, synced, and no name yet.
    SegmentBegun,
    /// 14: it has its name, and the directory is not synced.
    SegmentRenamed,
    /// 15: its name is durable.
    SegmentNamed,
    /// 16: at the first start, the signing key is there and nothing else.
    KeyMade,
    /// 17: at the first start, HEAD is there.
    HeadMade,
    /// 18: what was left of sled is removed, and it is not filled yet.
    SledRemoved,
    /// 19: a file of media is written, not synced, under a name of its own.
    PictureWritten,
    /// 20: it is synced.
    PictureSynced,
    /// 21: it has its name, and the directory is not synced.
    PictureRenamed,
    /// 22: its name is durable; the event that names it comes next.
    PictureNamed,
    /// 23: an uploaded archive is synced, and has no name yet.
    ArchiveSynced,
    /// 24: it has its name, and the directory is not synced.
    ArchiveRenamed,
    /// 25: its name is durable; the event that names it comes next.
    ArchiveNamed,
    /// 26: a snapshot of the read models is written under another name, not synced.
    SnapshotWritten,
    /// 27: it is synced.
    SnapshotSynced,
    /// 28: it took the place of the one before, and the directory is not synced.
    SnapshotRenamed,
}

#[derive(Clone)]
enum Clock {
    System,
    Manual(Arc<AtomicI64>),
}

impl Surroundings {
    /// The clock of the machine and chance from the operating system.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Clock::System,
            chance: Arc::new(Mutex::new(StdRng::from_entropy())),
            mishaps: Mishaps::default(),
            names: None,
            timeless: false,
        }
    }

    /// A clock that only [`Surroundings::advance`] moves, and chance that repeats for a seed.
    #[must_use]
    pub fn manual(start: Timestamp, seed: u64) -> Self {
        let clock = Clock::Manual(Arc::new(AtomicI64::new(start.micros())));
        let chance = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        Self { clock, chance, mishaps: Mishaps::default(), names: None, timeless: false }
    }

    /// The same clock and mishaps, with chance that repeats for a seed: every id and secret follows from the seed alone, so
    /// that a request which is carried out again makes the same ones.
    #[must_use]
    pub fn seeded(&self, seed: [u8; 32]) -> Self {
        Self { chance: Arc::new(Mutex::new(StdRng::from_seed(seed))), timeless: true, ..self.clone() }
    }

    /// The same surroundings, in which `mishap` happens.
    #[must_use]
    pub fn with_mishap(self, mishap: Mishap) -> Self {
        Self { mishaps: Mishaps(Some(mishap)), ..self }
    }

    /// The same surroundings, in which host names are resolved so.
    #[must_use]
    pub fn with_names(self, names: Names) -> Self {
        Self { names: Some(names), ..self }
    }

    /// What host names are resolved to, if a test decides it.
    #[must_use]
    pub fn names(&self) -> Option<Names> {
        self.names.clone()
    }

    /// Tells that the code has reached a place where a test may make something go wrong; does nothing in the service.
    pub fn reach(&self, place: Place, subject: &str) {
        self.mishaps.reach(place, subject);
    }

    /// The mishaps alone, for what needs neither time nor chance.
    #[must_use]
    pub fn mishaps(&self) -> Mishaps {
        self.mishaps.clone()
    }

    /// Moves a manual clock; the machine's clock cannot be moved.
    pub fn advance(&self, duration: Duration) {
        if let Clock::Manual(micros) = &self.clock {
            micros.fetch_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// The time now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        match &self.clock {
            Clock::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            Clock::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
        }
    }

    /// A fresh UUID (version 7: ordered by time, the rest random; version 4 where it must not depend on the time).
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        if self.timeless {
            return self.random_uuid();
        }
        let mut random = [0; 10];
        self.chance.lock().fill_bytes(&mut random);
        let millis = u64::try_from(self.now().micros() / 1000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// A random UUID that tells nothing of its time (version 4), for ids that strangers see and must not guess.
    #[must_use]
    pub fn random_uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.secret()).into_uuid()
    }

    /// Random bytes fit for secrets.
    #[must_use]
    pub fn secret<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.chance.lock().fill_bytes(&mut bytes);
        bytes
    }

    /// A random number from 0 to 1.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.chance.lock().r#gen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_seed_gives_does_not_depend_on_the_time() {
        let surroundings = Surroundings::manual(Timestamp::from_micros(1_000_000), 7);
        let drawn = |seed| {
            let seeded = surroundings.seeded(seed);
            surroundings.advance(Duration::from_secs(1));
            (seeded.uuid(), seeded.random_uuid(), seeded.secret::<32>())
        };
        assert_eq!(drawn([1; 32]), drawn([1; 32]));
        assert_ne!(drawn([1; 32]), drawn([2; 32]));
        assert_eq!(surroundings.seeded([1; 32]).now(), surroundings.now(), "the clock is the same one");
    }
}
