//! Daily quotas of accounts and publishers, and their `RateLimit` headers.

use std::hash::Hash;

use crate::domain::ids::PublisherId;
use crate::domain::value::Timestamp;
use crate::environment::Environment;
use crate::http::limits::rate_limit::{RateLimitStatus, report_rate_limit};
use crate::http::pipeline::RequestContext;
use crate::http::response::error::{Code, Problem};
use crate::projections::ReadModels;
use crate::quota::{Account, DAY_MICROS, DailyQuota, QuotaCharge, QuotaExceeded};

/// Limits per day; 0 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DailyLimits {
    /// Nodes that one publisher may create.
    pub nodes: u64,
    /// Versions that one publisher may register.
    pub versions: u64,
    /// Publishers that one account may create.
    pub publishers: u64,
    /// Tasks that all anonymous clients together may submit.
    pub anonymous_tasks: u64,
}

/// Usage of the daily quotas. Administrators may register any number of nodes, versions and publishers.
pub struct DailyQuotas {
    /// Bytes that one account may store: bodies of media submissions, archives, input files, and files fetched for its
    /// tasks.
    pub bytes: DailyQuota<Account>,
    pub nodes: DailyQuota<PublisherId>,
    pub versions: DailyQuota<PublisherId>,
    pub publishers: DailyQuota<Account>,
    /// Tasks that one anonymous client may submit: half of what all of them may.
    pub anonymous_tasks: DailyQuota<Account>,
}

impl DailyQuotas {
    /// Creates the quotas. Today's registrations of publishers are counted from the read models, so that a restart does
    /// not reset them.
    #[must_use]
    pub fn new(bytes: DailyQuota<Account>, limits: DailyLimits, models: &ReadModels, clock: &Environment) -> Self {
        let quotas = Self {
            bytes,
            nodes: DailyQuota::new(limits.nodes, clock.clone()),
            versions: DailyQuota::new(limits.versions, clock.clone()),
            publishers: DailyQuota::new(limits.publishers, clock.clone()),
            anonymous_tasks: DailyQuota::new(limits.anonymous_tasks.div_ceil(2), clock.clone()),
        };

        let midnight = last_midnight(clock.now());
        for node in models.read().nodes.all() {
            let versions = node.versions.iter().filter(|version| version.created_at >= midnight).count();
            quotas.nodes.record(&node.publisher, u64::from(node.created_at >= midnight));
            quotas.versions.record(&node.publisher, versions as u64);
        }
        quotas
    }
}

/// Charges of one registration, taken back on drop unless committed.
pub struct RegistrationCharges([Option<QuotaCharge<PublisherId>>; 2]);

impl RegistrationCharges {
    /// Makes the charges final.
    pub fn commit(self) {
        self.0.into_iter().flatten().for_each(QuotaCharge::commit);
    }
}

impl RequestContext {
    /// Charges an amount to a daily quota of `owner` and sets the quota headers of the response. `policy` names the
    /// quota in headers and errors, such as `nodes-a-day`. The charge is taken back on drop unless it is committed; it
    /// is `None` for an unlimited quota.
    ///
    /// # Errors
    /// 429 if less than `amount` is left.
    pub fn charge_daily<K: Eq + Hash + Clone>(
        &self,
        policy: &'static str,
        quota: &DailyQuota<K>,
        owner: &K,
        amount: u64,
    ) -> Result<Option<QuotaCharge<K>>, Problem> {
        let Some(limit) = quota.limit() else { return Ok(None) };
        let charge = quota.charge(owner.clone(), amount);

        let now = self.services().environment.now();
        let used = limit - quota.remaining(owner).min(limit);
        self.report_quota(policy, limit, used, now);

        charge.map(Some).map_err(|exceeded| {
            // The policy `nodes-a-day` limits `nodes`.
            let unit = policy.trim_end_matches("-a-day");
            let QuotaExceeded { limit, remaining } = exceeded;
            let detail = format!(
                "daily quota of {unit} exceeded: {remaining} of {limit} left, {amount} requested; resets at midnight UTC"
            );
            Problem::new(Code::QuotaExceeded, detail).retry_after(seconds_until_midnight(now))
        })
    }

    /// Charges nodes and versions that a publisher registers.
    ///
    /// # Errors
    /// 429 if the publisher has fewer left today.
    pub fn charge_registration(
        &self,
        publisher: &PublisherId,
        nodes: u64,
        versions: u64,
    ) -> Result<RegistrationCharges, Problem> {
        let daily = &self.shared().daily_quotas;
        let is_exempt = self.identity().is_admin();
        let charge = |policy, quota, amount| {
            if amount == 0 || is_exempt { Ok(None) } else { self.charge_daily(policy, quota, publisher, amount) }
        };
        let nodes = charge("nodes-a-day", &daily.nodes, nodes)?;
        let versions = charge("versions-a-day", &daily.versions, versions)?;
        Ok(RegistrationCharges([nodes, versions]))
    }

    /// Charges a publisher that the caller creates.
    ///
    /// # Errors
    /// 429 if the account may create no more today.
    pub fn charge_publisher(&self) -> Result<Option<QuotaCharge<Account>>, Problem> {
        if self.identity().is_admin() {
            return Ok(None);
        }
        self.charge_daily("publishers-a-day", &self.shared().daily_quotas.publishers, &self.account(), 1)
    }

    /// Charges an anonymous task to the address of the client, which has at most half of what all of them may submit.
    ///
    /// # Errors
    /// 429 if the address has submitted its share today.
    pub fn charge_anonymous_task(&self) -> Result<(), Problem> {
        let quota = &self.shared().daily_quotas.anonymous_tasks;
        if let Some(charge) = self.charge_daily("anonymous-tasks-a-day", quota, &self.account(), 1)? {
            charge.commit();
        }
        Ok(())
    }

    /// Charges `bytes` that are sent to be stored to an account.
    ///
    /// # Errors
    /// 429 if the account has fewer left today.
    pub fn charge_bytes(&self, account: Account, bytes: usize) -> Result<(), Problem> {
        let charge = self.charge_daily("bytes-a-day", &self.shared().daily_quotas.bytes, &account, bytes as u64)?;
        if let Some(charge) = charge {
            charge.commit();
        }
        Ok(())
    }

    /// Sets the headers of a daily quota in the response.
    pub fn report_quota(&self, policy: &'static str, limit: u64, used: u64, now: Timestamp) {
        let to_i64 = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let remaining = to_i64(limit.saturating_sub(used));
        let limit = to_i64(limit);
        report_rate_limit(
            &self.request,
            RateLimitStatus {
                policy,
                limit,
                window: DAY_MICROS / 1_000_000,
                remaining,
                reset_after: micros_until_midnight(now),
            },
        );
    }
}

/// Returns the midnight (UTC) at which the day of `now` began.
#[must_use]
pub fn last_midnight(now: Timestamp) -> Timestamp {
    Timestamp::from_micros(now.micros() - now.micros().rem_euclid(DAY_MICROS))
}

/// Returns the microseconds until the next midnight (UTC).
fn micros_until_midnight(now: Timestamp) -> i64 {
    DAY_MICROS - now.micros().rem_euclid(DAY_MICROS)
}

/// Returns the whole seconds after which the next day has begun.
#[must_use]
pub fn seconds_until_midnight(now: Timestamp) -> u32 {
    u32::try_from(micros_until_midnight(now) / 1_000_000 + 1).unwrap_or(u32::MAX)
}
