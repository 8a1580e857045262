//! The shape of every aggregate: a command and a state give events, an event and a state give the next state.

use super::event::Event;
use super::ids::StreamKind;
use super::value::Timestamp;

/// An aggregate as two pure functions.
///
/// `decide` may refuse (a [`Decider::Rejection`] is a normal answer, not a failure); `evolve` may not: it takes whatever
/// was recorded, and an event that does not fit the state leaves it as it is, so that replay never stops.
pub trait Decider: Sized + 'static {
    /// The kind of stream that holds this aggregate's events.
    const KIND: StreamKind;
    /// What the past events amount to; the default is the state before the first event.
    type State: Default + Send + Unpin;
    /// What can be asked of the aggregate.
    type Command: Send;
    /// What can have happened to it.
    type Event: Clone + Into<Event> + Send;
    /// Why a command was refused.
    type Rejection: Send;

    /// The events that follow from `command`; none when nothing changes.
    ///
    /// # Errors
    /// The rejection, when a rule forbids the command in this state.
    fn decide(state: &Self::State, command: Self::Command, now: Timestamp)
    -> Result<Vec<Self::Event>, Self::Rejection>;

    /// Folds one recorded event, which happened at `at`, into the state.
    fn evolve(state: &mut Self::State, event: &Self::Event, at: Timestamp);

    /// This aggregate's own view of an event, or `None` if the event belongs to another kind.
    fn narrow(event: &Event) -> Option<&Self::Event>;
}

/// Folds a history into a state; the rehydration of an actor and the "given" of a test are the same function.
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

/// Given/when/then for aggregates.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Decider, Timestamp, fold};

    /// The moment at which test histories happened.
    pub const THEN: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
    /// The moment at which test commands are decided.
    pub const NOW: Timestamp = Timestamp::from_micros(1_000_000_060_000_000);

    /// Given this history, when this command comes, then this is the answer.
    pub fn given_when<D: Decider>(history: &[D::Event], command: D::Command) -> Result<Vec<D::Event>, D::Rejection> {
        D::decide(&state_after::<D>(history), command, NOW)
    }

    /// The state after a history that happened at [`THEN`].
    pub fn state_after<D: Decider>(history: &[D::Event]) -> D::State {
        fold::<D>(history.iter().map(|event| (event, THEN)))
    }
}
