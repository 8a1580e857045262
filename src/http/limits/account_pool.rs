//! Bounded pools of slots for long requests, shared by all accounts: event streams, music streams, uploads, downloads.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::response::error::{Code, Problem};
use crate::quota::Account;

/// Seconds after which a client that found a pool full should retry.
const RETRY_AFTER: u32 = 5;

/// Bounded pool in which one account holds at most half of the slots. Cheap to clone.
#[derive(Clone)]
pub struct AccountPool(Arc<AccountPoolState>);

struct AccountPoolState {
    slots: usize,
    per_account: usize,
    /// Error code for an account that holds its whole share.
    code: Code,
    /// Plural noun for error messages, such as "event streams".
    noun: &'static str,
    held: Mutex<HeldPermits>,
}

#[derive(Default)]
struct HeldPermits {
    total: usize,
    by_account: HashMap<Account, usize>,
}

/// Slot of a pool, released on drop.
pub struct PoolPermit {
    pool: AccountPool,
    account: Account,
}

impl AccountPool {
    /// Creates a pool in which one account holds at most half of `slots`, but always at least one.
    #[must_use]
    pub fn new(slots: usize, code: Code, noun: &'static str) -> Self {
        Self::with_share(slots, slots / 2, code, noun)
    }

    /// Creates a pool in which one account holds at most `per_account` slots, and never more than half.
    #[must_use]
    pub fn with_share(slots: usize, per_account: usize, code: Code, noun: &'static str) -> Self {
        let per_account = per_account.min(slots / 2).max(1);
        Self(Arc::new(AccountPoolState { slots, per_account, code, noun, held: Mutex::default() }))
    }

    /// Takes a slot.
    ///
    /// # Errors
    /// 429 if the account holds its share, 503 if the pool is full.
    pub fn try_acquire(&self, account: Account) -> Result<PoolPermit, Problem> {
        let AccountPoolState { slots, per_account, code, noun, held } = &*self.0;
        let mut held = held.lock();
        if held.by_account.get(&account).is_some_and(|open| open >= per_account) {
            let detail = format!("this account already has {per_account} {noun} open, the maximum; close one first");
            return Err(Problem::new(*code, detail).retry_after(RETRY_AFTER));
        }
        if held.total >= *slots {
            let detail = format!("all {slots} slots for {noun} are in use; try again soon");
            return Err(Problem::new(Code::Overloaded, detail).retry_after(RETRY_AFTER));
        }

        held.total += 1;
        *held.by_account.entry(account).or_default() += 1;
        Ok(PoolPermit { pool: self.clone(), account })
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        let mut held = self.pool.0.held.lock();
        held.total -= 1;
        if let Some(count) = held.by_account.get_mut(&self.account) {
            *count -= 1;
            // Removes accounts without a slot, so that the number of slots bounds the memory.
            if *count == 0 {
                held.by_account.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::UserId;
    use uuid::Uuid;

    fn account(number: u128) -> Account {
        Account::User(UserId(Uuid::from_u128(number)))
    }

    fn refusal(pool: &AccountPool, number: u128) -> Option<Code> {
        pool.try_acquire(account(number)).err().map(|problem| problem.code())
    }

    #[test]
    fn an_account_holds_at_most_half_of_the_pool() {
        // Given a pool of five slots
        let pool = AccountPool::new(5, Code::TooManyStreams, "streams");

        // When one account takes all it can get
        let first: Vec<_> = (0..2).map(|_| pool.try_acquire(account(1)).ok().unwrap()).collect();

        // Then it gets half, and others get the rest
        assert_eq!(refusal(&pool, 1), Some(Code::TooManyStreams));
        let others: Vec<_> = (2..5).map(|number| pool.try_acquire(account(number)).ok().unwrap()).collect();
        assert_eq!(refusal(&pool, 9), Some(Code::Overloaded));

        // And slots come back
        drop(first);
        assert_eq!(refusal(&pool, 1), None);
        drop(others);
        let held = pool.0.held.lock();
        assert!(held.total == 0 && held.by_account.is_empty(), "slots or accounts remain");
    }

    #[test]
    fn a_pool_of_one_slot_serves_one_account_at_a_time() {
        let pool = AccountPool::new(1, Code::TooManyStreams, "streams");
        let permit = pool.try_acquire(account(1)).ok().unwrap();
        assert_eq!(refusal(&pool, 1), Some(Code::TooManyStreams));
        assert_eq!(refusal(&pool, 2), Some(Code::Overloaded));
        drop(permit);
        assert_eq!(refusal(&pool, 2), None);
    }

    #[test]
    fn a_share_below_half_is_respected() {
        let pool = AccountPool::with_share(8, 2, Code::TooManyTransfers, "uploads");
        let _permits = [pool.try_acquire(account(1)), pool.try_acquire(account(1))];
        assert_eq!(refusal(&pool, 1), Some(Code::TooManyTransfers));
        assert_eq!(refusal(&pool, 2), None);
    }
}
