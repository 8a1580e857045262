//! Round robin for work that does not wait in a queue, because it is found in a projection each time.

use std::collections::{HashMap, VecDeque};
use std::vec::IntoIter;

use super::FairnessKey;

/// Maximum number of keys whose last turn is remembered. Older ones count as never served.
const REMEMBERED_MAX: usize = 10_000;

/// Order of turns: the key that was served longest ago comes first.
#[derive(Debug, Clone)]
pub struct RoundRobinOrder<K> {
    /// Number of the last turn of each key.
    served: HashMap<K, u64>,
    next: u64,
}

impl<K> Default for RoundRobinOrder<K> {
    fn default() -> Self {
        Self { served: HashMap::new(), next: 1 }
    }
}

impl<K: FairnessKey> RoundRobinOrder<K> {
    /// Records that `key` had its turn.
    pub fn record_served(&mut self, key: K) {
        self.served.insert(key, self.next);
        self.next += 1;
        if self.served.len() > REMEMBERED_MAX {
            // Forgets half of the keys, so that this scan is rare.
            let oldest_kept = self.next.saturating_sub(REMEMBERED_MAX as u64 / 2);
            self.served.retain(|_, turn| *turn >= oldest_kept);
        }
    }

    /// Orders streams of items by turns: one item of each key, then the next of each. Keys that were never served keep
    /// the order in which they are given.
    #[must_use]
    pub fn round_robin<I: Iterator>(&self, mut streams: Vec<(K, I)>) -> RoundRobin<K, I> {
        streams.sort_by_key(|(key, _)| self.served.get(key).copied().unwrap_or(0));
        RoundRobin { streams: streams.into() }
    }

    /// Orders items by turns; those of one key keep their order.
    pub fn interleave<T>(&self, items: impl Iterator<Item = (K, T)>) -> RoundRobin<K, IntoIter<T>> {
        let mut indices: HashMap<K, usize> = HashMap::new();
        let mut streams: Vec<(K, Vec<T>)> = Vec::new();
        for (key, item) in items {
            let index = *indices.entry(key.clone()).or_insert(streams.len());
            if index == streams.len() {
                streams.push((key, Vec::new()));
            }
            streams[index].1.push(item);
        }
        self.round_robin(streams.into_iter().map(|(key, items)| (key, items.into_iter())).collect())
    }
}

/// Items of several keys, one of each at a time.
#[derive(Debug, Clone)]
pub struct RoundRobin<K, I> {
    streams: VecDeque<(K, I)>,
}

impl<K: FairnessKey, I: Iterator> Iterator for RoundRobin<K, I> {
    type Item = (K, I::Item);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, mut items) = self.streams.pop_front()?;
            if let Some(item) = items.next() {
                self.streams.push_back((key.clone(), items));
                return Some((key, item));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(turns: &RoundRobinOrder<char>, items: &str) -> String {
        turns.interleave(items.chars().map(|item| (item.to_ascii_lowercase(), item))).map(|(_, item)| item).collect()
    }

    #[test]
    fn items_of_several_keys_alternate_and_those_of_one_keep_their_order() {
        assert_eq!(order(&RoundRobinOrder::default(), "aaAAbcb"), "abcabAA");
    }

    #[test]
    fn the_key_that_was_served_longest_ago_comes_first() {
        let mut turns = RoundRobinOrder::default();
        turns.record_served('a');
        assert_eq!(order(&turns, "aaab"), "baaa");

        turns.record_served('b');
        assert_eq!(order(&turns, "bbba"), "abbb");

        // A key without waiting items is not forgotten: it is not first again.
        turns.record_served('a');
        assert_eq!(order(&turns, "ab"), "ba");
    }

    #[test]
    fn a_bounded_number_of_keys_is_remembered() {
        let mut turns = RoundRobinOrder::default();
        for key in 0..2 * REMEMBERED_MAX {
            turns.record_served(key);
        }
        assert!(turns.served.len() <= REMEMBERED_MAX && turns.served.contains_key(&(2 * REMEMBERED_MAX - 1)));
    }
}
