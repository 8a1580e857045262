//! Settings of limits, per client and in total.

use std::time::Duration;

use super::setting_kinds::{choice, duration, integer, proxies, size};
use super::settings::SettingsReader;
use crate::domain::network::Network;

/// Limits on clients.
#[derive(Debug, Clone)]
pub struct LimitSettings {
    /// Unfinished tasks per caller.
    pub submissions_per_caller: usize,
    /// Tasks per caller and day; 0 means no limit.
    pub submissions_per_day: u64,
    /// Tasks of all anonymous callers together per day; 0 means no limit.
    pub anonymous_submissions_per_day: u64,
    /// Credits per caller and day; 0 means no limit.
    pub credits_per_day: u64,
    /// Stored bytes per account and day; 0 means no limit.
    pub bytes_per_day: u64,
    /// New nodes per publisher and day; 0 means no limit.
    pub nodes_per_day: u64,
    /// New versions per publisher and day; 0 means no limit.
    pub versions_per_day: u64,
    /// New publishers per account and day; 0 means no limit.
    pub publishers_per_day: u64,
    pub reads: RateSetting,
    /// Changes other than submissions of tasks.
    pub changes: RateSetting,
    /// Submissions of tasks.
    pub submissions: RateSetting,
    /// Proxies whose `proxy_header` is trusted.
    pub trusted_proxies: Vec<Network>,
    pub proxy_header: ProxyHeader,
    /// Open connections of all clients together.
    pub connections: usize,
    /// Open connections per client address; 0 means half of `connections`.
    pub connections_per_address: usize,
    /// Time for which a client may read nothing of a response before its connection is closed.
    pub write_timeout: Duration,
}

/// Rate limit per caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSetting {
    /// Requests per minute; 0 means no limit.
    pub per_minute: u32,
    /// Number of requests allowed at once.
    pub burst: u32,
}

/// Header in which proxies send the address of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    XForwardedFor,
    Forwarded,
}

impl LimitSettings {
    pub(super) fn read(reader: &mut SettingsReader) -> Self {
        let submissions_per_caller = reader.read("limits.submissions_per_caller", &integer(1, 1_000_000));
        let headers = [("X-Forwarded-For", ProxyHeader::XForwardedFor), ("Forwarded", ProxyHeader::Forwarded)];
        let mut rate = |kind: &str| RateSetting {
            per_minute: reader.read(&format!("limits.{kind}_per_minute"), &integer(0, 60_000_000)),
            burst: reader.read(&format!("limits.{kind}_burst"), &integer(1, 1_000_000)),
        };

        let reads = rate("reads");
        let changes = rate("changes");
        let submissions = rate("submissions");

        Self {
            submissions_per_caller,
            submissions_per_day: reader.read("limits.submissions_per_day", &integer(0, 1_000_000_000)),
            anonymous_submissions_per_day: reader
                .read("limits.anonymous_submissions_per_day", &integer(0, 1_000_000_000)),
            credits_per_day: reader.read("limits.credits_per_day", &integer(0, 1_000_000_000_000)),
            bytes_per_day: reader.read("limits.bytes_per_day", &size("0", "1048576GiB")),
            nodes_per_day: reader.read("limits.nodes_per_day", &integer(0, 1_000_000_000)),
            versions_per_day: reader.read("limits.versions_per_day", &integer(0, 1_000_000_000)),
            publishers_per_day: reader.read("limits.publishers_per_day", &integer(0, 1_000_000_000)),
            reads,
            changes,
            submissions,
            trusted_proxies: reader.read("limits.trusted_proxies", &proxies()),
            proxy_header: reader.read("limits.proxy_header", &choice(headers)),
            connections: reader.read("limits.connections", &integer(1, 1_000_000)),
            connections_per_address: reader.read("limits.connections_per_address", &integer(0, 1_000_000)),
            write_timeout: reader.read("limits.write_timeout", &duration("100ms", "1h")),
        }
    }
}
