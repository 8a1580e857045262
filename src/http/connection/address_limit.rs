//! Limit of open connections per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::rate_limit::{Caller, TrustedProxies};

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
    counted: Option<(Arc<ConnectionCounts>, Caller)>,
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
        let Self(counted) = self;
        if counted.proxies.trusts(address.to_canonical()) {
            return Some(ConnectionPermit { counted: None });
        }

        let caller = Caller::from_address(address);
        let mut open = counted.open.lock();
        let own = open.entry(caller).or_default();
        if *own >= counted.max_per_address {
            return None;
        }
        *own += 1;
        Some(ConnectionPermit { counted: Some((Arc::clone(counted), caller)) })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((counted, caller)) = &self.counted else { return };
        let mut open = counted.open.lock();
        if let Some(own) = open.get_mut(caller) {
            *own -= 1;
            if *own == 0 {
                open.remove(caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::network::Network;
    use crate::http::rate_limit::ForwardedHeader;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let networks = vec![Network::parse("10.0.0.0/8").unwrap()];
        let proxies = TrustedProxies { networks, header: ForwardedHeader::XForwardedFor };
        let limit = ConnectionLimit::new(2, proxies);
        let take = |address: &str| limit.try_acquire(address.parse().unwrap());

        let places = [take("192.0.2.1"), take("::ffff:192.0.2.1")];
        assert!(places.iter().all(Option::is_some) && take("192.0.2.1").is_none());
        assert!(take("192.0.2.2").is_some(), "another address is kept out");
        let of_proxy: Vec<_> = (0..9).map(|_| take("10.1.2.3")).collect();
        assert!(of_proxy.iter().all(Option::is_some), "a proxy is limited");

        drop(places);
        assert!(take("192.0.2.1").is_some());
        drop(of_proxy);
        assert!(limit.0.open.lock().is_empty());
    }
}
