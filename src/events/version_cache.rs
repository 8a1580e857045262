//! Bounded cache of stream versions, so that an append rarely has to query sled.

use std::collections::HashMap;

use super::stream::{StreamId, Version};

/// Cache in two generations. When the young one is full, it replaces the old one. That happens only in
/// [`VersionCache::rotate`], so versions set since the last call are always known.
pub struct VersionCache {
    young: HashMap<StreamId, Version>,
    old: HashMap<StreamId, Version>,
    /// Number of streams from which a generation is full.
    capacity: usize,
    /// `true` if nothing was ever forgotten. A stream that is not cached then does not exist.
    complete: bool,
}

impl VersionCache {
    /// An empty cache of an empty log.
    pub fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity, complete: true }
    }

    /// Marks the cache as incomplete: a stream that is not cached may exist.
    pub fn mark_incomplete(&mut self) {
        self.complete = false;
    }

    /// The version of a stream; `None` if it was forgotten, or may never have existed.
    pub fn get(&self, stream: &StreamId) -> Option<Version> {
        let version = self.young.get(stream).or_else(|| self.old.get(stream)).copied();
        version.or_else(|| self.complete.then_some(Version(0)))
    }

    /// Sets the version of a stream.
    pub fn set(&mut self, stream: &StreamId, version: Version) {
        if let Some(stored) = self.young.get_mut(stream) {
            *stored = version;
        } else {
            self.young.insert(stream.clone(), version);
        }
    }

    /// Drops the old generation if the young one is full. All versions set so far must be available elsewhere by now.
    pub fn rotate(&mut self) {
        if self.young.len() >= self.capacity {
            self.complete &= self.old.is_empty();
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(nth: usize) -> StreamId {
        StreamId::parse(&format!("task/{nth}")).unwrap()
    }

    #[test]
    fn a_cache_that_forgot_nothing_knows_new_streams() {
        let mut cache = VersionCache::new(2);
        cache.set(&stream(1), Version(5));
        assert_eq!(cache.get(&stream(1)), Some(Version(5)));
        assert_eq!(cache.get(&stream(2)), Some(Version(0)));
    }

    #[test]
    fn old_streams_are_forgotten_and_used_ones_kept() {
        let mut cache = VersionCache::new(2);
        for nth in 1..=6 {
            cache.set(&stream(1), Version(nth as u64));
            cache.set(&stream(nth), Version(nth as u64));
            cache.rotate();
        }
        assert_eq!(cache.get(&stream(1)), Some(Version(6)));
        assert_eq!(cache.get(&stream(2)), None);
    }

    #[test]
    fn nothing_is_forgotten_before_it_may_be() {
        let mut cache = VersionCache::new(2);
        (1..=9).for_each(|nth| cache.set(&stream(nth), Version(3)));
        assert!((1..=9).all(|nth| cache.get(&stream(nth)) == Some(Version(3))));
    }
}
