//! The only source of time, random numbers and, in tests, injected faults. Code receives them in an [`Environment`], so
//! tests can control all three.

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

/// Clock, random numbers and fail points, passed to the code that needs them. Cheap to clone.
#[derive(Clone)]
pub struct Environment {
    clock: TimeSource,
    rng: Arc<Mutex<StdRng>>,
    fail_points: FailPoints,
    host_resolver: Option<HostResolver>,
    /// `true` if ids are derived from the random numbers alone, not from the clock.
    ids_from_rng_only: bool,
}

/// Handler that a test installs for fail points. It receives the fail point and its subject, and may panic, block or
/// end the process.
pub type FailPointHandler = Arc<dyn Fn(FailPoint, &str) + Send + Sync>;

/// Host name resolution of a test, used in place of the machine's resolver.
pub type HostResolver = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// Fail points: run a test's handler, and do nothing in the service. Cheap to clone.
#[derive(Clone, Default)]
pub struct FailPoints(Option<FailPointHandler>);

impl FailPoints {
    /// Runs the test's handler for a fail point. Does nothing in the service.
    pub fn hit(&self, fail_point: FailPoint, subject: &str) {
        if let Some(handler) = &self.0 {
            handler(fail_point, subject);
        }
    }

    /// Runs the fail point after a step of a commit.
    pub fn hit_after(&self, step: CommitStep) {
        self.hit(FailPoint::After(step), "");
    }
}

impl fmt::Debug for FailPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FailPoints").field(&self.0.is_some()).finish()
    }
}

/// Fail points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailPoint {
    /// In a request handler. The subject is the path.
    Handler,
    /// In a request handler with an idempotency key, after its commands and before its response is stored. The subject
    /// is the path.
    BeforeResponseStored,
    /// In an aggregate actor before it decides. The subject is the stream.
    Decide,
    /// In an aggregate actor between deciding and appending. The subject is the stream.
    Append,
    /// Between the event of a user's erasure and the destruction of the user's key. The subject is the user.
    BeforeKeyDestroyed,
    /// In the background scrub, before it reads anything. The subject is empty.
    Scrub,
    /// In a reactor before it acts. The subject is the reactor's name.
    Reactor,
    /// At a step of a vendor call. The subject is the task.
    Vendor(VendorStep),
    /// After a step of `mediary cluster leave`. The subject is empty.
    Leave(LeaveStep),
    /// After a step of `mediary cluster rebuild-engine`. The subject is empty.
    Rebuild(RebuildStep),
    /// After a step and before the next one.
    After(CommitStep),
}

/// Steps of a vendor call. A process that ends at any of them must not have the task paid for twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VendorStep {
    /// Before the intent to submit is recorded.
    BeforeIntent,
    /// The intent is recorded; the vendor has not been called.
    IntentRecorded,
    /// The vendor has responded to the submission; the response is not recorded.
    Responded,
    /// The vendor's acceptance is recorded.
    AcceptanceRecorded,
    /// The vendor has reported the job's status; the status is not recorded.
    Polled,
    /// A result has been downloaded but not stored.
    ResultFetched,
    /// A result is stored but not recorded.
    ResultStored,
}

impl VendorStep {
    /// All steps, in order.
    pub const ALL: [Self; 7] = [
        Self::BeforeIntent,
        Self::IntentRecorded,
        Self::Responded,
        Self::AcceptanceRecorded,
        Self::Polled,
        Self::ResultFetched,
        Self::ResultStored,
    ];
}

/// Steps of `mediary cluster leave`. A process that ends after any of them must not let two directories continue alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaveStep {
    /// The marker of the attempt is durable; nothing was sent.
    MarkerWritten,
    /// The group that ends the log is in the engine, and this directory has everything that precedes it.
    LogEnded,
    /// The shared files are copied back.
    FilesCopied,
    /// The directory no longer says how far it has applied the engine.
    CheckpointRemoved,
    /// The directory is no longer a node; only the marker is left.
    MembershipRemoved,
}

impl LeaveStep {
    /// All steps, in order.
    pub const ALL: [Self; 5] =
        [Self::MarkerWritten, Self::LogEnded, Self::FilesCopied, Self::CheckpointRemoved, Self::MembershipRemoved];
}

/// Steps of `mediary cluster rebuild-engine`. A process that ends after any of them must not let two streams continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RebuildStep {
    /// The marker of the attempt is durable; nothing was sent.
    MarkerWritten,
    /// The former stream has ended or is lost, and this directory has everything that it had.
    LogEnded,
    /// The stream of the next generation exists and is empty.
    StreamCreated,
    /// The location that all nodes use records where the generation begins.
    GenerationRecorded,
    /// The directory belongs to the generation.
    MembershipWritten,
    /// The streams of earlier generations are deleted, if they are to be; only the marker is left.
    FormerDeleted,
}

impl RebuildStep {
    /// All steps, in order.
    pub const ALL: [Self; 6] = [
        Self::MarkerWritten,
        Self::LogEnded,
        Self::StreamCreated,
        Self::GenerationRecorded,
        Self::MembershipWritten,
        Self::FormerDeleted,
    ];
}

/// Declares the steps together with their list.
macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident),+ $(,)?) => {
        /// Steps at which a crash is tested: those of a commit in order, then those of a segment, of a start, and of
        /// files beside the log. A process that ends after any of them must start again on its own with everything it
        /// acknowledged; `tests/it/fail_points.rs` ends it after each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CommitStep {
            $($(#[$doc])* $step,)+
        }

        impl CommitStep {
            /// All steps, in order.
            pub const ALL: &[Self] = &[$(Self::$step,)+];
        }
    };
}

steps! {
    /// 1: the commit is encoded and chained in memory.
    Staged,
    /// 2: the group is written to the journal, in the page cache only.
    Written,
    /// 3: the group is synced and therefore durable.
    Synced,
    /// 4: readers of the log see the group, and sled has not seen it.
    Published,
    /// 5: the read models contain the group.
    Projected,
    /// 6: the callers have their replies.
    Replied,
    /// 7: a signed HEAD covers the group, in the page cache only.
    HeadSigned,
    /// 8: sled contains the locations of a run of commits; the commits themselves are not inserted yet.
    SledIndexed,
    /// 9: sled contains the run, unsynced.
    SledInserted,
    /// 10: at a clean stop, HEAD is synced and sled is not.
    HeadSynced,
    /// 11: at a clean stop, sled is synced.
    SledFlushed,
    /// 12: the zeros of the next segment are written and synced.
    SegmentZeroed,
    /// 13: the segment's header is synced; the segment has no final name yet.
    SegmentHeaderSynced,
    /// 14: the segment is renamed; its directory is not synced.
    SegmentRenamed,
    /// 15: the segment's name is durable.
    SegmentDirSynced,
    /// 16: at the first start, the signing key exists and nothing else.
    SigningKeyCreated,
    /// 17: at the first start, HEAD exists.
    HeadCreated,
    /// 18: the old sled is removed and the new one not created yet.
    SledRemoved,
    /// 19: a media file is written under a temporary name, unsynced.
    MediaFileWritten,
    /// 20: the media file is synced.
    MediaFileSynced,
    /// 21: the media file is renamed; its directory is not synced.
    MediaFileRenamed,
    /// 22: the media file's name is durable; the event that refers to it comes next.
    MediaDirSynced,
    /// 23: an uploaded archive is synced under a temporary name.
    ArchiveSynced,
    /// 24: the archive is renamed; its directory is not synced.
    ArchiveRenamed,
    /// 25: the archive's name is durable; the event that refers to it comes next.
    ArchiveDirSynced,
    /// 26: a snapshot of the read models is written under a temporary name, unsynced.
    SnapshotWritten,
    /// 27: the snapshot is synced.
    SnapshotSynced,
    /// 28: the snapshot has replaced the previous one; the directory is not synced.
    SnapshotRenamed,
    /// 29: an uploaded input file is synced under a temporary name.
    InputFileSynced,
    /// 30: the input file is renamed; its directory is not synced.
    InputFileRenamed,
    /// 31: the input file's name is durable; the response comes next.
    InputFileDirSynced,
}

#[derive(Clone)]
enum TimeSource {
    System,
    Manual(Arc<AtomicI64>),
}

impl Environment {
    /// Returns an environment with the machine's clock, and random numbers seeded by the operating system.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: TimeSource::System,
            rng: Arc::new(Mutex::new(StdRng::from_entropy())),
            fail_points: FailPoints::default(),
            host_resolver: None,
            ids_from_rng_only: false,
        }
    }

    /// Returns an environment with a clock that only [`Environment::advance`] moves, and random numbers that follow
    /// from a seed.
    #[must_use]
    pub fn manual(start: Timestamp, seed: u64) -> Self {
        let clock = TimeSource::Manual(Arc::new(AtomicI64::new(start.micros())));
        let rng = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
        Self { clock, rng, fail_points: FailPoints::default(), host_resolver: None, ids_from_rng_only: false }
    }

    /// Returns an environment with the same clock and fail points, and random numbers that follow from a seed. Every id
    /// and secret follows from the seed alone, so a request that is carried out again creates the same ones.
    #[must_use]
    pub fn with_seed(&self, seed: [u8; 32]) -> Self {
        Self { rng: Arc::new(Mutex::new(StdRng::from_seed(seed))), ids_from_rng_only: true, ..self.clone() }
    }

    /// Replaces the fail-point handler.
    #[must_use]
    pub fn with_fail_point_handler(self, handler: FailPointHandler) -> Self {
        Self { fail_points: FailPoints(Some(handler)), ..self }
    }

    /// Replaces host name resolution.
    #[must_use]
    pub fn with_host_resolver(self, resolver: HostResolver) -> Self {
        Self { host_resolver: Some(resolver), ..self }
    }

    /// Returns the host name resolution, if a test replaces it.
    #[must_use]
    pub fn host_resolver(&self) -> Option<HostResolver> {
        self.host_resolver.clone()
    }

    /// Runs the test's handler for a fail point. Does nothing in the service.
    pub fn hit(&self, fail_point: FailPoint, subject: &str) {
        self.fail_points.hit(fail_point, subject);
    }

    /// Returns the fail points alone, for code that needs neither time nor random numbers.
    #[must_use]
    pub fn fail_points(&self) -> FailPoints {
        self.fail_points.clone()
    }

    /// Moves a manual clock forward. Has no effect on the machine's clock.
    pub fn advance(&self, duration: Duration) {
        if let TimeSource::Manual(micros) = &self.clock {
            micros.fetch_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
        }
    }

    /// Returns the current time.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only code that reads the machine's clock")]
    pub fn now(&self) -> Timestamp {
        match &self.clock {
            TimeSource::System => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
            }
            TimeSource::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::SeqCst)),
        }
    }

    /// Returns a new UUID: version 7, which is ordered by time; version 4 if ids must not depend on the time.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        if self.ids_from_rng_only {
            return self.random_uuid();
        }

        let mut random = [0; 10];
        self.rng.lock().fill_bytes(&mut random);
        let millis = u64::try_from(self.now().micros() / 1000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Returns a random UUID (version 4), which does not reveal its time, for ids that strangers see and must not
    /// guess.
    #[must_use]
    pub fn random_uuid(&self) -> Uuid {
        uuid::Builder::from_random_bytes(self.random_bytes()).into_uuid()
    }

    /// Returns random bytes suitable for secrets.
    #[must_use]
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.rng.lock().fill_bytes(&mut bytes);
        bytes
    }

    /// Returns a random number in `[0, 1)`.
    #[must_use]
    pub fn random_f64(&self) -> f64 {
        self.rng.lock().r#gen()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_values_do_not_depend_on_the_time() {
        let environment = Environment::manual(Timestamp::from_micros(1_000_000), 7);
        let generate = |seed| {
            let seeded = environment.with_seed(seed);
            environment.advance(Duration::from_secs(1));
            (seeded.uuid(), seeded.random_uuid(), seeded.random_bytes::<32>())
        };

        assert_eq!(generate([1; 32]), generate([1; 32]));
        assert_ne!(generate([1; 32]), generate([2; 32]));
        assert_eq!(environment.with_seed([1; 32]).now(), environment.now(), "the clock is the same one");
    }
}
