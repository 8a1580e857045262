//! Memory budget of request bodies: one pool for each kind, of which an account may hold at most a share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::BodyLimit;
use crate::http::response::error::{Code, Problem};
use crate::quota::Account;

/// Maximum memory of bodies without images, in bytes.
const JSON_BYTES: usize = 128 << 20;
/// Maximum memory of bodies with images, in bytes.
const IMAGES_BYTES: usize = 384 << 20;
/// Maximum memory of request fields repeated in delayed responses, in bytes.
const WAITING_BYTES: usize = 64 << 20;
/// One account holds at most the size of a pool divided by this number.
const ACCOUNT_SHARE_DIVISOR: usize = 2;

/// Memory pools. Bodies with images have their own, so that they cannot block the others.
pub struct BodyBudget {
    json: Arc<BodyPool>,
    images: Arc<BodyPool>,
    waiting: Arc<BodyPool>,
}

struct BodyPool {
    bytes: usize,
    held: Mutex<HeldBodyBytes>,
}

#[derive(Default)]
struct HeldBodyBytes {
    total: usize,
    by_account: HashMap<Account, usize>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        let pool = |bytes| Arc::new(BodyPool { bytes, held: Mutex::default() });
        Self { json: pool(JSON_BYTES), images: pool(IMAGES_BYTES), waiting: pool(WAITING_BYTES) }
    }
}

impl BodyBudget {
    /// Creates an empty charge for a body.
    pub fn charge(&self, limit: BodyLimit, account: Account) -> BodyCharge {
        let pool = match limit {
            BodyLimit::None | BodyLimit::Json | BodyLimit::Form => &self.json,
            BodyLimit::Images | BodyLimit::Archive | BodyLimit::InputFile | BodyLimit::InputForm => &self.images,
        };
        BodyCharge { pool: Arc::clone(pool), account, bytes: 0 }
    }

    /// Charges as many bytes as `charge` holds to the pool of delayed responses.
    ///
    /// # Errors
    /// 503 if that pool is full.
    pub fn charge_waiting(&self, charge: &BodyCharge) -> Result<BodyCharge, Problem> {
        let mut waiting = BodyCharge { pool: Arc::clone(&self.waiting), account: charge.account, bytes: 0 };
        waiting.grow(charge.bytes)?;
        Ok(waiting)
    }

    /// Returns the bytes held for JSON bodies, for bodies with images, and for delayed responses.
    #[cfg(test)]
    pub fn held_bytes(&self) -> [usize; 3] {
        [&self.json, &self.images, &self.waiting].map(|pool| pool.held.lock().total)
    }
}

/// Bytes that a body holds in a pool; released on drop.
pub struct BodyCharge {
    pool: Arc<BodyPool>,
    account: Account,
    bytes: usize,
}

impl BodyCharge {
    /// Takes `more` bytes from the pool.
    ///
    /// # Errors
    /// 503 if the pool or the account's share is used up.
    pub fn grow(&mut self, more: usize) -> Result<(), Problem> {
        let mut held = self.pool.held.lock();
        if held.total + more > self.pool.bytes {
            return Err(Problem::overloaded());
        }
        let share = self.pool.bytes / ACCOUNT_SHARE_DIVISOR;
        let account_bytes = held.by_account.get(&self.account).copied().unwrap_or(0) + more;
        if account_bytes > share {
            let detail = format!("requests of this account in progress already use {} MiB, the maximum", share >> 20);
            return Err(Problem::new(Code::Overloaded, detail).retry_after(1));
        }

        if more > 0 {
            held.by_account.insert(self.account, account_bytes);
        }
        held.total += more;
        self.bytes += more;
        Ok(())
    }

    /// Returns an empty charge of the same account to the same pool.
    #[must_use]
    pub fn new_empty(&self) -> Self {
        Self { pool: Arc::clone(&self.pool), account: self.account, bytes: 0 }
    }

    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let released = self.bytes.saturating_sub(bytes);
        let mut held = self.pool.held.lock();
        held.total -= released;
        let remaining = held.by_account.remove(&self.account).unwrap_or(0).saturating_sub(released);
        if remaining > 0 {
            held.by_account.insert(self.account, remaining);
        }
        self.bytes -= released;
    }
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u8) -> Account {
        Account::from_address([192, 0, 2, number].into())
    }

    #[test]
    fn a_caller_holds_at_most_its_share() {
        let budget = BodyBudget::default();
        let mut greedy = budget.charge(BodyLimit::Images, account(1));
        assert!(greedy.grow(IMAGES_BYTES / ACCOUNT_SHARE_DIVISOR).is_ok());

        let mut second = budget.charge(BodyLimit::Images, account(1));
        let problem = second.grow(1).unwrap_err();
        assert_eq!(problem.code(), Code::Overloaded);
        assert!(problem.to_string().contains("192 MiB"), "{problem}");

        assert!(budget.charge(BodyLimit::Images, account(2)).grow(IMAGES_BYTES / ACCOUNT_SHARE_DIVISOR).is_ok());
        drop(greedy);
        assert!(second.grow(1).is_ok());
    }

    #[test]
    fn the_pools_are_bounded_and_independent() {
        let budget = BodyBudget::default();
        let mut charges: Vec<_> = (0..2).map(|number| budget.charge(BodyLimit::Images, account(number))).collect();
        for charge in &mut charges {
            charge.grow(IMAGES_BYTES / ACCOUNT_SHARE_DIVISOR).unwrap();
        }

        assert_eq!(budget.charge(BodyLimit::Images, account(9)).grow(1).unwrap_err().code(), Code::Overloaded);
        assert!(budget.charge(BodyLimit::Json, account(9)).grow(1).is_ok());
        drop(charges);
        assert_eq!(budget.held_bytes(), [0; 3]);
        assert!(budget.images.held.lock().by_account.is_empty());
    }

    #[test]
    fn a_waiting_body_moves_to_another_pool() {
        let budget = BodyBudget::default();
        let mut charge = budget.charge(BodyLimit::Images, account(1));
        charge.grow(1000).unwrap();
        charge.shrink_to(300);

        let waiting = budget.charge_waiting(&charge).unwrap();
        drop(charge);

        assert_eq!(budget.held_bytes(), [0, 0, 300]);
        drop(waiting);
        assert_eq!(budget.held_bytes(), [0; 3]);
    }
}
