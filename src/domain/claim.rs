//! Claims of idempotency keys (ADR 6).
//!
//! A command with an idempotency key is recorded in one commit with its events, so it never runs twice. The claim is
//! part of the command's stream; no aggregate folds it.

use std::time::Duration;

use super::event_enum::event_enum;
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

event_enum! {
    /// The events of idempotency keys.
    ClaimEvent {
        /// A command ran under a key. The preceding events of the same commit, if any, are its outcome.
        KeyClaimed(IdempotencyClaim),
    }
}
