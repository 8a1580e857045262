//! The trait of all aggregates: command and state give events; event and state give the next state.

use super::event::Event;
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
    type Command: Send;
    type Event: Clone + Into<Event> + Send;
    /// The reason for which a command was refused.
    type Rejection: Send;
    /// Returns the events that follow from `command`; none if nothing changes.
    ///
    /// # Errors
    /// If a rule forbids the command in this state.
    fn decide(state: &Self::State, command: Self::Command, now: Timestamp)
    -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds one recorded event, which happened at `at`, into the state.
    fn evolve(state: &mut Self::State, event: &Self::Event, at: Timestamp);

    /// Returns this aggregate's variant of an event, or `None` if the event belongs to another aggregate.
    fn downcast(event: &Event) -> Option<&Self::Event>;
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

/// Given/when/then helpers for tests of aggregates.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Decider, Timestamp, fold};

    /// The time of the events in test histories.
    pub const RECORDED_AT: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
    /// The time at which test commands are decided.
    pub const NOW: Timestamp = Timestamp::from_micros(1_000_000_060_000_000);

    /// Decides `command` on the state after `history`.
    pub fn given_when<D: Decider>(history: &[D::Event], command: D::Command) -> Result<Vec<D::Event>, D::Rejection> {
        D::decide(&state_after::<D>(history), command, NOW)
    }

    /// Returns the state after a history recorded at [`RECORDED_AT`].
    pub fn state_after<D: Decider>(history: &[D::Event]) -> D::State {
        fold::<D>(history.iter().map(|event| (event, RECORDED_AT)))
    }
}
