//! Bounded store of rate limit state per caller.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use parking_lot::Mutex;

use super::rate::{Rate, Verdict};
use crate::domain::ids::{TokenId, UserId};
use crate::quota::subscriber;

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
    At(IpAddr),
}

impl Caller {
    /// Returns the caller at an address.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::At(subscriber(address))
    }
}

/// State of all callers of one limit: the time at which each one's burst is whole again, in microseconds.
pub struct Callers {
    hasher: RandomState,
    shards: Vec<Mutex<HashMap<Caller, i64>>>,
}

impl Default for Callers {
    fn default() -> Self {
        Self { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Callers {
    /// Checks and counts a request at `now`, in microseconds.
    pub fn take(&self, rate: &Rate, caller: Caller, now: i64) -> Verdict {
        let shard = usize::try_from(self.hasher.hash_one(caller) % SHARDS as u64).unwrap_or(0);
        let mut callers = self.shards[shard].lock();
        if let Some(whole_at) = callers.get_mut(&caller) {
            return rate.take(whole_at, now);
        }
        if callers.len() >= SHARD_MAX {
            make_room(&mut callers, now);
        }
        rate.take(callers.entry(caller).or_insert(now), now)
    }
}

/// Evicts callers whose burst is whole, as their state carries no information; if there are none, the one closest to
/// it.
fn make_room(callers: &mut HashMap<Caller, i64>, now: i64) {
    callers.retain(|_, whole_at| *whole_at > now);
    if callers.len() < SHARD_MAX {
        return;
    }
    let nearest = callers.iter().min_by_key(|(_, whole_at)| **whole_at).map(|(caller, _)| *caller);
    if let Some(nearest) = nearest {
        callers.remove(&nearest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(address: &str) -> Caller {
        Caller::at(address.parse().unwrap())
    }

    fn remembered(callers: &Callers) -> usize {
        callers.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[test]
    fn callers_do_not_count_for_each_other() {
        let callers = Callers::default();
        let rate = Rate::new(60, 1).unwrap();
        assert_eq!(callers.take(&rate, caller("10.0.0.1"), 0).wait, None);
        assert!(callers.take(&rate, caller("10.0.0.1"), 0).wait.is_some());
        assert_eq!(callers.take(&rate, caller("10.0.0.2"), 0).wait, None);
    }

    #[test]
    fn however_many_there_are_memory_is_bounded_and_who_has_used_most_is_still_known() {
        let callers = Callers::default();
        let rate = Rate::new(60, 100).unwrap();
        let busy = caller("192.0.2.1");
        while callers.take(&rate, busy, 0).wait.is_none() {}
        for number in 0..200_000_u32 {
            callers.take(&rate, Caller::at(IpAddr::V4(number.into())), 0);
        }
        assert!(remembered(&callers) <= SHARDS * SHARD_MAX);
        assert!(callers.take(&rate, busy, 0).wait.is_some(), "the flood did not wash it out");
    }

    #[test]
    fn whose_burst_is_whole_is_forgotten_first() {
        let callers = Callers::default();
        let rate = Rate::new(60, 2).unwrap();
        for number in 0..200_000_u32 {
            callers.take(&rate, Caller::at(IpAddr::V4(number.into())), i64::from(number) * 1_000_000);
        }
        // Each burst is whole a second later, so an eviction empties the shard.
        assert!(remembered(&callers) < SHARDS * SHARD_MAX);
    }
}
