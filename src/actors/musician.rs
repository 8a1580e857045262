//! The music vendor behind a circuit breaker.
//!
//! Music is streamed while it is generated, so nothing waits and nothing is retried: an interrupted stream has failed,
//! and this module decides which commands record that.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};

use super::poller::VendorState;
use super::poller::breaker::{Admission, BreakerOptions};
use super::poller::gate::Gate;
use super::poller::pace::Pauses;
use crate::clock::Surroundings;
use crate::domain::ids::TaskId;
use crate::domain::music::{MusicMoment, MusicWork};
use crate::domain::task::{Failure, TaskCommand, VendorKey};
use crate::vendors::music::{MusicVendor, Playing, Stopped};
use crate::vendors::{ErrorKind, VendorError};

/// No waiting: while the breaker is open, callers get the time after which to retry.
const NO_REST: Pauses = Pauses { min: Duration::ZERO, max: Duration::ZERO };

/// Plays music. Cheap to clone.
#[derive(Clone)]
pub struct Musician {
    vendor: Arc<dyn MusicVendor>,
    gate: Gate,
}

/// Permission for one call. If the call is a probe and is dropped before its outcome is known, the next caller gets the
/// probe: a client that hangs up must not cause another pause for all others.
pub struct Leave {
    gate: Gate,
    is_probe: bool,
}

impl Leave {
    fn succeeded(&mut self) {
        self.is_probe = false;
        self.gate.succeeded();
    }

    fn failed(&mut self, error: &VendorError) {
        self.is_probe = false;
        self.gate.failed(error);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if self.is_probe {
            self.gate.give_back();
        }
    }
}

/// Premature end of music: the failure for the listener, and the commands to record, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub failure: Failure,
    pub commands: Vec<TaskCommand>,
}

impl From<Failure> for Unfinished {
    /// Fails the task without any other command.
    fn from(failure: Failure) -> Self {
        Self { commands: vec![TaskCommand::Fail { failure: failure.clone() }], failure }
    }
}

impl Musician {
    /// Returns a player of `vendor`. Without breaker options, calls are always admitted.
    #[must_use]
    pub fn new(vendor: Arc<dyn MusicVendor>, breaker: Option<BreakerOptions>, surroundings: Surroundings) -> Self {
        let gate = Gate::new(vendor.name(), breaker, NO_REST, surroundings);
        Self { vendor, gate }
    }

    /// Returns the observable state of the vendor.
    #[must_use]
    pub fn state(&self) -> VendorState {
        self.gate.state()
    }

    /// Asks the breaker for a call.
    ///
    /// # Errors
    /// Returns the time to wait while the breaker is open or held.
    pub fn admit(&self) -> Result<Leave, Duration> {
        let leave = |is_probe| Leave { gate: self.gate.clone(), is_probe };
        match self.gate.admission() {
            Admission::Go => Ok(leave(false)),
            // Music vendors have no health check: the next stream is the probe.
            Admission::Probe => Ok(leave(true)),
            Admission::Wait(wait) => Err(wait),
        }
    }

    /// Returns `true` if the same job yields the same music at no cost, so it can be generated again for another
    /// listener.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        !self.vendor.is_remote()
    }

    /// Returns the command to record before the call: for a remote vendor, the intent to submit.
    #[must_use]
    pub fn beginning(&self, task: TaskId) -> TaskCommand {
        if self.vendor.is_remote() {
            TaskCommand::StartSubmission { key: VendorKey::recorded(task.to_string()), repeatable: false }
        } else {
            TaskCommand::RecordBegun
        }
    }

    /// Returns the music of a task. It is generated while it is read, at most one moment ahead; dropping the stream
    /// stops the work.
    #[must_use]
    pub fn play(
        &self,
        leave: Leave,
        task: TaskId,
        work: MusicWork,
    ) -> BoxStream<'static, Result<MusicMoment, Unfinished>> {
        let heard = Heard { playing: self.vendor.play(task, work), leave };
        let next = async |heard: Option<Heard>| {
            let mut heard = heard?;
            let moment = heard.next().await?;
            let rest = moment.is_ok().then_some(heard);
            Some((moment, rest))
        };

        unfold(Some(heard), next).boxed()
    }
}

/// A stream of music that reports its outcome to the breaker.
struct Heard {
    playing: Playing,
    leave: Leave,
}

impl Heard {
    /// Only the end of a stream counts as a success: a vendor that breaks off every stream is not healthy.
    async fn next(&mut self) -> Option<Result<MusicMoment, Unfinished>> {
        let moment = self.playing.next().await;
        match &moment {
            Some(Ok(_)) => {}
            None | Some(Err(Stopped::Failed(_))) => self.leave.succeeded(),
            Some(Err(Stopped::Untaken(error))) => self.leave.failed(error),
            Some(Err(Stopped::Broken(failure))) => {
                self.leave.failed(&VendorError::new(ErrorKind::Unknown, failure.message.as_str()));
            }
        }
        moment.map(|moment| moment.map_err(unfinished))
    }
}

/// Returns what to record of music that ended prematurely. A call is never repeated, whatever its outcome: the listener
/// already has the response to this one.
fn unfinished(stopped: Stopped) -> Unfinished {
    let error = match stopped {
        Stopped::Failed(failure) | Stopped::Broken(failure) => return failure.into(),
        Stopped::Untaken(error) => error,
    };

    let failure = |code: &str| Failure::new(code, &error.message);

    match error.kind {
        ErrorKind::Refused => {
            let failure = failure("vendor_refused");
            Unfinished { commands: vec![TaskCommand::RecordRefusal { failure: failure.clone() }], failure }
        }
        ErrorKind::Unknown => {
            let failure = failure("outcome_unknown");
            let unknown = TaskCommand::RecordUnknown { reason: failure.message.clone(), repeatable: false };
            Unfinished { failure, commands: vec![unknown] }
        }
        ErrorKind::Unreached | ErrorKind::Busy | ErrorKind::Unserved => {
            let failure = failure("vendor_unavailable");
            let undelivered = TaskCommand::RecordUndelivered { reason: failure.message.clone() };
            Unfinished { commands: vec![undelivered, TaskCommand::Fail { failure: failure.clone() }], failure }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::poller::breaker::Circuit;
    use crate::domain::music::MusicPrompt;
    use crate::domain::value::Timestamp;
    use futures_util::stream;
    use parking_lot::Mutex;
    use uuid::Uuid;

    /// A vendor that returns these items, one list per stream.
    struct Told(Mutex<Vec<Vec<Result<MusicMoment, Stopped>>>>);

    impl MusicVendor for Told {
        fn name(&self) -> &'static str {
            "told"
        }

        fn is_remote(&self) -> bool {
            true
        }

        fn play(&self, _task: TaskId, _work: MusicWork) -> Playing {
            stream::iter(self.0.lock().remove(0)).boxed()
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);

    fn musician(streams: Vec<Vec<Result<MusicMoment, Stopped>>>, surroundings: Surroundings) -> Musician {
        let options = BreakerOptions { failures: 2, pause: MINUTE, pause_max: MINUTE };
        Musician::new(Arc::new(Told(Mutex::new(streams))), Some(options), surroundings)
    }

    fn work() -> MusicWork {
        MusicWork { prompt: MusicPrompt::recorded("x".to_owned()), seconds: None }
    }

    async fn circuits(streams: Vec<Vec<Result<MusicMoment, Stopped>>>) -> Vec<Circuit> {
        let count = streams.len();
        let musician = musician(streams, Surroundings::real());
        let mut circuits = Vec::new();
        for _ in 0..count {
            let leave = Leave { gate: musician.gate.clone(), is_probe: false };
            let _: Vec<_> = musician.play(leave, TaskId(Uuid::nil()), work()).collect().await;
            circuits.push(musician.state().circuit());
        }
        assert_eq!(musician.admit().is_err(), circuits.last() == Some(&Circuit::Open));
        circuits
    }

    fn failure() -> Failure {
        Failure::new("c", "m")
    }

    fn untaken(kind: ErrorKind) -> Vec<Result<MusicMoment, Stopped>> {
        vec![Err(Stopped::Untaken(VendorError::new(kind, "m")))]
    }

    #[test]
    fn what_a_vendor_says_is_told_without_what_moves_a_cursor() {
        for kind in [ErrorKind::Refused, ErrorKind::Unknown, ErrorKind::Unreached] {
            let told = unfinished(Stopped::Untaken(VendorError::new(kind, "no\u{1b}[2J credit")));
            assert_eq!(told.failure.message.as_str(), "no[2J credit", "{kind:?}");
        }
    }

    #[tokio::test]
    async fn streams_that_break_off_open_the_circuit_and_one_that_ends_closes_it() {
        let taken = || Ok(MusicMoment::Length { millis: 1 });
        let broken = || vec![taken(), Err(Stopped::Broken(failure()))];
        assert_eq!(circuits(vec![broken(), untaken(ErrorKind::Unknown)]).await, [Circuit::Closed, Circuit::Open]);
        let well = [vec![taken()], vec![taken(), Err(Stopped::Failed(failure()))], untaken(ErrorKind::Refused)];
        for answered in well {
            assert_eq!(circuits(vec![broken(), answered, broken()]).await, [Circuit::Closed; 3]);
        }
    }

    #[tokio::test]
    async fn a_listener_who_hangs_up_leaves_the_probe_to_the_next() {
        // Given a vendor whose breaker was open, and a caller that gets the probe
        let clock = Surroundings::manual(Timestamp::from_micros(0), 1);
        let taken = || Ok(MusicMoment::Length { millis: 1 });
        let streams =
            [untaken(ErrorKind::Unknown), untaken(ErrorKind::Unknown), vec![], vec![taken(), taken()], vec![taken()]];
        let musician = musician(streams.into(), clock.clone());
        let ask = async || {
            let leave = musician.admit().ok()?;
            Some(musician.play(leave, TaskId(Uuid::nil()), work()))
        };

        for _ in 0..2 {
            let _: Vec<_> = ask().await.expect("leave").collect().await;
        }
        assert!(ask().await.is_none());
        clock.advance(MINUTE);

        // When callers hang up before the first sound, before the end, or before asking
        drop(ask().await.expect("leave"));

        let mut cut_off = ask().await.expect("leave");
        assert!(cut_off.next().await.is_some() && ask().await.is_none(), "one at a time");
        drop(cut_off);
        drop(musician.admit().expect("leave"));

        // Then the next caller gets the probe, and the end of its stream closes the circuit
        let heard: Vec<_> = ask().await.expect("leave").collect().await;
        assert_eq!((heard.len(), musician.state().circuit()), (1, Circuit::Closed));
    }

    #[test]
    fn what_became_of_a_call_is_recorded_and_never_that_it_may_be_made_again() {
        let recorded = |kind| unfinished(Stopped::Untaken(VendorError::new(kind, "m")));
        for kind in [ErrorKind::Unreached, ErrorKind::Busy, ErrorKind::Unserved] {
            let Unfinished { failure, commands } = recorded(kind);
            assert_eq!(failure.code.as_str(), "vendor_unavailable");
            assert!(matches!(commands[..], [TaskCommand::RecordUndelivered { .. }, TaskCommand::Fail { .. }]));
        }
        let Unfinished { failure, commands } = recorded(ErrorKind::Unknown);
        assert_eq!(failure.code.as_str(), "outcome_unknown");
        assert!(matches!(commands[..], [TaskCommand::RecordUnknown { repeatable: false, .. }]));
        let Unfinished { failure, commands } = recorded(ErrorKind::Refused);
        assert_eq!(failure.code.as_str(), "vendor_refused");
        assert!(matches!(commands[..], [TaskCommand::RecordRefusal { .. }]));
    }
}
