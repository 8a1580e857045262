//! Bounded cache of values that are valid for one generation of the nodes.

use std::hash::{BuildHasher, Hash, RandomState};

use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};

/// Assumed average weight of an entry, from which the cache derives its initial size.
const TYPICAL_WEIGHT: u64 = 4096;
/// Number of shards with a lock each. A value heavier than a shard's part of the total weight is not kept, so there are
/// only a few shards, regardless of the number of cores.
const SHARDS: usize = 4;
/// Number of recently requested keys to remember.
const RECENT_KEYS: usize = 256;

/// Values by key, each with the generation for which it was made. A value of an older generation is replaced at its
/// next use, or evicted.
pub struct GenerationCache<K, V> {
    values: Cache<K, GenerationalValue<V>, StoredWeight, RandomState>,
    weight_max: u64,
}

#[derive(Clone)]
struct GenerationalValue<V> {
    generation: u64,
    weight: u64,
    value: V,
}

#[derive(Clone)]
struct StoredWeight;

impl<K, V> Weighter<K, GenerationalValue<V>> for StoredWeight {
    fn weight(&self, _: &K, entry: &GenerationalValue<V>) -> u64 {
        entry.weight
    }
}

impl<K: Hash + Eq, V: Clone> GenerationCache<K, V> {
    /// Creates an empty cache with a maximum total weight.
    ///
    /// # Panics
    /// Never, because both capacities are given.
    #[must_use]
    pub fn new(weight_max: u64) -> Self {
        let typical_count = usize::try_from(weight_max / TYPICAL_WEIGHT).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(typical_count)
            .weight_capacity(weight_max)
            .build()
            .expect("both capacities are given");
        let hasher = RandomState::new();
        let values = Cache::with_options(options, StoredWeight, hasher, DefaultLifecycle::default());
        Self { values, weight_max }
    }

    /// Returns the value of a key if its generation matches.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q, generation: u64) -> Option<V> {
        self.values.get(key).filter(|entry| entry.generation == generation).map(|entry| entry.value)
    }

    /// Stores a value. `weight` includes the key.
    pub fn insert(&self, key: K, generation: u64, value: V, weight: usize) {
        self.values.insert(key, GenerationalValue { generation, weight: weight as u64, value });
    }
}

/// The clone starts empty.
impl<K: Hash + Eq, V: Clone> Clone for GenerationCache<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.weight_max)
    }
}

/// Hashes of recently requested keys, each in the slot given by its hash.
pub struct RecentKeys {
    hasher: RandomState,
    hashes: Mutex<Vec<u64>>,
}

impl RecentKeys {
    /// Records a request; returns `true` if the key was requested recently.
    pub fn contains_or_insert<K: Hash>(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        #[expect(clippy::cast_possible_truncation, reason = "any part of a hash is as good as another")]
        let slot = hash as usize % RECENT_KEYS;
        std::mem::replace(&mut self.hashes.lock()[slot], hash) == hash
    }
}

impl Default for RecentKeys {
    fn default() -> Self {
        Self { hasher: RandomState::new(), hashes: Mutex::new(vec![0; RECENT_KEYS]) }
    }
}

/// The clone starts empty.
impl Clone for RecentKeys {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_valid_for_one_generation() {
        let cache = GenerationCache::new(1 << 20);
        cache.insert("a", 1, "old", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (Some("old"), None));
        cache.insert("a", 2, "new", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (None, Some("new")));
    }

    #[test]
    fn the_total_weight_is_bounded() {
        let cache = GenerationCache::new(1 << 20);
        for key in 0..10_000 {
            cache.insert(key, 1, key, 1000);
        }
        let cached_count = (0..10_000).filter(|key| cache.get(key, 1) == Some(*key)).count();
        assert!((500..=1048).contains(&cached_count), "{cached_count}");
    }

    #[test]
    fn a_large_value_is_kept() {
        let cache = GenerationCache::new(8 << 20);
        for key in 0..4 {
            cache.insert(key, 1, key, 1 << 20);
            assert_eq!(cache.get(&key, 1), Some(key));
        }
    }

    #[test]
    fn recently_requested_keys_are_remembered() {
        let keys = RecentKeys::default();
        assert!(!keys.contains_or_insert(&"a") && keys.contains_or_insert(&"a") && keys.contains_or_insert(&"a"));
        assert_eq!((0..20 * RECENT_KEYS).filter(|number| keys.contains_or_insert(number)).count(), 0);
        assert!(!keys.contains_or_insert(&"a"), "forgotten after many other requests");
    }
}
