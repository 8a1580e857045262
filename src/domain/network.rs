//! IP addresses and networks in settings.

use std::net::IpAddr;

use super::value::InvalidValue;

/// A network in CIDR notation; a single address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Parses an address or a network such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// If the text is neither, if the address has bits after the prefix, or if it is an IPv4-mapped IPv6 address, which
    /// would match no canonical address.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let invalid = || {
            InvalidValue::new("must be an IP address, or a network such as 10.0.0.0/8 or fd00::/8 without host bits")
        };
        let Some((address, prefix)) = text.split_once('/') else {
            return text.parse().map(Self::single).map_err(|_| invalid());
        };

        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix: u8 = prefix.parse().map_err(|_| invalid())?;

        let is_canonical = address.to_canonical() == address;
        if is_canonical && prefix <= width(address) && first_bits(address, prefix) == bits(address) {
            Ok(Self { address, prefix })
        } else {
            Err(invalid())
        }
    }

    /// Creates the network that contains only this address.
    #[must_use]
    pub fn single(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, prefix: width(address) }
    }

    /// Returns `true` if the network contains `ip`, which must be in canonical form.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4() && first_bits(ip, self.prefix) == bits(self.address)
    }
}

/// Returns the number of bits of an address.
fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Returns the bits of an address, most significant first; IPv4 addresses are aligned to the left.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// Returns the first `prefix` bits of an address, followed by zeros.
fn first_bits(ip: IpAddr, prefix: u8) -> u128 {
    let host_mask = u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    bits(ip) & !host_mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let contains = |network: &str, ip: &str| Network::parse(network).unwrap().contains(ip.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("fd00::/8", "fdff::1") && !contains("fd00::/8", "fe00::1"));
        assert!(contains("0.0.0.0/0", "1.1.1.1") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.4"));
        for bad in ["10.0.0.1/8", "10.0.0.0/33", "::/129", "::ffff:10.0.0.0/104", "a", "", "10.0.0.0/"] {
            assert!(Network::parse(bad).is_err(), "{bad}");
        }
    }
}
