//! Cache of recently used keys, in two generations. When the young one is full, it replaces the old one.

use std::collections::HashMap;
use std::sync::Arc;

use super::seal::UserKey;
use crate::domain::ids::UserId;

/// Bounded cache of keys.
pub struct UserKeyCache {
    generation_max: usize,
    young: HashMap<UserId, Arc<UserKey>>,
    old: HashMap<UserId, Arc<UserKey>>,
}

impl UserKeyCache {
    /// Creates a cache for this many keys, at least two.
    #[must_use]
    pub fn new(keys_max: usize) -> Self {
        Self { generation_max: (keys_max / 2).max(1), young: HashMap::new(), old: HashMap::new() }
    }

    /// Returns the key of a user, if cached.
    pub fn get(&mut self, user: UserId) -> Option<Arc<UserKey>> {
        if let Some(key) = self.young.get(&user) {
            return Some(Arc::clone(key));
        }
        let key = self.old.remove(&user)?;
        self.insert(user, Arc::clone(&key));
        Some(key)
    }

    /// Adds a key.
    pub fn insert(&mut self, user: UserId, key: Arc<UserKey>) {
        if self.young.len() >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(user, key);
    }

    /// Removes a key.
    pub fn remove(&mut self, user: UserId) {
        self.young.remove(&user);
        self.old.remove(&user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn user(number: u128) -> UserId {
        UserId(Uuid::from_u128(number))
    }

    #[test]
    fn used_keys_stay_and_others_are_evicted() {
        let mut cache = UserKeyCache::new(8);
        for number in 0..100 {
            cache.insert(user(number), Arc::new(UserKey::new(user(number), &[0; 32])));
            assert!(cache.get(user(0)).is_some(), "{number}");
            assert!(cache.young.len() + cache.old.len() <= 8);
        }
        assert!(cache.get(user(1)).is_none() && cache.get(user(99)).is_some());
        cache.remove(user(0));
        assert!(cache.get(user(0)).is_none());
    }
}
