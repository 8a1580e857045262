//! A bounded memory of answers that are right for one state of the nodes and for no other.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// Values by key, each with the generation of the nodes for which it was made. What does not fit any more goes: values of
/// older generations first, then those that were not asked for the longest.
pub struct Cache<K, V> {
    weight_max: usize,
    kept: Mutex<Kept<K, V>>,
}

struct Kept<K, V> {
    by_key: HashMap<K, Item<V>>,
    weight: usize,
    /// Counts the uses.
    clock: u64,
}

struct Item<V> {
    value: V,
    generation: u64,
    weight: usize,
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// An empty cache of values that together weigh at most `weight_max`.
    #[must_use]
    pub fn new(weight_max: usize) -> Self {
        Self { weight_max, kept: Mutex::new(Kept { by_key: HashMap::new(), weight: 0, clock: 0 }) }
    }

    /// The value for this key, if it is of this generation.
    pub fn get(&self, key: &K, generation: u64) -> Option<V> {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        let item = kept.by_key.get_mut(key).filter(|item| item.generation == generation)?;
        item.used = now;
        Some(item.value.clone())
    }

    /// Keeps a value, unless one of a later generation is there or it would take more than an eighth of all room.
    pub fn put(&self, key: &K, generation: u64, value: V, weight: usize) {
        if weight > self.weight_max / 8 {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.by_key.get(key).is_some_and(|item| item.generation > generation) {
            return;
        }
        kept.clock += 1;
        let item = Item { value, generation, weight, used: kept.clock };
        kept.weight += weight;
        if let Some(replaced) = kept.by_key.insert(key.clone(), item) {
            kept.weight -= replaced.weight;
        }
        while kept.weight > self.weight_max {
            let oldest = kept.by_key.iter().min_by_key(|(_, item)| (item.generation, item.used));
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            let gone = kept.by_key.remove(&oldest).map_or(0, |item| item.weight);
            kept.weight -= gone;
        }
    }
}

/// What was kept stays with the original.
impl<K: Hash + Eq + Clone, V: Clone> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.weight_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_right_for_one_generation() {
        let cache = Cache::new(80);
        cache.put(&"a", 1, "old", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (Some("old"), None));
        cache.put(&"a", 2, "new", 1);
        cache.put(&"a", 1, "late", 1);
        assert_eq!((cache.get(&"a", 1), cache.get(&"a", 2)), (None, Some("new")));
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let cache = Cache::new(80);
        for key in 0..8 {
            cache.put(&key, 2, key, 10);
        }
        cache.put(&99, 2, 99, 11);
        assert_eq!(cache.get(&99, 2), None, "it is too large to be kept");
        assert_eq!(cache.get(&0, 2), Some(0));
        cache.put(&8, 2, 8, 10);
        assert_eq!((cache.get(&0, 2), cache.get(&1, 2), cache.get(&8, 2)), (Some(0), None, Some(8)));
        cache.put(&9, 1, 9, 10);
        assert_eq!(cache.get(&9, 1), None, "it is older than all others");
        assert_eq!(cache.kept.lock().weight, 80);
    }
}
