//! Conversion between domain values and the newest stored shapes. A pair is declared once and converts in both
//! directions: destructured on one side, built on the other, so that no field of either can be missed.
//!
//! A shape borrows from the value that it stores. Length limits are not checked when a shape is read, because they may
//! have been lowered since. A name or identifier that no release recorded is an error, never a panic.

use std::borrow::Cow;

use super::CommitDecodeError;
use super::v1::{ActorV1, ClaimEventV1};
use super::v2::{BudgetEventV2, CommitV2, EntryV2, EventV2};
use crate::domain::budget::{BudgetEvent, BudgetLimit};
use crate::domain::claim::{ClaimEvent, IdempotencyClaim};
use crate::domain::event::Event;
use crate::domain::ids::RequestId;
use crate::domain::value::Timestamp;
use crate::events::envelope::{Actor, Commit, RecordedEvent};
use crate::events::stream::{Position, StreamId, Version};

mod media;
mod registry;
mod values;

/// A domain value that is stored as `S`.
trait StoredForm<'a, S>: Sized {
    fn store(&'a self) -> S;

    /// # Errors
    /// If no release recorded such a value in `field`.
    fn restore(stored: S, field: &'static str) -> Result<Self, CommitDecodeError>;
}

/// Declares the stored shape of a struct by its fields: `field`, or `field = stored_field`.
macro_rules! stored_struct {
    ($domain:ty => $shape:ident $(<$lifetime:lifetime>)? { $($field:ident $(= $stored:ident)?),+ $(,)? }) => {
        stored! { $domain => $shape $(<$lifetime>)? {
            ($($field)+) { Self { $($field),+ } } = { $shape { $($($stored:)? $field),+ } },
        } }
    };
}
use stored_struct;

/// Declares the stored shape of an enum by its variants: `Variant`, `Variant(value)`, `Variant { field }` or
/// `Variant { field = stored_field }`. Variants that differ otherwise follow after `and`, as in [`stored`].
macro_rules! stored_enum {
    ($domain:ty => $shape:ident $(<$lifetime:lifetime>)? {
        $($variant:ident $(($value:ident))? $({ $($field:ident $(= $stored:ident)?),+ })?),+ $(,)?
    } $(and { $($other:tt)+ })?) => {
        stored! { $domain => $shape $(<$lifetime>)? {
            $(
                ($($value)? $($($field)+)?)
                { Self::$variant $(($value))? $({ $($field),+ })? } =
                { $shape::$variant $(($value))? $({ $($($stored:)? $field),+ })? },
            )+
            $($($other)+)?
        } }
    };
}
use stored_enum;

/// Declares a stored shape by cases `(names) { domain value } = { stored value }`. Both sides contain the names, and
/// each is used as a pattern in one direction and as an expression in the other.
macro_rules! stored {
    ($domain:ty => $shape:ident $(<$lifetime:lifetime>)? {
        $(($($name:ident)*) { $($value:tt)+ } = { $($stored:tt)+ },)+
    }) => {
        impl<'a> StoredForm<'a, $shape $(<$lifetime>)?> for $domain {
            fn store(&'a self) -> $shape $(<$lifetime>)? {
                match self {
                    $($($value)+ => {
                        $(let $name = StoredForm::store($name);)*
                        $($stored)+
                    })+
                }
            }

            fn restore(
                stored: $shape $(<$lifetime>)?,
                _field: &'static str,
            ) -> Result<Self, CommitDecodeError> {
                Ok(match stored {
                    $($($stored)+ => {
                        $(let $name = StoredForm::restore($name, stringify!($name))?;)*
                        $($value)+
                    })+
                })
            }
        }
    };
}
use stored;

stored_enum! {
    Event => EventV2<'a> {
        User(event),
        Publisher(event),
        Token(event),
        Node(event),
        Task(event),
        Delivery(event),
        Claim(event),
        Budget(event),
    }
}

stored! {
    ClaimEvent => ClaimEventV1 {
        (key fingerprint command_index)
            { Self::KeyClaimed(IdempotencyClaim { key, fingerprint, command_index }) }
            = { ClaimEventV1::KeyClaimed { key, fingerprint, nth: command_index } },
    }
}

stored! {
    BudgetEvent => BudgetEventV2<'a> {
        (credits period)
            { Self::BudgetSet(BudgetLimit { credits, period }) }
            = { BudgetEventV2::BudgetSet { credits, period } },
        () { Self::BudgetRemoved } = { BudgetEventV2::BudgetRemoved },
    }
}

stored_enum! {
    Actor => ActorV1 { System, User(id), Token(id), Anonymous }
}

/// Returns the stored shape of a commit; `None` if there are no events.
#[must_use]
pub fn store_commit(events: &[RecordedEvent]) -> Option<CommitV2<'_>> {
    let first = events.first()?;
    Some(CommitV2 {
        position: first.position.0,
        stream: Cow::Borrowed(first.stream.as_str()),
        version: first.version.0,
        at_micros: first.at.micros(),
        actor: first.actor.store(),
        request: first.request.as_ref().map(|id| Cow::Borrowed(id.as_str())),
        causation: first.causation.store(),
        events: events.iter().map(store_event).collect(),
    })
}

/// Returns the stored shape of one event.
#[must_use]
pub fn store_event(recorded: &RecordedEvent) -> EntryV2<'_> {
    EntryV2 { id: recorded.id.store(), event: recorded.event.store() }
}

/// Restores a commit.
///
/// # Errors
/// If the commit has no events, or contains an unknown name.
pub fn restore_commit(stored: CommitV2<'_>) -> Result<Commit, CommitDecodeError> {
    let stream = StreamId::parse(&stored.stream).ok_or_else(|| CommitDecodeError::Value {
        field: "stream",
        reason: format!("{} has no known kind", stored.stream),
    })?;
    let request: Option<RequestId> = StoredForm::restore(stored.request, "request")?;
    let causation = StoredForm::restore(stored.causation, "causation")?;
    let at = Timestamp::from_micros(stored.at_micros);
    let actor = StoredForm::restore(stored.actor, "actor")?;

    let mut events = Vec::with_capacity(stored.events.len());
    for (offset, entry) in (0..).zip(stored.events) {
        events.push(RecordedEvent {
            position: Position(stored.position.saturating_add(offset)),
            stream: stream.clone(),
            version: Version(stored.version.saturating_add(offset)),
            id: StoredForm::restore(entry.id, "id")?,
            at,
            actor,
            request: request.clone(),
            causation,
            event: StoredForm::restore(entry.event, "event")?,
        });
    }

    if events.is_empty() { Err(CommitDecodeError::Empty) } else { Ok(events.into()) }
}
