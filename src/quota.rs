//! Daily quotas: amounts that an owner may use between two midnights UTC.
//!
//! Usage is kept in memory, and a restart forgets it. Quotas that must survive a restart are seeded from the read
//! models, or follow from the log (tasks and credits).

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::UserId;
use crate::environment::Environment;

/// Microseconds of a day; days begin at midnight UTC.
pub const DAY_MICROS: i64 = 86_400_000_000;
/// Maximum number of owners counted individually per day. Further ones share one count, so that memory stays bounded.
const OWNERS_MAX: usize = 100_000;

/// Owner of a share of the service's pools and daily quotas: one per person, however many tokens that person holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Account {
    User(UserId),
    /// Client without credentials: an IPv4 address, or the /64 network of an IPv6 address, which is what a subscriber
    /// gets.
    Address(IpAddr),
}

impl Account {
    /// Returns the account of a client at an address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        Self::Address(subscriber_network(address))
    }
}

/// Reduces an IPv6 address to its /64 network.
#[must_use]
pub fn subscriber_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Amount that each owner may use per day. Cheap to clone.
#[derive(Clone)]
pub struct DailyQuota<K>(Arc<DailyQuotaInner<K>>);

struct DailyQuotaInner<K> {
    limit: u64,
    clock: Environment,
    usage: Mutex<DailyUsage<K>>,
}

/// Usage of the current day.
struct DailyUsage<K> {
    /// Number of the day since the Unix epoch.
    day: i64,
    used_by_owner: HashMap<K, u64>,
    /// Usage of the owners that came after [`OWNERS_MAX`] others.
    used_by_others: u64,
}

/// Refusal of an amount that exceeds what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded {
    pub limit: u64,
    pub remaining: u64,
}

/// Charge that is taken back on drop unless it is [committed](QuotaCharge::commit).
pub struct QuotaCharge<K: Eq + Hash + Clone> {
    quota: DailyQuota<K>,
    day: i64,
    owner: K,
    amount: u64,
    committed: bool,
}

impl<K: Eq + Hash + Clone> DailyQuota<K> {
    /// Creates a quota of `limit` per owner and day; 0 means no limit.
    #[must_use]
    pub fn new(limit: u64, clock: Environment) -> Self {
        let usage = Mutex::new(DailyUsage { day: i64::MIN, used_by_owner: HashMap::new(), used_by_others: 0 });
        Self(Arc::new(DailyQuotaInner { limit, clock, usage }))
    }

    /// Returns the limit, if any.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.0.limit).filter(|limit| *limit > 0)
    }

    /// Charges an amount to an owner.
    ///
    /// # Errors
    /// [`QuotaExceeded`] if less than `amount` is left; nothing is charged then.
    pub fn charge(&self, owner: K, amount: u64) -> Result<QuotaCharge<K>, QuotaExceeded> {
        let limit = self.0.limit;
        let mut usage = self.current_usage();
        if limit > 0 {
            let used = usage.used(&owner);
            if used.saturating_add(amount) > limit {
                return Err(QuotaExceeded { limit, remaining: limit.saturating_sub(used) });
            }
            *usage.used_mut(&owner) += amount;
        }

        let day = usage.day;
        drop(usage);
        Ok(QuotaCharge { quota: self.clone(), day, owner, amount, committed: false })
    }

    /// Adds an amount that an owner used earlier on the current day, regardless of the limit.
    pub fn record(&self, owner: &K, amount: u64) {
        if self.0.limit > 0 {
            *self.current_usage().used_mut(owner) += amount;
        }
    }

    /// Returns the remaining amount of an owner for today.
    #[must_use]
    pub fn remaining(&self, owner: &K) -> u64 {
        self.0.limit.saturating_sub(self.current_usage().used(owner))
    }

    /// Returns the usage of the current day, which begins empty at midnight.
    fn current_usage(&self) -> parking_lot::MutexGuard<'_, DailyUsage<K>> {
        let day = self.0.clock.now().micros().div_euclid(DAY_MICROS);
        let mut usage = self.0.usage.lock();
        if usage.day != day {
            *usage = DailyUsage { day, used_by_owner: HashMap::new(), used_by_others: 0 };
        }
        usage
    }
}

impl<K: Eq + Hash + Clone> DailyUsage<K> {
    fn used(&self, owner: &K) -> u64 {
        let is_full = self.used_by_owner.len() >= OWNERS_MAX;
        self.used_by_owner.get(owner).copied().unwrap_or(if is_full { self.used_by_others } else { 0 })
    }

    fn used_mut(&mut self, owner: &K) -> &mut u64 {
        if self.used_by_owner.len() >= OWNERS_MAX && !self.used_by_owner.contains_key(owner) {
            return &mut self.used_by_others;
        }
        self.used_by_owner.entry(owner.clone()).or_default()
    }
}

impl<K: Eq + Hash + Clone> QuotaCharge<K> {
    /// Makes the charge final.
    pub fn commit(mut self) {
        self.committed = true;
    }
}

impl<K: Eq + Hash + Clone> Drop for QuotaCharge<K> {
    fn drop(&mut self) {
        if self.committed || self.quota.0.limit == 0 {
            return;
        }
        let mut usage = self.quota.current_usage();
        // The charge of an earlier day has expired.
        if usage.day == self.day {
            let used = usage.used_mut(&self.owner);
            *used = used.saturating_sub(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::value::Timestamp;

    fn noon() -> Environment {
        Environment::manual(Timestamp::parse("2026-11-22T12:00:00Z").unwrap(), 7)
    }

    #[test]
    fn an_ipv6_network_of_64_bits_is_one_account() {
        let account = |address: &str| Account::from_address(address.parse().unwrap());
        assert_eq!(account("2001:db8:1:2::1"), account("2001:db8:1:2:ffff::9"));
        assert_ne!(account("2001:db8:1:2::1"), account("2001:db8:1:3::1"));
        assert_eq!(account("::ffff:10.0.0.1"), account("10.0.0.1"));
        assert_ne!(account("10.0.0.1"), account("10.0.0.2"));
    }

    #[test]
    fn each_owner_has_a_quota_that_midnight_renews() {
        // Given a quota of 10 a day, of which alice used 7
        let clock = noon();
        let quota = DailyQuota::new(10, clock.clone());
        quota.charge("alice", 7).unwrap().commit();

        // Then 3 are left for alice, and 10 for others
        assert_eq!(quota.charge("alice", 4).err(), Some(QuotaExceeded { limit: 10, remaining: 3 }));
        assert_eq!((quota.remaining(&"alice"), quota.remaining(&"bob")), (3, 10));

        // And 10 again after midnight
        clock.advance(Duration::from_hours(12));
        assert_eq!(quota.remaining(&"alice"), 10);
    }

    #[test]
    fn an_uncommitted_charge_is_taken_back() {
        let clock = noon();
        let quota = DailyQuota::new(10, clock.clone());
        let charge = quota.charge("alice", 7).unwrap();
        assert_eq!(quota.remaining(&"alice"), 3);
        drop(charge);
        assert_eq!(quota.remaining(&"alice"), 10);

        // But a charge of the day before is not
        let charge = quota.charge("alice", 7).unwrap();
        clock.advance(Duration::from_hours(12));
        quota.record(&"alice", 8);
        drop(charge);
        assert_eq!(quota.remaining(&"alice"), 2);
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let quota = DailyQuota::new(0, noon());
        quota.charge("alice", u64::MAX).unwrap().commit();
        assert_eq!((quota.limit(), quota.0.usage.lock().used_by_owner.len()), (None, 0));
    }

    #[test]
    fn memory_is_bounded_for_any_number_of_owners() {
        let quota = DailyQuota::new(10, noon());
        for owner in 0..OWNERS_MAX + 5 {
            let _ = quota.charge(owner, 1).map(QuotaCharge::commit);
        }
        assert_eq!(quota.0.usage.lock().used_by_owner.len(), OWNERS_MAX);
        assert_eq!((quota.remaining(&0), quota.remaining(&(OWNERS_MAX + 9))), (9, 5));
    }
}
