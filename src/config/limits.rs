//! The settings of limits: what one caller may ask for, and all of them together.

use std::time::Duration;

use super::check::{choice, duration, proxies, size, whole};
use super::settings::Reader;
use crate::domain::network::Network;

/// Bounds of what callers may do.
#[derive(Debug, Clone)]
pub struct LimitSettings {
    /// Tasks of one caller that may be unfinished.
    pub submissions_per_caller: usize,
    /// Tasks of one caller a day; 0 for any number.
    pub submissions_per_day: u64,
    /// Tasks of all anonymous callers together a day; 0 for any number.
    pub anonymous_submissions_per_day: u64,
    /// Credits of one caller a day; 0 for any number.
    pub credits_per_day: u64,
    /// Bytes that one account may send to be stored a day; 0 for any number.
    pub bytes_per_day: u64,
    /// Nodes that one publisher may create a day; 0 for any number.
    pub nodes_per_day: u64,
    /// Versions that one publisher may register a day; 0 for any number.
    pub versions_per_day: u64,
    /// Publishers that one account may create a day; 0 for any number.
    pub publishers_per_day: u64,
    pub reads: RateSetting,
    pub changes: RateSetting,
    pub submissions: RateSetting,
    pub trusted_proxies: Vec<Network>,
    pub proxy_header: ProxyHeader,
    pub connections: usize,
    /// 0 for half of `connections`.
    pub connections_per_address: usize,
    pub write_timeout: Duration,
}

/// How often one caller may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSetting {
    /// 0 for any number.
    pub per_minute: u32,
    /// How many of them at once.
    pub burst: u32,
}

/// The header in which proxies say for whom they ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    XForwardedFor,
    Forwarded,
}

impl LimitSettings {
    pub(super) fn read(reader: &mut Reader) -> Self {
        let submissions_per_caller = reader.read("limits.submissions_per_caller", &whole(1, 1_000_000));
        let headers = [("X-Forwarded-For", ProxyHeader::XForwardedFor), ("Forwarded", ProxyHeader::Forwarded)];
        let mut rate = |kind: &str| RateSetting {
            per_minute: reader.read(&format!("limits.{kind}_per_minute"), &whole(0, 60_000_000)),
            burst: reader.read(&format!("limits.{kind}_burst"), &whole(1, 1_000_000)),
        };
        let (reads, changes, submissions) = (rate("reads"), rate("changes"), rate("submissions"));
        Self {
            submissions_per_caller,
            submissions_per_day: reader.read("limits.submissions_per_day", &whole(0, 1_000_000_000)),
            anonymous_submissions_per_day: reader
                .read("limits.anonymous_submissions_per_day", &whole(0, 1_000_000_000)),
            credits_per_day: reader.read("limits.credits_per_day", &whole(0, 1_000_000_000_000)),
            bytes_per_day: reader.read("limits.bytes_per_day", &size("0", "1048576GiB")),
            nodes_per_day: reader.read("limits.nodes_per_day", &whole(0, 1_000_000_000)),
            versions_per_day: reader.read("limits.versions_per_day", &whole(0, 1_000_000_000)),
            publishers_per_day: reader.read("limits.publishers_per_day", &whole(0, 1_000_000_000)),
            reads,
            changes,
            submissions,
            trusted_proxies: reader.read("limits.trusted_proxies", &proxies()),
            proxy_header: reader.read("limits.proxy_header", &choice(headers)),
            connections: reader.read("limits.connections", &whole(1, 1_000_000)),
            connections_per_address: reader.read("limits.connections_per_address", &whole(0, 1_000_000)),
            write_timeout: reader.read("limits.write_timeout", &duration("100ms", "1h")),
        }
    }
}
