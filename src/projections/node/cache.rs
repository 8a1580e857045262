//! Bounded cache of values that are valid for one generation of the nodes.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

use parking_lot::Mutex;

/// Number of recently requested keys to remember.
const RECENT_KEYS: usize = 256;

/// Values by key, each with the generation for which it was made. Evicts older generations first, then the least
/// recently used.
pub struct GenerationCache<K, V> {
    weight_max: usize,
    state: Mutex<GenerationCacheState<K, V>>,
}

struct GenerationCacheState<K, V> {
    by_key: HashMap<K, GenerationCacheEntry<V>>,
    weight: usize,
    /// Counter of uses, the clock of the LRU order.
    clock: u64,
    /// Hashes of recently requested keys, each in the slot given by its hash.
    recent_hashes: Vec<u64>,
}

struct GenerationCacheEntry<V> {
    value: V,
    generation: u64,
    weight: usize,
    last_used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> GenerationCache<K, V> {
    /// Creates an empty cache with a maximum total weight.
    #[must_use]
    pub fn new(weight_max: usize) -> Self {
        let state =
            GenerationCacheState { by_key: HashMap::new(), weight: 0, clock: 0, recent_hashes: vec![0; RECENT_KEYS] };
        Self { weight_max, state: Mutex::new(state) }
    }

    /// Records a request; returns `true` if the key was requested recently. Caching single-use values would evict
    /// frequently used ones and costs more than it saves.
    pub fn seen_recently<Q: Hash + ?Sized>(&self, key: &Q) -> bool {
        let mut state = self.state.lock();
        let hash = state.by_key.hasher().hash_one(key);
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash is as good as another")]
        let recent_hash = &mut state.recent_hashes[hash as usize % RECENT_KEYS];
        std::mem::replace(recent_hash, hash) == hash
    }

    /// Returns the value of a key if its generation matches.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q, generation: u64) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut state = self.state.lock();
        let state = &mut *state;
        let item = state.by_key.get_mut(key).filter(|item| item.generation == generation)?;
        state.clock += 1;
        item.last_used = state.clock;
        Some(item.value.clone())
    }

    /// Stores a value, unless a later generation is stored or the weight exceeds an eighth of the capacity. `weight`
    /// includes the key.
    pub fn insert(&self, key: &K, generation: u64, value: V, weight: usize) {
        if weight > self.weight_max / 8 {
            return;
        }

        let mut state = self.state.lock();
        if state.by_key.get(key).is_some_and(|item| item.generation > generation) {
            return;
        }

        state.clock += 1;
        let item = GenerationCacheEntry { value, generation, weight, last_used: state.clock };
        state.weight += weight;
        if let Some(replaced) = state.by_key.insert(key.clone(), item) {
            state.weight -= replaced.weight;
        }

        if state.weight > self.weight_max {
            state.evict_to(self.weight_max / 4 * 3);
        }
    }
}

impl<K: Hash + Eq + Clone, V> GenerationCacheState<K, V> {
    /// Evicts the oldest values until the total weight is at most `target`, which is well below the limit so that
    /// evictions are rare.
    fn evict_to(&mut self, target: usize) {
        let ages = self.by_key.values().map(|item| (item.generation, item.last_used, item.weight));
        let mut newest_first: Vec<(u64, u64, usize)> = ages.collect();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));

        let mut total = 0;
        let mut cutoff = (u64::MAX, u64::MAX);
        for (generation, last_used, weight) in newest_first {
            total += weight;
            if total > target {
                break;
            }
            cutoff = (generation, last_used);
        }

        self.by_key.retain(|_, item| (item.generation, item.last_used) >= cutoff);
        self.weight = self.by_key.values().map(|item| item.weight).sum();
    }
}

/// The clone starts empty.
impl<K: Hash + Eq + Clone, V: Clone> Clone for GenerationCache<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.weight_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_valid_for_one_generation() {
        let cache = GenerationCache::new(80);
        cache.insert(&"a", 1, "old", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (Some("old"), None));
        cache.insert(&"a", 2, "new", 1);
        cache.insert(&"a", 1, "late", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (None, Some("new")));
    }

    #[test]
    fn recently_requested_keys_are_remembered() {
        let cache = GenerationCache::<String, u8>::new(80);
        assert!(!cache.seen_recently("a") && cache.seen_recently("a") && cache.seen_recently("a"));
        assert_eq!((0..20 * RECENT_KEYS).filter(|n| cache.seen_recently(&*n.to_string())).count(), 0);
        assert!(!cache.seen_recently("a"), "forgotten after many other requests");
    }

    #[test]
    fn the_oldest_values_are_evicted_when_the_cache_is_full() {
        let cache = GenerationCache::new(80);
        for key in 0..8 {
            cache.insert(&key, 2, key, 10);
        }
        cache.insert(&99, 2, 99, 11);
        assert_eq!(cache.get(&99, 2), None, "too large for the cache");
        assert_eq!(cache.get(&0, 2), Some(0));
        cache.insert(&8, 2, 8, 10);
        let remaining: Vec<i32> = (0..9).filter(|key| cache.get(key, 2).is_some()).collect();
        assert_eq!(remaining, [0, 4, 5, 6, 7, 8], "a quarter is evicted, and the last requested values stay");
        assert_eq!(cache.state.lock().weight, 60);
        for key in 10..13 {
            cache.insert(&key, 1, key, 10);
        }
        assert_eq!(
            (10..13).filter(|key| cache.get(key, 1).is_some()).count(),
            0,
            "their generation is older than all others"
        );
        assert_eq!(cache.get(&8, 2), Some(8));
    }
}
