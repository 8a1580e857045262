//! Name resolution that returns only permitted addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::AddressRules;
use super::client::CallFailure;
use crate::environment::HostResolver;

/// The system resolver, or that of a test, filtered by the address rules.
pub struct FilteringResolver {
    rules: Arc<AddressRules>,
    resolver: Option<HostResolver>,
}

impl FilteringResolver {
    /// Wraps `resolver`, if given, or the system resolver.
    #[must_use]
    pub fn new(rules: Arc<AddressRules>, resolver: Option<HostResolver>) -> Self {
        Self { rules, resolver }
    }
}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = Arc::clone(&self.rules);
        let resolver = self.resolver.clone();
        Box::pin(async move {
            let socket_addresses: Vec<_> = match resolver {
                Some(resolver) => resolver(name.as_str()).into_iter().map(|ip| SocketAddr::new(ip, 0)).collect(),
                None => tokio::net::lookup_host((name.as_str(), 0)).await?.collect(),
            };
            if socket_addresses.is_empty() {
                return Err(CallFailure::Unresolved.into());
            }
            let addresses = filter_permitted(&rules, name.as_str(), socket_addresses.into_iter())?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Returns the permitted ones of the addresses to which `name` resolved; an error if there are none.
fn filter_permitted(
    rules: &AddressRules,
    name: &str,
    resolved: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, CallFailure> {
    let permitted: Vec<_> = resolved.filter(|address| rules.permits_named(name, address.ip())).collect();
    if permitted.is_empty() { Err(CallFailure::Forbidden) } else { Ok(permitted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_permitted_addresses_of_a_name_are_returned() {
        let rules = AddressRules::default();
        let mixed = addresses(&["10.0.0.1:0", "1.1.1.1:0", "[::1]:0"]);
        assert_eq!(filter_permitted(&rules, "mixed.example", mixed.into_iter()), Ok(addresses(&["1.1.1.1:0"])));
        let private = addresses(&["10.0.0.1:0"]);
        assert_eq!(filter_permitted(&rules, "private.example", private.into_iter()), Err(CallFailure::Forbidden));
    }
}
