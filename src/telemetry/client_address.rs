//! Client addresses in log lines.

use std::net::IpAddr;

/// Part of an address that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAddressDetail {
    Full,
    /// The first 24 bits of IPv4, the first 48 of IPv6: enough to block a flood, without identifying a person.
    Network,
    None,
}

impl ClientAddressDetail {
    /// Returns the part of an address to log.
    #[must_use]
    pub fn format(self, address: IpAddr) -> Option<String> {
        match (self, address.to_canonical()) {
            (Self::Full, address) => Some(address.to_string()),
            (Self::Network, IpAddr::V4(address)) => {
                Some(format!("{}/24", std::net::Ipv4Addr::from(address.to_bits() >> 8 << 8)))
            }
            (Self::Network, IpAddr::V6(address)) => {
                Some(format!("{}/48", std::net::Ipv6Addr::from(address.to_bits() >> 80 << 80)))
            }
            (Self::None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shortened_to_the_configured_detail() {
        let formatted = |detail: ClientAddressDetail, address: &str| detail.format(address.parse().unwrap());
        for (address, network) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ] {
            assert_eq!(formatted(ClientAddressDetail::Network, address).as_deref(), Some(network));
            assert_eq!(formatted(ClientAddressDetail::None, address), None);
        }
        assert_eq!(formatted(ClientAddressDetail::Full, "::ffff:192.0.2.77").as_deref(), Some("192.0.2.77"));
        assert_eq!(formatted(ClientAddressDetail::Full, "2001:db8::6").as_deref(), Some("2001:db8::6"));
    }
}
