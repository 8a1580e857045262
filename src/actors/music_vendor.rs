//! The music vendors, each behind a circuit breaker.
//!
//! Music is streamed while it is generated, so nothing waits and nothing is retried: an interrupted stream has failed,
//! and this module decides which commands record that. Only a call that certainly did not arrive is followed by one to
//! another vendor.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::poller::backoff::Backoff;
use super::poller::breaker::{Admission, BreakerOptions};
use super::poller::pick_by_weight;
use super::poller::vendor_guard::VendorGuard;
use super::poller::{VendorDescription, VendorState};
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicJob, MusicStreamItem, MusicWork};
use crate::domain::task::{Gateway, RecordedVendor, TaskCommand, TaskFailure, VendorKey};
use crate::environment::Environment;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};
use crate::vendors::{VendorError, VendorErrorKind};

/// No pauses between attempts: while the breaker is open, callers get the time after which to retry.
const NO_BACKOFF: Backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO };

/// Pause of a caller if all vendors are at capacity.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// A music vendor as configured.
#[derive(Clone)]
pub struct PoolMusicVendor {
    pub vendor: Arc<dyn MusicVendor>,
    /// Recorded with each call.
    pub identity: RecordedVendor,
    /// Vendors with the lowest number are called first.
    pub priority: i32,
    /// Share among vendors with the same priority.
    pub weight: u32,
    /// Maximum number of concurrent streams; `None`: unlimited.
    pub slots: Option<usize>,
    /// If `None`, the vendor is called regardless of earlier failures.
    pub breaker: Option<BreakerOptions>,
}

/// A music vendor with its guard. Cheap to clone.
#[derive(Clone)]
pub struct GuardedMusicVendor {
    vendor: Arc<dyn MusicVendor>,
    identity: RecordedVendor,
    priority: i32,
    weight: u32,
    slots: Option<Arc<Semaphore>>,
    guard: VendorGuard,
}

/// The music vendors of the service. Cheap to clone.
#[derive(Clone)]
pub struct MusicPool {
    vendors: Arc<Vec<GuardedMusicVendor>>,
    environment: Environment,
}

/// Admission of one call: the vendor, and the permission to call it.
pub struct MusicCall {
    /// Index of the vendor in the pool.
    pub vendor_index: usize,
    pub vendor: GuardedMusicVendor,
    pub permit: CallPermit,
}

/// Reason why no vendor can be called now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MusicUnavailable {
    /// The circuits of all vendors that have a free slot are open or held; the shortest time to wait.
    Paused(Duration),
    /// All vendors are at capacity; the time to wait.
    Full(Duration),
}

impl MusicPool {
    /// Returns a pool of vendors, which are in order of configuration.
    #[must_use]
    pub fn new(vendors: Vec<PoolMusicVendor>, environment: Environment) -> Self {
        let guarded = vendors.into_iter().map(|vendor| GuardedMusicVendor::new(vendor, environment.clone()));
        Self { vendors: Arc::new(guarded.collect()), environment }
    }

    /// Returns the observable states of the vendors.
    #[must_use]
    pub fn vendor_states(&self) -> Vec<VendorState> {
        self.vendors.iter().map(GuardedMusicVendor::vendor_state).collect()
    }

    /// Admits the first call for this work. If no vendor serves it, one is still called: its refusal tells the
    /// client the reason.
    ///
    /// # Errors
    /// If no vendor can be called now.
    pub fn admit(&self, work: &MusicWork) -> Result<MusicCall, MusicUnavailable> {
        let all: Vec<usize> = (0..self.vendors.len()).collect();
        let serving = self.serving_indices(work, &[]);
        self.admit_one_of(if serving.is_empty() { all } else { serving })
    }

    /// Admits a call for work that the vendors with the indices `tried` did not take.
    ///
    /// # Errors
    /// If no other vendor that serves it can be called now.
    pub fn admit_next(&self, work: &MusicWork, tried: &[usize]) -> Result<MusicCall, MusicUnavailable> {
        self.admit_one_of(self.serving_indices(work, tried))
    }

    /// Returns the indices of the vendors that serve this work, except those in `tried`.
    fn serving_indices(&self, work: &MusicWork, tried: &[usize]) -> Vec<usize> {
        let is_serving = |index: &usize| !tried.contains(index) && self.vendors[*index].vendor.serves(work);
        (0..self.vendors.len()).filter(is_serving).collect()
    }

    /// Admits a call to the first candidate by priority that has a free slot and whose circuit admits it. Vendors of
    /// the same priority share by weight.
    fn admit_one_of(&self, mut candidates: Vec<usize>) -> Result<MusicCall, MusicUnavailable> {
        let mut paused: Option<Duration> = None;

        while let Some(position) = self.pick(&candidates) {
            let vendor_index = candidates.swap_remove(position);
            let vendor = &self.vendors[vendor_index];
            match vendor.admit() {
                Ok(permit) => return Ok(MusicCall { vendor_index, vendor: vendor.clone(), permit }),
                Err(MusicUnavailable::Paused(wait)) => paused = Some(paused.map_or(wait, |other| other.min(wait))),
                Err(MusicUnavailable::Full(_)) => {}
            }
        }
        Err(paused.map_or(MusicUnavailable::Full(FULL_PAUSE), MusicUnavailable::Paused))
    }

    /// Admits a call to the built-in engine, for a repeated request: the engine generates the same music again, at no
    /// cost. `None` if it is not in the pool.
    #[must_use]
    pub fn admit_built_in(&self) -> Option<Result<MusicCall, MusicUnavailable>> {
        let vendor_index = self.vendors.iter().position(|vendor| !vendor.vendor.is_remote())?;
        let vendor = &self.vendors[vendor_index];
        Some(vendor.admit().map(|permit| MusicCall { vendor_index, vendor: vendor.clone(), permit }))
    }

    /// Returns the position in `candidates` of the vendor to try next: by weight among those with the lowest priority
    /// number.
    fn pick(&self, candidates: &[usize]) -> Option<usize> {
        let vendor = |position: usize| &self.vendors[candidates[position]];
        let first_priority = (0..candidates.len()).map(|position| vendor(position).priority).min()?;

        let mut eligible: Vec<usize> =
            (0..candidates.len()).filter(|position| vendor(*position).priority == first_priority).collect();
        // In order of configuration again, which `swap_remove` does not keep.
        eligible.sort_by_key(|position| candidates[*position]);

        let weights: Vec<u32> = eligible.iter().map(|position| vendor(*position).weight).collect();
        let random = if eligible.len() > 1 { self.environment.random_f64() } else { 0.0 };
        eligible.get(pick_by_weight(&weights, random)).copied()
    }
}

/// Permission for one call to a vendor. If the call is a probe and is dropped before its outcome is known, the next
/// caller gets the probe: a client that hangs up must not cause another pause for all others.
pub struct CallPermit {
    guard: VendorGuard,
    is_probe: bool,
    /// Released with the permission.
    _slot: Option<OwnedSemaphorePermit>,
}

impl CallPermit {
    fn record_success(&mut self) {
        self.is_probe = false;
        self.guard.record_success();
    }

    fn record_failure(&mut self, error: &VendorError) {
        self.is_probe = false;
        self.guard.record_failure(error);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if self.is_probe {
            self.guard.release_probe();
        }
    }
}

/// Premature end of a stream: the failure for the client, and the commands to record, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MusicInterruption {
    pub failure: TaskFailure,
    pub commands: Vec<TaskCommand>,
    /// `true` if the call certainly did not arrive: after the first command, another vendor may be called.
    pub is_undelivered: bool,
}

impl From<TaskFailure> for MusicInterruption {
    /// Fails the task without any other command.
    fn from(failure: TaskFailure) -> Self {
        let commands = vec![TaskCommand::Fail { failure: failure.clone() }];
        Self { failure, commands, is_undelivered: false }
    }
}

impl GuardedMusicVendor {
    fn new(configured: PoolMusicVendor, environment: Environment) -> Self {
        let PoolMusicVendor { vendor, identity, priority, weight, slots, breaker } = configured;
        let description = VendorDescription {
            name: identity.name.as_str().into(),
            profile: identity.profile.as_str().into(),
            gateway: Gateway::Music,
            slots,
        };
        let guard = VendorGuard::new(description, breaker, NO_BACKOFF, environment);
        let slots = slots.map(|slots| Arc::new(Semaphore::new(slots)));
        Self { vendor, identity, priority, weight, slots, guard }
    }

    fn vendor_state(&self) -> VendorState {
        self.guard.state()
    }

    /// Takes a slot and asks the breaker for permission to call the vendor.
    fn admit(&self) -> Result<CallPermit, MusicUnavailable> {
        let slot = match &self.slots {
            Some(slots) => {
                let slot = Arc::clone(slots).try_acquire_owned();
                Some(slot.map_err(|_| MusicUnavailable::Full(FULL_PAUSE))?)
            }
            None => None,
        };

        let is_probe = match self.guard.admit() {
            Admission::Allow => false,
            // Music vendors have no health check: the next stream is the probe.
            Admission::Probe => true,
            Admission::Wait(wait) => return Err(MusicUnavailable::Paused(wait)),
        };
        Ok(CallPermit { guard: self.guard.clone(), is_probe, _slot: slot })
    }

    /// Returns the command to record before the call: for a remote vendor, the intent to submit.
    #[must_use]
    pub fn start_command(&self, task: TaskId) -> TaskCommand {
        if self.vendor.is_remote() {
            TaskCommand::StartSubmission {
                key: VendorKey::from_recorded(task.to_string()),
                repeatable: false,
                vendor: Some(self.identity.clone()),
            }
        } else {
            TaskCommand::RecordWorkStarted
        }
    }

    /// Returns the music of a task. It is generated while it is read, at most one chunk ahead; dropping the stream
    /// stops the work.
    #[must_use]
    pub fn play(
        &self,
        permit: CallPermit,
        job: MusicJob,
    ) -> BoxStream<'static, Result<MusicStreamItem, MusicInterruption>> {
        let stream = MonitoredMusicStream { stream: self.vendor.play(job), permit };
        let next = async |state: Option<MonitoredMusicStream>| {
            let mut state = state?;
            let item = state.next().await?;
            let next_state = item.is_ok().then_some(state);
            Some((item, next_state))
        };

        unfold(Some(stream), next).boxed()
    }
}

/// A stream of music that reports its outcome to the breaker.
struct MonitoredMusicStream {
    stream: VendorMusicStream,
    permit: CallPermit,
}

impl MonitoredMusicStream {
    /// Returns the next item and records the outcome. Items alone are not a success: a vendor that breaks off every
    /// stream is not healthy. A failure that the vendor reports is a success, because only the job has failed.
    async fn next(&mut self) -> Option<Result<MusicStreamItem, MusicInterruption>> {
        let item = self.stream.next().await;
        match &item {
            Some(Ok(_)) => {}
            None | Some(Err(MusicStreamError::Failed(_))) => self.permit.record_success(),
            Some(Err(MusicStreamError::NotAccepted(error))) => self.permit.record_failure(error),
            Some(Err(MusicStreamError::Interrupted(failure))) => {
                self.permit.record_failure(&VendorError::new(VendorErrorKind::Unknown, failure.message.as_str()));
            }
        }
        item.map(|item| item.map_err(interruption_from))
    }
}

/// Returns the interruption to record for a stream that ended prematurely. A call is never repeated at the same vendor,
/// because the client already has the beginning of the response.
fn interruption_from(stream_error: MusicStreamError) -> MusicInterruption {
    let error = match stream_error {
        MusicStreamError::Failed(failure) | MusicStreamError::Interrupted(failure) => return failure.into(),
        MusicStreamError::NotAccepted(error) => error,
    };

    let failure = |code: &str| TaskFailure::new(code, &error.message);

    match error.kind {
        VendorErrorKind::Refused => {
            let failure = failure("vendor_refused");
            let commands = vec![TaskCommand::RecordRefusal { failure: failure.clone() }];
            MusicInterruption { failure, commands, is_undelivered: false }
        }
        VendorErrorKind::Unknown => {
            let failure = failure("outcome_unknown");
            let command = TaskCommand::RecordUnknownOutcome { reason: failure.message.clone(), repeatable: false };
            MusicInterruption { failure, commands: vec![command], is_undelivered: false }
        }
        VendorErrorKind::Unreached
        | VendorErrorKind::InputUnreadable
        | VendorErrorKind::Busy
        | VendorErrorKind::Unserved => {
            let failure = failure("vendor_unavailable");
            let command = TaskCommand::RecordUndelivered { reason: failure.message.clone() };
            let commands = vec![command, TaskCommand::Fail { failure: failure.clone() }];
            MusicInterruption { failure, commands, is_undelivered: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::poller::breaker::CircuitState;
    use crate::domain::music::{MusicPrompt, MusicWork};
    use crate::domain::task::VendorPrice;
    use crate::domain::value::{Text, Timestamp};
    use futures_util::stream;
    use parking_lot::Mutex;
    use uuid::Uuid;

    /// A vendor that returns these items, one list per stream.
    struct ScriptedMusicVendor(Mutex<Vec<Vec<Result<MusicStreamItem, MusicStreamError>>>>);

    impl MusicVendor for ScriptedMusicVendor {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn is_remote(&self) -> bool {
            true
        }

        fn play(&self, _job: MusicJob) -> VendorMusicStream {
            stream::iter(self.0.lock().remove(0)).boxed()
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);

    fn guarded_vendor(
        streams: Vec<Vec<Result<MusicStreamItem, MusicStreamError>>>,
        environment: Environment,
    ) -> GuardedMusicVendor {
        let options = BreakerOptions { failures: 2, pause: MINUTE, pause_max: MINUTE };
        let vendor = Arc::new(ScriptedMusicVendor(Mutex::new(streams)));
        GuardedMusicVendor::new(music_vendor(vendor, "scripted", 0, None, Some(options)), environment)
    }

    fn music_vendor(
        vendor: Arc<dyn MusicVendor>,
        name: &str,
        priority: i32,
        slots: Option<usize>,
        breaker: Option<BreakerOptions>,
    ) -> PoolMusicVendor {
        let identity = RecordedVendor {
            name: Text::from_recorded(name.to_owned()),
            profile: Text::from_recorded("mediary".to_owned()),
            profile_hash: None,
            price: VendorPrice::default(),
        };
        PoolMusicVendor { vendor, identity, priority, weight: 1, slots, breaker }
    }

    fn job() -> MusicJob {
        let work = MusicWork { prompt: MusicPrompt::from_recorded("x".to_owned()), seconds: None, credits: 0 };
        MusicJob { task: TaskId(Uuid::nil()), account: None, work }
    }

    /// Plays the streams one after the other; returns the state of the circuit after each.
    async fn circuits(streams: Vec<Vec<Result<MusicStreamItem, MusicStreamError>>>) -> Vec<CircuitState> {
        let count = streams.len();
        let vendor = guarded_vendor(streams, Environment::system());
        let mut circuits = Vec::new();
        for _ in 0..count {
            let permit = CallPermit { guard: vendor.guard.clone(), is_probe: false, _slot: None };
            let _: Vec<_> = vendor.play(permit, job()).collect().await;
            circuits.push(vendor.vendor_state().circuit());
        }
        assert_eq!(vendor.admit().is_err(), circuits.last() == Some(&CircuitState::Open));
        circuits
    }

    fn failure() -> TaskFailure {
        TaskFailure::new("c", "m")
    }

    fn not_accepted(kind: VendorErrorKind) -> Vec<Result<MusicStreamItem, MusicStreamError>> {
        vec![Err(MusicStreamError::NotAccepted(VendorError::new(kind, "m")))]
    }

    #[test]
    fn messages_of_a_vendor_lose_their_control_characters() {
        for kind in [VendorErrorKind::Refused, VendorErrorKind::Unknown, VendorErrorKind::Unreached] {
            let interruption =
                interruption_from(MusicStreamError::NotAccepted(VendorError::new(kind, "no\u{1b}[2J credit")));
            assert_eq!(interruption.failure.message.as_str(), "no[2J credit", "{kind:?}");
        }
    }

    #[tokio::test]
    async fn interrupted_streams_open_the_circuit_and_a_complete_one_resets_it() {
        let item = || Ok(MusicStreamItem::Length { millis: 1 });
        let interrupted = || vec![item(), Err(MusicStreamError::Interrupted(failure()))];
        assert_eq!(
            circuits(vec![interrupted(), not_accepted(VendorErrorKind::Unknown)]).await,
            [CircuitState::Closed, CircuitState::Open]
        );

        let successes = [
            vec![item()],
            vec![item(), Err(MusicStreamError::Failed(failure()))],
            not_accepted(VendorErrorKind::Refused),
        ];
        for success in successes {
            assert_eq!(circuits(vec![interrupted(), success, interrupted()]).await, [CircuitState::Closed; 3]);
        }
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_leaves_the_probe_to_the_next() {
        // Given a vendor whose breaker was open, and a caller that gets the probe
        let clock = Environment::manual(Timestamp::from_micros(0), 1);
        let item = || Ok(MusicStreamItem::Length { millis: 1 });
        let streams = [
            not_accepted(VendorErrorKind::Unknown),
            not_accepted(VendorErrorKind::Unknown),
            vec![],
            vec![item(), item()],
            vec![item()],
        ];
        let vendor = guarded_vendor(streams.into(), clock.clone());
        let play_next = async || {
            let permit = vendor.admit().ok()?;
            Some(vendor.play(permit, job()))
        };

        for _ in 0..2 {
            let _: Vec<_> = play_next().await.expect("a permit").collect().await;
        }
        assert!(play_next().await.is_none());
        clock.advance(MINUTE);

        // When callers hang up before the first sound, before the end, or before asking
        drop(play_next().await.expect("a permit"));

        let mut stream = play_next().await.expect("a permit");
        assert!(stream.next().await.is_some() && play_next().await.is_none(), "one at a time");
        drop(stream);
        drop(vendor.admit().expect("a permit"));

        // Then the next caller gets the probe, and the end of its stream closes the circuit
        let items: Vec<_> = play_next().await.expect("a permit").collect().await;
        assert_eq!((items.len(), vendor.vendor_state().circuit()), (1, CircuitState::Closed));
    }

    #[test]
    fn the_outcome_of_a_call_is_recorded_as_not_repeatable() {
        let interruption = |kind| interruption_from(MusicStreamError::NotAccepted(VendorError::new(kind, "m")));
        for kind in [VendorErrorKind::Unreached, VendorErrorKind::Busy, VendorErrorKind::Unserved] {
            let MusicInterruption { failure, commands, is_undelivered } = interruption(kind);
            assert_eq!(failure.code.as_str(), "vendor_unavailable");
            assert!(matches!(commands[..], [TaskCommand::RecordUndelivered { .. }, TaskCommand::Fail { .. }]));
            assert!(is_undelivered);
        }

        let MusicInterruption { failure, commands, is_undelivered } = interruption(VendorErrorKind::Unknown);
        assert_eq!(failure.code.as_str(), "outcome_unknown");
        assert!(
            matches!(commands[..], [TaskCommand::RecordUnknownOutcome { repeatable: false, .. }]) && !is_undelivered
        );

        let MusicInterruption { failure, commands, is_undelivered } = interruption(VendorErrorKind::Refused);
        assert_eq!(failure.code.as_str(), "vendor_refused");
        assert!(matches!(commands[..], [TaskCommand::RecordRefusal { .. }]) && !is_undelivered);
    }

    #[test]
    fn the_first_music_vendor_with_a_free_slot_and_a_closed_circuit_is_called() {
        // Given a vendor with one slot, one of lower priority, and one that failed
        let options = BreakerOptions { failures: 1, pause: MINUTE, pause_max: MINUTE };
        let scripted = || Arc::new(ScriptedMusicVendor(Mutex::default()));
        let vendors = vec![
            music_vendor(scripted(), "second", 5, None, None),
            music_vendor(scripted(), "first", 0, Some(1), None),
            music_vendor(scripted(), "failed", -5, None, Some(options)),
        ];
        let pool = MusicPool::new(vendors, Environment::system());
        pool.vendors[2].guard.record_failure(&VendorError::new(VendorErrorKind::Unreached, "m"));

        // When calls are admitted
        let admitted = |tried: &[usize]| pool.admit_next(&job().work, tried);
        let first = pool.admit(&job().work).expect("a vendor");
        let second = pool.admit(&job().work).expect("a vendor");

        // Then the vendor with the free slot is called once, then the one of lower priority, and never one that was
        // tried
        assert_eq!((first.vendor_index, second.vendor_index), (1, 0));
        assert!(matches!(admitted(&[0]), Err(MusicUnavailable::Paused(_))));
        assert!(matches!(admitted(&[0, 2]), Err(MusicUnavailable::Full(_))));

        drop(first);
        assert_eq!(admitted(&[0]).ok().map(|call| call.vendor_index), Some(1));
        assert!(pool.admit_built_in().is_none());
    }
}
