//! Limits concurrent work per account, so that an account with many unresponsive receivers does not use all slots.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::UserId;

/// Slots in use per account; all anonymous callers share one limit. Cheap to clone.
#[derive(Clone)]
pub struct Shares {
    most: usize,
    taken: Arc<Mutex<HashMap<Option<UserId>, usize>>>,
}

/// One slot, released on drop.
pub struct Share {
    shares: Shares,
    account: Option<UserId>,
}

impl Shares {
    /// Returns a limit of `most` slots per account.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// Takes a slot for this account, unless it uses all of its slots.
    #[must_use]
    pub fn take(&self, account: Option<UserId>) -> Option<Share> {
        let mut taken = self.taken.lock();
        let own = taken.entry(account).or_default();
        if *own >= self.most {
            return None;
        }
        *own += 1;
        Some(Share { shares: self.clone(), account })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        let left = taken.remove(&self.account).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            taken.insert(self.account, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_account_has_its_share_and_gets_it_back() {
        let ada = Some(UserId(Uuid::from_u128(1)));
        let bob = Some(UserId(Uuid::from_u128(2)));
        let shares = Shares::new(2);
        let first = shares.take(ada).unwrap();
        let second = shares.take(ada);
        assert!(second.is_some() && shares.take(ada).is_none());
        assert!(shares.take(bob).is_some());
        drop(first);
        assert!(shares.take(ada).is_some());
        drop(second);
        assert!(shares.taken.lock().is_empty());
    }
}
