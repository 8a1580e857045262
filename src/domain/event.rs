//! The union of the events of all aggregates: the log records it, projections fold it.

use super::budget::BudgetEvent;
use super::claim::ClaimEvent;
use super::decider::Decider;
use super::delivery::DeliveryEvent;
use super::node::NodeEvent;
use super::publisher::PublisherEvent;
use super::task::TaskEvent;
use super::token::TokenEvent;
use super::user::UserEvent;

/// Event type of one aggregate; a part of [`Event`].
pub trait AggregateEvent: Into<Event> + 'static {
    /// Returns this aggregate's variant of an event, or `None` if the event belongs to another aggregate.
    fn downcast(event: &Event) -> Option<&Self>;
}

/// A [`Decider`] whose events are recorded.
pub trait Aggregate: Decider<Event: AggregateEvent> {}

impl<D: Decider<Event: AggregateEvent>> Aggregate for D {}

macro_rules! union_of_events {
    ($($variant:ident($event:ident)),+ $(,)?) => {
        /// An event of one aggregate.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Event { $($variant($event)),+ }

        impl Event {
            /// Returns the stable name of the event, as `audit` prints it.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(event) => event.name()),+ }
            }
        }

        /// Returns the names of all events, grouped by aggregate.
        pub fn names() -> impl Iterator<Item = &'static str> {
            [$($event::NAMES),+].into_iter().flatten().copied()
        }

        $(
            impl From<$event> for Event {
                fn from(event: $event) -> Self {
                    Self::$variant(event)
                }
            }

            impl AggregateEvent for $event {
                fn downcast(event: &Event) -> Option<&Self> {
                    if let Event::$variant(event) = event { Some(event) } else { None }
                }
            }
        )+
    };
}

union_of_events! {
    User(UserEvent),
    Publisher(PublisherEvent),
    Token(TokenEvent),
    Node(NodeEvent),
    Task(TaskEvent),
    Delivery(DeliveryEvent),
    Claim(ClaimEvent),
    Budget(BudgetEvent),
}

impl Event {
    /// Returns the event if it belongs to the aggregate with events of type `E`.
    #[must_use]
    pub fn downcast<E: AggregateEvent>(&self) -> Option<&E> {
        E::downcast(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::claim::IdempotencyClaim;
    use crate::domain::value::Digest;

    /// Returns which of the eight types the event is downcast to.
    fn types_of(event: &Event) -> [bool; 8] {
        [
            event.downcast::<UserEvent>().is_some(),
            event.downcast::<PublisherEvent>().is_some(),
            event.downcast::<TokenEvent>().is_some(),
            event.downcast::<NodeEvent>().is_some(),
            event.downcast::<TaskEvent>().is_some(),
            event.downcast::<DeliveryEvent>().is_some(),
            event.downcast::<ClaimEvent>().is_some(),
            event.downcast::<BudgetEvent>().is_some(),
        ]
    }

    #[test]
    fn an_event_belongs_to_one_aggregate_and_keeps_its_name() {
        let claim = IdempotencyClaim { key: Digest([1; 32]), fingerprint: Digest([2; 32]), command_index: 0 };
        let events: [(Event, &str, usize); 7] = [
            (UserEvent::UserErased.into(), "UserErased", 0),
            (PublisherEvent::PublisherDeleted.into(), "PublisherDeleted", 1),
            (TokenEvent::TokenRevoked.into(), "TokenRevoked", 2),
            (NodeEvent::DownloadsCounted { count: 1 }.into(), "DownloadsCounted", 3),
            (TaskEvent::TaskCancelled.into(), "TaskCancelled", 4),
            (ClaimEvent::KeyClaimed(claim).into(), "KeyClaimed", 6),
            (BudgetEvent::BudgetRemoved.into(), "BudgetRemoved", 7),
        ];
        for (event, name, aggregate) in events {
            assert_eq!(event.name(), name);
            assert_eq!(types_of(&event), std::array::from_fn(|index| index == aggregate), "{name}");
        }
    }

    #[test]
    fn names_of_events_are_unique() {
        let all: Vec<_> = names().collect();
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }
}
