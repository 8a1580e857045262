//! Claims of idempotency keys (ADR 6).
//!
//! A command with an idempotency key is recorded in one commit with its events, so it never runs twice. The claim is
//! part of the command's stream; no aggregate folds it.

use std::time::Duration;

use super::event::part_of_event;
use super::value::Digest;

/// Retention of a key (contract 2). An older key counts as unused.
pub const RETENTION: Duration = Duration::from_hours(24);

/// One command of a request with an idempotency key; identifies it when the request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// SHA-256 of the caller and the key.
    pub key: Digest,
    /// SHA-256 of the request.
    pub fingerprint: Digest,
    /// Index of the command within its request, from 0.
    pub command_index: u16,
}

/// The events of idempotency keys.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimEvent {
    /// A command ran under a key. The preceding events of the same commit, if any, are its outcome.
    KeyClaimed(IdempotencyClaim),
}

part_of_event!(ClaimEvent as Claim { KeyClaimed });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::Decider;
    use crate::domain::event::Event;
    use crate::domain::{delivery, node, publisher, task, token, user};

    #[test]
    fn claims_belong_to_no_aggregate() {
        let claim = IdempotencyClaim { key: Digest([1; 32]), fingerprint: Digest([2; 32]), command_index: 0 };
        let event = Event::from(ClaimEvent::KeyClaimed(claim));
        assert_eq!(event.name(), "KeyClaimed");
        assert!(user::User::downcast(&event).is_none() && publisher::Publisher::downcast(&event).is_none());
        assert!(token::Token::downcast(&event).is_none() && node::Node::downcast(&event).is_none());
        assert!(task::Task::downcast(&event).is_none() && delivery::Delivery::downcast(&event).is_none());
    }
}
