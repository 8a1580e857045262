//! Converts the limits of clients from settings to the types of the HTTP module.

use crate::config::{LimitSettings, ProxyHeader, RateSetting};
use crate::http::server::{DailyLimits, ForwardedHeader, Rate, RateLimits, TaskQuotas, TrustedProxies};

pub(super) fn quotas(limits: &LimitSettings) -> TaskQuotas {
    TaskQuotas {
        unfinished: limits.submissions_per_caller,
        tasks_a_day: limits.submissions_per_day,
        anonymous_tasks_a_day: limits.anonymous_submissions_per_day,
        credits_a_day: limits.credits_per_day,
    }
}

pub(super) fn daily_limits(limits: &LimitSettings) -> DailyLimits {
    DailyLimits {
        nodes: limits.nodes_per_day,
        versions: limits.versions_per_day,
        publishers: limits.publishers_per_day,
        anonymous_tasks: limits.anonymous_submissions_per_day,
    }
}

pub(super) fn rates(limits: &LimitSettings) -> RateLimits {
    let rate = |RateSetting { per_minute, burst }| Rate::new(per_minute, burst);
    RateLimits { reading: rate(limits.reads), changing: rate(limits.changes), submitting: rate(limits.submissions) }
}

/// Returns the maximum number of connections per address; by default, half of all.
pub(super) fn connections_per_address(limits: &LimitSettings) -> usize {
    match limits.connections_per_address {
        0 => limits.connections.div_ceil(2),
        configured => configured,
    }
}

pub(super) fn trusted_proxies(limits: &LimitSettings) -> TrustedProxies {
    let header = match limits.proxy_header {
        ProxyHeader::XForwardedFor => ForwardedHeader::XForwardedFor,
        ProxyHeader::Forwarded => ForwardedHeader::Forwarded,
    };
    TrustedProxies { networks: limits.trusted_proxies.clone(), header }
}
