//! Rules for the addresses that the service may call: public addresses, and others if the settings allow them
//! (contract 8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

use crate::domain::network::Network;
use crate::domain::value::InvalidValue;

/// Category of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressClass {
    /// Public: always allowed.
    Public,
    /// Address of this machine or its network: allowed with `allow_private`, for a listed host name, or if the address
    /// is listed.
    Private,
    /// Link-local, metadata services, reserved and test networks: allowed only if the address itself is listed.
    Special,
    /// Not the address of a single host: never allowed.
    NotAHost,
}

/// One entry of `egress.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowEntry {
    /// A network prefix.
    Network(Network),
    /// A host name in lower case, which may resolve to private addresses.
    Name(String),
}

impl AllowEntry {
    /// Parses an address, a network such as `10.0.0.0/8`, or a host name.
    ///
    /// # Errors
    /// If the text is none of them, or a network address has bits set after its prefix.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.contains('/') {
            return Network::parse(text).map(Self::Network);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::single(address));
        }
        match Host::parse(text) {
            Ok(Host::Domain(name)) => Ok(Self::Name(strip_root_dot(&name).to_owned())),
            Ok(Host::Ipv4(address)) => Ok(Self::single(address.into())),
            Ok(Host::Ipv6(address)) => Ok(Self::single(address.into())),
            Err(_) => Err(InvalidValue::new("must be an address, a network such as 10.0.0.0/8, or a host name")),
        }
    }

    fn single(address: IpAddr) -> Self {
        Self::Network(Network::single(address))
    }

    fn contains(&self, ip: IpAddr) -> bool {
        matches!(self, Self::Network(network) if network.contains(ip))
    }

    fn matches_name(&self, host: &str) -> bool {
        matches!(self, Self::Name(name) if name.eq_ignore_ascii_case(strip_root_dot(host)))
    }
}

/// Address rules from the settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressRules {
    /// `true` if loopback and private addresses are allowed: `egress.private`, resolved by the caller.
    pub allow_private: bool,
    /// Additional destinations: `egress.allow`.
    pub allow: Vec<AllowEntry>,
}

impl AddressRules {
    /// Returns `true` if a URL whose host is the address `ip` may be called.
    #[must_use]
    pub fn permits(&self, ip: IpAddr) -> bool {
        self.allows(ip, self.allow_private)
    }

    /// Returns `true` if the host named `host` may be called at `ip`, to which its name resolves.
    #[must_use]
    pub fn permits_named(&self, host: &str, ip: IpAddr) -> bool {
        self.allows(ip, self.allow_private || self.allow.iter().any(|entry| entry.matches_name(host)))
    }

    fn allows(&self, ip: IpAddr, allow_private: bool) -> bool {
        let ip = ip.to_canonical();
        let listed = || self.allow.iter().any(|entry| entry.contains(ip));
        match classify(ip) {
            AddressClass::Public => true,
            AddressClass::Private => allow_private || listed(),
            AddressClass::Special => listed(),
            AddressClass::NotAHost => false,
        }
    }
}

/// Returns the name without the trailing dot of the DNS root.
fn strip_root_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn classify(ip: IpAddr) -> AddressClass {
    match ip {
        IpAddr::V4(ip) => classify_v4(ip),
        IpAddr::V6(ip) => classify_v6(ip),
    }
}

/// Follows IANA's registry of special-purpose IPv4 addresses. Metadata services with other addresses are added.
fn classify_v4(ip: Ipv4Addr) -> AddressClass {
    match ip.octets() {
        // "This network", multicast, broadcast.
        [0 | 224..=239, ..] | [255, 255, 255, 255] => AddressClass::NotAHost,
        // Link-local and metadata; protocol assignments, documentation, relays, benchmarks, reserved.
        [169, 254, ..]
        | [100, 100, 100, 200]
        | [168, 63, 129, 16]
        | [192, 0, 0 | 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [240..=255, ..] => AddressClass::Special,
        [10 | 127, ..] | [100, 64..=127, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        _ => AddressClass::Public,
    }
}

/// Follows IANA's registry of special-purpose IPv6 addresses. An address that embeds an IPv4 address has the category
/// of the IPv4 address. Only addresses in `2000::/3` are public.
fn classify_v6(ip: Ipv6Addr) -> AddressClass {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xff00..=0xffff, ..] => AddressClass::NotAHost,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Private,
        // Compatible and mapped, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            classify_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // Metadata; protocol assignments, documentation.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
        | [0x2001, 0..=0x1ff | 0xdb8, ..]
        | [0x3fff, 0..=0xfff, ..] => AddressClass::Special,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const PUBLIC: &[&str] = &[
        "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1",
        "2001:200::1",
    ];
    #[rustfmt::skip]
    const PRIVATE: &[&str] = &[
        "127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "172.16.0.0",
        "172.31.255.255", "192.168.0.0", "192.168.255.255", "::1", "fc00::", "fdff:ffff::1", "::ffff:127.0.0.1",
        "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2002:c0a8:101::1",
    ];
    #[rustfmt::skip]
    const SPECIAL: &[&str] = &[
        "169.254.0.0", "169.254.169.254", "169.254.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.1",
        "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
        "240.0.0.0", "255.255.255.254", "fe80::1", "febf::1", "fec0::1", "fd00:ec2::254", "fd20:ce::254", "2001::1",
        "2001:db8::1", "3fff::1", "100::1", "64:ff9b:1::1", "5f00::1", "4000::1", "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
    ];
    #[rustfmt::skip]
    const NEVER: &[&str] = &[
        "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "ff02::1", "ffff::1",
        "::ffff:0.0.0.0", "::ffff:224.0.0.1", "64:ff9b::255.255.255.255", "2002:0:0::1",
    ];

    /// Returns rules that permit public addresses and the destinations in `allow`.
    fn rules_allowing(allow: &[&str]) -> AddressRules {
        let allow = allow.iter().map(|entry| AllowEntry::parse(entry).unwrap()).collect();
        AddressRules { allow_private: false, allow }
    }

    fn assert_permitted(rules: &AddressRules, addresses: &[&str]) {
        for address in addresses {
            assert!(rules.permits(address.parse().unwrap()), "{address} is not permitted");
        }
    }

    fn assert_forbidden(rules: &AddressRules, addresses: &[&str]) {
        for address in addresses {
            assert!(!rules.permits(address.parse().unwrap()), "{address} is permitted");
        }
    }

    #[test]
    fn only_public_addresses_are_permitted() {
        let strict = rules_allowing(&[]);
        assert_permitted(&strict, PUBLIC);
        for forbidden in [PRIVATE, SPECIAL, NEVER] {
            assert_forbidden(&strict, forbidden);
        }
    }

    #[test]
    fn allowing_private_addresses_opens_neither_metadata_nor_multicast() {
        let open = AddressRules { allow_private: true, ..rules_allowing(&[]) };
        assert_permitted(&open, PUBLIC);
        assert_permitted(&open, PRIVATE);
        assert_forbidden(&open, SPECIAL);
        assert_forbidden(&open, NEVER);
    }

    #[test]
    fn listed_addresses_and_networks_are_permitted() {
        let listed = rules_allowing(&["127.0.0.1", "10.1.0.0/16", "fd00::/8", "169.254.10.0/24", "[fe80::1]"]);
        let permitted = ["127.0.0.1", "::ffff:127.0.0.1", "10.1.255.255", "fdaa::1", "169.254.10.9", "fe80::1"];
        let outside = ["127.0.0.2", "10.2.0.0", "fc00::1", "169.254.169.254", "fe80::2", "::1"];
        assert_permitted(&listed, &permitted);
        assert_forbidden(&listed, &outside);
    }

    #[test]
    fn addresses_of_no_single_host_stay_forbidden_even_if_listed() {
        let allow_all = AddressRules { allow_private: true, ..rules_allowing(&["0.0.0.0/0", "::/0"]) };
        assert_permitted(&allow_all, SPECIAL);
        assert_forbidden(&allow_all, NEVER);
    }

    #[test]
    fn a_listed_name_may_resolve_to_private_addresses_only() {
        let named = rules_allowing(&["Hooks.Internal."]);
        let private: IpAddr = "10.0.0.1".parse().unwrap();
        for name in ["hooks.internal", "HOOKS.internal."] {
            assert!(named.permits_named(name, private), "{name}");
            assert!(!named.permits_named(name, "169.254.169.254".parse().unwrap()), "{name}");
        }
        assert!(!named.permits_named("evil.hooks.internal", private));
        assert!(!named.permits(private));
    }

    #[test]
    fn entries_are_parsed_strictly() {
        for bad in ["", "10.0.0.0/33", "10.0.0.1/8", "::/129", "10/8", "a b", "10.0.0.0/-1", "name/8", "http://a"] {
            assert!(AllowEntry::parse(bad).is_err(), "{bad}");
        }
        let loopback = AllowEntry::Network(Network::single(Ipv4Addr::LOCALHOST.into()));
        for same in ["127.0.0.1", "127.0.0.1/32", "::ffff:127.0.0.1", "0x7f.1"] {
            assert_eq!(AllowEntry::parse(same).unwrap(), loopback, "{same}");
        }
    }
}
