//! Limits per caller: rates, concurrency, daily quotas.

pub(super) mod account_pool;
pub(super) mod daily_quotas;
pub(super) mod rate_limit;
pub(super) mod task_quota;
pub(super) mod upload_limiter;
