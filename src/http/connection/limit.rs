//! Number of connections that one address may have open.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::http::limits::{Caller, TrustedProxies};

/// Connections by address. Cheap to clone.
#[derive(Clone)]
pub struct ConnectionLimit(Arc<Counted>);

struct Counted {
    most: usize,
    /// Proxies stand for many clients and are not limited.
    proxies: TrustedProxies,
    open: Mutex<HashMap<Caller, usize>>,
}

/// A place among the connections of an address, given back when it is dropped.
pub struct Place {
    counted: Option<(Arc<Counted>, Caller)>,
}

impl ConnectionLimit {
    /// At most `most` connections of one address; of IPv6, of a network of 64 bits.
    #[must_use]
    pub fn new(most: usize, proxies: TrustedProxies) -> Self {
        Self(Arc::new(Counted { most, proxies, open: Mutex::default() }))
    }

    /// Takes a place; `None` if the address has all of its own.
    #[must_use]
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let Self(counted) = self;
        if counted.proxies.trusts(address.to_canonical()) {
            return Some(Place { counted: None });
        }

        let caller = Caller::at(address);
        let mut open = counted.open.lock();
        let own = open.entry(caller).or_default();
        if *own >= counted.most {
            return None;
        }
        *own += 1;
        Some(Place { counted: Some((Arc::clone(counted), caller)) })
    }
}

impl Drop for Place {
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
    use crate::http::limits::ForwardedHeader;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let networks = vec![Network::parse("10.0.0.0/8").unwrap()];
        let proxies = TrustedProxies { networks, header: ForwardedHeader::XForwardedFor };
        let limit = ConnectionLimit::new(2, proxies);
        let take = |address: &str| limit.take(address.parse().unwrap());

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
