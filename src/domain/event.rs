//! The union of all events: the log records it, projections fold it.

use super::{claim, delivery, node, publisher, task, token, user};

/// An event of one aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    User(user::UserEvent),
    Publisher(publisher::PublisherEvent),
    Token(token::TokenEvent),
    Node(node::NodeEvent),
    Task(task::TaskEvent),
    Delivery(delivery::DeliveryEvent),
    Claim(claim::ClaimEvent),
}

impl Event {
    /// Returns the stable name of the event, as `audit` prints it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::User(event) => event.name(),
            Self::Publisher(event) => event.name(),
            Self::Token(event) => event.name(),
            Self::Node(event) => event.name(),
            Self::Task(event) => event.name(),
            Self::Delivery(event) => event.name(),
            Self::Claim(event) => event.name(),
        }
    }
}

/// Returns the names of all events, grouped by aggregate.
pub fn names() -> impl Iterator<Item = &'static str> {
    let names = [
        user::UserEvent::NAMES,
        publisher::PublisherEvent::NAMES,
        token::TokenEvent::NAMES,
        node::NodeEvent::NAMES,
        task::TaskEvent::NAMES,
        delivery::DeliveryEvent::NAMES,
        claim::ClaimEvent::NAMES,
    ];
    names.into_iter().flatten().copied()
}

/// Adds an aggregate's event enum to [`Event`]: conversion and stable names.
macro_rules! part_of_event {
    ($event:ident as $variant:ident { $($name:ident),+ $(,)? }) => {
        impl From<$event> for crate::domain::event::Event {
            fn from(event: $event) -> Self {
                Self::$variant(event)
            }
        }

        impl $event {
            /// Stable names of all variants.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// Returns the stable name of the event.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)+
                }
            }
        }
    };
}
pub(crate) use part_of_event;
