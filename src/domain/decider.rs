//! The trait of all aggregates: command and state give events; event and state give the next state.

use super::ids::StreamKind;
use super::value::Timestamp;

/// An aggregate as two pure functions.
///
/// `decide` may return a [`Decider::Rejection`], which is a normal outcome. `evolve` never fails: it ignores an event
/// that does not fit the state, so that replay always completes.
pub trait Decider: Sized + 'static {
    /// The kind of stream that holds this aggregate's events.
    const KIND: StreamKind;
    /// The result of folding past events; the default is the state before the first event.
    type State: Default + Send + Unpin;
    /// Cloned when another node has changed the stream, and the command is decided again.
    type Command: Clone + Send;
    type Event: Clone + Send;
    /// Reason why a command was rejected.
    type Rejection: Send;

    /// Returns the events that follow from `command`; none if nothing changes.
    ///
    /// # Errors
    /// If a rule forbids the command in this state.
    fn decide(state: &Self::State, command: Self::Command, now: Timestamp)
    -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds one recorded event, which happened at `at`, into the state.
    fn evolve(state: &mut Self::State, event: &Self::Event, at: Timestamp);
}

/// Folds a history into a state. Actors and tests use the same function.
pub fn fold<'e, D: Decider>(history: impl IntoIterator<Item = (&'e D::Event, Timestamp)>) -> D::State
where
    D::Event: 'e,
{
    let mut state = D::State::default();
    for (event, at) in history {
        D::evolve(&mut state, event, at);
    }
    state
}

/// Tests of aggregates: `given(history).when(command).then(events)`.
#[cfg(test)]
pub(crate) mod testing {
    use std::fmt::Debug;

    use super::{Decider, Timestamp, fold};

    /// The time of the events in test histories.
    pub const RECORDED_AT: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
    /// The time at which test commands are decided.
    pub const NOW: Timestamp = Timestamp::from_micros(1_000_000_060_000_000);

    /// An aggregate after a history.
    pub struct Given<D: Decider> {
        history: Vec<D::Event>,
        pub state: D::State,
    }

    /// The decision on a command.
    pub struct When<D: Decider> {
        /// History and command, for messages.
        case: String,
        pub result: Result<Vec<D::Event>, D::Rejection>,
    }

    /// Folds a history recorded at [`RECORDED_AT`].
    pub fn given<D: Decider>(history: impl AsRef<[D::Event]>) -> Given<D> {
        let history = history.as_ref().to_vec();
        let state = fold::<D>(history.iter().map(|event| (event, RECORDED_AT)));
        Given { history, state }
    }

    impl<D: Decider<Event: Debug, Command: Debug>> Given<D> {
        /// Decides the command at [`NOW`].
        pub fn when(&self, command: D::Command) -> When<D> {
            let case = format!("{command:?} after {:?}", self.history);
            When { case, result: D::decide(&self.state, command, NOW) }
        }

        /// Applies one more event, recorded at [`NOW`].
        pub fn and_now(mut self, event: D::Event) -> Self {
            D::evolve(&mut self.state, &event, NOW);
            self.history.push(event);
            self
        }
    }

    impl<D: Decider<Event: Debug + PartialEq, Rejection: Debug + PartialEq>> When<D> {
        /// Expects these events.
        #[track_caller]
        pub fn then(self, expected: impl AsRef<[D::Event]>) {
            self.then_result(&Ok(expected.as_ref().to_vec()));
        }

        /// Expects that nothing changes.
        #[track_caller]
        pub fn then_nothing(self) {
            self.then([]);
        }

        /// Expects a rejection.
        #[track_caller]
        pub fn then_rejected(self, expected: D::Rejection) {
            self.then_result(&Err(expected));
        }

        /// Expects events or a rejection.
        #[track_caller]
        pub fn then_result(self, expected: &Result<Vec<D::Event>, D::Rejection>) {
            assert_eq!(self.result, *expected, "{}", self.case);
        }

        /// Returns the events.
        #[track_caller]
        pub fn events(self) -> Vec<D::Event> {
            self.result.unwrap_or_else(|rejection| panic!("{rejection:?}: {}", self.case))
        }

        /// Returns the rejection.
        #[track_caller]
        pub fn rejection(self) -> D::Rejection {
            match self.result {
                Ok(events) => panic!("{events:?}: {}", self.case),
                Err(rejection) => rejection,
            }
        }
    }
}
