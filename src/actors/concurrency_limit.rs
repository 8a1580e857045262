//! Limits concurrent work per account, so that an account with many unresponsive receivers does not use all slots.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::UserId;

/// Slots in use per account; all anonymous callers share one limit. Cheap to clone.
#[derive(Clone)]
pub struct AccountConcurrencyLimit {
    permits_per_account: usize,
    in_use: Arc<Mutex<HashMap<Option<UserId>, usize>>>,
}

/// One slot, released on drop.
pub struct ConcurrencyPermit {
    limit: AccountConcurrencyLimit,
    account: Option<UserId>,
}

impl AccountConcurrencyLimit {
    /// Returns a limit of `permits_per_account` slots per account.
    #[must_use]
    pub fn new(permits_per_account: usize) -> Self {
        Self { permits_per_account, in_use: Arc::default() }
    }

    /// Takes a slot for `account`; `None` if all slots of the account are in use.
    #[must_use]
    pub fn try_acquire(&self, account: Option<UserId>) -> Option<ConcurrencyPermit> {
        let mut in_use = self.in_use.lock();
        let count = in_use.entry(account).or_default();
        if *count >= self.permits_per_account {
            return None;
        }
        *count += 1;
        Some(ConcurrencyPermit { limit: self.clone(), account })
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut in_use = self.limit.in_use.lock();
        let remaining = in_use.remove(&self.account).unwrap_or(0).saturating_sub(1);
        if remaining > 0 {
            in_use.insert(self.account, remaining);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn slots_are_limited_per_account_and_released() {
        let ada = Some(UserId(Uuid::from_u128(1)));
        let bob = Some(UserId(Uuid::from_u128(2)));
        let limit = AccountConcurrencyLimit::new(2);

        let first = limit.try_acquire(ada).unwrap();
        let second = limit.try_acquire(ada);
        assert!(second.is_some() && limit.try_acquire(ada).is_none());
        assert!(limit.try_acquire(bob).is_some());

        drop(first);
        assert!(limit.try_acquire(ada).is_some());
        drop(second);
        assert!(limit.in_use.lock().is_empty(), "accounts without slots in use are kept in memory");
    }
}
