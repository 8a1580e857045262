//! Bounded store of rate limit state per caller.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use parking_lot::Mutex;

use super::rate::{Rate, RateDecision};
use crate::domain::ids::{TokenId, UserId};
use crate::quota::subscriber_network;

/// Number of shards, so that requests of different callers rarely contend. A power of two.
const SHARDS: usize = 64;
/// Maximum number of callers in a shard.
const SHARD_MAX: usize = 1024;

/// Unit of rate limiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Caller {
    User(UserId),
    /// Token of a publisher.
    Token(TokenId),
    /// Client address; for IPv6 the /64 network, which is what a subscriber is assigned.
    Address(IpAddr),
}

impl Caller {
    /// Returns the caller at an address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        Self::Address(subscriber_network(address))
    }
}

/// State of all callers of one limit: the time at which the burst of each caller is full again, in microseconds.
pub struct RateStore {
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<Caller, i64>>>,
}

impl Default for RateStore {
    fn default() -> Self {
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl RateStore {
    /// Checks and counts a request at `now`, in microseconds.
    pub fn check(&self, rate: &Rate, caller: Caller, now: i64) -> RateDecision {
        let shard = usize::try_from(self.hasher.hash_one(caller) % SHARDS as u64).unwrap_or(0);
        let mut callers = self.shards[shard].lock();
        if let Some(reset_at) = callers.get_mut(&caller) {
            return rate.check(reset_at, now);
        }
        if callers.len() >= SHARD_MAX {
            evict(&mut callers, now);
        }
        rate.check(callers.entry(caller).or_insert(now), now)
    }
}

/// Evicts the callers whose burst is full, as their state carries no information; if there are none, the caller whose
/// burst is full soonest.
fn evict(callers: &mut HashMap<Caller, i64>, now: i64) {
    callers.retain(|_, reset_at| *reset_at > now);
    if callers.len() < SHARD_MAX {
        return;
    }
    let earliest = callers.iter().min_by_key(|(_, reset_at)| **reset_at).map(|(caller, _)| *caller);
    if let Some(earliest) = earliest {
        callers.remove(&earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(address: &str) -> Caller {
        Caller::from_address(address.parse().unwrap())
    }

    fn stored_count(store: &RateStore) -> usize {
        store.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[test]
    fn callers_are_counted_separately() {
        let store = RateStore::default();
        let rate = Rate::new(60, 1).unwrap();
        assert_eq!(store.check(&rate, caller("10.0.0.1"), 0).retry_after, None);
        assert!(store.check(&rate, caller("10.0.0.1"), 0).retry_after.is_some());
        assert_eq!(store.check(&rate, caller("10.0.0.2"), 0).retry_after, None);
    }

    #[test]
    fn memory_is_bounded_and_the_heaviest_callers_are_kept() {
        let store = RateStore::default();
        let rate = Rate::new(60, 100).unwrap();
        let busy = caller("192.0.2.1");
        while store.check(&rate, busy, 0).retry_after.is_none() {}
        for number in 0..200_000_u32 {
            store.check(&rate, Caller::from_address(IpAddr::V4(number.into())), 0);
        }
        assert!(stored_count(&store) <= SHARDS * SHARD_MAX, "more callers are stored than the shards may hold");
        assert!(store.check(&rate, busy, 0).retry_after.is_some(), "the flood evicted the busiest caller");
    }

    #[test]
    fn callers_with_a_full_burst_are_evicted_first() {
        let store = RateStore::default();
        let rate = Rate::new(60, 2).unwrap();
        for number in 0..200_000_u32 {
            store.check(&rate, Caller::from_address(IpAddr::V4(number.into())), i64::from(number) * 1_000_000);
        }
        // Each burst is full a second later, so an eviction empties the shard.
        assert!(stored_count(&store) < SHARDS * SHARD_MAX);
    }
}
