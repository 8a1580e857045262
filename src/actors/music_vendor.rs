//! The music vendor behind a circuit breaker.
//!
//! Music is streamed while it is generated, so nothing waits and nothing is retried: an interrupted stream has failed,
//! and this module decides which commands record that.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};

use super::poller::VendorState;
use super::poller::backoff::Backoff;
use super::poller::breaker::{Admission, BreakerOptions};
use super::poller::vendor_guard::VendorGuard;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicJob, MusicStreamItem};
use crate::domain::task::{TaskCommand, TaskFailure, VendorKey};
use crate::environment::Environment;
use crate::vendors::music::{MusicStreamError, MusicVendor, VendorMusicStream};
use crate::vendors::{VendorError, VendorErrorKind};

/// No pauses between attempts: while the breaker is open, callers get the time after which to retry.
const NO_BACKOFF: Backoff = Backoff { min: Duration::ZERO, max: Duration::ZERO };

/// A music vendor with its guard. Cheap to clone.
#[derive(Clone)]
pub struct GuardedMusicVendor {
    vendor: Arc<dyn MusicVendor>,
    guard: VendorGuard,
}

/// Permission for one call. If the call is a probe and is dropped before its outcome is known, the next caller gets the
/// probe: a client that hangs up must not cause another pause for all others.
pub struct CallPermit {
    guard: VendorGuard,
    is_probe: bool,
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
}

impl From<TaskFailure> for MusicInterruption {
    /// Fails the task without any other command.
    fn from(failure: TaskFailure) -> Self {
        Self { commands: vec![TaskCommand::Fail { failure: failure.clone() }], failure }
    }
}

impl GuardedMusicVendor {
    /// Guards `vendor`. Without breaker options, calls are always admitted.
    #[must_use]
    pub fn new(vendor: Arc<dyn MusicVendor>, breaker: Option<BreakerOptions>, environment: Environment) -> Self {
        let guard = VendorGuard::new(vendor.name(), breaker, NO_BACKOFF, environment);
        Self { vendor, guard }
    }

    /// Returns the observable state of the vendor.
    #[must_use]
    pub fn vendor_state(&self) -> VendorState {
        self.guard.state()
    }

    /// Asks the breaker for permission to call the vendor.
    ///
    /// # Errors
    /// Returns the time to wait while the breaker is open or held.
    pub fn admit(&self) -> Result<CallPermit, Duration> {
        let permit = |is_probe| CallPermit { guard: self.guard.clone(), is_probe };
        match self.guard.admission() {
            Admission::Allow => Ok(permit(false)),
            // Music vendors have no health check: the next stream is the probe.
            Admission::Probe => Ok(permit(true)),
            Admission::Wait(wait) => Err(wait),
        }
    }

    /// Returns `true` if the same job yields the same music at no cost, so it can be generated again for another
    /// client.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        !self.vendor.is_remote()
    }

    /// Returns the command to record before the call: for a remote vendor, the intent to submit.
    #[must_use]
    pub fn start_command(&self, task: TaskId) -> TaskCommand {
        if self.vendor.is_remote() {
            TaskCommand::StartSubmission {
                key: VendorKey::from_recorded(task.to_string()),
                repeatable: false,
                vendor: None,
            }
        } else {
            TaskCommand::RecordWorkStarted
        }
    }

    /// Returns the music of a task. It is generated while it is read, at most one moment ahead; dropping the stream
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
    /// Only the end of a stream counts as a success: a vendor that breaks off every stream is not healthy.
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

/// Returns what to record of a stream that ended prematurely. A call is never repeated, whatever its outcome: the
/// client already has the response to this one.
fn interruption_from(stream_error: MusicStreamError) -> MusicInterruption {
    let error = match stream_error {
        MusicStreamError::Failed(failure) | MusicStreamError::Interrupted(failure) => return failure.into(),
        MusicStreamError::NotAccepted(error) => error,
    };

    let failure = |code: &str| TaskFailure::new(code, &error.message);

    match error.kind {
        VendorErrorKind::Refused => {
            let failure = failure("vendor_refused");
            MusicInterruption { commands: vec![TaskCommand::RecordRefusal { failure: failure.clone() }], failure }
        }
        VendorErrorKind::Unknown => {
            let failure = failure("outcome_unknown");
            let command = TaskCommand::RecordUnknownOutcome { reason: failure.message.clone(), repeatable: false };
            MusicInterruption { failure, commands: vec![command] }
        }
        VendorErrorKind::Unreached | VendorErrorKind::Busy | VendorErrorKind::Unserved => {
            let failure = failure("vendor_unavailable");
            let command = TaskCommand::RecordUndelivered { reason: failure.message.clone() };
            MusicInterruption { commands: vec![command, TaskCommand::Fail { failure: failure.clone() }], failure }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::poller::breaker::CircuitState;
    use crate::domain::music::{MusicPrompt, MusicWork};
    use crate::domain::value::Timestamp;
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
        GuardedMusicVendor::new(Arc::new(ScriptedMusicVendor(Mutex::new(streams))), Some(options), environment)
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
            let permit = CallPermit { guard: vendor.guard.clone(), is_probe: false };
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
            let MusicInterruption { failure, commands } = interruption(kind);
            assert_eq!(failure.code.as_str(), "vendor_unavailable");
            assert!(matches!(commands[..], [TaskCommand::RecordUndelivered { .. }, TaskCommand::Fail { .. }]));
        }
        let MusicInterruption { failure, commands } = interruption(VendorErrorKind::Unknown);
        assert_eq!(failure.code.as_str(), "outcome_unknown");
        assert!(matches!(commands[..], [TaskCommand::RecordUnknownOutcome { repeatable: false, .. }]));
        let MusicInterruption { failure, commands } = interruption(VendorErrorKind::Refused);
        assert_eq!(failure.code.as_str(), "vendor_refused");
        assert!(matches!(commands[..], [TaskCommand::RecordRefusal { .. }]));
    }
}
