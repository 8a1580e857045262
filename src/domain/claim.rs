//! Claims of idempotency keys: a command that carries one is recorded together with its events, so that it is never carried
//! out a second time (ADR 6). The claim stands in the stream of the command; no aggregate folds it.

use std::time::Duration;

use super::event::part_of_event;
use super::value::Digest;

/// How long a key is kept (contract 2): afterwards it is as good as new.
pub const KEPT: Duration = Duration::from_hours(24);

/// The command of a request with an idempotency key, as it is recognised when the request comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// SHA-256 of the caller and the key.
    pub key: Digest,
    /// SHA-256 of what was asked for.
    pub fingerprint: Digest,
    /// Which of the commands of the request this is, from 0.
    pub nth: u16,
}

/// What is recorded of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimEvent {
    /// The events before it in its commit, if any, are what the command came to.
    KeyClaimed(Claim),
}

part_of_event!(ClaimEvent as Claim { KeyClaimed });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::decider::Decider;
    use crate::domain::event::Event;
    use crate::domain::{delivery, node, publisher, task, token, user};

    #[test]
    fn no_aggregate_takes_a_claim_for_its_own() {
        let claim = Claim { key: Digest([1; 32]), fingerprint: Digest([2; 32]), nth: 0 };
        let event = Event::from(ClaimEvent::KeyClaimed(claim));
        assert_eq!(event.name(), "KeyClaimed");
        assert!(user::User::narrow(&event).is_none() && publisher::Publisher::narrow(&event).is_none());
        assert!(token::Token::narrow(&event).is_none() && node::Node::narrow(&event).is_none());
        assert!(task::Task::narrow(&event).is_none() && delivery::Delivery::narrow(&event).is_none());
    }
}
