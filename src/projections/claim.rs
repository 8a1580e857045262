//! Idempotency keys of the last 24 hours, with the request and the commands that ran under each (ADR 6).

use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::domain::claim::{ClaimEvent, IdempotencyClaim, RETENTION};
use crate::domain::value::{Digest, Timestamp};

/// All retained keys. Event times decide when an old key expires, so a rebuild gives the same result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claims {
    by_key: HashMap<Digest, KeyClaims>,
    /// Keys with the time of their first claim, oldest first.
    order: VecDeque<(Timestamp, Digest)>,
}

/// The claims of one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyClaims {
    /// Fingerprint of the request.
    pub fingerprint: Digest,
    /// Time of the first command; starts the retention.
    pub at: Timestamp,
    /// Indices of the request's commands that ran.
    commands: Vec<u16>,
}

impl Claims {
    /// Applies a claim recorded at `at`.
    pub fn apply(&mut self, event: &ClaimEvent, at: Timestamp) {
        let ClaimEvent::KeyClaimed(IdempotencyClaim { key, fingerprint, command_index }) = *event;
        self.expire(at);
        let is_same_request = |claims: &&mut KeyClaims| claims.is_retained(at) && claims.fingerprint == fingerprint;
        if let Some(claims) = self.by_key.get_mut(&key).filter(is_same_request) {
            claims.commands.push(command_index);
        } else {
            self.order.push_back((at, key));
            self.by_key.insert(key, KeyClaims { fingerprint, at, commands: vec![command_index] });
        }
    }

    /// Returns the keys with their claims, and the order of first claims, for a snapshot.
    pub(super) fn snapshot_entries(
        &self,
    ) -> (impl Iterator<Item = (&Digest, &KeyClaims)>, impl Iterator<Item = &(Timestamp, Digest)>) {
        (self.by_key.iter(), self.order.iter())
    }

    /// Restores keys from a snapshot.
    pub(super) fn restore(&mut self, claims: Vec<(Digest, KeyClaims)>, order: Vec<(Timestamp, Digest)>) {
        self.by_key.extend(claims);
        self.order.extend(order);
    }

    /// Returns the claims of a key that is retained at `now`.
    #[must_use]
    pub fn get(&self, key: &Digest, now: Timestamp) -> Option<&KeyClaims> {
        self.by_key.get(key).filter(|claims| claims.is_retained(now))
    }

    /// Returns `true` if this command already ran.
    #[must_use]
    pub fn contains(&self, claim: &IdempotencyClaim, now: Timestamp) -> bool {
        let claims = self.get(&claim.key, now);
        claims.is_some_and(|claims| {
            claims.fingerprint == claim.fingerprint && claims.commands.contains(&claim.command_index)
        })
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some((at, key)) = self.order.front().copied().filter(|(at, _)| at.saturating_add(RETENTION) <= now) {
            self.order.pop_front();
            // The key may have been claimed again after it expired.
            if self.by_key.get(&key).is_some_and(|claims| claims.at == at) {
                self.by_key.remove(&key);
            }
        }
    }
}

impl KeyClaims {
    fn is_retained(&self, now: Timestamp) -> bool {
        now < self.at.saturating_add(RETENTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);

    fn claim(key: u8, fingerprint: u8, command_index: u16) -> IdempotencyClaim {
        IdempotencyClaim { key: Digest([key; 32]), fingerprint: Digest([fingerprint; 32]), command_index }
    }

    fn record_claim(claims: &mut Claims, claim: IdempotencyClaim, at: Timestamp) {
        claims.apply(&ClaimEvent::KeyClaimed(claim), at);
    }

    #[test]
    fn a_command_is_identified_by_key_fingerprint_and_index() {
        let mut claims = Claims::default();
        record_claim(&mut claims, claim(1, 1, 0), START);
        record_claim(&mut claims, claim(1, 1, 2), START);
        assert!(claims.contains(&claim(1, 1, 0), START) && claims.contains(&claim(1, 1, 2), START));
        for other in [claim(1, 1, 1), claim(1, 2, 0), claim(2, 1, 0)] {
            assert!(!claims.contains(&other, START), "{other:?}");
        }
    }

    #[test]
    fn a_key_is_kept_for_a_day_from_its_first_command() {
        let mut claims = Claims::default();
        let expired_at = START.saturating_add(RETENTION);
        let last_valid_at = Timestamp::from_micros(expired_at.micros() - 1);
        record_claim(&mut claims, claim(1, 1, 0), START);
        record_claim(&mut claims, claim(1, 1, 1), last_valid_at);
        assert!(claims.contains(&claim(1, 1, 1), last_valid_at));
        assert!(!claims.contains(&claim(1, 1, 1), expired_at) && claims.get(&Digest([1; 32]), expired_at).is_none());
    }

    #[test]
    fn an_expired_key_can_be_claimed_again() {
        let mut claims = Claims::default();
        let later = START.saturating_add(RETENTION);

        record_claim(&mut claims, claim(1, 1, 0), START);
        record_claim(&mut claims, claim(1, 2, 0), later);
        assert!(claims.contains(&claim(1, 2, 0), later));
        assert_eq!(claims.get(&Digest([1; 32]), later).map(|claims| claims.at), Some(later));

        // The two claims stay separate when the clock is set back.
        record_claim(&mut claims, claim(2, 1, 0), START);
        assert!(claims.contains(&claim(1, 2, 0), later));
    }

    #[test]
    fn expired_keys_are_removed_with_later_claims() {
        let mut claims = Claims::default();
        for key in 0..10 {
            record_claim(&mut claims, claim(key, 1, 0), START.saturating_add(RETENTION * u32::from(key)));
        }
        assert_eq!((claims.by_key.len(), claims.order.len()), (1, 1));
    }
}
