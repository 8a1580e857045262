//! Limit of open connections per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::limits::rate_limit::{Caller, TrustedProxies};

/// Open connections by address. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionLimit(Arc<ConnectionCounts>);

struct ConnectionCounts {
    max_per_address: usize,
    /// Proxies serve many clients and are not limited.
    proxies: TrustedProxies,
    open: Mutex<HashMap<Caller, usize>>,
}

/// Connection counted for its address; released on drop.
pub struct ConnectionPermit {
    slot: Option<(Arc<ConnectionCounts>, Caller)>,
}

impl ConnectionLimit {
    /// Creates a limit of `max_per_address` connections for each address, or each /64 network for IPv6.
    #[must_use]
    pub fn new(max_per_address: usize, proxies: TrustedProxies) -> Self {
        Self(Arc::new(ConnectionCounts { max_per_address, proxies, open: Mutex::default() }))
    }

    /// Counts a connection; `None` if the address is at its limit.
    #[must_use]
    pub fn try_acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let Self(counts) = self;
        if counts.proxies.trusts(address.to_canonical()) {
            return Some(ConnectionPermit { slot: None });
        }

        let caller = Caller::from_address(address);
        let mut open = counts.open.lock();
        let count = open.entry(caller).or_default();
        if *count >= counts.max_per_address {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { slot: Some((Arc::clone(counts), caller)) })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((counts, caller)) = &self.slot else { return };
        let mut open = counts.open.lock();
        if let Some(count) = open.get_mut(caller) {
            *count -= 1;
            if *count == 0 {
                open.remove(caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::network::Network;
    use crate::http::limits::rate_limit::ForwardedHeader;

    #[test]
    fn connections_per_address_are_limited_and_released() {
        let networks = vec![Network::parse("10.0.0.0/8").unwrap()];
        let proxies = TrustedProxies { networks, header: ForwardedHeader::XForwardedFor };
        let limit = ConnectionLimit::new(2, proxies);
        let acquire = |address: &str| limit.try_acquire(address.parse().unwrap());

        let permits = [acquire("192.0.2.1"), acquire("::ffff:192.0.2.1")];
        assert!(permits.iter().all(Option::is_some) && acquire("192.0.2.1").is_none());
        assert!(acquire("192.0.2.2").is_some(), "another address is kept out");
        let proxy_permits: Vec<_> = (0..9).map(|_| acquire("10.1.2.3")).collect();
        assert!(proxy_permits.iter().all(Option::is_some), "a proxy is limited");

        drop(permits);
        assert!(acquire("192.0.2.1").is_some());
        drop(proxy_permits);
        assert!(limit.0.open.lock().is_empty());
    }
}
